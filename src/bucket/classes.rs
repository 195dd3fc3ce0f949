//! Sizes that depend on symbols: found by comparing graphs that one program lowers to at several sizes, and read again from the graph
//! at the true size.

use clutch_graph::op::PadDim;
use clutch_graph::{Dims, Graph, NodeId, Op, TensorType};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::extent::{GRAPHS, Sizes, is_fixed};

/// Number of a class: sizes that are equal in all graphs.
pub type Class = u32;

/// Where the value of a class is read in another graph of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Dim { node: u32, output: u32, axis: u32 },
    Attribute { node: u32, index: u32 },
    Scaled { class: Class, factor: i64 },
}

/// The classes of one program at one bucket.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    by_sizes: FxHashMap<Sizes, Class>,
    sources: Vec<Source>,
}

/// Why graphs at different sizes are not the same program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} (node {node}) {what}")]
pub struct Mismatch {
    /// Node number in the lowered graph.
    pub node: usize,
    /// Its op.
    pub op: &'static str,
    /// What differs.
    pub what: String,
}

impl Classes {
    /// The classes of graphs that one program was lowered to.
    ///
    /// # Errors
    /// When the graphs differ in more than sizes and constants.
    pub fn of(graphs: &[&Graph; GRAPHS]) -> Result<Self, Mismatch> {
        let mut classes = Classes::default();
        for g in &graphs[1..] {
            same_structure(graphs[0], g)?;
        }
        for id in graphs[0].ids() {
            let nodes = graphs.map(|g| g.node(id));
            for output in 0..nodes[0].outputs.len() {
                for axis in 0..nodes[0].outputs[output].rank() {
                    let sizes: Sizes = std::array::from_fn(|i| nodes[i].outputs[output].dims[axis]);
                    classes.add(sizes, Source::Dim { node: id.0, output: output as u32, axis: axis as u32 });
                }
            }
            let attributes = nodes.map(|n| attributes(&n.op));
            let [top, a, b] = &attributes;
            for (index, ((&top, &a), &b)) in top.iter().zip(a).zip(b).enumerate() {
                let sizes: Sizes = [top, a, b];
                classes.add(sizes, Source::Attribute { node: id.0, index: index as u32 });
            }
        }
        Ok(classes)
    }

    fn add(&mut self, sizes: Sizes, source: Source) {
        if !is_fixed(&sizes) && !self.by_sizes.contains_key(&sizes) {
            self.by_sizes.insert(sizes, self.sources.len() as Class);
            self.sources.push(source);
        }
    }

    /// The class of varying sizes; sizes that are a multiple of a known class get one.
    pub fn find(&mut self, sizes: &Sizes) -> Option<Class> {
        if let Some(&class) = self.by_sizes.get(sizes) {
            return Some(class);
        }
        let greatest = sizes.iter().copied().reduce(gcd)?;
        let factors = (2..=greatest).filter(|f| greatest % f == 0);
        for factor in factors {
            if let Some(&class) = self.by_sizes.get(&sizes.map(|s| s / factor)) {
                self.add(*sizes, Source::Scaled { class, factor });
                return self.by_sizes.get(sizes).copied();
            }
        }
        None
    }

    /// The value of a class in another graph of the program.
    pub fn value(&self, class: Class, graph: &Graph) -> i64 {
        match self.sources[class as usize] {
            Source::Dim { node, output, axis } => graph.node(NodeId(node)).outputs[output as usize].dims[axis as usize],
            Source::Attribute { node, index } => attributes(&graph.node(NodeId(node)).op)[index as usize],
            Source::Scaled { class, factor } => self.value(class, graph) * factor,
        }
    }

    /// Checks that `graph` is `bucket` at another size: equal structure, and sizes that are equal in the witnesses are equal here.
    ///
    /// # Errors
    /// At the first node where it is not.
    pub fn check(&self, witnesses: &[&Graph; GRAPHS], graph: &Graph) -> Result<(), Mismatch> {
        same_structure(witnesses[0], graph)?;
        let agrees = |sizes: &Sizes, found: i64| match self.by_sizes.get(sizes) {
            Some(&class) => self.value(class, graph) == found,
            None => is_fixed(sizes) && sizes[0] == found,
        };
        for id in graph.ids() {
            let node = graph.node(id);
            let nodes = witnesses.map(|g| g.node(id));
            let fail = |what: &str| Mismatch { node: id.index(), op: node.op.name(), what: what.to_owned() };
            for (output, ty) in node.outputs.iter().enumerate() {
                for (axis, &found) in ty.dims.iter().enumerate() {
                    let sizes: Sizes = std::array::from_fn(|i| nodes[i].outputs[output].dims[axis]);
                    if !agrees(&sizes, found) {
                        return Err(fail("has sizes that do not follow from the symbols as elsewhere"));
                    }
                }
            }
            let known = nodes.map(|n| attributes(&n.op));
            for (index, &found) in attributes(&node.op).iter().enumerate() {
                if !agrees(&std::array::from_fn(|i| known[i][index]), found) {
                    return Err(fail("has attributes that do not follow from the symbols as elsewhere"));
                }
            }
        }
        Ok(())
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

fn same_structure(a: &Graph, b: &Graph) -> Result<(), Mismatch> {
    let fail =
        |node: usize, what: &str| Mismatch { node, op: a.nodes().get(node).map_or("the end", |n| n.op.name()), what: what.to_owned() };
    for (i, (x, y)) in a.nodes().iter().zip(b.nodes()).enumerate() {
        let ranks = |n: &clutch_graph::Node| n.outputs.iter().map(TensorType::rank).collect::<SmallVec<[usize; 2]>>();
        if x.operands != y.operands || ranks(x) != ranks(y) || erased(&x.op) != erased(&y.op) {
            return Err(fail(i, "is another one at other sizes"));
        }
    }
    if a.nodes().len() != b.nodes().len() || a.outputs != b.outputs {
        return Err(fail(a.nodes().len().min(b.nodes().len()), "stands where another size goes on"));
    }
    Ok(())
}

/// Attributes that may depend on sizes beside the result's dims.
pub fn attributes(op: &Op) -> SmallVec<[i64; 12]> {
    match op {
        Op::Slice { start, limit, .. } => start.iter().chain(limit).copied().collect(),
        Op::Pad(pads) => pads.iter().flat_map(|p| [p.low, p.high]).collect(),
        Op::Gather(g) => g.slice_sizes.iter().copied().collect(),
        Op::DynamicSlice(sizes) => sizes.iter().copied().collect(),
        _ => SmallVec::new(),
    }
}

/// The op with everything that may depend on sizes set to zero.
fn erased(op: &Op) -> Op {
    let zeros = |n: usize| -> Dims { std::iter::repeat_n(0, n).collect() };
    let blank = |ty: &TensorType| TensorType { dtype: ty.dtype, dims: zeros(ty.rank()) };
    match op {
        Op::Parameter(number, ty) => Op::Parameter(*number, blank(ty)),
        Op::Constant(literal) => Op::Iota { ty: blank(literal.ty()), axis: usize::MAX },
        Op::Iota { ty, axis } => Op::Iota { ty: blank(ty), axis: *axis },
        Op::Broadcast { dims, axes } => Op::Broadcast { dims: zeros(dims.len()), axes: axes.clone() },
        Op::Reshape(dims) => Op::Reshape(zeros(dims.len())),
        Op::Slice { start, stride, .. } => Op::Slice { start: zeros(start.len()), limit: zeros(start.len()), stride: stride.clone() },
        Op::Pad(pads) => Op::Pad(pads.iter().map(|p| PadDim { low: 0, high: 0, interior: p.interior }).collect()),
        Op::Convolution(c) => {
            let mut c = c.clone();
            for w in &mut c.window {
                (w.size, w.pad_high) = (0, 0);
            }
            Op::Convolution(c)
        }
        Op::ReduceWindow { combiner, window } => {
            let mut window = window.clone();
            window.iter_mut().for_each(|w| w.pad_high = 0);
            Op::ReduceWindow { combiner: *combiner, window }
        }
        Op::SelectAndScatter { window } => {
            let mut window = window.clone();
            window.iter_mut().for_each(|w| w.pad_high = 0);
            Op::SelectAndScatter { window }
        }
        Op::Gather(g) => {
            let mut g = g.clone();
            g.slice_sizes = zeros(g.slice_sizes.len());
            Op::Gather(g)
        }
        Op::DynamicSlice(sizes) => Op::DynamicSlice(zeros(sizes.len())),
        Op::RandomBits { dims, stream } => Op::RandomBits { dims: zeros(dims.len()), stream: *stream },
        other => other.clone(),
    }
}
