//! Products and convolutions: lanes that are summed over must be zero on one side and finite on the other.

use clutch_graph::op::{Convolution, DotDims};
use clutch_graph::{NodeId, Op, ValueId};
use smallvec::SmallVec;

use super::{operands, rebuild, single};
use crate::bucket::extent::Axis;
use crate::bucket::validity::{Fill, Neutral, Pass, Ruled, Stop};

pub(super) fn apply(p: &mut Pass<'_>, id: NodeId) -> Ruled {
    let xs = operands(p, id);
    match p.graphs[0].node(id).op.clone() {
        Op::DotGeneral { dims, .. } => dot(p, id, xs[0], xs[1], &dims),
        Op::Convolution(c) => convolution(p, id, xs[0], xs[1], &c),
        _ => Err(Stop::Refused("no rule")),
    }
}

fn dot(p: &mut Pass<'_>, id: NodeId, x: ValueId, y: ValueId, dims: &DotDims) -> Ruled {
    let (left, right) = (p.state(x).clone(), p.state(y).clone());
    let apart = Stop::Refused("operands whose padding lies at different places");
    let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
    for (&a, &b) in dims.lhs_batch.iter().zip(&dims.rhs_batch) {
        match left.axes[a].meet(&right.axes[b]) {
            Some(axis) => axes.push(axis),
            None => return Err(apart),
        }
    }
    let (mut zero_left, mut zero_right): (SmallVec<[usize; 2]>, SmallVec<[usize; 2]>) = Default::default();
    for (&a, &b) in dims.lhs_contract.iter().zip(&dims.rhs_contract) {
        let Some(axis) = left.axes[a].meet(&right.axes[b]) else { return Err(apart) };
        if !axis.is_partial() {
            continue;
        }
        let alike = |other: &Axis| other.0.iter().map(|f| f.sizes).eq(axis.0.iter().map(|f| f.sizes));
        if !alike(&left.axes[a]) || !alike(&right.axes[b]) {
            return Err(apart);
        }
        let zero = Fill::Known(Neutral::Zero);
        let only = dims.lhs_contract.iter().filter(|&&a| left.axes[a].is_partial()).count() == 1;
        match (left.fill[a], right.fill[b]) {
            (l, r) if only && ((l == zero && r != Fill::Any) || (r == zero && l != Fill::Any)) => {}
            (l, Fill::Finite) if l != zero => zero_left.push(a),
            (Fill::Finite, r) if r != zero => zero_right.push(b),
            _ => {
                zero_left.push(a);
                zero_right.push(b);
            }
        }
    }
    let new = [p.masked(x, &zero_left, Neutral::Zero)?, p.masked(y, &zero_right, Neutral::Zero)?];
    let value = rebuild(p, id, &new)?;
    let free = |axes: &[Axis], batch: &[usize], contract: &[usize]| -> Vec<Axis> {
        (0..axes.len()).filter(|a| !batch.contains(a) && !contract.contains(a)).map(|a| axes[a].clone()).collect()
    };
    // A result that repeats over a free axis of one side still depends on the other side.
    axes.extend(free(&left.axes, &dims.lhs_batch, &dims.lhs_contract));
    axes.extend(free(&right.axes, &dims.rhs_batch, &dims.rhs_contract));
    let state = p.stated(ValueId::first(id), axes);
    single(value, state)
}

fn convolution(p: &mut Pass<'_>, id: NodeId, x: ValueId, k: ValueId, c: &Convolution) -> Ruled {
    let (input, kernel) = (p.state(x).clone(), p.state(k).clone());
    let d = &c.dims;
    let mut state = p.fresh(id, 0, false);
    state.axes[d.output_batch] = input.axes[d.input_batch].clone();
    state.axes[d.output_feature] = kernel.axes[d.kernel_output_feature].clone();
    let features = [&input.axes[d.input_feature], &kernel.axes[d.kernel_input_feature], &kernel.axes[d.kernel_output_feature]];
    if (c.feature_groups > 1 && features.iter().any(|a| a.is_partial())) || (c.batch_groups > 1 && input.axes[d.input_batch].is_partial()) {
        return Err(Stop::Refused("a grouped convolution over groups of dynamic size"));
    }
    let plain = |a: &Axis| a.0.len() <= 1;
    let mut zero_input: SmallVec<[usize; 4]> = d.input_spatial.iter().copied().filter(|&a| input.axes[a].is_partial()).collect();
    let mut zero_kernel: SmallVec<[usize; 4]> = d.kernel_spatial.iter().copied().filter(|&a| kernel.axes[a].is_partial()).collect();
    if !zero_input.iter().all(|&a| plain(&input.axes[a])) || !zero_kernel.iter().all(|&a| plain(&kernel.axes[a])) {
        return Err(Stop::Refused("a convolution over an axis that was merged from others"));
    }
    for (i, a) in d.kernel_spatial.iter().enumerate() {
        let w = &c.window[i];
        if kernel.axes[*a].is_partial() && w.reversal {
            return Err(Stop::Refused("a reversed kernel of dynamic size"));
        }
        // Lanes that a partial kernel meets beyond the input must be zero too.
        if kernel.axes[*a].is_partial() && !zero_input.contains(&d.input_spatial[i]) && input.axes[d.input_spatial[i]].is_partial() {
            zero_input.push(d.input_spatial[i]);
        }
    }
    if features[0].is_partial() || features[1].is_partial() {
        if features[0].meet(features[1]).is_none() {
            return Err(Stop::Refused("operands whose padding lies at different places"));
        }
        zero_input.push(d.input_feature);
        zero_kernel.push(d.kernel_input_feature);
    }
    let new = [p.masked(x, &zero_input, Neutral::Zero)?, p.masked(k, &zero_kernel, Neutral::Zero)?];
    let value = rebuild(p, id, &new)?;
    single(value, state)
}
