//! The order in which equal layers look equal, and where it repeats.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use clutch_graph::{Graph, NodeId, Op};
use rustc_hash::{FxHashMap, FxHasher};

use super::{Known, LEAST_LAYERS};
use crate::egraph::language::op_hash;
use crate::weights::Dependence;

/// Distances that are tried as the length of a layer.
const TRIED: usize = 8;

/// A stretch of the sequence that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Place of its first node.
    pub start: usize,
    /// Nodes of one layer.
    pub period: usize,
    /// Layers.
    pub count: usize,
}

impl Run {
    /// Its places.
    pub fn range(self) -> Range<usize> {
        self.start..self.start + self.period * self.count
    }
}

/// The live nodes that depend on inputs of the call, without parameters: operands first, as a walk from the outputs meets them; what does not
/// come after repeated products and is read far on (masks, angles of positions) goes before all else.
pub(crate) fn sequence(graph: &Graph, live: &[bool], dependence: &[Dependence]) -> Vec<NodeId> {
    let order = walk(graph, live, dependence);
    let hashes = hashes(graph, &order, dependence);
    let Some(period) = distances(&hashes, 0..order.len()).first().copied() else { return order };
    let mut times: FxHashMap<u64, usize> = FxHashMap::default();
    hashes.iter().for_each(|&h| *times.entry(h).or_default() += 1);
    let mut place = vec![usize::MAX; graph.nodes().len()];
    let mut after = vec![false; graph.nodes().len()];
    for (i, id) in order.iter().enumerate() {
        let node = graph.node(*id);
        place[id.index()] = i;
        let repeated = is_product(&node.op) && times[&hashes[i]] >= LEAST_LAYERS;
        after[id.index()] = repeated || node.operands.iter().any(|v| after[v.node.index()]);
    }
    let mut early = vec![false; graph.nodes().len()];
    for (i, id) in order.iter().enumerate().rev() {
        for v in &graph.node(*id).operands {
            let p = place[v.node.index()];
            if p != usize::MAX && !after[v.node.index()] && (i > p + period || early[id.index()]) {
                early[v.node.index()] = true;
            }
        }
    }
    let (first, rest): (Vec<NodeId>, Vec<NodeId>) = order.into_iter().partition(|id| early[id.index()]);
    [first, rest].concat()
}

/// Products, convolutions: what a layer must have for a loop to be worth it.
pub(crate) fn is_product(op: &Op) -> bool {
    matches!(op, Op::DotGeneral { .. } | Op::Convolution(_))
}

fn walk(graph: &Graph, live: &[bool], dependence: &[Dependence]) -> Vec<NodeId> {
    let inside =
        |id: NodeId| live[id.index()] && dependence[id.index()] == Dependence::Call && !matches!(graph.node(id).op, Op::Parameter(..));
    let mut seen = vec![false; graph.nodes().len()];
    let mut order = Vec::new();
    for root in graph.outputs.iter().map(|v| v.node) {
        let mut stack = vec![(root, 0)];
        while let Some((id, next)) = stack.pop() {
            if next == 0 && (seen[id.index()] || !inside(id)) {
                continue;
            }
            seen[id.index()] = true;
            match graph.node(id).operands.get(next) {
                Some(v) => stack.extend([(id, next + 1), (v.node, 0)]),
                None => order.push(id),
            }
        }
    }
    order
}

/// A hash of each node of the order that is equal in equal layers.
pub(crate) fn hashes(graph: &Graph, order: &[NodeId], dependence: &[Dependence]) -> Vec<u64> {
    let hash = |id: &NodeId| {
        let mut hasher = FxHasher::default();
        let node = graph.node(*id);
        op_hash(&node.op, &mut hasher);
        for &v in &node.operands {
            graph.ty(v).hash(&mut hasher);
            (dependence[v.node.index()] == Dependence::Call).hash(&mut hasher);
        }
        hasher.finish()
    };
    order.iter().map(hash).collect()
}

/// The most frequent distances from a node to the next of equal hash; of equally frequent ones the shorter first.
fn distances(hashes: &[u64], part: Range<usize>) -> Vec<usize> {
    let mut last: FxHashMap<u64, usize> = FxHashMap::default();
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    for i in part {
        if let Some(before) = last.insert(hashes[i], i) {
            *votes.entry(i - before).or_default() += 1;
        }
    }
    let mut votes: Vec<(usize, usize)> = votes.into_iter().collect();
    votes.sort_by_key(|&(distance, votes)| (std::cmp::Reverse(votes), distance));
    votes.into_iter().take(TRIED).map(|(distance, _)| distance).collect()
}

/// Stretches of this part that repeat, the one that saves most first.
pub(crate) fn candidates(known: &Known<'_>, hashes: &[u64], part: Range<usize>) -> Vec<Run> {
    let crossing = crossing(known, part.clone());
    let mut runs: Vec<Run> =
        distances(hashes, part.clone()).into_iter().filter_map(|period| longest(hashes, part.clone(), period, &crossing)).collect();
    runs.sort_by_key(|run| (std::cmp::Reverse(run.period * (run.count - 1)), run.period));
    runs
}

/// The longest run of this period, begun where the fewest bytes cross from one layer to the next.
fn longest(hashes: &[u64], part: Range<usize>, period: usize, crossing: &[usize]) -> Option<Run> {
    let (mut best, mut equal): (Option<(usize, usize)>, usize) = (None, 0);
    let first = part.start;
    for i in part.start..part.end.saturating_sub(period) {
        equal = if hashes[i] == hashes[i + period] { equal + 1 } else { 0 };
        if equal > best.map_or(0, |(_, length)| length) {
            best = Some((i + 1 - equal, equal));
        }
    }
    let (start, length) = best?;
    let count = length / period + 1;
    let slack = length % period;
    let start = (start..=start + slack).min_by_key(|s| crossing[s + period - first])?;
    (count >= LEAST_LAYERS).then_some(Run { start, period, count })
}

/// For each place of the part, the bytes of values made in it before that place and read from there on.
fn crossing(known: &Known<'_>, part: Range<usize>) -> Vec<usize> {
    let length = part.len();
    let mut last = vec![0; length];
    for (i, id) in known.order.iter().enumerate().skip(part.start) {
        for v in &known.graph.node(*id).operands {
            let p = known.place[v.node.index()];
            if part.contains(&p) {
                last[p - part.start] = i.min(part.end) - part.start;
            }
        }
    }
    let (mut rise, mut fall) = (vec![0usize; length + 2], vec![0usize; length + 2]);
    for (p, &last) in last.iter().enumerate().filter(|&(p, &last)| last > p) {
        let bytes: usize = known.graph.node(known.order[part.start + p]).outputs.iter().map(|t| t.byte_size()).sum();
        rise[p + 1] += bytes;
        fall[last + 1] += bytes;
    }
    let mut now = 0;
    (0..=length)
        .map(|i| {
            now = now + rise[i] - fall[i];
            now
        })
        .collect()
}
