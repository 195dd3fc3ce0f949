//! Constants in HLO text.

use clutch_graph::DType;
use clutch_graph::literal::read_f64;

use super::proto::{LiteralProto, PrimitiveType};

/// Constants with more elements are shown as `{...}`.
const SHOWN: i64 = 32;

pub(super) fn literal(value: &LiteralProto) -> String {
    let Some(shape) = &value.shape else {
        return String::new();
    };
    if shape.dimensions.iter().product::<i64>() > SHOWN {
        return "{...}".to_owned();
    }
    let words = elements(value, shape.element_type());
    let mut words = words.iter();
    nest(&shape.dimensions, &mut words)
}

/// At most as deep as a tensor has axes.
fn nest(dims: &[i64], words: &mut std::slice::Iter<'_, String>) -> String {
    match dims {
        [] => words.next().cloned().unwrap_or_default(),
        [first, rest @ ..] => {
            let parts: Vec<String> = (0..*first).map(|_| nest(rest, words)).collect();
            format!("{{{}}}", parts.join(", "))
        }
    }
}

fn show<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(T::to_string).collect()
}

fn float(value: f64) -> String {
    if value.is_nan() {
        "nan".to_owned()
    } else if value != 0.0 && (value.abs() >= 1e16 || value.abs() < 1e-5) && value.is_finite() {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

fn singles(values: impl Iterator<Item = f32>) -> Vec<String> {
    // The shortest decimal that reads back as the same f32.
    values.map(|v| float(v.to_string().parse().unwrap_or(f64::from(v)))).collect()
}

fn pairs(words: &[String]) -> Vec<String> {
    words.chunks(2).map(|c| format!("({})", c.join(", "))).collect()
}

/// Elements of a narrow float type.
fn narrow(dtype: DType, bytes: &[u8]) -> Vec<String> {
    singles(bytes.chunks_exact(dtype.size()).filter_map(|c| read_f64(dtype, c)).map(|v| v as f32))
}

fn elements(v: &LiteralProto, ty: PrimitiveType) -> Vec<String> {
    match ty {
        PrimitiveType::Pred => show(&v.preds),
        PrimitiveType::S8 => v.s8s.iter().map(|&b| (b as i8).to_string()).collect(),
        PrimitiveType::U8 => show(&v.u8s),
        PrimitiveType::S16 => v.s16s.as_chunks::<2>().0.iter().map(|c| i16::from_le_bytes(*c).to_string()).collect(),
        PrimitiveType::U16 => v.u16s.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c).to_string()).collect(),
        PrimitiveType::S32 => show(&v.s32s),
        PrimitiveType::S64 => show(&v.s64s),
        PrimitiveType::U32 => show(&v.u32s),
        PrimitiveType::U64 => show(&v.u64s),
        PrimitiveType::F32 => singles(v.f32s.iter().copied()),
        PrimitiveType::F64 => v.f64s.iter().map(|&x| float(x)).collect(),
        PrimitiveType::F16 => narrow(DType::F16, &v.f16s),
        PrimitiveType::Bf16 => narrow(DType::BF16, &v.bf16s),
        PrimitiveType::C64 => pairs(&singles(v.c64s.iter().copied())),
        PrimitiveType::C128 => pairs(&v.c128s.iter().map(|&x| float(x)).collect::<Vec<_>>()),
        PrimitiveType::F8e5m2 => narrow(DType::F8E5M2, &v.f8e5m2s),
        PrimitiveType::F8e4m3fn => narrow(DType::F8E4M3FN, &v.f8e4m3fns),
        PrimitiveType::Invalid | PrimitiveType::Tuple => Vec::new(),
    }
}
