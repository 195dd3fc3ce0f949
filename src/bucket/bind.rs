//! A bucket's program bound to true sizes.

use clutch_graph::{Dims, Graph, Op};
use smallvec::SmallVec;

use super::classes::Mismatch;
use super::validity::Refusal;
use super::validity::{Bound, Part, Placement};
use super::{BucketError, Template};
use crate::capture::lower::{LowerOptions, Sink, Source, lower};
use crate::capture::program::Program;

/// What a call at particular true sizes needs beside the compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Each placeholder that is a tensor.
    pub inputs: Vec<Option<Placed>>,
    /// Each output.
    pub outputs: Vec<Placed>,
    /// Bytes of each bound argument.
    pub bounds: Vec<Vec<u8>>,
    /// Each result of the FX graph, with integers at the true sizes.
    pub sinks: Vec<Sink>,
}

/// Where a tensor's true data lies in the bucket's memory. All sizes are in memory order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// True sizes.
    pub dims: Dims,
    /// How many of the parts below each axis has.
    pub split: SmallVec<[u8; 6]>,
    /// True sizes of the parts of all axes.
    pub parts: Dims,
    /// Sizes of the same parts in the bucket, of which the true data is the first corner.
    pub padded: Dims,
}

impl Placed {
    fn of(dims: &Dims, placement: &Placement, template: &Template, graph: &Graph) -> Self {
        let value = |part: &Part| part.class.map_or(part.padded, |class| template.classes.value(class, graph));
        Placed {
            dims: dims.clone(),
            split: placement.iter().map(|axis| axis.len() as u8).collect(),
            parts: placement.iter().flatten().map(value).collect(),
            padded: placement.iter().flatten().map(|p| p.padded).collect(),
        }
    }

    /// Whether the tensor fills the bucket.
    pub fn is_full(&self) -> bool {
        self.parts == self.padded
    }

    /// Strides of the parts in a tensor whose axes have these strides.
    pub fn strides(&self, axes: &[i64]) -> Dims {
        let mut strides = Dims::new();
        let mut parts = self.parts.iter();
        for (&stride, &count) in axes.iter().zip(&self.split) {
            let sizes: SmallVec<[i64; 2]> = parts.by_ref().take(usize::from(count)).copied().collect();
            for i in 0..sizes.len() {
                strides.push(stride * sizes[i + 1..].iter().product::<i64>());
            }
        }
        strides
    }
}

impl Binding {
    /// Binds the program to the given sizes of its symbols.
    ///
    /// # Errors
    /// When the program at these sizes is not the template's.
    pub fn of(template: &Template, program: &Program, sizes: &[i64], options: LowerOptions) -> Result<Self, BucketError> {
        let lowered = lower(program, sizes, LowerOptions { keep_no_ops: true, ..options })?;
        if !lowered.unsupported.is_empty() {
            return Err(BucketError::Unsupported);
        }
        let graph = &lowered.graph;
        template.check(graph).map_err(Refusal::from)?;
        let bounds = template.bounds.iter().map(|bound| match bound {
            Bound::Size(class) => (template.classes.value(*class, graph) as i32).to_le_bytes().to_vec(),
            Bound::Constant(node) => match &graph.node(*node).op {
                Op::Constant(literal) => literal.bytes().to_vec(),
                _ => Vec::new(),
            },
        });
        let mut inputs = vec![None; program.inputs.len()];
        for ((source, ty), placement) in lowered.sources.iter().zip(graph.parameter_types()).zip(&template.inputs) {
            if let Source::Input { index, .. } = source {
                inputs[*index] = Some(Placed::of(&ty.dims, placement, template, graph));
            }
        }
        let outputs = graph.output_types().zip(&template.outputs).map(|(t, p)| Placed::of(&t.dims, p, template, graph));
        let same =
            |(a, b): (&Sink, &Sink)| a == b || matches!((a, b), (Sink::Int(_), Sink::Int(_)) | (Sink::View { .. }, Sink::View { .. }));
        if lowered.sinks.len() != template.sinks.len() || !lowered.sinks.iter().zip(&template.sinks).all(same) {
            let what = "are laid out differently at other sizes".to_owned();
            return Err(Refusal::from(Mismatch { node: graph.nodes().len(), op: "the results", what }).into());
        }
        Ok(Binding { inputs, outputs: outputs.collect(), bounds: bounds.collect(), sinks: lowered.sinks })
    }
}
