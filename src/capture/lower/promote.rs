//! PyTorch's type promotion, as far as lowering needs it beside the result types that PyTorch already gives.

use clutch_graph::DType;

/// PyTorch's `torch.promote_types` of two tensor types of one category of dimensionality.
pub fn promote(a: DType, b: DType) -> DType {
    use DType::*;
    if a == b {
        return a;
    }
    let rank = |d: DType| match d {
        Pred => 0,
        U8 | S8 | S16 | S32 | S64 | U16 | U32 | U64 => 1,
        F16 | BF16 | F32 | F64 | F8E4M3FN | F8E5M2 => 2,
        C64 | C128 => 3,
    };
    match (rank(a), rank(b)) {
        (x, y) if x < y => complex_widened(a, b),
        (x, y) if x > y => complex_widened(b, a),
        (1, _) => promote_ints(a, b),
        (2, _) => promote_floats(a, b),
        _ => C128,
    }
}

/// `wide` unless a 64-bit float meets a 64-bit complex.
fn complex_widened(narrow: DType, wide: DType) -> DType {
    if narrow == DType::F64 && wide == DType::C64 { DType::C128 } else { wide }
}

fn promote_ints(a: DType, b: DType) -> DType {
    use DType::*;
    let wider = if a.size() >= b.size() { a } else { b };
    let narrower = if a.size() >= b.size() { b } else { a };
    if a.is_signed_int() == b.is_signed_int() || (wider.is_signed_int() && wider.size() > narrower.size()) {
        return wider;
    }
    match wider.size() {
        1 => S16,
        2 => S32,
        _ => S64,
    }
}

fn promote_floats(a: DType, b: DType) -> DType {
    if a.size() == b.size() || a.size() == 1 && b.size() == 1 {
        return DType::F32;
    }
    if a.size() > b.size() { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::promote;
    use clutch_graph::DType::*;

    #[test]
    fn follows_pytorch() {
        assert_eq!(promote(Pred, U8), U8);
        assert_eq!(promote(U8, S8), S16);
        assert_eq!(promote(U8, S64), S64);
        assert_eq!(promote(S64, F16), F16);
        assert_eq!(promote(F16, BF16), F32);
        assert_eq!(promote(BF16, F32), F32);
        assert_eq!(promote(F64, C64), C128);
        assert_eq!(promote(F32, C64), C64);
    }
}
