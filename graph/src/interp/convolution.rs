//! Convolution with all of HLO's windows and groups. Reals accumulate in `f64`.

use crate::interp::complex::Number;
use crate::interp::elems::{Elems, decode, each_index, encode};
use crate::interp::window::operand_index;
use crate::literal::Literal;
use crate::op::Convolution;
use crate::types::{Dims, TensorType, row_major_strides};

pub(super) fn convolution(input: &Literal, kernel: &Literal, c: &Convolution, out: &TensorType) -> Literal {
    let elems = match (decode(input), decode(kernel)) {
        (Elems::Int(x), Elems::Int(k)) => Elems::Int(convolve(&x, input.ty(), &k, kernel.ty(), c, out)),
        (Elems::Real(x), Elems::Real(k)) => Elems::Real(convolve(&x, input.ty(), &k, kernel.ty(), c, out)),
        (Elems::Complex(x), Elems::Complex(k)) => Elems::Complex(convolve(&x, input.ty(), &k, kernel.ty(), c, out)),
        _ => unreachable!("the shape rule asks for equal operand types"),
    };
    encode(out, elems)
}

fn convolve<T: Number>(x: &[T], xt: &TensorType, k: &[T], kt: &TensorType, c: &Convolution, out: &TensorType) -> Vec<T> {
    let d = &c.dims;
    let (xs, ks) = (row_major_strides(&xt.dims), row_major_strides(&kt.dims));
    let window: Dims = c.window.iter().map(|w| w.size).collect();
    let features = kt.dims[d.kernel_input_feature];
    let outputs = out.dims[d.output_feature];
    let batch = out.dims[d.output_batch];
    let mut result = Vec::with_capacity(out.numel() as usize);
    each_index(&out.dims, |_, index| {
        let feature = index[d.output_feature];
        let feature_group = feature / (outputs / c.feature_groups);
        let batch_group = feature / (outputs / c.batch_groups);
        let x_base = (batch_group * batch + index[d.output_batch]) * xs[d.input_batch] + feature_group * features * xs[d.input_feature];
        let k_base = feature * ks[d.kernel_output_feature];
        let mut sum = T::ZERO;
        each_index(&window, |_, at| {
            let (mut xp, mut kp) = (x_base, k_base);
            for (i, w) in c.window.iter().enumerate() {
                let axis = d.input_spatial[i];
                let Some(p) = operand_index(w, index[d.output_spatial[i]], at[i], xt.dims[axis]) else { return };
                xp += p * xs[axis];
                kp += if w.reversal { w.size - 1 - at[i] } else { at[i] } * ks[d.kernel_spatial[i]];
            }
            for f in 0..features {
                let xv = x[(xp + f * xs[d.input_feature]) as usize];
                sum = sum.plus(xv.times(k[(kp + f * ks[d.kernel_input_feature]) as usize]));
            }
        });
        result.push(sum);
    });
    result
}
