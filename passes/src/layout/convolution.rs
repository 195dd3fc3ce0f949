//! Convolutions: channels-last with HWIO kernels, or one of the direct forms.

use clutch_graph::op::{Axes, ConvDims, Convolution, Op};
use clutch_graph::{GraphError, ValueId};

use crate::layout::{direct, inverse};
use crate::simplify::Simplifier;

pub(crate) fn rules(s: &mut Simplifier<'_>, op: &Op, x: &[ValueId]) -> Result<Option<ValueId>, GraphError> {
    let Op::Convolution(c) = op else { return Ok(None) };
    if c.dims.input_batch == 0 && c.dims.output_batch == 0 && c.batch_groups == 1 {
        channels_last(s, c, x[0], x[1])
    } else {
        absorb(s, c, x)
    }
}

/// Axis roles of an NHWC input, HWIO kernel and NHWC result with `n` spatial axes.
pub(crate) fn canonical_dims(n: usize) -> ConvDims {
    ConvDims {
        input_batch: 0,
        input_feature: n + 1,
        input_spatial: (1..=n).collect(),
        kernel_input_feature: n,
        kernel_output_feature: n + 1,
        kernel_spatial: (0..n).collect(),
        output_batch: 0,
        output_feature: n + 1,
        output_spatial: (1..=n).collect(),
    }
}

fn role_order(first: Option<usize>, spatial: &[usize], last: &[usize]) -> Axes {
    first.into_iter().chain(spatial.iter().copied()).chain(last.iter().copied()).collect()
}

/// A convolution over the batch's own axis 0 (forward passes and data gradients): operands and result go channels-last.
fn channels_last(s: &mut Simplifier<'_>, c: &Convolution, x: ValueId, kernel: ValueId) -> Result<Option<ValueId>, GraphError> {
    let d = &c.dims;
    let canonical = canonical_dims(c.window.len());
    let input_order = role_order(Some(d.input_batch), &d.input_spatial, &[d.input_feature]);
    let kernel_order = role_order(None, &d.kernel_spatial, &[d.kernel_input_feature, d.kernel_output_feature]);
    let output_order = role_order(Some(d.output_batch), &d.output_spatial, &[d.output_feature]);
    let already = *d == canonical;
    let input = s.emit(Op::Transpose(input_order), &[x])?;
    let kernel = s.emit(Op::Transpose(kernel_order), &[kernel])?;
    let c = Convolution { dims: canonical, ..c.clone() };
    let y = match direct::best_form(s, &c, input, kernel)? {
        Some(y) => y,
        None if already => return Ok(None),
        None => s.emit(Op::Convolution(Box::new(c)), &[input, kernel])?,
    };
    s.emit(Op::Transpose(inverse(&output_order)), &[y]).map(Some)
}

/// Any other convolution (weight gradients): transposes of the operands go into the axis roles.
fn absorb(s: &mut Simplifier<'_>, c: &Convolution, x: &[ValueId]) -> Result<Option<ValueId>, GraphError> {
    let mut c = c.clone();
    let mut operands = [x[0], x[1]];
    if let Op::Transpose(perm) = &s.def(x[0]).op {
        operands[0] = s.def(x[0]).operands[0];
        c.dims.input_batch = perm[c.dims.input_batch];
        c.dims.input_feature = perm[c.dims.input_feature];
        c.dims.input_spatial.iter_mut().for_each(|a| *a = perm[*a]);
    }
    if let Op::Transpose(perm) = &s.def(x[1]).op {
        operands[1] = s.def(x[1]).operands[0];
        c.dims.kernel_input_feature = perm[c.dims.kernel_input_feature];
        c.dims.kernel_output_feature = perm[c.dims.kernel_output_feature];
        c.dims.kernel_spatial.iter_mut().for_each(|a| *a = perm[*a]);
    }
    if operands == [x[0], x[1]] { Ok(None) } else { s.emit(Op::Convolution(Box::new(c)), &operands).map(Some) }
}
