//! Attention: keys and values that are repeated for groups of queries, the place of the division.

use clutch_graph::op::{BinaryOp, Combiner, DotDims, UnaryOp};
use clutch_graph::{DType, Dims, Op};
use egg::Id;

use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "grouped-attention",
        condition: "keys and values are repeated along their heads by one number of times",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(grouped_attention),
    },
    Rule {
        name: "grouped-product",
        condition: "the right operand of a batched product repeats its last batch axis, the left has one row axis behind it",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(grouped_product),
    },
    Rule {
        name: "divide-after-product",
        condition: "a product contracts only the axis of a softmax of f32 or f64, on a device whose table divides after the product",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(divide_after_product),
    },
];

/// What `id`, of `[batch..., heads, rows, size]`, repeats along its heads, each head `times` times in a row.
fn repeated_heads(s: &Search<'_>, id: Id) -> Option<(Id, i64)> {
    let dims = s.dims(id);
    let n = dims.len();
    if n < 3 {
        return None;
    }
    let heads = n - 3;
    s.find(id, |op, x| {
        let Op::Reshape(_) = op else { return None };
        s.find(x[0], |op, y| {
            let Op::Broadcast { dims: wide, axes } = op else { return None };
            let times = *wide.get(heads + 1)?;
            let rest = wide.len() == n + 1 && wide[..heads] == dims[..heads] && wide[heads + 2..] == dims[heads + 1..];
            let kept = axes.iter().copied().filter(|&a| a != heads + 1).eq((0..=n).filter(|&a| a != heads + 1));
            let source = s.dims(y[0]);
            // The repeated axis is inserted, or of size 1 before.
            let repeats = axes.iter().zip(source).all(|(&a, &d)| if a == heads + 1 { d == 1 } else { d == wide[a] });
            (rest && kept && repeats && wide[heads] * times == dims[heads] && times > 1).then_some((y[0], times))
        })
    })
}

/// The same without its axis of size 1 behind the heads, if it has one.
fn squeezed(s: &mut Search<'_>, source: Id, like: &[i64], times: i64) -> Found {
    let mut dims: Dims = like.into();
    let heads = dims.len() - 3;
    dims[heads] /= times;
    s.reshape(source, &dims).map(Some)
}

fn grouped_attention(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Attention(_) = op else { return Ok(None) };
    let (Some((key, times)), Some((value, same))) = (repeated_heads(s, x[1]), repeated_heads(s, x[2])) else { return Ok(None) };
    if times != same || s.dims(x[0])[s.ty(x[0]).rank() - 3] != s.dims(x[1])[s.ty(x[1]).rank() - 3] {
        return Ok(None);
    }
    let (key_dims, value_dims) = (Dims::from(s.dims(x[1])), Dims::from(s.dims(x[2])));
    let Some(key) = squeezed(s, key, &key_dims, times)? else { return Ok(None) };
    let Some(value) = squeezed(s, value, &value_dims, times)? else { return Ok(None) };
    let operands: Vec<Id> = [x[0], key, value].into_iter().chain(x.get(3).copied()).collect();
    s.add_all(op.clone(), &operands).map(Some)
}

fn grouped_product(s: &mut Search<'_>, op: &Op, x: &[Id], root: Id) -> Found {
    let Op::DotGeneral { dims, out, precision } = op else { return Ok(None) };
    let n = s.ty(x[0]).rank();
    // [batch..., heads, rows, depth] by [batch..., heads, ...] over one contracting axis, which is the last of the left.
    let leading = |axes: &[usize]| axes.iter().copied().eq(0..n.wrapping_sub(2));
    let plain = n >= 3
        && s.ty(x[1]).rank() == n
        && leading(&dims.lhs_batch)
        && leading(&dims.rhs_batch)
        && dims.lhs_contract[..] == [n - 1]
        && dims.rhs_contract.len() == 1;
    if !plain {
        return Ok(None);
    }
    let Some((source, times)) = repeated_heads(s, x[1]) else { return Ok(None) };
    let right = Dims::from(s.dims(x[1]));
    let Some(source) = squeezed(s, source, &right, times)? else { return Ok(None) };
    let mut rows = Dims::from(s.dims(x[0]));
    rows[n - 3] /= times;
    rows[n - 2] *= times;
    let left = s.reshape(x[0], &rows)?;
    let product = s.dot([left, source], dims.clone(), *out, *precision)?;
    let whole = Dims::from(s.dims(root));
    s.reshape(product, &whole).map(Some)
}

fn divide_after_product(s: &mut Search<'_>, op: &Op, x: &[Id], root: Id) -> Found {
    let Op::DotGeneral { dims, out, precision } = op else { return Ok(None) };
    let n = s.ty(x[0]).rank();
    let plain = s.options.device.table().divide_after_product && matches!(out, DType::F32 | DType::F64) && *out == s.dtype(x[0]);
    let one = n >= 2 && dims.lhs_contract[..] == [n - 1] && dims.lhs_batch.iter().copied().eq(0..dims.lhs_batch.len());
    if !plain || !one {
        return Ok(None);
    }
    let scores = s.find(x[0], |op, y| matches!(op, Op::Softmax { axis, log: false } if *axis == n - 1).then(|| y[0]));
    let Some(scores) = scores else { return Ok(None) };
    let wide = Dims::from(s.dims(scores));
    let leading: Vec<usize> = (0..n - 1).collect();
    let axes = smallvec::smallvec![n - 1];
    let max = s.add(Op::Reduce { combiner: Combiner::Max, axes }, &[scores])?;
    let max = s.broadcast(max, &wide, &leading)?;
    let shifted = s.binary(BinaryOp::Sub, scores, max)?;
    let weights = s.unary(UnaryOp::Exp, shifted)?;
    let sum = s.add(Op::Reduce { combiner: Combiner::Add, axes: smallvec::smallvec![n - 1] }, &[weights])?;
    let mixed: Id = s.dot([weights, x[1]], DotDims::clone(dims), *out, *precision)?;
    let whole = Dims::from(s.dims(root));
    // The left operand's axes but the last lead the result.
    let divisor = s.broadcast(sum, &whole, &leading)?;
    s.binary(BinaryOp::Div, mixed, divisor).map(Some)
}
