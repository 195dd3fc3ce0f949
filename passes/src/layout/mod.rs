//! Layouts of convolution networks on the CPU plugin: channels-last activations, HWIO kernels, and the forms that are measured fastest
//! there. The rules run inside the simplifier, so that transposes compose and cancel as they appear.

pub(crate) mod convolution;
pub(crate) mod direct;
pub(crate) mod motion;
pub(crate) mod pooling;

use clutch_graph::op::{Axes, Op};
use clutch_graph::{Dims, Graph, GraphError, ValueId};

use crate::options::{PassOptions, Target};
use crate::simplify::Simplifier;

/// Whether the graph is a convolution network for the CPU plugin.
pub(crate) fn applies(graph: &Graph, options: &PassOptions) -> bool {
    options.target == Target::Cpu && graph.nodes().iter().any(|n| matches!(n.op, Op::Convolution(_)))
}

/// The permutation that undoes `perm`.
pub(crate) fn inverse(perm: &[usize]) -> Axes {
    let mut inverse: Axes = smallvec::smallvec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i;
    }
    inverse
}

/// Elements at `first`, `first + step`... of the spatial axes (all but the first and last) of a channels-last value, `counts` of them.
fn spatial_slice(s: &mut Simplifier<'_>, x: ValueId, first: &[i64], step: &[i64], counts: &[i64]) -> Result<ValueId, GraphError> {
    let sizes: Dims = s.dims(x).into();
    let n = sizes.len();
    let mut start: Dims = smallvec::smallvec![0; n];
    let mut limit = sizes;
    let mut stride: Dims = smallvec::smallvec![1; n];
    for i in 0..n - 2 {
        start[i + 1] = first[i];
        stride[i + 1] = step[i];
        limit[i + 1] = first[i] + (counts[i] - 1) * step[i] + 1;
    }
    s.emit(Op::Slice { start, limit, stride }, &[x])
}

/// All index tuples below `sizes`, last index fastest.
fn positions(sizes: &[i64]) -> Vec<Dims> {
    let count: i64 = sizes.iter().product();
    (0..count)
        .map(|flat| {
            let mut rest = flat;
            let mut at: Dims = sizes
                .iter()
                .rev()
                .map(|&d| {
                    let i = rest % d;
                    rest /= d;
                    i
                })
                .collect();
            at.reverse();
            at
        })
        .collect()
}
