//! Counted loops.

use std::sync::Arc;

use clutch_graph::op::{BinaryOp, CompareDir};
use clutch_graph::{Builder, DType, Graph, InputKind, Op, ValueId};

use super::{LowerError, Lowering};

/// Builds a graph of its own with `f`, which is given one parameter like each of `like`; values of the graph around it are out of reach.
fn nested<F>(l: &mut Lowering<'_>, like: &[ValueId], f: F) -> Result<Graph, LowerError>
where
    F: FnOnce(&mut Lowering<'_>, &[ValueId]) -> Result<Vec<ValueId>, LowerError>,
{
    let types: Vec<_> = like.iter().map(|&v| l.b.ty(v).clone()).collect();
    let outer = std::mem::replace(&mut l.b, Builder::new());
    let parameters: Vec<ValueId> = types.into_iter().map(|t| l.b.parameter(t, InputKind::Dynamic)).collect();
    let built = f(l, &parameters);
    let inner = std::mem::replace(&mut l.b, outer);
    Ok(inner.finish(built?))
}

/// Replaces the carried values by what `body` gives while `more` gives true (`Pred` scalar). Both are given the carried and the fixed
/// values; types stay. The carried values in the end.
pub(super) fn iterate<C, B>(
    l: &mut Lowering<'_>,
    carried: &[ValueId],
    fixed: &[ValueId],
    more: C,
    body: B,
) -> Result<Vec<ValueId>, LowerError>
where
    C: FnOnce(&mut Lowering<'_>, &[ValueId], &[ValueId]) -> Result<ValueId, LowerError>,
    B: FnOnce(&mut Lowering<'_>, &[ValueId], &[ValueId]) -> Result<Vec<ValueId>, LowerError>,
{
    let initial: Vec<ValueId> = carried.iter().chain(fixed).copied().collect();
    let n = carried.len();
    let cond = nested(l, &initial, |l, p| Ok(vec![more(l, &p[..n], &p[n..])?]))?;
    let body = nested(l, &initial, |l, p| {
        let mut results = body(l, &p[..n], &p[n..])?;
        results.extend(&p[n..]);
        Ok(results)
    })?;
    let results = l.b.op_multi(Op::While { cond: Arc::new(cond), body: Arc::new(body) }, initial)?;
    Ok(results[..n].to_vec())
}

/// Repeats `body` for the steps 0, 1, ... below `times` (`S32` scalar). `body` is given the step's number, the carried values and the
/// fixed values, and gives the carried values anew, of the same types. The carried values after the last step.
pub(super) fn repeat<F>(
    l: &mut Lowering<'_>,
    times: ValueId,
    carried: &[ValueId],
    fixed: &[ValueId],
    body: F,
) -> Result<Vec<ValueId>, LowerError>
where
    F: FnOnce(&mut Lowering<'_>, ValueId, &[ValueId], &[ValueId]) -> Result<Vec<ValueId>, LowerError>,
{
    let zero = l.b.scalar_int(DType::S32, 0)?;
    let all: Vec<ValueId> = [zero].iter().chain(carried).copied().collect();
    let constants: Vec<ValueId> = [times].iter().chain(fixed).copied().collect();
    let results = iterate(
        l,
        &all,
        &constants,
        |l, c, f| Ok(l.b.compare(CompareDir::Lt, c[0], f[0])?),
        |l, c, f| {
            let next = l.b.binary_int(BinaryOp::Add, c[0], 1)?;
            let mut results = vec![next];
            results.extend(body(l, c[0], &c[1..], &f[1..])?);
            Ok(results)
        },
    )?;
    Ok(results[1..].to_vec())
}
