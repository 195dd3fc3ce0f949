//! Conversions of the two 8-bit float types.

use crate::dtype::DType;

struct Format {
    mantissa_bits: u32,
    bias: i32,
    /// Largest finite magnitude.
    max: f32,
    /// E5M2 has infinities; E4M3FN overflows to NaN.
    has_infinity: bool,
}

fn format(dtype: DType) -> Format {
    match dtype {
        DType::F8E4M3FN => Format { mantissa_bits: 3, bias: 7, max: 448.0, has_infinity: false },
        _ => Format { mantissa_bits: 2, bias: 15, max: 57344.0, has_infinity: true },
    }
}

/// Nearest 8-bit float, ties to even. Overflow gives infinity for E5M2 and NaN for E4M3FN.
pub fn encode(dtype: DType, value: f32) -> u8 {
    let f = format(dtype);
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let nan = sign | 0x7f;
    let infinity = if f.has_infinity { sign | 0x7c } else { nan };
    if value.is_nan() {
        return nan;
    }
    let magnitude = f64::from(value.abs());
    if magnitude == 0.0 {
        return sign;
    }
    if magnitude.is_infinite() {
        return infinity;
    }
    let exponent = (magnitude.log2().floor() as i32).max(1 - f.bias);
    let quantum = 2f64.powi(exponent - f.mantissa_bits as i32);
    let rounded = (magnitude / quantum).round_ties_even() * quantum;
    if rounded > f64::from(f.max) {
        return infinity;
    }
    let min_normal = 2f64.powi(1 - f.bias);
    if rounded < min_normal {
        return sign | (rounded / 2f64.powi(1 - f.bias - f.mantissa_bits as i32)) as u8;
    }
    let exponent = rounded.log2().floor() as i32;
    let mantissa = (rounded / 2f64.powi(exponent) - 1.0) * f64::from(1u32 << f.mantissa_bits);
    sign | (((exponent + f.bias) as u8) << f.mantissa_bits) | mantissa as u8
}

/// The value of an 8-bit float.
pub fn decode(dtype: DType, bits: u8) -> f32 {
    let f = format(dtype);
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    let magnitude = bits & 0x7f;
    let mantissa = f32::from(magnitude & ((1 << f.mantissa_bits) - 1));
    let exponent = i32::from(magnitude >> f.mantissa_bits);
    if f.has_infinity && exponent == 31 {
        return if mantissa == 0.0 { sign * f32::INFINITY } else { f32::NAN };
    }
    if !f.has_infinity && magnitude == 0x7f {
        return f32::NAN;
    }
    let scale = (1u32 << f.mantissa_bits) as f32;
    if exponent == 0 {
        sign * mantissa / scale * 2f32.powi(1 - f.bias)
    } else {
        sign * (1.0 + mantissa / scale) * 2f32.powi(exponent - f.bias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_value_round_trips() {
        for dtype in [DType::F8E4M3FN, DType::F8E5M2] {
            for bits in 0..=255u8 {
                let value = decode(dtype, bits);
                if !value.is_nan() {
                    assert_eq!(encode(dtype, value), bits, "{dtype} {bits:#x} {value}");
                } else {
                    assert!(decode(dtype, encode(dtype, value)).is_nan());
                }
            }
        }
    }

    #[test]
    fn ties_go_to_even_and_overflow_follows_the_format() {
        assert_eq!(decode(DType::F8E5M2, encode(DType::F8E5M2, 1.125)), 1.0);
        assert_eq!(decode(DType::F8E5M2, encode(DType::F8E5M2, 1.375)), 1.5);
        assert!(decode(DType::F8E4M3FN, encode(DType::F8E4M3FN, 500.0)).is_nan());
        assert_eq!(decode(DType::F8E5M2, encode(DType::F8E5M2, 1e9)), f32::INFINITY);
    }
}
