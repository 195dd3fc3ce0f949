//! Contractions, convolutions, transforms and solves.

use clutch_graph::op::{ConvDims, Convolution, DotDims, FftKind, Op, Precision, WindowDim};
use clutch_graph::{DType, Literal, TensorType};
use smallvec::{SmallVec, smallvec};

use super::{Case, lit, ramp};

fn dot(name: &str, dtype: DType, out: DType, x: &[i64], y: &[i64], dims: DotDims) -> Case {
    let op = Op::DotGeneral { dims, out, precision: Precision::Highest };
    Case::of_op(format!("dot {name} {dtype} to {out}"), op, vec![ramp(dtype, x), ramp(dtype, y)])
}

fn matmul() -> DotDims {
    DotDims { lhs_contract: smallvec![1], rhs_contract: smallvec![0], ..DotDims::default() }
}

/// Contractions of 64-bit integers, which TPUs do not have.
pub fn wide_integer_dots() -> Vec<Case> {
    [DType::S64, DType::U64].map(|d| dot("matrices", d, d, &[3, 4], &[4, 5], matmul())).into()
}

fn dots() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        if dtype != DType::Pred && dtype != DType::S64 && dtype != DType::U64 {
            cases.push(dot("matrices", dtype, dtype, &[3, 4], &[4, 5], matmul()));
        }
    }
    for (dtype, out) in [
        (DType::S8, DType::S32),
        (DType::U8, DType::U32),
        (DType::U8, DType::S32),
        (DType::S8, DType::F32),
        (DType::BF16, DType::F32),
        (DType::F16, DType::F32),
        (DType::F32, DType::F64),
        (DType::F32, DType::BF16),
        (DType::F16, DType::BF16),
        (DType::F8E4M3FN, DType::BF16),
        (DType::F8E5M2, DType::F32),
    ] {
        cases.push(dot("matrices", dtype, out, &[3, 4], &[4, 5], matmul()));
    }
    let batched =
        DotDims { lhs_batch: smallvec![0, 2], rhs_batch: smallvec![1, 0], lhs_contract: smallvec![3], rhs_contract: smallvec![3] };
    cases.push(dot("batched", DType::F32, DType::F32, &[2, 3, 4, 5], &[4, 2, 6, 5], batched));
    let two = DotDims { lhs_contract: smallvec![0, 2], rhs_contract: smallvec![2, 1], ..DotDims::default() };
    cases.push(dot("two contracted axes", DType::F32, DType::F32, &[2, 3, 4], &[5, 4, 2], two));
    cases.push(dot("outer product", DType::F32, DType::F32, &[3], &[4], DotDims::default()));
    let vectors = DotDims { lhs_contract: smallvec![0], rhs_contract: smallvec![0], ..DotDims::default() };
    cases.push(dot("vectors", DType::F32, DType::F32, &[5], &[5], vectors));
    cases.push(dot("nothing contracted", DType::F32, DType::F32, &[3, 0], &[0, 4], matmul()));
    for precision in [Precision::Default, Precision::High] {
        let op = Op::DotGeneral { dims: matmul(), out: DType::F32, precision };
        cases.push(Case::of_op(format!("dot {precision:?}"), op, vec![ramp(DType::F32, &[3, 4]), ramp(DType::F32, &[4, 5])]));
    }
    cases
}

/// Input NCHW, kernel OIHW.
pub fn nchw(n: usize) -> ConvDims {
    let spatial: SmallVec<[usize; 6]> = (2..n + 2).collect();
    ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: spatial.clone(),
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: spatial.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: spatial,
    }
}

fn conv(name: &str, dtype: DType, x: &[i64], k: &[i64], c: Convolution) -> Case {
    Case::of_op(format!("convolution {name} {dtype}"), Op::Convolution(Box::new(c)), vec![ramp(dtype, x), ramp(dtype, k)])
}

fn convolutions() -> Vec<Case> {
    let w = |size| WindowDim { size, ..WindowDim::TRIVIAL };
    let plain = |window: &[WindowDim]| Convolution {
        window: window.into(),
        dims: nchw(window.len()),
        feature_groups: 1,
        batch_groups: 1,
        precision: Precision::Highest,
    };
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::F8E4M3FN, DType::S32] {
        cases.push(conv("plain", dtype, &[2, 3, 6, 5], &[4, 3, 3, 2], plain(&[w(3), w(2)])));
    }
    let strided = WindowDim { stride: 2, pad_low: 1, pad_high: 2, ..w(3) };
    cases.push(conv("strided", DType::F32, &[1, 2, 7, 8], &[3, 2, 3, 3], plain(&[strided, strided])));
    let dilated = WindowDim { window_dilation: 2, base_dilation: 3, pad_low: 2, pad_high: -1, reversal: true, ..w(3) };
    cases.push(conv("dilated and reversed", DType::F32, &[1, 2, 5, 5], &[3, 2, 3, 3], plain(&[dilated, dilated])));
    cases.push(conv("one axis", DType::F32, &[2, 3, 9], &[4, 3, 4], plain(&[w(4)])));
    cases.push(conv("three axes", DType::F32, &[1, 2, 3, 4, 5], &[2, 2, 2, 2, 2], plain(&[w(2), w(2), w(2)])));
    cases.push(conv("grouped", DType::F32, &[2, 4, 5, 5], &[6, 2, 3, 3], Convolution { feature_groups: 2, ..plain(&[w(3), w(3)]) }));
    cases.push(conv("depthwise", DType::F32, &[2, 4, 5, 5], &[4, 1, 3, 3], Convolution { feature_groups: 4, ..plain(&[w(3), w(3)]) }));
    cases.push(conv("batch groups", DType::F32, &[4, 3, 5, 5], &[6, 3, 2, 2], Convolution { batch_groups: 2, ..plain(&[w(2), w(2)]) }));
    let channels_last = ConvDims {
        input_batch: 0,
        input_feature: 3,
        input_spatial: smallvec![1, 2],
        kernel_input_feature: 2,
        kernel_output_feature: 3,
        kernel_spatial: smallvec![0, 1],
        output_batch: 0,
        output_feature: 3,
        output_spatial: smallvec![1, 2],
    };
    cases.push(conv(
        "channels last",
        DType::F32,
        &[2, 6, 5, 3],
        &[3, 2, 3, 4],
        Convolution { dims: channels_last, ..plain(&[w(3), w(2)]) },
    ));
    cases
}

fn transforms() -> Vec<Case> {
    let mut cases = Vec::new();
    for (real, complex) in [(DType::F32, DType::C64), (DType::F64, DType::C128)] {
        for (kind, dtype) in [(FftKind::Fft, complex), (FftKind::Ifft, complex), (FftKind::Rfft, real)] {
            for lengths in [&[8][..], &[3, 8], &[2, 3, 6]] {
                let dims = if lengths.len() == 3 { vec![2, 3, 6] } else { vec![2, 3, 8] };
                let op = Op::Fft { kind, lengths: lengths.into() };
                cases.push(Case::of_op(format!("{kind:?} {dtype} {lengths:?}"), op, vec![ramp(dtype, &dims)]).slack(8.0));
            }
        }
        // The spectrum of a real signal: the imaginary parts at both ends are zero.
        let parts = [3.0, 0.0, 1.0, -2.0, 0.5, 1.5, -1.0, 0.25, 2.0, 0.0];
        let bytes = lit(real, &[10], &parts);
        let x = Literal::new(TensorType::new(complex, [5]), bytes.bytes()).expect("two parts an element");
        cases.push(Case::of_op(format!("Irfft {complex}"), Op::Fft { kind: FftKind::Irfft, lengths: smallvec![8] }, vec![x]).slack(8.0));
    }
    cases
}

fn solves() -> Vec<Case> {
    let mut cases = Vec::new();
    let matrix = [4.0, 2.0, -1.0, 2.0, 5.0, 1.0, -1.0, 1.0, 6.0];
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let a = lit(dtype, &[2, 3, 3], &[matrix, matrix].concat());
        cases.push(Case::of_op(format!("cholesky {dtype}"), Op::Cholesky, vec![a.clone()]));
        for bits in 0..16u8 {
            let [left, lower, unit_diagonal, transpose] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let b = ramp(dtype, if left { &[2, 3, 4] } else { &[2, 4, 3] });
            let op = Op::TriangularSolve { left, lower, unit_diagonal, transpose };
            cases.push(Case::of_op(format!("triangular solve {dtype} {op:?}"), op, vec![a.clone(), b]).slack(4.0));
        }
    }
    cases
}

pub fn cases() -> Vec<Case> {
    [dots(), convolutions(), transforms(), solves()].into_iter().flatten().collect()
}
