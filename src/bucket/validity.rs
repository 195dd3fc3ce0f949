//! Padding validity: which lanes of every value are true data, and the masks that keep the others from leaking.
//!
//! The pass rebuilds the bucket's graph. For each value it knows which part of each axis is true ([`Axis`]) and what the padded lanes
//! hold ([`Fill`]); each op's rule states what it needs of the lanes that it combines, and a mask is inserted where that is not known.

use clutch_graph::builder::Builder;
use clutch_graph::graph::InputKind;
use clutch_graph::op::{BinaryOp, CompareDir};
use clutch_graph::{DType, Dims, Graph, GraphError, Literal, NodeId, Op, TensorType, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::classes::{Class, Classes, Mismatch, attributes};
use super::extent::{Axis, Factor, GRAPHS, Sizes, is_fixed};
use super::rules;
use crate::capture::lower::helpers::{Scalar, extreme};

/// A value that masks put into padded lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Neutral {
    /// Zero or false.
    Zero,
    /// One.
    One,
    /// The lowest value; -inf for floats.
    Lowest,
    /// The highest value; +inf for floats, all ones for bits and truth values.
    Highest,
    /// NaN, which sorts last; the highest value where there is none.
    Last,
    /// -1, which is no index.
    NoIndex,
}

impl Neutral {
    /// The scalar of a type.
    pub fn literal(self, dtype: DType) -> Literal {
        match self {
            Neutral::Zero => Literal::scalar_i64(dtype, 0),
            Neutral::One => Literal::scalar_i64(dtype, 1),
            Neutral::NoIndex => Literal::scalar_i64(dtype, -1),
            Neutral::Lowest => extreme(dtype, false).literal(dtype),
            Neutral::Last if dtype.is_float() => Scalar::Float(f64::NAN).literal(dtype),
            Neutral::Highest | Neutral::Last => extreme(dtype, true).literal(dtype),
        }
    }
}

/// What the padded lanes of an axis hold where all other axes are in range. Means nothing for an axis without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Anything, NaN and infinities too.
    Any,
    /// Anything finite.
    Finite,
    /// This value.
    Known(Neutral),
}

/// What is known of a value's lanes.
#[derive(Clone, Debug)]
pub struct State {
    /// Each axis.
    pub axes: SmallVec<[Axis; 6]>,
    /// The padded lanes of each axis.
    pub fill: SmallVec<[Fill; 6]>,
}

/// A scalar or constant that a program takes as an input because it depends on the true sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The value of a class, as `S32`.
    Size(Class),
    /// The constant of this node in the graph at the true size.
    Constant(NodeId),
}

/// Why a bucket cannot serve a program.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The graphs at other sizes are not the same program.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// An op could mix padding with true data.
    #[error("{op} (node {node}): {why}")]
    Op {
        /// Node number in the lowered graph.
        node: usize,
        /// Its op.
        op: &'static str,
        /// What cannot be proved.
        why: &'static str,
    },
    /// A fault of the pass.
    #[error("internal: {0}")]
    Graph(#[from] GraphError),
}

/// What a rule gives: a new value and its state for each result of the node; the reason when it refuses.
pub type Ruled = Result<SmallVec<[(ValueId, State); 2]>, Stop>;

/// Why a rule stopped.
#[derive(Debug)]
pub enum Stop {
    /// What cannot be proved.
    Refused(&'static str),
    /// A fault of the pass.
    Graph(GraphError),
}

impl From<GraphError> for Stop {
    fn from(error: GraphError) -> Self {
        Stop::Graph(error)
    }
}

/// The masked graph and what it takes beside the program's own parameters.
#[derive(Debug)]
pub struct Masked {
    /// The bucket's graph with masks; its last parameters are the bounds.
    pub graph: Graph,
    /// What each of those parameters is.
    pub bounds: Vec<Bound>,
    /// Where the true data of each parameter of the program lies.
    pub inputs: Vec<Placement>,
    /// Where the true data of each output lies.
    pub outputs: Vec<Placement>,
    /// Masks inserted.
    pub masks: usize,
}

/// Where a tensor's true data lies in the bucket's memory: the factors of each axis.
pub type Placement = Vec<SmallVec<[Part; 2]>>;

/// A factor of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its size in the bucket.
    pub padded: i64,
    /// Its true size, where that may be smaller.
    pub class: Option<Class>,
}

/// The state of the pass.
pub struct Pass<'a> {
    /// The graph under construction.
    pub b: Builder,
    /// The bucket's graph and the witnesses.
    pub graphs: [&'a Graph; GRAPHS],
    classes: &'a mut Classes,
    values: Vec<SmallVec<[(ValueId, State); 2]>>,
    bounds: Vec<Bound>,
    sizes: FxHashMap<Class, ValueId>,
    lanes: FxHashMap<(SmallVec<[Sizes; 2]>, i64), ValueId>,
    masks: usize,
}

/// Masks `graphs[0]`, the bucket's graph; the others are the same program at other sizes.
///
/// An axis of a parameter whose size is a multiple of a symbol's is a prefix, or, where `symbols` holds the symbols' sizes (or other
/// varying lengths), as many prefixes of that size one after another: what a tensor of a batch and a dynamic length is after the two are
/// merged. The last size in `symbols` that divides an axis is taken.
///
/// # Errors
/// When an op may mix padded lanes with true data in a way that no mask prevents.
pub fn mask(graphs: [&Graph; GRAPHS], classes: &mut Classes, symbols: &[Sizes]) -> Result<Masked, Refusal> {
    let mut pass = Pass {
        b: Builder::new(),
        graphs,
        classes,
        values: vec![SmallVec::new(); graphs[0].nodes().len()],
        bounds: Vec::new(),
        sizes: FxHashMap::default(),
        lanes: FxHashMap::default(),
        masks: 0,
    };
    for &id in graphs[0].parameters() {
        let ty = graphs[0].node(id).outputs[0].clone();
        let Op::Parameter(number, _) = graphs[0].node(id).op else { continue };
        let value = pass.b.parameter(ty, graphs[0].input_kinds[number]);
        let mut state = pass.fresh(id, 0, false);
        for axis in &mut state.axes {
            split(axis, symbols);
        }
        pass.values[id.index()].push((value, state));
    }
    for id in graphs[0].ids() {
        let node = graphs[0].node(id);
        if matches!(node.op, Op::Parameter(..)) {
            continue;
        }
        match rules::apply(&mut pass, id) {
            Ok(results) => pass.values[id.index()] = results,
            Err(Stop::Graph(error)) => return Err(error.into()),
            Err(Stop::Refused(why)) => return Err(Refusal::Op { node: id.index(), op: node.op.name(), why }),
        }
    }
    let parameters: Vec<ValueId> = graphs[0].parameters().iter().map(|&id| ValueId::first(id)).collect();
    let inputs = parameters.iter().map(|&v| pass.placement(v)).collect::<Result<_, _>>()?;
    let results = graphs[0].outputs.iter().map(|&v| pass.placement(v)).collect::<Result<_, _>>()?;
    let outputs: Vec<ValueId> = graphs[0].outputs.iter().map(|&v| pass.value(v)).collect();
    let (bounds, masks) = (pass.bounds, pass.masks);
    Ok(Masked { graph: pass.b.finish(outputs), bounds, inputs, outputs: results, masks })
}

/// Takes an axis of a multiple of a symbol's size apart.
fn split(axis: &mut Axis, symbols: &[Sizes]) {
    let [only] = axis.0[..] else { return };
    for symbol in symbols.iter().rev() {
        if is_fixed(symbol) || *symbol == only.sizes {
            continue;
        }
        let whole = (0..GRAPHS).all(|i| only.sizes[i] % symbol[i] == 0);
        let outer: Sizes = std::array::from_fn(|i| only.sizes[i] / symbol[i]);
        if whole && (is_fixed(&outer) || symbols.contains(&outer)) {
            let factor = |sizes: Sizes| Factor { sizes, uniform: only.uniform };
            *axis = Axis::of(smallvec::smallvec![factor(outer), factor(*symbol)]);
            return;
        }
    }
}

impl Pass<'_> {
    /// Sizes of a result's axis in all graphs.
    pub fn dim(&self, v: ValueId, axis: usize) -> Sizes {
        self.graphs.map(|g| g.ty(v).dims[axis])
    }

    /// Sizes of a result in all graphs.
    pub fn dims(&self, v: ValueId) -> [&Dims; GRAPHS] {
        std::array::from_fn(|i| &self.graphs[i].ty(v).dims)
    }

    /// An attribute in all graphs, numbered as in [`attributes`].
    pub fn attribute(&self, id: NodeId, index: usize) -> Sizes {
        self.graphs.map(|g| attributes(&g.node(id).op)[index])
    }

    /// The node's ops in all graphs.
    pub fn ops(&self, id: NodeId) -> [&Op; GRAPHS] {
        std::array::from_fn(|i| &self.graphs[i].node(id).op)
    }

    fn placement(&mut self, v: ValueId) -> Result<Placement, Refusal> {
        let axes = self.state(v).axes.clone();
        let parts = |axis: &Axis, classes: &mut Classes| -> Option<SmallVec<[Part; 2]>> {
            let part = |f: &Factor| {
                let class = if f.is_partial() { Some(classes.find(&f.sizes)?) } else { None };
                Some(Part { padded: f.sizes[0], class })
            };
            axis.0.iter().map(part).collect()
        };
        let placed: Option<Placement> = axes.iter().map(|axis| parts(axis, self.classes)).collect();
        let node = self.graphs[0].node(v.node);
        placed.ok_or(Refusal::Op { node: v.node.index(), op: node.op.name(), why: "a size that no input or result has" })
    }

    /// The new value of an old one.
    pub fn value(&self, v: ValueId) -> ValueId {
        self.values[v.node.index()][v.output as usize].0
    }

    /// What is known of an old value.
    pub fn state(&self, v: ValueId) -> &State {
        &self.values[v.node.index()][v.output as usize].1
    }

    /// The fill of lanes about which nothing is known.
    pub fn unknown(dtype: DType) -> Fill {
        if dtype.is_float() || dtype.is_complex() { Fill::Any } else { Fill::Finite }
    }

    /// A state whose axes are prefixes of the result's sizes.
    pub fn fresh(&self, id: NodeId, output: usize, uniform: bool) -> State {
        let v = ValueId { node: id, output: output as u32 };
        let rank = self.graphs[0].ty(v).rank();
        self.stated(v, (0..rank).map(|a| Axis::prefix(self.dim(v, a), uniform)).collect())
    }

    /// A state of the given axes about whose lanes nothing is known.
    pub fn stated(&self, v: ValueId, axes: SmallVec<[Axis; 6]>) -> State {
        let fill = Self::unknown(self.graphs[0].ty(v).dtype);
        State { fill: axes.iter().map(|_| fill).collect(), axes }
    }

    /// The `S32` scalar that holds the value of sizes on each call.
    pub fn size(&mut self, sizes: &Sizes) -> Result<ValueId, Stop> {
        if is_fixed(sizes) {
            return Ok(self.b.scalar_int(DType::S32, sizes[0])?);
        }
        let class = self.classes.find(sizes).ok_or(Stop::Refused("a size that no input or result has"))?;
        if let Some(&v) = self.sizes.get(&class) {
            return Ok(v);
        }
        let v = self.bound(Bound::Size(class), TensorType::scalar(DType::S32));
        self.sizes.insert(class, v);
        Ok(v)
    }

    /// A new parameter that holds `bound`.
    pub fn bound(&mut self, bound: Bound, ty: TensorType) -> ValueId {
        self.bounds.push(bound);
        self.b.parameter(ty, InputKind::Dynamic)
    }

    /// Truth values along one axis: true where the data is.
    fn lanes(&mut self, axis: &Axis, size: i64) -> Result<ValueId, Stop> {
        let key: SmallVec<[Sizes; 2]> = axis.0.iter().map(|f| f.sizes).collect();
        if let Some(&v) = self.lanes.get(&(key.clone(), size)) {
            return Ok(v);
        }
        let index = self.b.iota(DType::S32, &[size], 0)?;
        let mut inner = size;
        let mut valid: Option<ValueId> = None;
        for (i, factor) in axis.0.iter().enumerate() {
            inner /= factor.sizes[0].max(1);
            if !factor.is_partial() {
                continue;
            }
            let mut position = index;
            if inner > 1 {
                position = self.b.binary_int(BinaryOp::Div, position, inner)?;
            }
            if i > 0 {
                position = self.b.binary_int(BinaryOp::Rem, position, factor.sizes[0])?;
            }
            let extent = self.size(&factor.sizes)?;
            let extent = self.b.broadcast_in_dim(extent, &[size], &[])?;
            let below = self.b.compare(CompareDir::Lt, position, extent)?;
            valid = Some(match valid {
                None => below,
                Some(v) => self.b.binary(BinaryOp::And, v, below)?,
            });
        }
        let valid = valid.ok_or(Stop::Refused("a mask over an axis without padding"))?;
        self.lanes.insert((key, size), valid);
        Ok(valid)
    }

    /// Truth values of `dims`: true where `axis`, which is axis number `position` of them, holds data. `None` when all of it does.
    pub fn valid(&mut self, axis: &Axis, dims: &[i64], position: usize) -> Result<Option<ValueId>, Stop> {
        if !axis.is_partial() {
            return Ok(None);
        }
        let lanes = self.lanes(axis, dims[position])?;
        Ok(Some(self.b.broadcast_in_dim(lanes, dims, &[position])?))
    }

    /// The new value of `v` with `fill` in the padded lanes of the given axes.
    pub fn masked(&mut self, v: ValueId, axes: &[usize], fill: Neutral) -> Result<ValueId, Stop> {
        let dtype = self.graphs[0].ty(v).dtype;
        let state = self.state(v).clone();
        let partial: SmallVec<[usize; 4]> = axes.iter().copied().filter(|&a| state.axes[a].is_partial()).collect();
        // Lanes outside of two axes at once are described by neither.
        let open: SmallVec<[usize; 4]> = match partial[..] {
            [a] if state.fill[a] == Fill::Known(fill) => SmallVec::new(),
            _ => partial,
        };
        if open.is_empty() {
            return Ok(self.value(v));
        }
        let scalar = self.b.constant(fill.literal(dtype))?;
        self.masked_with(self.value(v), &state.axes, &open, scalar)
    }

    /// `value` with a scalar in the padded lanes of the given axes.
    pub fn masked_with(&mut self, value: ValueId, state: &[Axis], axes: &[usize], scalar: ValueId) -> Result<ValueId, Stop> {
        let dims = self.b.dims(value);
        let mut all: Option<ValueId> = None;
        for &a in axes {
            if let Some(valid) = self.valid(&state[a], &dims, a)? {
                all = Some(match all {
                    None => valid,
                    Some(v) => self.b.binary(BinaryOp::And, v, valid)?,
                });
            }
        }
        let Some(all) = all else { return Ok(value) };
        self.masks += 1;
        let fill = self.b.broadcast_in_dim(scalar, &dims, &[])?;
        Ok(self.b.select(all, value, fill)?)
    }
}
