//! Shape rules of the attention composites.

use smallvec::smallvec;

use crate::dtype::DType;
use crate::error::GraphError;
use crate::infer::{Outputs, Rule};
use crate::types::TensorType;

/// Checks query, key, value and the optional mask; returns the type of the log-sum-exp.
fn check(r: &Rule<'_>, q: &TensorType, k: &TensorType, v: &TensorType, mask: Option<&&TensorType>) -> Result<TensorType, GraphError> {
    let n = q.rank();
    r.ensure(n >= 2 && k.rank() == n && v.rank() == n, "query, key and value differ in rank")?;
    r.ensure(q.dtype.is_float() && q.dtype == k.dtype && q.dtype == v.dtype, "query, key and value differ in element type")?;
    r.ensure(q.dims[n - 1] == k.dims[n - 1], "query and key differ in head size")?;
    r.ensure(k.dims[..n - 1] == v.dims[..n - 1], "key and value differ in batch, heads or length")?;
    let heads = n.saturating_sub(3);
    for i in 0..n - 2 {
        let grouped = n >= 3 && i == heads && k.dims[i] > 0 && q.dims[i] % k.dims[i] == 0;
        r.ensure(q.dims[i] == k.dims[i] || grouped, "query and key differ in batch or heads")?;
    }
    if let Some(m) = mask {
        r.ensure(m.dtype == DType::Pred || m.dtype.is_float(), "the mask is neither boolean nor float")?;
        r.ensure(m.rank() <= n, "the mask has more axes than the scores")?;
        let scores = q.dims[..n - 1].iter().chain([&k.dims[n - 2]]);
        let skip = n - m.rank();
        r.ensure(scores.skip(skip).zip(&m.dims).all(|(s, m)| m == s || *m == 1), "the mask does not broadcast to the scores")?;
    }
    Ok(TensorType::new(q.dtype.compute_type(), q.dims[..n - 1].iter().copied()))
}

pub(crate) fn attention(r: &Rule<'_>) -> Result<Outputs, GraphError> {
    r.ensure((3..=4).contains(&r.operands.len()), "takes query, key, value and at most a mask")?;
    let (q, k, v) = (r.operands[0], r.operands[1], r.operands[2]);
    let lse = check(r, q, k, v, r.operands.get(3))?;
    let mut out = q.clone();
    if let (Some(d), Some(e)) = (out.dims.last_mut(), v.dims.last()) {
        *d = *e;
    }
    Ok(smallvec![out, lse])
}

pub(crate) fn attention_backward(r: &Rule<'_>) -> Result<Outputs, GraphError> {
    r.ensure((6..=7).contains(&r.operands.len()), "takes gradient, query, key, value, output, log-sum-exp and at most a mask")?;
    let [grad, q, k, v, out, lse] = r.operands[..6] else { return r.fail("takes six operands") };
    let expected = check(r, q, k, v, r.operands.get(6))?;
    r.ensure(grad == out, "gradient and output differ in type")?;
    r.ensure(*lse == expected, "the log-sum-exp is not of the scores' rows")?;
    Ok(smallvec![q.clone(), k.clone(), v.clone()])
}
