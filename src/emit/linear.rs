//! Contractions, convolutions, transforms and solves.

use clutch_graph::op::{CompareDir, Convolution, DotDims, FftKind, Precision, WindowDim};
use clutch_graph::{DType, Node, TensorType};

use super::body::{Body, Inst};
use super::convert;
use super::lower::Lower;
use super::proto::precision_config::Precision as PrecisionProto;
use super::proto::triangular_solve_options::Transpose;
use super::proto::{
    CholeskyOptions, ConvolutionDimensionNumbers, DotDimensionNumbers, FftType, PrecisionConfig, TriangularSolveOptions, Window,
    WindowDimension,
};
use super::types::numbers_of;

/// The accuracy of both operands. Only wider floats have anything to trade; the device's default is left unsaid.
fn precision(dtype: DType, wanted: Precision) -> Option<Box<PrecisionConfig>> {
    let splits = matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128);
    let value = match wanted {
        Precision::Default => return None,
        Precision::High => PrecisionProto::High,
        Precision::Highest => PrecisionProto::Highest,
    };
    splits.then(|| Box::new(PrecisionConfig { operand_precision: vec![value.into(); 2] }))
}

/// Operand and accumulation type of a product of `from` operands wanted as `out`.
fn dot_types(from: DType, out: DType) -> (DType, DType) {
    let same_kind = (from.is_float() && out.is_float())
        || (from.is_signed_int() && out.is_signed_int())
        || (from.is_unsigned_int() && out.is_unsigned_int());
    if from.size() == 1 && from.is_float() && out.is_float() {
        // Products of 8-bit floats are exact in F32.
        (from, if out == DType::F64 { out } else { DType::F32 })
    } else if from == out || (same_kind && out.size() > from.size()) {
        (from, out)
    } else if from.is_float() && out.is_float() {
        (from, from.compute_type())
    } else if from.is_float() && !out.is_complex() {
        (from, from)
    } else {
        (out, out)
    }
}

pub(super) fn dot(cx: &mut Lower<'_, '_>, node: &Node, dims: &DotDims, out: DType, wanted: Precision, operands: &[Inst]) -> Inst {
    let (operand, acc) = dot_types(cx.body.dtype(operands[0]), out);
    let lhs = convert::convert(cx, operands[0], operand);
    let rhs = convert::convert(cx, operands[1], operand);
    let inst = cx.body.op("dot", node.outputs[0].with_dtype(acc), &[lhs, rhs]);
    let proto = cx.body.proto(inst);
    proto.dot_dimension_numbers = Some(Box::new(DotDimensionNumbers {
        lhs_contracting_dimensions: numbers_of(&dims.lhs_contract),
        rhs_contracting_dimensions: numbers_of(&dims.rhs_contract),
        lhs_batch_dimensions: numbers_of(&dims.lhs_batch),
        rhs_batch_dimensions: numbers_of(&dims.rhs_batch),
    }));
    proto.precision_config = precision(operand, wanted);
    convert::convert(cx, inst, out)
}

/// The window message of window axes.
pub(super) fn window(axes: &[WindowDim]) -> Option<Box<Window>> {
    let dimensions = axes
        .iter()
        .map(|w| WindowDimension {
            size: w.size,
            stride: w.stride,
            padding_low: w.pad_low,
            padding_high: w.pad_high,
            window_dilation: w.window_dilation,
            base_dilation: w.base_dilation,
            window_reversal: w.reversal,
        })
        .collect();
    Some(Box::new(Window { dimensions }))
}

pub(super) fn convolution(cx: &mut Lower<'_, '_>, node: &Node, c: &Convolution, operands: &[Inst]) -> Inst {
    let out = &node.outputs[0];
    let compute = if out.dtype.is_float() && out.dtype.size() == 1 { DType::F32 } else { out.dtype };
    let (x, kernel) = (cx.body.convert(operands[0], compute), cx.body.convert(operands[1], compute));
    let inst = cx.body.op("convolution", out.with_dtype(compute), &[x, kernel]);
    let d = &c.dims;
    let proto = cx.body.proto(inst);
    proto.window = window(&c.window);
    proto.convolution_dimension_numbers = Some(Box::new(ConvolutionDimensionNumbers {
        kernel_input_feature_dimension: d.kernel_input_feature as i64,
        kernel_output_feature_dimension: d.kernel_output_feature as i64,
        kernel_spatial_dimensions: numbers_of(&d.kernel_spatial),
        input_batch_dimension: d.input_batch as i64,
        input_feature_dimension: d.input_feature as i64,
        output_batch_dimension: d.output_batch as i64,
        output_feature_dimension: d.output_feature as i64,
        input_spatial_dimensions: numbers_of(&d.input_spatial),
        output_spatial_dimensions: numbers_of(&d.output_spatial),
    }));
    proto.feature_group_count = c.feature_groups;
    proto.batch_group_count = c.batch_groups;
    proto.precision_config = precision(compute, c.precision);
    cx.body.convert(inst, out.dtype)
}

pub(super) fn fft(cx: &mut Lower<'_, '_>, node: &Node, kind: FftKind, lengths: &[i64], x: Inst) -> Inst {
    let inst = cx.body.op("fft", node.outputs[0].clone(), &[x]);
    let proto = cx.body.proto(inst);
    proto.fft_type = match kind {
        FftKind::Fft => FftType::Fft,
        FftKind::Ifft => FftType::Ifft,
        FftKind::Rfft => FftType::Rfft,
        FftKind::Irfft => FftType::Irfft,
    }
    .into();
    proto.fft_length = lengths.to_vec();
    inst
}

/// What HLO leaves above the diagonal is open, so it is cleared. Narrow floats are factored in their compute type.
pub(super) fn cholesky(cx: &mut Lower<'_, '_>, a: Inst) -> Inst {
    let body = &mut cx.body;
    let dtype = body.dtype(a);
    let a = body.convert(a, dtype.compute_type());
    let factor = body.same("cholesky", &[a]);
    body.proto(factor).cholesky_options = Some(Box::new(CholeskyOptions { lower: true }));
    let lower = lower_triangle(body, factor);
    body.convert(lower, dtype)
}

fn lower_triangle(body: &mut Body, x: Inst) -> Inst {
    let ty = body.ty(x).clone();
    let rank = ty.rank();
    let matrix = TensorType::new(DType::S32, ty.dims[rank - 2..].iter().copied());
    let [row, column] = [0, 1].map(|axis| {
        let inst = body.op("iota", matrix.clone(), &[]);
        body.proto(inst).dimensions = vec![axis];
        inst
    });
    let keep = body.compare(CompareDir::Ge, row, column);
    let keep = body.broadcast(keep, ty.with_dtype(DType::Pred), &[rank - 2, rank - 1]);
    let zero = body.fill(ty.dtype, 0.0, &ty);
    body.select(keep, x, zero)
}

pub(super) fn triangular_solve(
    cx: &mut Lower<'_, '_>,
    left: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose: bool,
    operands: &[Inst],
) -> Inst {
    let body = &mut cx.body;
    let dtype = body.dtype(operands[0]);
    let compute = dtype.compute_type();
    let (a, b) = (body.convert(operands[0], compute), body.convert(operands[1], compute));
    let ty = body.ty(b).clone();
    let inst = body.op("triangular-solve", ty, &[a, b]);
    let transpose_a = if transpose { Transpose::Transpose } else { Transpose::NoTranspose };
    body.proto(inst).triangular_solve_options =
        Some(Box::new(TriangularSolveOptions { left_side: left, lower, unit_diagonal, transpose_a: transpose_a.into() }));
    body.convert(inst, dtype)
}
