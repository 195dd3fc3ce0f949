//! Scaled dot-product attention.

use clutch_graph::builder::{Builder, Built};
use clutch_graph::op::{AttentionAttrs, Axes, BinaryOp, Combiner, CompareDir, DotDims, UnaryOp};
use clutch_graph::{DType, Dims, GraphError, ValueId};

use crate::expand::util::spread;

/// Masked, scaled scores `[batch..., heads, rows, keys]` in the compute type. Query heads that share a key head stand in the rows, group
/// by group, so that keys and values are never repeated.
pub(crate) struct Scores {
    /// The scores; minus infinity where masked.
    pub value: ValueId,
    /// The query with folded rows.
    pub query: ValueId,
    /// Whether a row may see no key.
    pub rows_may_be_empty: bool,
}

/// `x` of `[batch..., heads, length, size]` with the heads of each group folded into the rows of `key`'s head.
pub(crate) fn fold_rows(b: &mut Builder, x: ValueId, key: ValueId) -> Built {
    let (mut dims, key_dims, n) = (b.dims(x), b.dims(key), b.rank(x));
    if n < 3 || dims[n - 3] == key_dims[n - 3] {
        return Ok(x);
    }
    let group = dims[n - 3] / key_dims[n - 3];
    dims[n - 3] = key_dims[n - 3];
    dims[n - 2] *= group;
    b.reshape(x, &dims)
}

/// Product over equal leading axes, contracting axis `x_axis` with `y_axis` from the end (1 is the last).
pub(crate) fn batched(b: &mut Builder, [x, y]: [ValueId; 2], [x_axis, y_axis]: [usize; 2], out: DType, attrs: &AttentionAttrs) -> Built {
    let n = b.rank(x);
    let batch: Axes = (0..n - 2).collect();
    let dims = DotDims {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contract: smallvec::smallvec![n - x_axis],
        rhs_contract: smallvec::smallvec![n - y_axis],
    };
    b.dot_general(x, y, dims, out, attrs.precision)
}

pub(crate) fn scores(
    b: &mut Builder,
    [query, key]: [ValueId; 2],
    mask: Option<ValueId>,
    attrs: &AttentionAttrs,
) -> Result<Scores, GraphError> {
    let compute = b.dtype(query).compute_type();
    let (full_query, n) = (b.dims(query), b.rank(query));
    let keys = b.dims(key)[n - 2];
    let length = full_query[n - 2];
    let folded = fold_rows(b, query, key)?;
    let raw = batched(b, [folded, key], [1, 1], compute, attrs)?;
    let mut value = b.binary_scalar(BinaryOp::Mul, raw, attrs.scale.0)?;
    let dims = b.dims(value);
    let hidden = b.full(compute, &dims, f64::NEG_INFINITY)?;
    if attrs.causal {
        let row = b.iota(DType::S32, &[length, keys], 0)?;
        let column = b.iota(DType::S32, &[length, keys], 1)?;
        let seen = b.compare(CompareDir::Ge, row, column)?;
        let group = if length == 0 { 1 } else { dims[n - 2] / length };
        let seen = b.broadcast_in_dim(seen, &[group, length, keys], &[1, 2])?;
        let seen = b.reshape(seen, &[group * length, keys])?;
        let seen = b.expand(seen, &dims)?;
        value = b.select(seen, value, hidden)?;
    }
    if let Some(mask) = mask {
        let mut full: Dims = full_query;
        full[n - 1] = keys;
        let mask = if b.dtype(mask) == DType::Pred { mask } else { b.convert(mask, compute)? };
        let mask = b.expand(mask, &full)?;
        let mask = b.reshape(mask, &dims)?;
        value = if b.dtype(mask) == DType::Pred { b.select(mask, value, hidden)? } else { b.add(value, mask)? };
    }
    Ok(Scores { value, query: folded, rows_may_be_empty: mask.is_some() || keys == 0 })
}

/// `stat` with 0 in place of minus infinity, so that an empty row gives exp(-inf - 0) = 0 and no NaN.
pub(crate) fn finite_floor(b: &mut Builder, stat: ValueId) -> Built {
    let empty = b.compare_scalar(CompareDir::Eq, stat, f64::NEG_INFINITY)?;
    let zero = b.full_like(stat, 0.0)?;
    b.select(empty, zero, stat)
}

/// Output and log-sum-exp. The rows are normalised after the product with the values; probabilities enter it in the values' type.
pub(crate) fn attention(b: &mut Builder, operands: &[ValueId], attrs: &AttentionAttrs) -> Result<[ValueId; 2], GraphError> {
    let (query, key, value) = (operands[0], operands[1], operands[2]);
    let (dtype, n) = (b.dtype(query), b.rank(query));
    let compute = dtype.compute_type();
    let query_dims = b.dims(query);
    let s = scores(b, [query, key], operands.get(3).copied(), attrs)?;
    let last = [n - 1];
    let mut max = b.reduce(Combiner::Max, s.value, &last)?;
    if s.rows_may_be_empty {
        max = finite_floor(b, max)?;
    }
    let wide_max = spread(b, max, s.value, &last)?;
    let shifted = b.sub(s.value, wide_max)?;
    let weights = b.unary(UnaryOp::Exp, shifted)?;
    let sum = b.reduce(Combiner::Add, weights, &last)?;
    let rounded = b.convert(weights, dtype)?;
    let mixed = batched(b, [rounded, value], [1, 2], compute, attrs)?;
    let mut divisor = sum;
    if s.rows_may_be_empty {
        let empty = b.compare_scalar(CompareDir::Eq, sum, 0.0)?;
        let one = b.full_like(sum, 1.0)?;
        divisor = b.select(empty, one, sum)?;
    }
    let divisor = spread(b, divisor, mixed, &last)?;
    let output = b.div(mixed, divisor)?;
    let output = b.convert(output, dtype)?;
    let mut output_dims = query_dims.clone();
    output_dims[n - 1] = b.dims(value)[n - 1];
    let output = b.reshape(output, &output_dims)?;
    let log_sum = b.unary(UnaryOp::Log, sum)?;
    let lse = b.add(max, log_sum)?;
    Ok([output, b.reshape(lse, &query_dims[..n - 1])?])
}
