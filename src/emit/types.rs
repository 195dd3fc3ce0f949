//! Element types, shapes and literals as HLO messages.

use clutch_graph::{DType, Literal, TensorType};

use super::proto::{LayoutProto, LiteralProto, PrimitiveType, ShapeProto};

/// Shape of an instruction's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Array(TensorType),
    Tuple(Vec<TensorType>),
}

impl Shape {
    pub(super) fn proto(&self) -> ShapeProto {
        match self {
            Shape::Array(ty) => array_shape(ty),
            Shape::Tuple(types) => tuple_shape(types.iter()),
        }
    }
}

pub(super) fn primitive_type(dtype: DType) -> PrimitiveType {
    match dtype {
        DType::Pred => PrimitiveType::Pred,
        DType::S8 => PrimitiveType::S8,
        DType::S16 => PrimitiveType::S16,
        DType::S32 => PrimitiveType::S32,
        DType::S64 => PrimitiveType::S64,
        DType::U8 => PrimitiveType::U8,
        DType::U16 => PrimitiveType::U16,
        DType::U32 => PrimitiveType::U32,
        DType::U64 => PrimitiveType::U64,
        DType::F16 => PrimitiveType::F16,
        DType::BF16 => PrimitiveType::Bf16,
        DType::F32 => PrimitiveType::F32,
        DType::F64 => PrimitiveType::F64,
        DType::C64 => PrimitiveType::C64,
        DType::C128 => PrimitiveType::C128,
        DType::F8E4M3FN => PrimitiveType::F8e4m3fn,
        DType::F8E5M2 => PrimitiveType::F8e5m2,
    }
}

/// The shape of a row-major array.
pub(super) fn array_shape(ty: &TensorType) -> ShapeProto {
    let rank = ty.rank();
    ShapeProto {
        element_type: primitive_type(ty.dtype).into(),
        dimensions: ty.dims.to_vec(),
        layout: Some(LayoutProto { minor_to_major: (0..rank as i64).rev().collect() }),
        is_dynamic_dimension: vec![false; rank],
        ..ShapeProto::default()
    }
}

pub(super) fn tuple_shape<'a>(types: impl Iterator<Item = &'a TensorType>) -> ShapeProto {
    ShapeProto { element_type: PrimitiveType::Tuple.into(), tuple_shapes: types.map(array_shape).collect(), ..ShapeProto::default() }
}

fn numbers<const N: usize, T>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|c| read(*c)).collect()
}

pub(super) fn literal(value: &Literal) -> LiteralProto {
    let bytes = value.bytes();
    let mut proto = LiteralProto { shape: Some(array_shape(value.ty())), ..LiteralProto::default() };
    match value.ty().dtype {
        DType::Pred => proto.preds = bytes.iter().map(|&b| b != 0).collect(),
        DType::S8 => proto.s8s = bytes.to_vec(),
        DType::U8 => proto.u8s = bytes.to_vec(),
        DType::S16 => proto.s16s = bytes.to_vec(),
        DType::U16 => proto.u16s = bytes.to_vec(),
        DType::F16 => proto.f16s = bytes.to_vec(),
        DType::BF16 => proto.bf16s = bytes.to_vec(),
        DType::F8E4M3FN => proto.f8e4m3fns = bytes.to_vec(),
        DType::F8E5M2 => proto.f8e5m2s = bytes.to_vec(),
        DType::S32 => proto.s32s = numbers(bytes, i32::from_le_bytes),
        DType::U32 => proto.u32s = numbers(bytes, u32::from_le_bytes),
        DType::S64 => proto.s64s = numbers(bytes, i64::from_le_bytes),
        DType::U64 => proto.u64s = numbers(bytes, u64::from_le_bytes),
        DType::F32 => proto.f32s = numbers(bytes, f32::from_le_bytes),
        DType::F64 => proto.f64s = numbers(bytes, f64::from_le_bytes),
        DType::C64 => proto.c64s = numbers(bytes, f32::from_le_bytes),
        DType::C128 => proto.c128s = numbers(bytes, f64::from_le_bytes),
    }
    proto
}

/// Axis numbers or sizes as the messages hold them.
pub(super) fn numbers_of(axes: &[usize]) -> Vec<i64> {
    axes.iter().map(|&a| a as i64).collect()
}
