//! Composites become primitives: one file a family.

mod activation;
mod arg_reduce;
mod attention;
mod attention_backward;
mod cumulative;
mod norm;
mod random;
mod softmax;
mod sort;
mod topk;
mod util;

pub(crate) use util::identity_literal;

use clutch_graph::builder::Builder;
use clutch_graph::{Graph, GraphError, Op};
use smallvec::smallvec;

use crate::options::PassOptions;
use crate::rewrite::{Site, Values, keep, rewrite};

/// Whether the graph has an op that is expanded.
pub(crate) fn applies(graph: &Graph, _: &PassOptions) -> bool {
    graph.nodes().iter().any(|n| {
        matches!(
            n.op,
            Op::Softmax { .. }
                | Op::Gelu { .. }
                | Op::Silu
                | Op::LayerNorm { .. }
                | Op::RmsNorm { .. }
                | Op::Attention(_)
                | Op::AttentionBackward(_)
                | Op::RandomBits { .. }
                | Op::ArgReduce { .. }
                | Op::Cumulative { .. }
                | Op::TopK { .. }
                | Op::Sort { .. }
        )
    })
}

/// Replaces every composite and every op without a direct emission by primitives.
pub(crate) fn expand(graph: &Graph, options: &PassOptions) -> Result<Graph, GraphError> {
    let mut bits = random::Bodies::default();
    rewrite(graph, |b, site| expand_node(b, site, options, &mut bits))
}

fn expand_node(b: &mut Builder, site: &Site<'_>, options: &PassOptions, bits: &mut random::Bodies) -> Result<Values, GraphError> {
    let x = site.operands;
    let one = |v| Ok(smallvec![v]);
    match &site.node.op {
        Op::Softmax { axis, log } => one(softmax::softmax(b, x[0], *axis, *log)?),
        Op::Gelu { tanh } => one(activation::gelu(b, x[0], *tanh)?),
        Op::Silu => one(activation::silu(b, x[0])?),
        Op::LayerNorm { axes, eps } => Ok(norm::layer_norm(b, [x[0], x[1], x[2]], *axes, eps.0)?.into_iter().collect()),
        Op::RmsNorm { eps } => one(norm::rms_norm(b, x[0], x[1], eps.0)?),
        Op::Attention(attrs) => Ok(attention::attention(b, x, attrs)?.into_iter().collect()),
        Op::AttentionBackward(attrs) => Ok(attention_backward::attention_backward(b, x, attrs)?.into_iter().collect()),
        Op::RandomBits { dims, stream } => one(bits.random_bits(b, x[0], dims, *stream, options)?),
        Op::ArgReduce { axis, max } => one(arg_reduce::arg_reduce(b, x[0], *axis, *max, options.target)?),
        Op::Cumulative { combiner, axis } => one(cumulative::cumulative(b, x[0], *combiner, *axis)?),
        Op::TopK { k, largest } if !options.native_top_k => Ok(topk::top_k(b, x[0], *k, *largest, options.target)?.into_iter().collect()),
        Op::Sort { axis, descending, stable } => {
            let order = sort::Order { axis: *axis, descending: *descending, stable: *stable };
            sort::sort(b, x, order, options.target)
        }
        _ => keep(b, site),
    }
}
