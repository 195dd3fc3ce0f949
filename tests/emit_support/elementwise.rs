//! Elementwise operations over every element type they take.

use clutch_graph::infer::infer;
use clutch_graph::op::{BinaryOp, CompareDir, Op, UnaryOp};
use clutch_graph::{DType, Literal, TensorType};

use super::{Case, int_lit, lit};

pub const UNARY: [UnaryOp; 26] = [
    UnaryOp::Abs,
    UnaryOp::Neg,
    UnaryOp::Sign,
    UnaryOp::Exp,
    UnaryOp::Expm1,
    UnaryOp::Log,
    UnaryOp::Log1p,
    UnaryOp::Sqrt,
    UnaryOp::Rsqrt,
    UnaryOp::Cbrt,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Tan,
    UnaryOp::Tanh,
    UnaryOp::Erf,
    UnaryOp::Logistic,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::RoundEven,
    UnaryOp::RoundAway,
    UnaryOp::Not,
    UnaryOp::PopCount,
    UnaryOp::CountLeadingZeros,
    UnaryOp::IsFinite,
    UnaryOp::Real,
    UnaryOp::Imag,
];

pub const BINARY: [BinaryOp; 16] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::Pow,
    BinaryOp::Max,
    BinaryOp::Min,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::ShiftLeft,
    BinaryOp::ShiftRightArithmetic,
    BinaryOp::ShiftRightLogical,
    BinaryOp::Atan2,
    BinaryOp::Complex,
];

const COMPARE: [CompareDir; 6] = [CompareDir::Eq, CompareDir::Ne, CompareDir::Lt, CompareDir::Le, CompareDir::Gt, CompareDir::Ge];

const REALS: [f64; 19] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.75,
    -7.25,
    0.125,
    12.0,
    -0.75,
    100.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    -30.0,
];

/// Complex parts away from branch cuts and infinities.
const PARTS: [f64; 12] = [1.0, 0.5, -1.0, 0.25, 0.5, -2.0, -0.25, -0.5, 2.0, 1.5, 0.125, 3.0];

/// The ends of the range, zero and a few between.
pub fn integers(dtype: DType) -> Vec<i64> {
    let bits = (dtype.size() * 8) as u32;
    let ends = if dtype.is_signed_int() { [i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)] } else { [-1, -2] };
    [&ends[..], &[0, 1, -1, 2, 3, -3, 7, 8, 31, 32, 63, 64, 100]].concat()
}

/// Interesting values of an element type.
pub fn values(dtype: DType) -> Literal {
    if dtype == DType::Pred {
        lit(dtype, &[2], &[0.0, 1.0])
    } else if dtype.is_complex() {
        let parts = lit(dtype.real_part(), &[PARTS.len() as i64], &PARTS);
        Literal::new(TensorType::new(dtype, [PARTS.len() as i64 / 2]), parts.bytes()).expect("two parts an element")
    } else if dtype.is_float() {
        lit(dtype, &[REALS.len() as i64], &REALS)
    } else {
        let v = integers(dtype);
        int_lit(dtype, &[v.len() as i64], &v)
    }
}

/// Every value paired with every other.
pub fn pairs(dtype: DType) -> [Literal; 2] {
    let v = values(dtype);
    let size = dtype.size();
    let elements: Vec<&[u8]> = v.bytes().chunks_exact(size).collect();
    let n = elements.len();
    let ty = TensorType::new(dtype, [(n * n) as i64]);
    let x: Vec<u8> = (0..n * n).flat_map(|i| elements[i / n].to_vec()).collect();
    let y: Vec<u8> = (0..n * n).flat_map(|i| elements[i % n].to_vec()).collect();
    [x, y].map(|bytes| Literal::new(ty.clone(), bytes).expect("n squared elements"))
}

/// Maxima and minima of nonzero numbers, infinities and NaN.
pub fn extrema() -> Vec<Case> {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = [1.0, nan, nan, -2.0, inf, nan, -inf, 3.0];
    let y = [nan, 1.0, nan, 4.0, nan, -inf, -inf, -3.0];
    let types = DType::ALL.into_iter().filter(|d| d.is_float());
    let case = |dtype| {
        Case::build(format!("extrema {dtype}"), vec![lit(dtype, &[8], &x), lit(dtype, &[8], &y)], |b, args| {
            vec![b.max(args[0], args[1]).expect("equal types"), b.min(args[0], args[1]).expect("equal types")]
        })
    };
    types.map(case).collect()
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        let x = values(dtype);
        cases.push(Case::build(format!("unary {dtype}"), vec![x.clone()], |b, args| {
            let known = UNARY.iter().filter(|u| infer(&Op::Unary(**u), &[x.ty()]).is_ok());
            known.map(|u| b.unary(*u, args[0]).expect("checked above")).collect()
        }));
        let xy = pairs(dtype);
        let known = BINARY.iter().filter(|op| infer(&Op::Binary(**op), &[xy[0].ty(), xy[1].ty()]).is_ok());
        cases.push(Case::build(format!("binary {dtype}"), xy.to_vec(), |b, args| {
            let mut outputs: Vec<_> = known.map(|op| b.binary(*op, args[0], args[1]).expect("checked above")).collect();
            let dirs = if dtype.is_complex() { &COMPARE[..2] } else { &COMPARE[..] };
            outputs.extend(dirs.iter().map(|dir| b.compare(*dir, args[0], args[1]).expect("equal types")));
            let choice = outputs[outputs.len() - 1];
            outputs.push(b.select(choice, args[0], args[1]).expect("equal sizes"));
            outputs
        }));
    }
    cases
}
