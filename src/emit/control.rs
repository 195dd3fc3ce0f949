//! Loops, branches, calls and barriers, and the order in which nested graphs are emitted.

use std::sync::Arc;

use clutch_graph::op::Op;
use clutch_graph::{Graph, Node};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::body::{Inst, Results};
use super::lower::{Lower, live_nodes};
use super::module::Calling;
use super::types::Shape;

/// The nested graphs of one op in the order in which HLO calls them.
fn callees(op: &Op) -> SmallVec<[(&Arc<Graph>, Calling); 2]> {
    match op {
        Op::While { cond, body } => SmallVec::from_buf([(body, Calling::Packed), (cond, Calling::Predicate)]),
        Op::Cond { on_true, on_false } => SmallVec::from_buf([(on_true, Calling::Packed), (on_false, Calling::Packed)]),
        Op::Call(graph) => smallvec::smallvec![(graph, Calling::Flat)],
        _ => SmallVec::new(),
    }
}

/// All graphs nested in the live nodes of `graph`, callees before callers.
pub(super) fn nested_graphs(graph: &Graph) -> Vec<(&Graph, Calling)> {
    fn children(graph: &Graph) -> Vec<(&Graph, Calling)> {
        let live = live_nodes(graph);
        let nodes = graph.nodes().iter().zip(live).filter(|(_, live)| *live);
        nodes.flat_map(|(node, _)| callees(&node.op)).map(|(g, c)| (&**g, c)).collect()
    }
    let mut order = Vec::new();
    let mut seen: FxHashSet<(*const Graph, Calling)> = FxHashSet::default();
    let mut stack = vec![(None, children(graph).into_iter())];
    while let Some((owner, pending)) = stack.last_mut() {
        match pending.next() {
            Some((callee, calling)) => {
                if seen.insert((std::ptr::from_ref(callee), calling)) {
                    stack.push((Some((callee, calling)), children(callee).into_iter()));
                }
            }
            None => {
                order.extend(*owner);
                stack.pop();
            }
        }
    }
    order
}

pub(super) fn while_loop(cx: &mut Lower<'_, '_>, cond: &Graph, body: &Graph, operands: &[Inst]) -> Results {
    let called = vec![cx.module.nested(body, Calling::Packed), cx.module.nested(cond, Calling::Predicate)];
    let init = cx.body.tuple(operands);
    let types = operands.iter().map(|&o| cx.body.ty(o).clone()).collect();
    let inst = cx.body.push("while", Shape::Tuple(types), &[init]);
    cx.body.proto(inst).called_computation_ids = called;
    cx.body.unpack(inst)
}

pub(super) fn conditional(cx: &mut Lower<'_, '_>, node: &Node, on_true: &Graph, on_false: &Graph, operands: &[Inst]) -> Results {
    let called = vec![cx.module.nested(on_true, Calling::Packed), cx.module.nested(on_false, Calling::Packed)];
    let arguments = cx.body.tuple(&operands[1..]);
    let inst = cx.body.push("conditional", Shape::Tuple(node.outputs.to_vec()), &[operands[0], arguments, arguments]);
    cx.body.proto(inst).called_computation_ids = called;
    cx.body.unpack(inst)
}

pub(super) fn call(cx: &mut Lower<'_, '_>, node: &Node, graph: &Graph, operands: &[Inst]) -> Results {
    let called = vec![cx.module.nested(graph, Calling::Flat)];
    let shape = match node.outputs.as_slice() {
        [one] => Shape::Array(one.clone()),
        many => Shape::Tuple(many.to_vec()),
    };
    let inst = cx.body.push("call", shape, operands);
    cx.body.proto(inst).called_computation_ids = called;
    cx.body.unpack(inst)
}

pub(super) fn barrier(cx: &mut Lower<'_, '_>, operands: &[Inst]) -> Results {
    if let [one] = operands {
        return SmallVec::from_slice(&[cx.body.same("opt-barrier", &[*one])]);
    }
    let tuple = cx.body.tuple(operands);
    let types = operands.iter().map(|&o| cx.body.ty(o).clone()).collect();
    let inst = cx.body.push("opt-barrier", Shape::Tuple(types), &[tuple]);
    cx.body.unpack(inst)
}
