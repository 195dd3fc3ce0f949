//! Attributes of each op in the text form: one table for writing, one for reading.

use smallvec::SmallVec;

use crate::op::{
    AttentionAttrs, BinaryOp, Combiner, CompareDir, ConvDims, Convolution, DotDims, FftKind, GatherDims, Op, PadDim, Precision, Real,
    ScatterDims, UnaryOp, WindowDim,
};
use crate::text::attr::{Attr, Attrs, Fault};
use crate::types::TensorType;

/// Attributes of an op, apart from what its operands and result types show.
pub(super) fn attrs_of(op: &Op) -> Attrs {
    let a = Attrs::default();
    match op {
        Op::Parameter(..) | Op::Constant(_) | Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Convert(_) | Op::Bitcast(_) => a,
        Op::Reshape(_) | Op::DynamicSlice(_) | Op::DynamicUpdateSlice | Op::Cholesky | Op::OptimizationBarrier | Op::Silu => a,
        Op::Iota { axis, .. } => a.atom("axis", axis),
        Op::Compare(dir) => a.atom("dir", dir.name()),
        Op::Broadcast { axes, .. } => a.list("axes", axes),
        Op::Transpose(perm) => a.list("perm", perm),
        Op::Slice { start, limit, stride } => a.list("start", start).list("limit", limit).list("stride", stride),
        Op::Pad(pads) => a
            .list("low", pads.iter().map(|p| p.low))
            .list("high", pads.iter().map(|p| p.high))
            .list("interior", pads.iter().map(|p| p.interior)),
        Op::Concat(axis) => a.atom("axis", axis),
        Op::Reverse(axes) => a.list("axes", axes),
        Op::DotGeneral { dims, precision, .. } => a
            .list("lhs_batch", &dims.lhs_batch)
            .list("rhs_batch", &dims.rhs_batch)
            .list("lhs_contract", &dims.lhs_contract)
            .list("rhs_contract", &dims.rhs_contract)
            .atom("precision", precision.name()),
        Op::Convolution(c) => convolution_attrs(a, c),
        Op::Reduce { combiner, axes } => a.atom("combiner", combiner.name()).list("axes", axes),
        Op::ReduceWindow { combiner, window } => a.atom("combiner", combiner.name()).with("window", window_attr(window)),
        Op::SelectAndScatter { window } => a.with("window", window_attr(window)),
        Op::Gather(g) => a
            .list("offset_dims", &g.offset_dims)
            .list("collapsed_slice_dims", &g.collapsed_slice_dims)
            .list("start_index_map", &g.start_index_map)
            .atom("index_vector_dim", g.index_vector_dim)
            .list("slice_sizes", &g.slice_sizes)
            .atom("in_bounds", g.in_bounds),
        Op::Scatter { combiner, dims } => a
            .atom("combiner", combiner.name())
            .list("update_window_dims", &dims.update_window_dims)
            .list("inserted_window_dims", &dims.inserted_window_dims)
            .list("scatter_dims_to_operand_dims", &dims.scatter_dims_to_operand_dims)
            .atom("index_vector_dim", dims.index_vector_dim)
            .atom("unique", dims.unique),
        Op::Sort { axis, descending, stable } => a.atom("axis", axis).atom("descending", descending).atom("stable", stable),
        Op::TopK { k, largest } => a.atom("k", k).atom("largest", largest),
        Op::ArgReduce { axis, max } => a.atom("axis", axis).atom("max", max),
        Op::Cumulative { combiner, axis } => a.atom("combiner", combiner.name()).atom("axis", axis),
        Op::RandomBits { stream, .. } => a.atom("stream", stream),
        Op::While { cond, body } => a.with("cond", Attr::Graph(cond.clone())).with("body", Attr::Graph(body.clone())),
        Op::Cond { on_true, on_false } => a.with("on_true", Attr::Graph(on_true.clone())).with("on_false", Attr::Graph(on_false.clone())),
        Op::Call(g) => a.with("callee", Attr::Graph(g.clone())),
        Op::Fft { kind, lengths } => a.atom("kind", kind.name()).list("lengths", lengths),
        Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
            a.atom("left", left).atom("lower", lower).atom("unit_diagonal", unit_diagonal).atom("transpose", transpose)
        }
        Op::Softmax { axis, log } => a.atom("axis", axis).atom("log", log),
        Op::Gelu { tanh } => a.atom("tanh", tanh),
        Op::LayerNorm { axes, eps } => a.atom("axes", axes).with("eps", Attr::real(eps.0)),
        Op::RmsNorm { eps } => a.with("eps", Attr::real(eps.0)),
        Op::Attention(x) | Op::AttentionBackward(x) => {
            a.atom("causal", x.causal).with("scale", Attr::real(x.scale.0)).atom("precision", x.precision.name())
        }
    }
}

/// The op of a name with attributes and result types. `parameter` and `constant` are read elsewhere.
pub(super) fn op_of(name: &str, a: &mut Attrs, results: &[TensorType]) -> Fault<Op> {
    let result = || results.first().cloned().ok_or_else(|| "the result type is missing".to_owned());
    if let Some(u) = UnaryOp::from_name(name) {
        return Ok(Op::Unary(u));
    }
    if let Some(b) = BinaryOp::from_name(name) {
        return Ok(Op::Binary(b));
    }
    Ok(match name {
        "iota" => Op::Iota { ty: result()?, axis: a.number("axis")? },
        "compare" => Op::Compare(a.word("dir", CompareDir::from_name)?),
        "select" => Op::Select,
        "convert" => Op::Convert(result()?.dtype),
        "bitcast" => Op::Bitcast(result()?.dtype),
        "broadcast" => Op::Broadcast { dims: result()?.dims, axes: a.numbers("axes")? },
        "reshape" => Op::Reshape(result()?.dims),
        "transpose" => Op::Transpose(a.numbers("perm")?),
        "slice" => {
            let (start, limit): (SmallVec<_>, _) = (a.numbers("start")?, a.numbers("limit")?);
            let stride = a.numbers_or("stride", smallvec::smallvec![1; start.len()])?;
            Op::Slice { start, limit, stride }
        }
        "pad" => {
            let (low, high): (Vec<i64>, Vec<i64>) = (a.numbers("low")?, a.numbers("high")?);
            let interior: Vec<i64> = a.numbers_or("interior", vec![0; low.len()])?;
            if low.len() != high.len() || low.len() != interior.len() {
                return Err("low, high and interior differ in length".to_owned());
            }
            Op::Pad((0..low.len()).map(|i| PadDim { low: low[i], high: high[i], interior: interior[i] }).collect())
        }
        "concat" => Op::Concat(a.number("axis")?),
        "reverse" => Op::Reverse(a.numbers("axes")?),
        "dot_general" => Op::DotGeneral {
            dims: DotDims {
                lhs_batch: a.numbers_or("lhs_batch", SmallVec::new())?,
                rhs_batch: a.numbers_or("rhs_batch", SmallVec::new())?,
                lhs_contract: a.numbers("lhs_contract")?,
                rhs_contract: a.numbers("rhs_contract")?,
            },
            out: result()?.dtype,
            precision: precision(a)?,
        },
        "convolution" => Op::Convolution(Box::new(convolution_of(a)?)),
        "reduce" => Op::Reduce { combiner: a.word("combiner", Combiner::from_name)?, axes: a.numbers("axes")? },
        "reduce_window" => Op::ReduceWindow { combiner: a.word("combiner", Combiner::from_name)?, window: window_of(a)? },
        "select_and_scatter" => Op::SelectAndScatter { window: window_of(a)? },
        "gather" => Op::Gather(Box::new(GatherDims {
            offset_dims: a.numbers("offset_dims")?,
            collapsed_slice_dims: a.numbers("collapsed_slice_dims")?,
            start_index_map: a.numbers("start_index_map")?,
            index_vector_dim: a.number("index_vector_dim")?,
            slice_sizes: a.numbers("slice_sizes")?,
            in_bounds: a.number_or("in_bounds", false)?,
        })),
        "scatter" => Op::Scatter {
            combiner: a.word("combiner", Combiner::from_name)?,
            dims: Box::new(ScatterDims {
                update_window_dims: a.numbers("update_window_dims")?,
                inserted_window_dims: a.numbers("inserted_window_dims")?,
                scatter_dims_to_operand_dims: a.numbers("scatter_dims_to_operand_dims")?,
                index_vector_dim: a.number("index_vector_dim")?,
                unique: a.number_or("unique", false)?,
            }),
        },
        "dynamic_slice" => Op::DynamicSlice(result()?.dims),
        "dynamic_update_slice" => Op::DynamicUpdateSlice,
        "sort" => {
            Op::Sort { axis: a.number("axis")?, descending: a.number_or("descending", false)?, stable: a.number_or("stable", false)? }
        }
        "top_k" => Op::TopK { k: a.number("k")?, largest: a.number("largest")? },
        "arg_reduce" => Op::ArgReduce { axis: a.number("axis")?, max: a.number("max")? },
        "cumulative" => Op::Cumulative { combiner: a.word("combiner", Combiner::from_name)?, axis: a.number("axis")? },
        "random_bits" => Op::RandomBits { dims: result()?.dims, stream: a.number("stream")? },
        "while" => Op::While { cond: a.graph("cond")?, body: a.graph("body")? },
        "cond" => Op::Cond { on_true: a.graph("on_true")?, on_false: a.graph("on_false")? },
        "call" => Op::Call(a.graph("callee")?),
        "fft" => Op::Fft { kind: a.word("kind", FftKind::from_name)?, lengths: a.numbers("lengths")? },
        "cholesky" => Op::Cholesky,
        "triangular_solve" => Op::TriangularSolve {
            left: a.number("left")?,
            lower: a.number("lower")?,
            unit_diagonal: a.number_or("unit_diagonal", false)?,
            transpose: a.number_or("transpose", false)?,
        },
        "optimization_barrier" => Op::OptimizationBarrier,
        "softmax" => Op::Softmax { axis: a.number("axis")?, log: a.number_or("log", false)? },
        "gelu" => Op::Gelu { tanh: a.number("tanh")? },
        "silu" => Op::Silu,
        "layer_norm" => Op::LayerNorm { axes: a.number("axes")?, eps: Real(a.real("eps")?) },
        "rms_norm" => Op::RmsNorm { eps: Real(a.real("eps")?) },
        "attention" => Op::Attention(attention_of(a)?),
        "attention_backward" => Op::AttentionBackward(attention_of(a)?),
        _ => return Err(format!("unknown op `{name}`")),
    })
}

fn precision(a: &mut Attrs) -> Fault<Precision> {
    if a.0.iter().any(|(n, _)| n == "precision") { a.word("precision", Precision::from_name) } else { Ok(Precision::default()) }
}

fn attention_of(a: &mut Attrs) -> Fault<AttentionAttrs> {
    Ok(AttentionAttrs { causal: a.number_or("causal", false)?, scale: Real(a.real("scale")?), precision: precision(a)? })
}

fn window_attr(window: &[WindowDim]) -> Attr {
    let axis = |w: &WindowDim| {
        let t = WindowDim::TRIVIAL;
        let mut r = Attrs::default().atom("size", w.size);
        let parts = [
            ("stride", w.stride, t.stride),
            ("pad_low", w.pad_low, t.pad_low),
            ("pad_high", w.pad_high, t.pad_high),
            ("window_dilation", w.window_dilation, t.window_dilation),
            ("base_dilation", w.base_dilation, t.base_dilation),
        ];
        for (name, value, trivial) in parts {
            if value != trivial {
                r = r.atom(name, value);
            }
        }
        Attr::Record(if w.reversal { r.atom("reversal", true) } else { r })
    };
    Attr::List(window.iter().map(axis).collect())
}

fn window_of<const N: usize>(a: &mut Attrs) -> Fault<SmallVec<[WindowDim; N]>>
where
    [WindowDim; N]: smallvec::Array<Item = WindowDim>,
{
    let axis = |mut r: Attrs| {
        let t = WindowDim::TRIVIAL;
        let w = WindowDim {
            size: r.number("size")?,
            stride: r.number_or("stride", t.stride)?,
            pad_low: r.number_or("pad_low", t.pad_low)?,
            pad_high: r.number_or("pad_high", t.pad_high)?,
            window_dilation: r.number_or("window_dilation", t.window_dilation)?,
            base_dilation: r.number_or("base_dilation", t.base_dilation)?,
            reversal: r.number_or("reversal", false)?,
        };
        r.finish()?;
        Ok(w)
    };
    a.records("window")?.into_iter().map(axis).collect()
}

fn convolution_attrs(a: Attrs, c: &Convolution) -> Attrs {
    let d = &c.dims;
    a.with("window", window_attr(&c.window))
        .atom("input_batch", d.input_batch)
        .atom("input_feature", d.input_feature)
        .list("input_spatial", &d.input_spatial)
        .atom("kernel_input_feature", d.kernel_input_feature)
        .atom("kernel_output_feature", d.kernel_output_feature)
        .list("kernel_spatial", &d.kernel_spatial)
        .atom("output_batch", d.output_batch)
        .atom("output_feature", d.output_feature)
        .list("output_spatial", &d.output_spatial)
        .atom("feature_groups", c.feature_groups)
        .atom("batch_groups", c.batch_groups)
        .atom("precision", c.precision.name())
}

fn convolution_of(a: &mut Attrs) -> Fault<Convolution> {
    Ok(Convolution {
        window: window_of(a)?,
        dims: ConvDims {
            input_batch: a.number("input_batch")?,
            input_feature: a.number("input_feature")?,
            input_spatial: a.numbers("input_spatial")?,
            kernel_input_feature: a.number("kernel_input_feature")?,
            kernel_output_feature: a.number("kernel_output_feature")?,
            kernel_spatial: a.numbers("kernel_spatial")?,
            output_batch: a.number("output_batch")?,
            output_feature: a.number("output_feature")?,
            output_spatial: a.numbers("output_spatial")?,
        },
        feature_groups: a.number_or("feature_groups", 1)?,
        batch_groups: a.number_or("batch_groups", 1)?,
        precision: precision(a)?,
    })
}
