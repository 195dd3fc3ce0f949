//! Gradient of scaled dot-product attention from the saved log-sum-exp.

use clutch_graph::op::{AttentionAttrs, BinaryOp, Combiner, UnaryOp};
use clutch_graph::{GraphError, ValueId};

use crate::expand::attention::{batched, finite_floor, fold_rows, scores};
use crate::expand::util::{spread, to_compute};
use clutch_graph::builder::Builder;

/// Gradients of query, key and value, with P = exp(S - lse), dV = P' dO, dS = P * (dO V' - rowsum(dO * O)) * scale, dQ = dS K, dK = dS' Q.
/// The factors of each product are in the operands' type, as in the forward product.
pub(crate) fn attention_backward(b: &mut Builder, operands: &[ValueId], attrs: &AttentionAttrs) -> Result<[ValueId; 3], GraphError> {
    let [grad, query, key, value, output, lse] = [0, 1, 2, 3, 4, 5].map(|i| operands[i]);
    let (dtype, n) = (b.dtype(query), b.rank(query));
    let compute = dtype.compute_type();
    let query_dims = b.dims(query);
    let s = scores(b, [query, key], operands.get(6).copied(), attrs)?;
    let rows = b.dims(s.value);
    let last = [n - 1];
    let mut lse = b.reshape(lse, &rows[..n - 1])?;
    if s.rows_may_be_empty {
        lse = finite_floor(b, lse)?;
    }
    let wide_lse = spread(b, lse, s.value, &last)?;
    let shifted = b.sub(s.value, wide_lse)?;
    let weights = b.unary(UnaryOp::Exp, shifted)?;

    let grad = fold_rows(b, grad, key)?;
    let output = fold_rows(b, output, key)?;
    let rounded = b.convert(weights, dtype)?;
    let grad_value = batched(b, [rounded, grad], [2, 2], compute, attrs)?;
    let grad_weights = batched(b, [grad, value], [1, 1], compute, attrs)?;
    let (wide_grad, wide_output) = (to_compute(b, grad)?, to_compute(b, output)?);
    let product = b.mul(wide_grad, wide_output)?;
    let delta = b.reduce(Combiner::Add, product, &last)?;
    let delta = spread(b, delta, s.value, &last)?;
    let centred = b.sub(grad_weights, delta)?;
    let grad_scores = b.mul(weights, centred)?;
    let grad_scores = b.binary_scalar(BinaryOp::Mul, grad_scores, attrs.scale.0)?;
    let grad_scores = b.convert(grad_scores, dtype)?;
    let grad_query = batched(b, [grad_scores, key], [1, 2], compute, attrs)?;
    let grad_key = batched(b, [grad_scores, s.query], [2, 2], compute, attrs)?;
    let grad_query = b.reshape(grad_query, &query_dims)?;
    Ok([b.convert(grad_query, dtype)?, b.convert(grad_key, dtype)?, b.convert(grad_value, dtype)?])
}
