//! Scaled dot-product attention and its gradient, in the forms that PyTorch dispatches to.

use clutch_graph::op::{AttentionAttrs, Real};
use clutch_graph::{DType, Op, ValueId};

use super::helpers::cast;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("aten._scaled_dot_product_flash_attention_for_cpu.default", |l, c| forward(l, c, Form::MASK_BY_NAME)),
    ("aten._scaled_dot_product_flash_attention.default", |l, c| forward(l, c, Form::UNMASKED)),
    ("aten._scaled_dot_product_efficient_attention.default", |l, c| forward(l, c, Form::LOG_SUM_ON_DEMAND)),
    ("aten._scaled_dot_product_cudnn_attention.default", |l, c| forward(l, c, Form::LOG_SUM_ON_DEMAND)),
    ("aten._scaled_dot_product_fused_attention_overrideable.default", |l, c| forward(l, c, Form::MASK_FIRST)),
    ("aten.scaled_dot_product_attention.default", |l, c| forward(l, c, Form::MASK_FIRST)),
    ("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", |l, c| backward(l, c, BackwardForm::CPU)),
    ("aten._scaled_dot_product_flash_attention_backward.default", |l, c| backward(l, c, BackwardForm::FLASH)),
    ("aten._scaled_dot_product_efficient_attention_backward.default", |l, c| backward(l, c, BackwardForm::EFFICIENT)),
    ("aten._scaled_dot_product_cudnn_attention_backward.default", |l, c| backward(l, c, BackwardForm::CUDNN)),
    ("aten._scaled_dot_product_fused_attention_overrideable_backward.default", |l, c| backward(l, c, BackwardForm::OVERRIDEABLE)),
];

/// A position that no call reaches: the argument is passed by name only.
const BY_NAME: usize = usize::MAX;

/// Where a forward operator has its optional arguments.
#[derive(Clone, Copy)]
struct Form {
    mask: (usize, &'static str),
    dropout: usize,
    causal: usize,
}

impl Form {
    const MASK_BY_NAME: Form = Form { mask: (BY_NAME, "attn_mask"), dropout: 3, causal: 4 };
    const UNMASKED: Form = Form { mask: (BY_NAME, "no mask"), dropout: 3, causal: 4 };
    const LOG_SUM_ON_DEMAND: Form = Form { mask: (3, "attn_bias"), dropout: 5, causal: 6 };
    const MASK_FIRST: Form = Form { mask: (3, "attn_bias"), dropout: 4, causal: 5 };
}

/// Where a backward operator has its arguments; gradient, query, key and value stand first.
#[derive(Clone, Copy)]
struct BackwardForm {
    out: usize,
    mask: (usize, &'static str),
    dropout: usize,
    causal: usize,
    /// Position of the list of wanted gradients, the mask's being the fourth.
    wanted: Option<usize>,
}

impl BackwardForm {
    const CPU: Self = BackwardForm { out: 4, mask: (BY_NAME, "attn_mask"), dropout: 6, causal: 7, wanted: None };
    const FLASH: Self = BackwardForm { out: 4, mask: (BY_NAME, "no mask"), dropout: 10, causal: 11, wanted: None };
    const EFFICIENT: Self = BackwardForm { out: 5, mask: (4, "attn_bias"), dropout: 9, causal: 11, wanted: Some(10) };
    const CUDNN: Self = BackwardForm { out: 4, mask: (8, "attn_bias"), dropout: 13, causal: 14, wanted: None };
    const OVERRIDEABLE: Self = BackwardForm { out: 6, mask: (4, "attn_bias"), dropout: 12, causal: 13, wanted: Some(5) };
}

fn attributes(l: &Lowering<'_>, c: &Call<'_>, query: ValueId, dropout: usize, causal: usize) -> Result<AttentionAttrs, LowerError> {
    if c.float_or(l, dropout, "dropout_p", 0.0)? != 0.0 {
        return Err(LowerError::unsupported("attention with dropout inside the kernel; attention with dropout_p = 0 is supported"));
    }
    let width = l.b.ty(query).dims.last().copied().unwrap_or(1);
    let scale = c.float_or(l, BY_NAME, "scale", 1.0 / (width as f64).sqrt())?;
    Ok(AttentionAttrs { causal: c.bool_or(causal, "is_causal", false)?, scale: Real(scale), precision: l.precision() })
}

/// The mask in a type that the composite takes: boolean as it is, a float mask in the compute type.
fn mask_of(
    l: &mut Lowering<'_>,
    c: &Call<'_>,
    (index, name): (usize, &'static str),
    query: ValueId,
) -> Result<Option<ValueId>, LowerError> {
    let given = match c.opt_tensor(l, index, name)? {
        None if name == "attn_bias" => c.opt_tensor(l, BY_NAME, "attn_mask")?,
        found => found,
    };
    let Some(mask) = given else { return Ok(None) };
    if l.b.dtype(mask) == DType::Pred {
        return Ok(Some(mask));
    }
    cast(l, mask, l.b.dtype(query).compute_type()).map(Some)
}

fn forward(l: &mut Lowering<'_>, c: &Call<'_>, form: Form) -> Result<Outputs, LowerError> {
    let (q, k, v) = (c.tensor(l, 0, "query")?, c.tensor(l, 1, "key")?, c.tensor(l, 2, "value")?);
    let attrs = attributes(l, c, q, form.dropout, form.causal)?;
    let mask = mask_of(l, c, form.mask, q)?;
    let operands = [Some(q), Some(k), Some(v), mask];
    let results = l.b.op_multi(Op::Attention(attrs), operands.into_iter().flatten())?;
    if c.node.outputs.len() <= 1 {
        return one(results[0]);
    }
    let mut outputs: Outputs = smallvec::smallvec![None; c.node.outputs.len()];
    outputs[0] = Some(results[0]);
    outputs[1] = log_sum(l, c, results[1])?;
    Ok(outputs)
}

/// The log-sum-exp in the sizes that the operator gives it; nothing when it is not computed or is laid out in another way.
fn log_sum(l: &mut Lowering<'_>, c: &Call<'_>, value: ValueId) -> Result<Option<ValueId>, LowerError> {
    let Ok(meta) = c.out_meta(1) else { return Ok(None) };
    let ty = l.tensor_type(meta)?;
    if ty.numel() != l.b.ty(value).numel() {
        return Ok(None);
    }
    let value = cast(l, value, ty.dtype)?;
    Ok(Some(l.b.reshape(value, &ty.dims)?))
}

fn backward(l: &mut Lowering<'_>, c: &Call<'_>, form: BackwardForm) -> Result<Outputs, LowerError> {
    let grad = c.tensor(l, 0, "grad_out")?;
    let (q, k, v) = (c.tensor(l, 1, "query")?, c.tensor(l, 2, "key")?, c.tensor(l, 3, "value")?);
    let (out, lse) = (c.tensor(l, form.out, "out")?, c.tensor(l, form.out + 1, "logsumexp")?);
    if form.wanted.is_some_and(|index| c.bools(index, "grad_input_mask").is_ok_and(|w| w.get(3) == Some(&true))) {
        return Err(LowerError::unsupported("the gradient of an attention mask"));
    }
    let attrs = attributes(l, c, q, form.dropout, form.causal)?;
    let mask = mask_of(l, c, form.mask, q)?;
    let ty = l.b.ty(q).clone();
    let grad = cast(l, grad, ty.dtype)?;
    let lse = cast(l, lse, ty.dtype.compute_type())?;
    let rows: clutch_graph::Dims = ty.dims[..ty.rank() - 1].into();
    let lse = l.b.reshape(lse, &rows)?;
    let operands = [Some(grad), Some(q), Some(k), Some(v), Some(out), Some(lse), mask];
    let results = l.b.op_multi(Op::AttentionBackward(attrs), operands.into_iter().flatten())?;
    let mut outputs: Outputs = results.into_iter().map(Some).collect();
    outputs.resize(c.node.outputs.len().max(3), None);
    Ok(outputs)
}
