//! Whether a loop pays on the device.

use clutch_graph::TensorType;

use super::Known;
use super::plan::{Plan, Side};
use super::sequence::is_product;
use crate::egraph::cost::{Placed, op_cost};
use crate::options::{PassOptions, Roll, Target};

/// Layers of a loop at least, unless rolling is asked for.
const LEAST_LAYERS: usize = 4;

/// The loop's modelled cost over the unrolled program's, at most, unless rolling is asked for.
const MOST_SLOWER: f64 = 0.03;

/// Whether any loop may pay. Devices on host memory would hold a second copy of the weights, which they otherwise read in place.
pub(crate) fn may_pay(options: &PassOptions) -> bool {
    options.roll == Roll::On || options.target == Target::Tpu
}

/// Whether this one does.
pub(crate) fn pays(known: &Known<'_>, plan: &Plan, options: &PassOptions) -> bool {
    options.roll == Roll::On || plan.run.count >= LEAST_LAYERS && extra(known, plan, options) <= MOST_SLOWER
}

/// Modelled cost that looping adds to a layer, as a share of the layer's own. What a product reads of a stack it reads in place; other layers
/// of stacks, carried values and gathered results are kernels of their own.
fn extra(known: &Known<'_>, plan: &Plan, options: &PassOptions) -> f64 {
    let table = options.device.table();
    let graph = known.graph;
    let ids = &known.order[plan.run.range()][..plan.run.period];
    let mut layer = 0.0;
    let mut in_place = vec![false; plan.sides.len()];
    for (t, id) in ids.iter().enumerate() {
        let node = graph.node(*id);
        let types: Vec<&TensorType> = node.operands.iter().map(|&v| graph.ty(v)).collect();
        layer += op_cost(&node.op, &types, &node.outputs, table, Placed::Among);
        for operand in &plan.operands[t] {
            if let super::plan::Operand::Side(s) = operand {
                in_place[*s] |= is_product(&node.op);
            }
        }
    }
    let moved = |ty: &TensorType| 2.0 * ty.byte_size() as f64 / table.memory_bytes;
    let mut added = table.kernel;
    for (side, in_place) in plan.sides.iter().zip(in_place) {
        if let (Side::Stacked(values), false) = (side, in_place) {
            added += moved(graph.ty(values[0]));
        }
    }
    for (local, layers) in &plan.read {
        if layers.len() > 1 {
            added += moved(&graph.node(ids[local.0]).outputs[local.1 as usize]);
        }
    }
    added / layer.max(f64::MIN_POSITIVE)
}
