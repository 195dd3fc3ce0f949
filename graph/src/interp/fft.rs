//! Discrete Fourier transforms by their sums, axis by axis.

use std::f64::consts::TAU;

use crate::interp::complex::Complex;
use crate::interp::elems::{Elems, Lines, decode, encode};
use crate::literal::Literal;
use crate::op::FftKind;
use crate::types::TensorType;

/// A complex tensor.
struct Array {
    dims: Vec<i64>,
    values: Vec<Complex>,
}

impl Array {
    /// Transforms the axis: element j of a result line is the sum of `line[k] * e^(sign * 2πi j k / n)`, for `size` results.
    /// Lines shorter than `n` are continued by conjugate symmetry.
    fn transform(&mut self, axis: usize, n: usize, size: usize, sign: f64) {
        let lines = Lines::along(&self.dims, axis);
        self.dims[axis] = size as i64;
        let out = Lines::along(&self.dims, axis);
        let twiddles: Vec<Complex> = (0..n).map(|k| Complex::polar(1.0, sign * TAU * k as f64 / n as f64)).collect();
        let mut values = vec![Complex::new(0.0, 0.0); size * lines.outer * lines.inner];
        for (start, to) in lines.starts().zip(out.starts()) {
            let mut line: Vec<Complex> = lines.line(start).map(|p| self.values[p]).collect();
            if line.len() < n {
                for k in line.len()..n {
                    let mirrored = line[n - k];
                    line.push(Complex::new(mirrored.re, -mirrored.im));
                }
            }
            for (j, p) in out.line(to).enumerate() {
                values[p] = line.iter().enumerate().fold(Complex::new(0.0, 0.0), |sum, (k, &v)| sum + v * twiddles[j * k % n]);
            }
        }
        self.values = values;
    }
}

pub(super) fn fft(x: &Literal, kind: FftKind, lengths: &[i64], out: &TensorType) -> Literal {
    let values = match decode(x) {
        Elems::Complex(v) => v,
        Elems::Real(v) => v.into_iter().map(|re| Complex::new(re, 0.0)).collect(),
        Elems::Int(_) => unreachable!("the shape rule refuses integers"),
    };
    let mut array = Array { dims: x.ty().dims.to_vec(), values };
    let first = array.dims.len() - lengths.len();
    let last = array.dims.len() - 1;
    let inverse = matches!(kind, FftKind::Ifft | FftKind::Irfft);
    let sign = if inverse { 1.0 } else { -1.0 };
    let whole = |array: &mut Array, axis: usize| {
        let n = array.dims[axis] as usize;
        array.transform(axis, n, n, sign);
    };
    match kind {
        FftKind::Fft | FftKind::Ifft => (first..=last).for_each(|axis| whole(&mut array, axis)),
        FftKind::Rfft => {
            array.transform(last, lengths[lengths.len() - 1] as usize, out.dims[last] as usize, sign);
            (first..last).for_each(|axis| whole(&mut array, axis));
        }
        FftKind::Irfft => {
            (first..last).for_each(|axis| whole(&mut array, axis));
            drop_imaginary_ends(&mut array, lengths[lengths.len() - 1] as usize);
            array.transform(last, lengths[lengths.len() - 1] as usize, out.dims[last] as usize, sign);
        }
    }
    let scale = if inverse { 1.0 / lengths.iter().product::<i64>() as f64 } else { 1.0 };
    let scaled = array.values.into_iter().map(|z| Complex::new(z.re * scale, z.im * scale)).collect();
    encode(out, Elems::Complex(scaled))
}

/// A half-complex line has real values at frequency 0 and, of an even length, at half the length; imaginary parts there are ignored.
fn drop_imaginary_ends(array: &mut Array, n: usize) {
    let lines = Lines::along(&array.dims, array.dims.len() - 1);
    for start in lines.starts() {
        for (k, p) in lines.line(start).enumerate() {
            if k == 0 || 2 * k == n {
                array.values[p].im = 0.0;
            }
        }
    }
}
