//! The weight program: what depends on weights alone, cut off so that it runs when weights change and not per call.

use clutch_graph::builder::Builder;
use clutch_graph::graph::{InputKind, Operands};
use clutch_graph::{Alias, DType, Graph, GraphError, Node, NodeId, Op, ValueId};
use rustc_hash::FxHashMap;

use crate::error::PassError;
use crate::options::{PassOptions, Target};
use crate::rewrite::{ValueMap, drop_dead, keep, live_nodes, results, rewrite};

/// Rows of the other operand for which the CPU plugin multiplies faster by an `f32` weight stored `[K, N]` than `[N, K]`. A single row is faster
/// with `[N, K]`, from about a hundred rows the two are equal, and `bf16` is never faster.
const ROWS_FOR_KN: std::ops::RangeInclusive<i64> = 2..=64;

/// A value that grows its operands' bytes by more than this factor is made anew on every call.
const GROWTH: usize = 2;

/// Where a parameter of the main graph comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterSource {
    /// Parameter of this number of the graph before the split.
    Original(usize),
    /// Output of this number of the weight program.
    Weight(usize),
}

/// Work on weights alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightProgram {
    /// Takes static inputs, returns what the main graph reads.
    pub graph: Graph,
    /// For each parameter of `graph`, its number in the graph before the split.
    pub inputs: Vec<usize>,
}

/// A graph split into per-call work and work on weights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightSplit {
    /// The per-call program. Dynamic parameters all stay, static ones only where they are read; weight outputs come last, as static inputs.
    pub main: Graph,
    /// For each parameter of `main`, where it comes from.
    pub parameters: Vec<ParameterSource>,
    /// The weight program; `None` where it would be empty.
    pub weights: Option<WeightProgram>,
}

/// How a value depends on inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dependence {
    /// On none.
    Nothing,
    /// On static inputs only.
    Weights,
    /// On inputs of the call.
    Call,
}

/// Splits the graph at the frontier of values that depend on `Static` parameters alone. Without `options.inference` nothing is split.
///
/// # Errors
/// When a rebuilt node breaks its shape rule, which is a fault of this pass.
pub fn split_weights(graph: &Graph, options: &PassOptions) -> Result<WeightSplit, PassError> {
    split(graph, options).map_err(|source| PassError::Graph { pass: "split-weights", source })
}

fn split(graph: &Graph, options: &PassOptions) -> Result<WeightSplit, GraphError> {
    let whole = |graph: Graph| {
        let parameters = (0..graph.parameters().len()).map(ParameterSource::Original).collect();
        WeightSplit { main: graph, parameters, weights: None }
    };
    if !options.inference {
        return Ok(whole(graph.clone()));
    }
    let graph = if options.target == Target::Cpu { prefer_kn(graph)? } else { drop_dead(graph)? };
    let dependence = dependences(&graph);
    let wanted = wanted_by_main(&graph, &dependence);
    let mut cut: Vec<ValueId> = Vec::new();
    for id in graph.ids() {
        let materialised = dependence[id.index()] == Dependence::Weights && !made_per_call(&graph, graph.node(id));
        if materialised {
            let outputs = 0..graph.node(id).outputs.len() as u32;
            cut.extend(outputs.filter(|&o| wanted[id.index()] & bit(o) != 0).map(|output| ValueId { node: id, output }));
        }
    }
    if cut.is_empty() {
        return Ok(whole(graph));
    }
    let weights = weight_program(&graph, &cut)?;
    let (main, parameters) = main_graph(&graph, &dependence, &wanted, &cut)?;
    Ok(WeightSplit { main, parameters, weights: Some(weights) })
}

/// How each node depends on inputs. Parameters that the program overwrites count as inputs of the call.
pub(crate) fn dependences(graph: &Graph) -> Vec<Dependence> {
    let mut out: Vec<Dependence> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let own = match &node.op {
            Op::Parameter(n, _) if graph.input_kinds[*n] == InputKind::Static && !is_donated(graph, *n) => Dependence::Weights,
            Op::Parameter(..) => Dependence::Call,
            _ => Dependence::Nothing,
        };
        let dependence = node.operands.iter().map(|v| out[v.node.index()]).fold(own, Dependence::max);
        out.push(dependence);
    }
    out
}

fn is_donated(graph: &Graph, parameter: usize) -> bool {
    graph.aliases.iter().any(|a| a.parameter == parameter)
}

/// The value is free, or grows what it is made of: reading it from memory would cost more than making it.
pub(crate) fn made_per_call(graph: &Graph, node: &Node) -> bool {
    let read: usize = node.operands.iter().map(|&v| graph.ty(v).byte_size()).sum();
    let written: usize = node.outputs.iter().map(|t| t.byte_size()).sum();
    match &node.op {
        Op::Parameter(..) | Op::Reshape(_) | Op::Bitcast(_) | Op::Broadcast { .. } => true,
        Op::Convert(_) => written > read,
        _ => written > read.saturating_mul(GROWTH),
    }
}

/// For each node, the set of its results (as bits) that the main graph reads, through what it makes per call.
fn wanted_by_main(graph: &Graph, dependence: &[Dependence]) -> Vec<u64> {
    let live = live_nodes(graph);
    let mut wanted = vec![0u64; graph.nodes().len()];
    for v in &graph.outputs {
        wanted[v.node.index()] |= bit(v.output);
    }
    for (i, node) in graph.nodes().iter().enumerate().rev() {
        let in_main = match dependence[i] {
            Dependence::Call => live[i],
            Dependence::Nothing => wanted[i] != 0,
            Dependence::Weights => wanted[i] != 0 && made_per_call(graph, node),
        };
        if in_main {
            for v in &node.operands {
                wanted[v.node.index()] |= bit(v.output);
            }
        }
    }
    wanted
}

/// Results past the 64th share the last bit.
fn bit(output: u32) -> u64 {
    1 << output.min(63)
}

fn weight_program(graph: &Graph, cut: &[ValueId]) -> Result<WeightProgram, GraphError> {
    let mut needed = vec![false; graph.nodes().len()];
    for v in cut {
        needed[v.node.index()] = true;
    }
    for (i, node) in graph.nodes().iter().enumerate().rev() {
        if needed[i] {
            node.operands.iter().for_each(|v| needed[v.node.index()] = true);
        }
    }
    let mut b = Builder::new();
    let mut map = ValueMap::new(graph.nodes().len());
    let mut inputs = Vec::new();
    for id in graph.ids().filter(|id| needed[id.index()]) {
        let node = graph.node(id);
        if let Op::Parameter(number, ty) = &node.op {
            inputs.push(*number);
            map.set(id, smallvec::smallvec![b.parameter(ty.clone(), InputKind::Static)]);
        } else {
            copy(&mut b, &mut map, id, node)?;
        }
    }
    Ok(WeightProgram { graph: b.finish(cut.iter().map(|&v| map.get(v))), inputs })
}

fn copy(b: &mut Builder, map: &mut ValueMap, id: NodeId, node: &Node) -> Result<(), GraphError> {
    let operands: Operands = map.operands(node);
    let new = b.graph_mut().add(node.op.clone(), operands)?;
    map.set(id, results(b.graph(), new));
    Ok(())
}

fn main_graph(
    graph: &Graph,
    dependence: &[Dependence],
    wanted: &[u64],
    cut: &[ValueId],
) -> Result<(Graph, Vec<ParameterSource>), GraphError> {
    let mut b = Builder::new();
    let mut map = ValueMap::new(graph.nodes().len());
    let mut parameters = Vec::new();
    let mut renumbered: FxHashMap<usize, usize> = FxHashMap::default();
    for (number, &id) in graph.parameters().iter().enumerate() {
        if dependence[id.index()] == Dependence::Call || wanted[id.index()] != 0 {
            renumbered.insert(number, parameters.len());
            parameters.push(ParameterSource::Original(number));
            let value = b.parameter(graph.node(id).outputs[0].clone(), graph.input_kinds[number]);
            map.set(id, smallvec::smallvec![value]);
        }
    }
    for (number, &v) in cut.iter().enumerate() {
        let value = b.parameter(graph.ty(v).clone(), InputKind::Static);
        parameters.push(ParameterSource::Weight(number));
        map.set_result(v, value, graph.node(v.node).outputs.len());
    }
    let live = live_nodes(graph);
    for id in graph.ids() {
        let node = graph.node(id);
        let in_main = match dependence[id.index()] {
            Dependence::Call => live[id.index()],
            Dependence::Nothing => wanted[id.index()] != 0,
            Dependence::Weights => wanted[id.index()] != 0 && made_per_call(graph, node),
        };
        if in_main && !matches!(node.op, Op::Parameter(..)) {
            copy(&mut b, &mut map, id, node)?;
        }
    }
    let mut main = b.finish(graph.outputs.iter().map(|&v| map.get(v)));
    main.aliases =
        graph.aliases.iter().filter_map(|a| Some(Alias { output: a.output, parameter: *renumbered.get(&a.parameter)? })).collect();
    Ok((main, parameters))
}

/// `f32` weights `[N, K]` of products with few rows become `[K, N]` by a transpose, which the split then moves off.
fn prefer_kn(graph: &Graph) -> Result<Graph, GraphError> {
    let dependence = dependences(graph);
    let slow = |node: &Node| {
        let Op::DotGeneral { dims, .. } = &node.op else { return false };
        let [x, w] = node.operands[..] else { return false };
        let rows: i64 = graph.ty(x).dims.iter().enumerate().filter(|(a, _)| !dims.lhs_contract.contains(a)).map(|(_, d)| d).product();
        let matrix =
            graph.ty(w).dtype == DType::F32 && dims.rhs_batch.is_empty() && graph.ty(w).rank() == 2 && dims.rhs_contract[..] == [1];
        let roles = dependence[x.node.index()] == Dependence::Call && dependence[w.node.index()] == Dependence::Weights;
        matrix && roles && ROWS_FOR_KN.contains(&rows)
    };
    rewrite(graph, |b, site| {
        let Op::DotGeneral { dims, out, precision } = &site.node.op else { return keep(b, site) };
        if !slow(site.node) {
            return keep(b, site);
        }
        let (x, w) = (site.operands[0], site.operands[1]);
        let w = b.swap_last(w)?;
        let mut dims = dims.clone();
        dims.rhs_contract = smallvec::smallvec![0];
        Ok(smallvec::smallvec![b.dot_general(x, w, dims, *out, *precision)?])
    })
}
