//! Large graphs are cut into regions where few values cross; equal regions have equal [`Shape`]s.

use std::hash::{Hash, Hasher};

use clutch_graph::{Graph, NodeId, Op, TensorType, ValueId};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::{SmallVec, smallvec};

use crate::egraph::analysis::Origin;
use crate::egraph::language::op_hash;

/// Nodes of a region, at least, unless the graph ends.
const SMALLEST: usize = 32;

/// Nodes of a region at most, not counting those that cost nothing.
const LARGEST: usize = 128;

/// Nodes in a row that are copied into regions at most; longer chains are cut into regions as all else is.
const LONGEST_COPIED: usize = 8;

/// Where an operand of a region's node comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Region input of this number.
    Input(u32),
    /// Result `output` of the region's node of this number.
    Node {
        /// Number of the node in the region.
        node: u32,
        /// Which of its results.
        output: u32,
    },
}

/// One node of a region.
#[derive(Clone, Debug)]
pub(crate) struct Step<'g> {
    /// The op.
    pub op: &'g Op,
    /// Its operands.
    pub operands: SmallVec<[Source; 3]>,
}

impl PartialEq for Step<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.operands == other.operands && self.op == other.op
    }
}

impl Eq for Step<'_> {}

/// All that the rewriting of a region depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape<'g> {
    /// Nodes in topological order.
    pub steps: Vec<Step<'g>>,
    /// Type and origin of each input.
    pub inputs: Vec<(&'g TensorType, Origin)>,
    /// What the rest of the graph reads.
    pub outputs: Vec<Source>,
}

impl Hash for Shape<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut hasher = FxHasher::default();
        for step in &self.steps {
            op_hash(step.op, &mut hasher);
            step.operands.hash(&mut hasher);
        }
        self.inputs.hash(&mut hasher);
        self.outputs.hash(&mut hasher);
        hasher.finish().hash(state);
    }
}

/// A region with its place in the graph.
#[derive(Debug)]
pub(crate) struct Region<'g> {
    /// What it computes.
    pub shape: Shape<'g>,
    /// Nodes of the graph that it replaces, in order.
    pub nodes: Vec<NodeId>,
    /// The graph's value of each input.
    pub inputs: Vec<ValueId>,
    /// The graph's value of each output.
    pub outputs: Vec<ValueId>,
}

/// Which nodes cost next to nothing and are copied into each region that reads them: constants, counters, and spreads and casts of these and of
/// parameters.
pub(crate) fn copied(graph: &Graph) -> Vec<bool> {
    let mut length = vec![0; graph.nodes().len()];
    for id in graph.ids() {
        let node = graph.node(id);
        length[id.index()] = match &node.op {
            Op::Constant(_) | Op::Iota { .. } => 1,
            Op::Broadcast { .. } | Op::Reshape(_) | Op::Convert(_) | Op::Transpose(_) => {
                let source = node.operands[0].node;
                let before = length[source.index()];
                let begins = matches!(graph.node(source).op, Op::Parameter(..));
                if begins || (1..LONGEST_COPIED).contains(&before) { before + 1 } else { 0 }
            }
            _ => 0,
        };
    }
    length.into_iter().map(|length| length > 0).collect()
}

/// Cuts the live nodes of a graph that are not [`copied`] into regions, in order.
pub(crate) fn cut<'g>(graph: &'g Graph, live: &[bool], copied: &[bool], origins: &[Origin]) -> Vec<Region<'g>> {
    let order = order(graph, live, copied);
    let crossing = crossing(graph, &order);
    let mut regions = Vec::new();
    let mut start = 0;
    let cutter = Cutter { graph, copied, origins, read_later: read_later(graph, &order) };
    while start < order.len() {
        let last = (start + LARGEST).min(order.len());
        let end = if last == order.len() && last - start <= SMALLEST {
            last
        } else {
            (start + SMALLEST.min(last - start)..=last).min_by_key(|&end| crossing[end]).unwrap_or(last)
        };
        regions.push(cutter.region(&order, start..end));
        start = end;
    }
    regions
}

/// The whole graph as one region.
pub(crate) fn whole<'g>(graph: &'g Graph, live: &[bool], copied: &[bool], origins: &[Origin]) -> Region<'g> {
    let order = order(graph, live, copied);
    Cutter { graph, copied, origins, read_later: read_later(graph, &order) }.region(&order, 0..order.len())
}

/// The nodes that regions are made of.
fn order(graph: &Graph, live: &[bool], copied: &[bool]) -> Vec<NodeId> {
    let inside = |id: &NodeId| live[id.index()] && !copied[id.index()] && !matches!(graph.node(*id).op, Op::Parameter(..));
    graph.ids().filter(inside).collect()
}

/// For each position in the order, how many values made before it are read by nodes from it on.
fn crossing(graph: &Graph, order: &[NodeId]) -> Vec<i32> {
    let mut place = vec![usize::MAX; graph.nodes().len()];
    order.iter().enumerate().for_each(|(i, id)| place[id.index()] = i);
    let last_use = last_uses(graph, order, &place);
    let mut change = vec![0i32; order.len() + 2];
    for (i, id) in order.iter().enumerate() {
        if last_use[id.index()] > i {
            change[i + 1] += 1;
            change[last_use[id.index()] + 1] -= 1;
        }
    }
    let mut count = 0;
    change
        .iter()
        .take(order.len() + 1)
        .map(|c| {
            count += c;
            count
        })
        .collect()
}

/// For each node, the place of the last node that reads it, directly or through nodes out of the order; 0 when none does.
fn last_uses(graph: &Graph, order: &[NodeId], place: &[usize]) -> Vec<usize> {
    let mut last = vec![0; graph.nodes().len()];
    for id in order {
        for v in &graph.node(*id).operands {
            last[v.node.index()] = place[id.index()];
        }
    }
    last
}

/// For each result of each node, the place of the last node that reads it; the order's length when it is an output of the graph.
fn read_later(graph: &Graph, order: &[NodeId]) -> Vec<SmallVec<[Option<usize>; 1]>> {
    let mut last: Vec<SmallVec<[Option<usize>; 1]>> = graph.nodes().iter().map(|n| smallvec![None; n.outputs.len()]).collect();
    for (place, id) in order.iter().enumerate() {
        for v in &graph.node(*id).operands {
            last[v.node.index()][v.output as usize] = Some(place);
        }
    }
    for v in &graph.outputs {
        last[v.node.index()][v.output as usize] = Some(order.len());
    }
    last
}

struct Cutter<'a, 'g> {
    graph: &'g Graph,
    copied: &'a [bool],
    origins: &'a [Origin],
    read_later: Vec<SmallVec<[Option<usize>; 1]>>,
}

/// A region that is being filled.
struct Filling<'g> {
    shape: Shape<'g>,
    inputs: Vec<ValueId>,
    sources: FxHashMap<ValueId, Source>,
}

impl<'g> Cutter<'_, 'g> {
    fn region(&self, order: &[NodeId], range: std::ops::Range<usize>) -> Region<'g> {
        let shape = Shape { steps: Vec::new(), inputs: Vec::new(), outputs: Vec::new() };
        let mut filling = Filling { shape, inputs: Vec::new(), sources: FxHashMap::default() };
        let nodes: Vec<NodeId> = order[range.clone()].to_vec();
        for &id in &nodes {
            self.take(&mut filling, id);
        }
        let mut outputs = Vec::new();
        for &node in &nodes {
            let later = self.read_later[node.index()].iter().zip(0u32..).filter(|(last, _)| last.is_some_and(|place| place >= range.end));
            outputs.extend(later.map(|(_, output)| ValueId { node, output }));
        }
        filling.shape.outputs = outputs.iter().map(|v| filling.sources[v]).collect();
        Region { shape: filling.shape, nodes, inputs: filling.inputs, outputs }
    }

    fn take(&self, filling: &mut Filling<'g>, id: NodeId) {
        let node = self.graph.node(id);
        let operands = node.operands.iter().map(|&v| self.source(filling, v)).collect();
        let number = filling.shape.steps.len() as u32;
        filling.shape.steps.push(Step { op: &node.op, operands });
        for output in 0..node.outputs.len() as u32 {
            filling.sources.insert(ValueId { node: id, output }, Source::Node { node: number, output });
        }
    }

    /// Where an operand comes from; nodes that are copied are taken in on first use, with all that they read.
    fn source(&self, filling: &mut Filling<'g>, v: ValueId) -> Source {
        if let Some(source) = filling.sources.get(&v) {
            return *source;
        }
        if self.copied[v.node.index()] {
            let mut chain = vec![v.node];
            while let Some(next) = self.graph.node(chain[chain.len() - 1]).operands.first() {
                if !self.copied[next.node.index()] || filling.sources.contains_key(next) {
                    break;
                }
                chain.push(next.node);
            }
            chain.into_iter().rev().for_each(|id| self.take(filling, id));
            return filling.sources[&v];
        }
        let source = Source::Input(filling.inputs.len() as u32);
        filling.inputs.push(v);
        filling.shape.inputs.push((self.graph.ty(v), self.origins[v.node.index()]));
        filling.sources.insert(v, source);
        source
    }
}
