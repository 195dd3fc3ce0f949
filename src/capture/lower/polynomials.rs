//! Orthogonal polynomials by their three-term recurrences.

use clutch_graph::op::{BinaryOp, Combiner, CompareDir};
use clutch_graph::{DType, ValueId};

use super::arithmetic::truncate;
use super::helpers::{Operand, operand, place};
use super::loops::repeat;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, helpers, one};

macro_rules! overloads {
    ($($name:literal => $rule:expr),* $(,)?) => {
        /// Operators of this family.
        pub const OPS: Family = &[$(
            (concat!("aten.special_", $name, ".default"), |l, c| polynomial(l, c, $rule)),
            (concat!("aten.special_", $name, ".x_scalar"), |l, c| polynomial(l, c, $rule)),
            (concat!("aten.special_", $name, ".n_scalar"), |l, c| polynomial(l, c, $rule)),
        )*];
    };
}

overloads! {
    "chebyshev_polynomial_t" => Rule::chebyshev(1.0, 0.0, false),
    "chebyshev_polynomial_u" => Rule::chebyshev(2.0, 0.0, false),
    "chebyshev_polynomial_v" => Rule::chebyshev(2.0, -1.0, false),
    "chebyshev_polynomial_w" => Rule::chebyshev(2.0, 1.0, false),
    "shifted_chebyshev_polynomial_t" => Rule::chebyshev(1.0, 0.0, true),
    "shifted_chebyshev_polynomial_u" => Rule::chebyshev(2.0, 0.0, true),
    "shifted_chebyshev_polynomial_v" => Rule::chebyshev(2.0, -1.0, true),
    "shifted_chebyshev_polynomial_w" => Rule::chebyshev(2.0, 1.0, true),
    "hermite_polynomial_h" => Rule { kind: Kind::Hermite(2.0), slope: 2.0, offset: 0.0, shifted: false },
    "hermite_polynomial_he" => Rule { kind: Kind::Hermite(1.0), slope: 1.0, offset: 0.0, shifted: false },
    "laguerre_polynomial_l" => Rule { kind: Kind::Laguerre, slope: -1.0, offset: 1.0, shifted: false },
    "legendre_polynomial_p" => Rule { kind: Kind::Legendre, slope: 1.0, offset: 0.0, shifted: false },
}

type Built = Result<ValueId, LowerError>;

/// How the polynomial of degree k follows from the two before it, `q` of degree k - 1 and `p` of degree k - 2.
#[derive(Clone, Copy)]
enum Kind {
    /// 2 x q - p.
    Chebyshev,
    /// f (x q - (k - 1) p).
    Hermite(f64),
    /// ((2 k - 1 - x) q - (k - 1) p) / k.
    Laguerre,
    /// ((2 k - 1) x q - (k - 1) p) / k.
    Legendre,
}

/// A family of polynomials; that of degree 1 is `slope * x + offset`.
#[derive(Clone, Copy)]
struct Rule {
    kind: Kind,
    slope: f64,
    offset: f64,
    /// Of 2 x - 1 in place of x.
    shifted: bool,
}

impl Rule {
    const fn chebyshev(slope: f64, offset: f64, shifted: bool) -> Self {
        Rule { kind: Kind::Chebyshev, slope, offset, shifted }
    }
}

impl Kind {
    /// The polynomial of degree `k` (scalar of x's type).
    fn next(self, l: &mut Lowering<'_>, x: ValueId, k: ValueId, q: ValueId, p: ValueId) -> Built {
        let dims = l.b.dims(x);
        let k = l.b.broadcast_in_dim(k, &dims, &[])?;
        let less = l.b.binary_scalar(BinaryOp::Sub, k, 1.0)?;
        let earlier = if let Kind::Chebyshev = self { p } else { l.b.mul(less, p)? };
        let odd = l.b.add(k, less)?;
        let factor = match self {
            Kind::Chebyshev => l.b.add(x, x)?,
            Kind::Hermite(_) => x,
            Kind::Laguerre => l.b.sub(odd, x)?,
            Kind::Legendre => l.b.mul(odd, x)?,
        };
        let product = l.b.mul(factor, q)?;
        let difference = l.b.sub(product, earlier)?;
        Ok(match self {
            Kind::Chebyshev => difference,
            Kind::Hermite(f) => l.b.binary_scalar(BinaryOp::Mul, difference, f)?,
            Kind::Laguerre | Kind::Legendre => l.b.div(difference, k)?,
        })
    }
}

/// The polynomial of degree n, truncated, at x; negative degrees give 0. The loop runs to the largest degree.
fn polynomial(l: &mut Lowering<'_>, c: &Call<'_>, rule: Rule) -> Result<Outputs, LowerError> {
    let (x, n): (Operand, Operand) = (operand(l, c, 0, "x")?, operand(l, c, 1, "n")?);
    let (out, dims) = (c.out_dtype()?, c.out_dims(l)?);
    let compute = out.compute_type();
    let x = place(l, x, compute, &dims)?;
    let n = place(l, n, compute, &dims)?;
    if dims.contains(&0) {
        return one(helpers::cast(l, x, out)?);
    }
    let n = truncate(l, n)?;
    let x = if rule.shifted {
        let double = l.b.add(x, x)?;
        l.b.binary_scalar(BinaryOp::Sub, double, 1.0)?
    } else {
        x
    };
    let first = l.b.binary_scalar(BinaryOp::Mul, x, rule.slope)?;
    let first = l.b.binary_scalar(BinaryOp::Add, first, rule.offset)?;
    let (constant, none) = (l.b.full_like(x, 1.0)?, l.b.full_like(x, 0.0)?);
    let all: Vec<usize> = (0..dims.len()).collect();
    let top = l.b.reduce(Combiner::Max, n, &all)?;
    let top = l.b.convert(top, DType::S32)?;
    let times = l.b.binary_int(BinaryOp::Sub, top, 1)?;
    let end = repeat(l, times, &[constant, first, first], &[x, n], |l, step, carried, fixed| {
        let (&[p, q, result], &[x, n]) = (carried, fixed) else { return Err(LowerError::unsupported("internal: carried values")) };
        let degree = l.b.binary_int(BinaryOp::Add, step, 2)?;
        let degree = l.b.convert(degree, l.b.dtype(x))?;
        let next = rule.kind.next(l, x, degree, q, p)?;
        let dims = l.b.dims(x);
        let degree = l.b.broadcast_in_dim(degree, &dims, &[])?;
        let reached = l.b.compare(CompareDir::Ge, n, degree)?;
        Ok(vec![q, next, l.b.select(reached, next, result)?])
    })?;
    let is_constant = l.b.compare_scalar(CompareDir::Eq, n, 0.0)?;
    let negative = l.b.compare_scalar(CompareDir::Lt, n, 0.0)?;
    let y = l.b.select(is_constant, constant, end[2])?;
    let y = l.b.select(negative, none, y)?;
    one(helpers::cast(l, y, out)?)
}
