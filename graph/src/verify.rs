//! Checks the invariants of a graph that its parts do not keep by themselves.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::error::GraphError;
use crate::graph::{Graph, NodeId, ValueId};
use crate::infer::infer;
use crate::op::Op;
use crate::text::MAX_NESTING;
use crate::types::TensorType;

/// Checks a graph and the graphs nested in it: operands stand before their users, recorded types are the shape rules', parameters are
/// numbered in order with one kind each, outputs exist, and aliases pair outputs with parameters of equal type, each at most once.
///
/// # Errors
/// The first broken invariant, as [`GraphError::Invalid`], [`GraphError::Interface`] or the shape rule's error.
pub fn verify(graph: &Graph) -> Result<(), GraphError> {
    verify_nested(graph, 0, &mut FxHashMap::default()).map(|_| ())
}

/// Returns how deep graphs nest in `graph`. Graphs that several nodes share are checked once: `heights` has their result by address.
fn verify_nested(graph: &Graph, depth: usize, heights: &mut FxHashMap<*const Graph, usize>) -> Result<usize, GraphError> {
    let mut parameters = 0;
    let mut height = 0;
    if depth > MAX_NESTING {
        return interface(format!("graphs nest deeper than {MAX_NESTING}"));
    }
    for (id, node) in graph.ids().zip(graph.nodes()) {
        let invalid = |reason: String| GraphError::Invalid { node: id.0, reason };
        for nested in nested_graphs(&node.op) {
            let inner = match heights.get(&Arc::as_ptr(nested)) {
                Some(&known) => known,
                None => verify_nested(nested, depth + 1, heights).map_err(|e| invalid(format!("in a nested graph: {e}")))?,
            };
            heights.insert(Arc::as_ptr(nested), inner);
            height = height.max(inner + 1);
            if depth + height > MAX_NESTING {
                return Err(invalid(format!("graphs nest deeper than {MAX_NESTING}")));
            }
        }
        let mut types: SmallVec<[&TensorType; 4]> = SmallVec::new();
        for &v in &node.operands {
            types.push(
                value_type(graph, v, id).ok_or_else(|| invalid(format!("operand %{}.{} is not computed before", v.node.0, v.output)))?,
            );
        }
        let inferred = infer(&node.op, &types).map_err(|e| invalid(e.to_string()))?;
        if inferred != node.outputs {
            return Err(invalid(format!("{} records other result types than its shape rule gives", node.op.name())));
        }
        if let Op::Parameter(number, _) = node.op {
            if number != parameters || graph.parameters().get(number) != Some(&id) {
                return Err(invalid(format!("parameter {number} is out of order")));
            }
            parameters += 1;
        }
    }
    if graph.parameters().len() != parameters || graph.input_kinds.len() != parameters {
        return interface(format!("{parameters} parameters, but {} input kinds", graph.input_kinds.len()));
    }
    for v in &graph.outputs {
        if graph.try_ty(*v).is_none() {
            return interface(format!("output %{}.{} is not in the graph", v.node.0, v.output));
        }
    }
    verify_aliases(graph)?;
    Ok(height)
}

fn verify_aliases(graph: &Graph) -> Result<(), GraphError> {
    let (mut outputs, mut parameters) = (FxHashSet::default(), FxHashSet::default());
    for a in &graph.aliases {
        let name = format!("alias {} <- parameter {}", a.output, a.parameter);
        let (Some(&value), Some(&parameter)) = (graph.outputs.get(a.output), graph.parameters().get(a.parameter)) else {
            return interface(format!("{name} is out of range"));
        };
        if graph.try_ty(value) != graph.try_ty(ValueId::first(parameter)) {
            return interface(format!("{name}: types differ"));
        }
        if !outputs.insert(a.output) || !parameters.insert(a.parameter) {
            return interface(format!("{name}: aliased twice"));
        }
    }
    Ok(())
}

/// Type of an operand that stands before `user`.
fn value_type(graph: &Graph, v: ValueId, user: NodeId) -> Option<&TensorType> {
    if v.node < user { graph.try_ty(v) } else { None }
}

/// Graphs that the op applies.
fn nested_graphs(op: &Op) -> impl Iterator<Item = &Arc<Graph>> {
    let (first, second) = match op {
        Op::While { cond, body } => (Some(cond), Some(body)),
        Op::Cond { on_true, on_false } => (Some(on_true), Some(on_false)),
        Op::Call(g) => (Some(g), None),
        _ => (None, None),
    };
    first.into_iter().chain(second)
}

fn interface<T>(reason: String) -> Result<T, GraphError> {
    Err(GraphError::Interface { reason })
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
