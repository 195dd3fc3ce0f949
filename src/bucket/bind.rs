//! A bucket's program bound to true sizes.

use clutch_graph::{Dims, Op};

use super::validity::Bound;
use super::{BucketError, Template};
use super::classes::Mismatch;
use super::validity::Refusal;
use crate::capture::lower::{LowerOptions, Sink, Source, lower};
use crate::capture::program::Program;

/// What a call at particular true sizes needs beside the compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// True sizes of each placeholder that is a tensor, in memory order.
    pub inputs: Vec<Option<Dims>>,
    /// True sizes of each output, in memory order.
    pub outputs: Vec<Dims>,
    /// Bytes of each bound argument.
    pub bounds: Vec<Vec<u8>>,
    /// Each result of the FX graph, with integers at the true sizes.
    pub sinks: Vec<Sink>,
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
        for (source, ty) in lowered.sources.iter().zip(graph.parameter_types()) {
            if let Source::Input { index, .. } = source {
                inputs[*index] = Some(ty.dims.clone());
            }
        }
        let same = |(a, b): (&Sink, &Sink)| a == b || matches!((a, b), (Sink::Int(_), Sink::Int(_)));
        if lowered.sinks.len() != template.sinks.len() || !lowered.sinks.iter().zip(&template.sinks).all(same) {
            let what = "are laid out differently at other sizes".to_owned();
            return Err(Refusal::from(Mismatch { node: graph.nodes().len(), op: "the results", what }).into());
        }
        Ok(Binding {
            inputs,
            outputs: graph.output_types().map(|t| t.dims.clone()).collect(),
            bounds: bounds.collect(),
            sinks: lowered.sinks,
        })
    }
}
