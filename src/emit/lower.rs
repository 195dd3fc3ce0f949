//! Graphs to computations: one walk over the live nodes, one lowering function per op family.

use clutch_graph::op::Op;
use clutch_graph::{DType, Graph, Node, NodeId, TensorType, ValueId};
use smallvec::{SmallVec, smallvec};

use super::body::{Body, Inst, Results};
use super::module::{Calling, Module};
use super::types::Shape;
use super::{EmitError, control, convert, data, elementwise, index, linear, reduce, sort};

/// What lowering functions work with: the module for helpers, the body to append to, the node for errors.
pub(super) struct Lower<'m, 'g> {
    pub(super) module: &'m mut Module<'g>,
    pub(super) body: Body,
    node: NodeId,
}

/// What most lowering functions give.
pub(super) type Lowered = Result<Inst, EmitError>;

impl Lower<'_, '_> {
    /// The error that an op has no form for its operands.
    pub(super) fn unsupported<T>(&self, node: &Node, reason: &'static str) -> Result<T, EmitError> {
        let dtype = node.outputs.first().map_or(DType::Pred, |t| t.dtype);
        Err(EmitError::Unsupported { node: self.node.0, op: node.op.name(), dtype, reason })
    }
}

/// Nodes that some output depends on.
pub(super) fn live_nodes(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.nodes().len()];
    for v in &graph.outputs {
        live[v.node.index()] = true;
    }
    for i in (0..live.len()).rev() {
        if live[i] {
            for v in &graph.nodes()[i].operands {
                live[v.node.index()] = true;
            }
        }
    }
    live
}

/// The body of a nested graph and its root.
pub(super) fn nested<'g>(module: &mut Module<'g>, graph: &'g Graph, calling: Calling) -> Result<(Body, Inst), EmitError> {
    let (mut body, outputs) = walk(module, graph, calling != Calling::Flat)?;
    let root = match (calling, outputs.as_slice()) {
        (Calling::Flat | Calling::Predicate, [one]) => *one,
        _ => body.tuple(&outputs),
    };
    Ok((body, root))
}

/// The body of the whole graph and its root, always a tuple.
pub(super) fn entry<'g>(module: &mut Module<'g>, graph: &'g Graph) -> Result<(Body, Inst), EmitError> {
    let (mut body, outputs) = walk(module, graph, false)?;
    let root = body.tuple(&outputs);
    Ok((body, root))
}

fn walk<'g>(module: &mut Module<'g>, graph: &'g Graph, packed: bool) -> Result<(Body, Vec<Inst>), EmitError> {
    let body = Body::with_capacity(graph.nodes().len() + 1);
    let mut cx = Lower { module, body, node: NodeId(0) };
    let parameters: Results = if packed {
        let types: Vec<TensorType> = graph.parameter_types().cloned().collect();
        let tuple = cx.body.parameter(Shape::Tuple(types));
        cx.body.unpack(tuple)
    } else {
        graph.parameter_types().map(|ty| cx.body.parameter(Shape::Array(ty.clone()))).collect()
    };
    let live = live_nodes(graph);
    let mut values: Vec<Results> = vec![Results::new(); graph.nodes().len()];
    let mut operands: SmallVec<[Inst; 8]> = SmallVec::new();
    let value = |values: &[Results], v: ValueId| values[v.node.index()][v.output as usize];
    for id in graph.ids().filter(|id| live[id.index()]) {
        let node = graph.node(id);
        operands.clear();
        operands.extend(node.operands.iter().map(|&v| value(&values, v)));
        cx.node = id;
        values[id.index()] = match &node.op {
            Op::Parameter(number, _) => smallvec![parameters[*number]],
            _ => lower(&mut cx, node, &operands)?,
        };
    }
    let outputs = graph.outputs.iter().map(|&v| value(&values, v)).collect();
    Ok((cx.body, outputs))
}

fn lower(cx: &mut Lower<'_, '_>, node: &Node, operands: &[Inst]) -> Result<Results, EmitError> {
    let one = match &node.op {
        Op::Constant(value) => cx.body.constant(value),
        Op::Iota { ty, axis } => data::iota(cx, ty, *axis),
        Op::Unary(op) => elementwise::unary(cx, node, *op, operands[0])?,
        Op::Binary(op) => elementwise::binary(cx, node, *op, operands[0], operands[1])?,
        Op::Compare(dir) => elementwise::compare(cx, *dir, operands[0], operands[1]),
        Op::Select => cx.body.select(operands[0], operands[1], operands[2]),
        Op::Convert(to) => convert::convert(cx, operands[0], *to),
        Op::Bitcast(to) => convert::bitcast(cx, node, operands[0], *to)?,
        Op::Broadcast { dims, axes } => data::broadcast(cx, operands[0], dims, axes),
        Op::Reshape(dims) => cx.body.reshape(operands[0], dims),
        Op::Transpose(perm) => data::transpose(cx, node, operands[0], perm),
        Op::Slice { start, limit, stride } => data::slice(cx, node, operands[0], start, limit, stride),
        Op::Pad(pads) => data::pad(cx, operands[0], operands[1], pads),
        Op::Concat(axis) => data::concat(cx, node, operands, *axis),
        Op::Reverse(axes) => data::reverse(cx, operands[0], axes),
        Op::DotGeneral { dims, out, precision } => linear::dot(cx, node, dims, *out, *precision, operands),
        Op::Convolution(c) => linear::convolution(cx, node, c, operands),
        Op::Fft { kind, lengths } => linear::fft(cx, node, *kind, lengths, operands[0]),
        Op::Cholesky => linear::cholesky(cx, operands[0]),
        Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
            linear::triangular_solve(cx, *left, *lower, *unit_diagonal, *transpose, operands)
        }
        Op::Reduce { combiner, axes } => reduce::reduce(cx, node, *combiner, axes, operands[0])?,
        Op::ReduceWindow { combiner, window } => reduce::window(cx, node, *combiner, window, operands[0])?,
        Op::SelectAndScatter { window } => reduce::select_and_scatter(cx, node, window, operands[0], operands[1])?,
        Op::Gather(dims) => index::gather(cx, node, dims, operands),
        Op::Scatter { combiner, dims } => index::scatter(cx, node, *combiner, dims, operands)?,
        Op::DynamicSlice(sizes) => index::dynamic_slice(cx, node, sizes, operands),
        Op::DynamicUpdateSlice => cx.body.same("dynamic-update-slice", operands),
        Op::Sort { axis, descending, stable } => return Ok(sort::sort(cx, *axis, *descending, *stable, operands)),
        Op::While { cond, body } => return Ok(control::while_loop(cx, cond, body, operands)),
        Op::Cond { on_true, on_false } => return Ok(control::conditional(cx, node, on_true, on_false, operands)),
        Op::Call(graph) => return Ok(control::call(cx, node, graph, operands)),
        Op::OptimizationBarrier => return Ok(control::barrier(cx, operands)),
        Op::Parameter(..) => return cx.unsupported(node, "parameters are emitted with the computation"),
        Op::TopK { k, largest } => return sort::top_k(cx, node, *k, *largest, operands[0]),
        Op::ArgReduce { .. }
        | Op::Cumulative { .. }
        | Op::RandomBits { .. }
        | Op::Softmax { .. }
        | Op::Gelu { .. }
        | Op::Silu
        | Op::LayerNorm { .. }
        | Op::RmsNorm { .. }
        | Op::Attention(_)
        | Op::AttentionBackward(_) => return Err(EmitError::Composite { node: cx.node.0, op: node.op.name() }),
    };
    Ok(smallvec![one])
}
