//! Text of constants and numbers.

use std::fmt;

use half::{bf16, f16};

use crate::dtype::DType;
use crate::literal::{Literal, push_f64, read_f64, read_i64};

/// Longest list that is written out element by element.
const MAX_LIST: usize = 32;

/// Largest constant, in bytes, written as one element for all.
pub(super) const MAX_SPLAT: usize = 1 << 28;

/// An `f64` as text that [`parse_real`] reads back to the same bits.
pub(super) fn real_text(value: f64) -> String {
    element_text(DType::F64, &value.to_le_bytes())
}

/// The `f64` of a number, `nan`, `inf`, `-inf` or its bits as `0x...`.
pub(super) fn parse_real(text: &str) -> Option<f64> {
    let mut bytes = Vec::new();
    push_element(&mut bytes, DType::F64, text)?;
    read_f64(DType::F64, &bytes)
}

/// The bits of the quiet NaN without payload, as conversion from `f64::NAN` gives.
fn canonical_nan(dtype: DType) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_f64(&mut bytes, dtype, f64::NAN);
    bytes
}

/// One real, integer or boolean element as text.
fn element_text(dtype: DType, bytes: &[u8]) -> String {
    let bits = || format!("0x{}", bytes.iter().rev().map(|b| format!("{b:02x}")).collect::<String>());
    if dtype == DType::Pred {
        return match bytes {
            [0] => "false".to_owned(),
            [1] => "true".to_owned(),
            _ => bits(),
        };
    }
    if dtype == DType::U64 {
        return (read_i64(dtype, bytes).unwrap_or(0) as u64).to_string();
    }
    if let Some(i) = read_i64(dtype, bytes) {
        return i.to_string();
    }
    match read_f64(dtype, bytes) {
        Some(v) if v.is_nan() => {
            if bytes == canonical_nan(dtype) {
                "nan".to_owned()
            } else {
                bits()
            }
        }
        Some(v) if dtype == DType::F64 => format!("{v:?}"),
        Some(v) => format!("{:?}", v as f32),
        None => bits(),
    }
}

/// Appends the element that `text` writes; `None` when it is none of the type.
fn push_element(out: &mut Vec<u8>, dtype: DType, text: &str) -> Option<()> {
    if let Some(digits) = text.strip_prefix("0x") {
        let size = dtype.size();
        if digits.len() != 2 * size || dtype.is_complex() {
            return None;
        }
        let at = out.len();
        push_hex(out, digits)?;
        out[at..].reverse();
        return Some(());
    }
    match dtype {
        DType::Pred => out.push(match text {
            "false" => 0,
            "true" => 1,
            _ => return None,
        }),
        DType::S8 => out.extend(text.parse::<i8>().ok()?.to_le_bytes()),
        DType::S16 => out.extend(text.parse::<i16>().ok()?.to_le_bytes()),
        DType::S32 => out.extend(text.parse::<i32>().ok()?.to_le_bytes()),
        DType::S64 => out.extend(text.parse::<i64>().ok()?.to_le_bytes()),
        DType::U8 => out.extend(text.parse::<u8>().ok()?.to_le_bytes()),
        DType::U16 => out.extend(text.parse::<u16>().ok()?.to_le_bytes()),
        DType::U32 => out.extend(text.parse::<u32>().ok()?.to_le_bytes()),
        DType::U64 => out.extend(text.parse::<u64>().ok()?.to_le_bytes()),
        DType::C64 | DType::C128 => return None,
        _ => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            if !(digits.starts_with(|c: char| c.is_ascii_digit()) || text == "nan" || digits == "inf") {
                return None;
            }
            match dtype {
                DType::F64 if text == "nan" => push_f64(out, dtype, f64::NAN),
                DType::F64 => out.extend(text.parse::<f64>().ok()?.to_le_bytes()),
                _ if text == "nan" => push_f64(out, dtype, f64::NAN),
                DType::F16 => out.extend(f16::from_f32(text.parse().ok()?).to_le_bytes()),
                DType::BF16 => out.extend(bf16::from_f32(text.parse().ok()?).to_le_bytes()),
                DType::F32 => out.extend(text.parse::<f32>().ok()?.to_le_bytes()),
                _ => out.push(crate::float8::encode(dtype, text.parse().ok()?)),
            }
        }
    }
    Some(())
}

/// Appends bytes written as pairs of hexadecimal digits.
pub(super) fn push_hex(out: &mut Vec<u8>, digits: &str) -> Option<()> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    for pair in digits.as_bytes().chunks_exact(2) {
        out.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Some(())
}

/// Appends an element given its text: one number, or two for complex types.
pub(super) fn push_scalar(out: &mut Vec<u8>, dtype: DType, parts: &[&str]) -> Option<()> {
    match parts {
        [part] if !dtype.is_complex() => push_element(out, dtype, part),
        [re, im] if dtype.is_complex() => {
            push_element(out, dtype.real_part(), re)?;
            push_element(out, dtype.real_part(), im)
        }
        _ => None,
    }
}

fn scalar_text(dtype: DType, bytes: &[u8]) -> String {
    if !dtype.is_complex() {
        return element_text(dtype, bytes);
    }
    let (re, im) = bytes.split_at(dtype.size() / 2);
    format!("({}, {})", element_text(dtype.real_part(), re), element_text(dtype.real_part(), im))
}

/// Writes the elements, without the type.
pub(super) fn write_elements(f: &mut fmt::Formatter<'_>, literal: &Literal) -> fmt::Result {
    let (dtype, bytes) = (literal.ty().dtype, literal.bytes());
    let size = dtype.size();
    let count = bytes.len() / size;
    let splat = count > 0 && bytes.len() <= MAX_SPLAT && bytes.chunks_exact(size).all(|c| c == &bytes[..size]);
    if splat {
        return f.write_str(&scalar_text(dtype, &bytes[..size]));
    }
    if count > MAX_LIST {
        f.write_str("hex ")?;
        for b in bytes {
            write!(f, "{b:02x}")?;
        }
        return Ok(());
    }
    f.write_str("[")?;
    for (i, c) in bytes.chunks_exact(size).enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        f.write_str(&scalar_text(dtype, c))?;
    }
    f.write_str("]")
}
