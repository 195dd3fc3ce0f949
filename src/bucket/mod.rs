//! Dynamic sizes in a few padded buckets.
//!
//! A program is lowered at the bucket's sizes and, to see which sizes and constants depend on symbols, at two smaller ones. The
//! [`validity`] pass masks padded lanes where they could leak. At a call the program is lowered once more at the true sizes (a third of a
//! millisecond for BERT-base, kept per size): the true extents and every constant that depends on sizes are read from that graph, so
//! they are what an exact compile would use. Where any of this fails, the exact size is compiled.

pub mod bind;
pub mod classes;
pub mod extent;
pub mod ladder;
mod rules;
pub mod validity;

use clutch_graph::Graph;

use self::classes::{Classes, Mismatch};
use self::extent::{GRAPHS, Sizes, is_fixed};
use self::ladder::SMALLEST;
use self::validity::{Bound, Placement, Refusal, mask};
use crate::capture::lower::{LowerError, LowerOptions, Lowered, Sink, Source, lower};
use crate::capture::program::Program;

/// A program lowered for all sizes up to a bucket's.
#[derive(Debug)]
pub struct Bucketed {
    /// The masked program; its last arguments are [`Source::Bound`].
    pub lowered: Lowered,
    /// What true sizes are read from.
    pub template: Template,
    /// Masks inserted.
    pub masks: usize,
}

/// The graphs that a graph at the true sizes is compared with.
#[derive(Debug)]
pub struct Template {
    graphs: [Graph; GRAPHS],
    classes: Classes,
    bounds: Vec<Bound>,
    sinks: Vec<Sink>,
    inputs: Vec<Placement>,
    outputs: Vec<Placement>,
}

/// Why a program has no bucket.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// All sizes are too small to be worth it.
    #[error("no size is above {SMALLEST}")]
    Small,
    /// Calls cannot be lowered; the exact build lists them.
    #[error("operators without a lowering")]
    Unsupported,
    /// Padding could leak.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The program cannot be lowered at other sizes.
    #[error(transparent)]
    Lower(#[from] LowerError),
}

/// How far below the bucket the two witnesses are; the first pair at which the program can be lowered is taken, so that sizes which must be
/// even or multiples of 8 have witnesses too.
const WITNESSES: [(i64, i64); 4] = [(1, 3), (1, 2), (2, 4), (8, 16)];

/// Lowers `program` for the bucket of the given sizes of its symbols.
///
/// # Errors
/// When padding could leak, or the program is not the same one at other sizes.
pub fn bucket(program: &Program, sizes: &[i64], options: LowerOptions) -> Result<Bucketed, BucketError> {
    let options = LowerOptions { keep_no_ops: true, ..options };
    let top = lower(program, sizes, options)?;
    if !top.unsupported.is_empty() {
        return Err(BucketError::Unsupported);
    }
    let mut failure = BucketError::Small;
    for tied in [false, true] {
        for (near, far) in WITNESSES {
            let (Some(a), Some(b)) = (witness(sizes, near, tied), witness(sizes, far, tied)) else { continue };
            if a == sizes {
                break;
            }
            match between(program, top.clone(), sizes, [&a, &b], options) {
                Ok(bucketed) => return Ok(bucketed),
                Err(error) => failure = error,
            }
        }
        if !has_twins(sizes) {
            break;
        }
    }
    Err(failure)
}

/// Sizes below the bucket's by multiples of `step`; none where one would be too small. Symbols differ from one another in every witness, so
/// that equal sizes mean equal expressions; unless they are `tied`: then those with equal buckets stay equal, as an operator may demand of
/// symbols that PyTorch did not unify (lengths of keys and values in a cache). A call in which they differ fails [`Template::check`].
fn witness(sizes: &[i64], step: i64, tied: bool) -> Option<Vec<i64>> {
    let mut below = 0;
    let mut made: Vec<i64> = Vec::with_capacity(sizes.len());
    for (i, &size) in sizes.iter().enumerate() {
        let twin = sizes[..i].iter().position(|&s| s == size).filter(|_| tied);
        let value = match twin {
            _ if size <= SMALLEST => size,
            Some(twin) => made[twin],
            None => {
                below += step;
                Some(size - below).filter(|w| *w > 2)?
            }
        };
        made.push(value);
    }
    Some(made)
}

/// Whether two symbols have the same bucket.
fn has_twins(sizes: &[i64]) -> bool {
    sizes.iter().enumerate().any(|(i, s)| *s > SMALLEST && sizes[..i].contains(s))
}

fn between(
    program: &Program,
    top: Lowered,
    top_sizes: &[i64],
    witnesses: [&[i64]; 2],
    options: LowerOptions,
) -> Result<Bucketed, BucketError> {
    let [a, b] = [lower(program, witnesses[0], options)?, lower(program, witnesses[1], options)?];
    if !a.unsupported.is_empty() || !b.unsupported.is_empty() {
        return Err(BucketError::Unsupported);
    }
    let graphs = [&top.graph, &a.graph, &b.graph];
    let mut classes = Classes::of(&graphs).map_err(Refusal::from)?;
    let masked = match mask(graphs, &mut classes, &[]) {
        Ok(masked) => masked,
        // Where lengths were merged with a batch before the program, as in backward graphs, their padding is inside. The length may be a
        // symbol, or made from one, as behind a strided convolution.
        Err(refused) => {
            let symbols: Vec<Sizes> = (0..top_sizes.len()).map(|i| [top_sizes[i], witnesses[0][i], witnesses[1][i]]).collect();
            mask(graphs, &mut classes, &symbols).or_else(|_| mask(graphs, &mut classes, &varying_dims(&graphs))).map_err(|_| refused)?
        }
    };
    let mut sources = top.sources.clone();
    sources.extend((0..masked.bounds.len()).map(Source::Bound));
    let template = Template {
        graphs: [top.graph, a.graph, b.graph],
        classes,
        bounds: masked.bounds,
        sinks: top.sinks.clone(),
        inputs: masked.inputs,
        outputs: masked.outputs,
    };
    let Lowered { sinks, mutations, assertions, .. } = top;
    let lowered = Lowered { graph: masked.graph, sources, sinks, mutations, assertions, unsupported: Vec::new() };
    Ok(Bucketed { lowered, template, masks: masked.masks })
}

/// The sizes of all axes that vary, largest first.
fn varying_dims(graphs: &[&Graph; GRAPHS]) -> Vec<Sizes> {
    let mut found: Vec<Sizes> = Vec::new();
    for id in graphs[0].ids() {
        let nodes = graphs.map(|g| g.node(id));
        for output in 0..nodes[0].outputs.len() {
            let dims = nodes.map(|n| &n.outputs[output].dims);
            found.extend((0..dims[0].len()).map(|axis| dims.map(|d| d[axis])).filter(|s| !is_fixed(s)));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.dedup();
    found
}

impl Bucketed {
    /// A digest of the masked program and of what binds it to true sizes: executables compiled from it serve no other.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.lowered.graph.to_string().as_bytes());
        hasher.update(format!("{:?}{:?}", self.lowered.sources, self.template.bounds).as_bytes());
        *hasher.finalize().as_bytes()
    }
}

impl Template {
    /// Checks that `graph` is this program at other sizes, none larger than the bucket's.
    ///
    /// # Errors
    /// At the first node where it is not.
    fn check(&self, graph: &Graph) -> Result<(), Mismatch> {
        let graphs = [&self.graphs[0], &self.graphs[1], &self.graphs[2]];
        self.classes.check(&graphs, graph)
    }
}
