//! Rewriting in an e-graph: each region of the graph is saturated under the rules of [`crate::rules`], and the cheapest equal program by the
//! device's cost table takes its place. What is not cheaper stays as it was.

pub(crate) mod analysis;
pub mod cost;
mod extract;
pub(crate) mod language;
mod region;
pub(crate) mod search;

use clutch_graph::builder::Builder;
use clutch_graph::{Graph, GraphError, InputKind, NodeId, Op, ValueId};
use egg::Id;
use rustc_hash::FxHashMap;

use self::analysis::{Facts, Origin, natural};
use self::cost::Model;
use self::extract::Choice;
use self::language::Head;
use self::region::{Region, Shape, Source};
use self::search::Search;
use crate::options::{PassOptions, Rewrite};
use crate::rewrite::{ValueMap, finish, live_nodes, results};
use crate::rules::{self, Rounding};

/// The chosen program of a region must cost this share less than the region.
const LEAST_GAIN: f64 = 1e-3;

/// A region's new program.
struct Plan {
    nodes: Vec<(Op, Vec<Source>)>,
    outputs: Vec<Source>,
    gain: Gain,
}

/// What rewriting did to one region, as often as it occurs.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// Equal regions of the graph.
    pub count: usize,
    /// Cost of each as it stood, in the units of the device's table.
    pub before: f64,
    /// Cost of each now.
    pub after: f64,
    /// How often each rule joined classes, in the order of first use.
    pub rules: Vec<(&'static str, u32)>,
}

/// The pass.
pub(crate) fn rewrite(graph: &Graph, options: &PassOptions) -> Result<Graph, GraphError> {
    Ok(rewrite_explained(graph, options)?.0)
}

/// The rewritten graph and what was gained where, in the order of regions.
///
/// # Errors
/// When a rule breaks a shape rule, which is a fault of that rule.
pub fn rewrite_explained(graph: &Graph, options: &PassOptions) -> Result<(Graph, Vec<Gain>), GraphError> {
    let live = live_nodes(graph);
    let origins = origins(graph, options);
    let copied = region::copied(graph);
    let regions = region::cut(graph, &live, &copied, &origins);
    let mut plans: FxHashMap<&Shape<'_>, Option<Plan>> = FxHashMap::default();
    let mut order: Vec<&Shape<'_>> = Vec::new();
    for region in &regions {
        if let Some(plan) = plans.get_mut(&region.shape) {
            if let Some(plan) = plan {
                plan.gain.count += 1;
            }
            continue;
        }
        plans.insert(&region.shape, plan(&region.shape, options)?);
        order.push(&region.shape);
    }
    let gains: Vec<Gain> = order.iter().filter_map(|shape| plans[shape].as_ref()).map(|plan| plan.gain.clone()).collect();
    if gains.is_empty() {
        return Ok((graph.clone(), gains));
    }
    let mut stitcher = Stitcher::new(graph, &copied);
    for region in &regions {
        match &plans[&region.shape] {
            Some(plan) => stitcher.replace(region, plan)?,
            None => region.nodes.iter().try_for_each(|&id| stitcher.copy(id))?,
        }
    }
    graph.outputs.iter().try_for_each(|v| stitcher.need(v.node))?;
    Ok((finish(stitcher.b, graph, &stitcher.map), gains))
}

/// What each node depends on. Weights are told apart where work on them alone is split off; parameters that the program overwrites are inputs
/// of the call.
fn origins(graph: &Graph, options: &PassOptions) -> Vec<Origin> {
    let mut out: Vec<Origin> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let own = match &node.op {
            Op::Parameter(n, _) => {
                let kept =
                    options.inference && graph.input_kinds[*n] == InputKind::Static && graph.aliases.iter().all(|a| a.parameter != *n);
                if kept { Origin::Weights } else { Origin::Call }
            }
            _ => Origin::Nothing,
        };
        out.push(node.operands.iter().map(|v| out[v.node.index()]).fold(own, Origin::max));
    }
    out
}

fn allowed(rewrite: Rewrite) -> Option<Rounding> {
    match rewrite {
        Rewrite::Off => None,
        Rewrite::Exact => Some(Rounding::Exact),
        Rewrite::On => Some(Rounding::Reassociating),
    }
}

fn plan(shape: &Shape<'_>, options: &PassOptions) -> Result<Option<Plan>, GraphError> {
    let Some(allowed) = allowed(options.rewrite) else { return Ok(None) };
    let mut loaded = Loaded::new(shape, options)?;
    loaded.search.saturate(rules::all(), allowed)?;
    let choice = extract::extract(&loaded.search, &loaded.original, &loaded.roots, &Model::new(options));
    Ok((choice.cost < choice.cost_before * (1.0 - LEAST_GAIN)).then(|| loaded.plan(&choice)))
}

/// The graph with one rule applied wherever it applies, whatever it costs; `None` where it never does. For tests of single rules.
///
/// # Errors
/// When the rule breaks a shape rule, which is a fault of the rule.
pub fn apply_rule(graph: &Graph, options: &PassOptions, name: &str) -> Result<Option<Graph>, GraphError> {
    let copied = vec![false; graph.nodes().len()];
    let region = region::whole(graph, &live_nodes(graph), &copied, &origins(graph, options));
    let mut loaded = Loaded::new(&region.shape, options)?;
    let rules: Vec<&'static rules::Rule> = rules::all().iter().copied().filter(|r| r.name == name).collect();
    loaded.search.saturate(&rules, Rounding::Reassociating)?;
    if loaded.search.fired().is_empty() {
        return Ok(None);
    }
    let model = Model::preferring_new(&loaded.search, &loaded.original);
    let choice = extract::extract(&loaded.search, &loaded.original, &loaded.roots, &model);
    let plan = loaded.plan(&choice);
    let mut stitcher = Stitcher::new(graph, &copied);
    stitcher.replace(&region, &plan)?;
    Ok(Some(finish(stitcher.b, graph, &stitcher.map)))
}

/// A region in an e-graph.
struct Loaded<'a> {
    search: Search<'a>,
    /// Its inputs, then its terms, in topological order.
    original: Vec<Id>,
    roots: Vec<Id>,
}

impl<'a> Loaded<'a> {
    fn new(shape: &Shape<'_>, options: &'a PassOptions) -> Result<Self, GraphError> {
        let facts = shape.inputs.iter().map(|(ty, origin)| Facts {
            types: smallvec::smallvec![(*ty).clone()],
            origin: *origin,
            uniform: None,
            bounds: natural(ty.dtype),
        });
        let mut search = Search::new(options, facts.collect());
        let inputs: Vec<Id> = (0..shape.inputs.len() as u32).map(|n| search.input(n)).collect();
        let mut values: Vec<Vec<Id>> = Vec::with_capacity(shape.steps.len());
        let mut original: Vec<Id> = inputs.clone();
        for step in &shape.steps {
            let operands: Vec<Id> = step.operands.iter().map(|s| resolve(*s, &inputs, &values)).collect();
            let id = search.add_all(step.op.clone(), &operands)?;
            original.push(id);
            let count = search.facts(id).types.len() as u32;
            let results: Vec<Id> = if count > 1 { (0..count).map(|n| search.result(id, n)).collect() } else { vec![id] };
            original.extend(results.iter().filter(|&&r| r != id));
            values.push(results);
        }
        let roots = shape.outputs.iter().map(|s| resolve(*s, &inputs, &values)).collect();
        Ok(Loaded { search, original, roots })
    }

    fn plan(&self, choice: &Choice) -> Plan {
        let search = &self.search;
        let gain = Gain { count: 1, before: choice.cost_before, after: choice.cost, rules: search.fired().to_vec() };
        let mut sources: FxHashMap<Id, Source> = FxHashMap::default();
        let mut nodes = Vec::new();
        for (class, term) in &choice.terms {
            let of = |id: Id| sources[&search.terms.find(id)];
            let source = match search.terms.analysis.heads.get(term.head) {
                Head::Input(n) => Source::Input(*n),
                Head::Result(n) => match of(term.children[0]) {
                    Source::Node { node, .. } => Source::Node { node, output: *n },
                    Source::Input(_) => unreachable!("inputs are single values"),
                },
                Head::Op(op) => {
                    nodes.push(((**op).clone(), term.children.iter().map(|&c| of(c)).collect()));
                    Source::Node { node: nodes.len() as u32 - 1, output: 0 }
                }
            };
            sources.insert(*class, source);
        }
        let outputs = self.roots.iter().map(|&r| sources[&search.terms.find(r)]).collect();
        Plan { nodes, outputs, gain }
    }
}

fn resolve(source: Source, inputs: &[Id], values: &[Vec<Id>]) -> Id {
    match source {
        Source::Input(n) => inputs[n as usize],
        Source::Node { node, output } => values[node as usize][output as usize],
    }
}

/// Builds the new graph.
struct Stitcher<'a> {
    graph: &'a Graph,
    copied: &'a [bool],
    b: Builder,
    map: ValueMap,
    made: Vec<bool>,
}

impl<'a> Stitcher<'a> {
    /// Over a graph of the parameters alone.
    fn new(graph: &'a Graph, copied: &'a [bool]) -> Self {
        let nodes = graph.nodes().len();
        let mut out = Stitcher { graph, copied, b: Builder::new(), map: ValueMap::new(nodes), made: vec![false; nodes] };
        for (number, &id) in graph.parameters().iter().enumerate() {
            let value = out.b.parameter(graph.node(id).outputs[0].clone(), graph.input_kinds[number]);
            out.set(id, smallvec::smallvec![value]);
        }
        out
    }

    fn set(&mut self, id: NodeId, values: crate::rewrite::Values) {
        self.map.set(id, values);
        self.made[id.index()] = true;
    }

    /// Copies a node that is copied where needed, and what it reads, if it does not stand yet.
    fn need(&mut self, id: NodeId) -> Result<(), GraphError> {
        let mut chain = vec![id];
        while let Some(v) = self.graph.node(chain[chain.len() - 1]).operands.first() {
            if !self.copied[v.node.index()] {
                break;
            }
            chain.push(v.node);
        }
        for id in chain.into_iter().rev() {
            if self.copied[id.index()] && !self.made[id.index()] {
                self.place(id)?;
            }
        }
        Ok(())
    }

    fn copy(&mut self, id: NodeId) -> Result<(), GraphError> {
        let graph = self.graph;
        for v in &graph.node(id).operands {
            if !self.made[v.node.index()] {
                self.need(v.node)?;
            }
        }
        self.place(id)
    }

    fn place(&mut self, id: NodeId) -> Result<(), GraphError> {
        let node = self.graph.node(id);
        let operands = self.map.operands(node);
        let new = self.b.graph_mut().add(node.op.clone(), operands)?;
        let values = results(self.b.graph(), new);
        self.set(id, values);
        Ok(())
    }

    fn replace(&mut self, region: &Region<'_>, plan: &Plan) -> Result<(), GraphError> {
        let inputs: Vec<ValueId> = region.inputs.iter().map(|&v| self.map.get(v)).collect();
        let mut nodes: Vec<NodeId> = Vec::with_capacity(plan.nodes.len());
        let value = |source: Source, nodes: &[NodeId]| match source {
            Source::Input(n) => inputs[n as usize],
            Source::Node { node, output } => ValueId { node: nodes[node as usize], output },
        };
        for (op, operands) in &plan.nodes {
            let operands: Vec<ValueId> = operands.iter().map(|&s| value(s, &nodes)).collect();
            nodes.push(self.b.graph_mut().add(op.clone(), operands)?);
        }
        for (&old, &source) in region.outputs.iter().zip(&plan.outputs) {
            let count = self.graph.node(old.node).outputs.len();
            self.map.set_result(old, value(source, &nodes), count);
            self.made[old.node.index()] = true;
        }
        Ok(())
    }
}
