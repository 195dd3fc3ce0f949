//! A run checked value by value: what each operand of a layer is, and what the loop carries, takes and gives.

use clutch_graph::{NodeId, Op, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Known;
use super::sequence::{Run, is_product};
use crate::weights::{Dependence, made_per_call};

/// Work on weights that layers repeat is followed this many ops up.
const DEPTH: usize = 8;

/// Bytes of one layer's constants that are stacked at most.
const CONSTANT_BYTES: usize = 1 << 16;

/// How often a run is shortened before it is given up.
const TRIES: usize = 4;

/// A result of a layer's node: place in the layer and which result.
pub(crate) type Local = (usize, u32);

/// What an operand of a layer's node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// Made in the same layer.
    Local(Local),
    /// Carried value of this number.
    Carried(usize),
    /// Outside value of this number.
    Side(usize),
}

/// A value that layers take from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Made anew in each layer by the op of this node, from other outside values.
    Made(NodeId, SmallVec<[usize; 3]>),
    /// The same in all layers.
    Same(ValueId),
    /// One value a layer.
    Stacked(Vec<ValueId>),
}

/// A loop to be built.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Where.
    pub run: Run,
    /// Operands of each node of a layer.
    pub operands: Vec<SmallVec<[Operand; 3]>>,
    /// What one layer makes for the next, and the first layer's value.
    pub carried: Vec<(Local, ValueId)>,
    /// Outside values, those that others are made of first.
    pub sides: Vec<Side>,
    /// Results that are read outside of the run, and in which layers they are made, in order.
    pub read: Vec<(Local, Vec<usize>)>,
}

/// Where an operand comes from, seen from its layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Local(Local),
    Previous(Local),
    Outside,
}

/// Why a run is no loop.
enum Refusal {
    /// This layer differs.
    Layer(usize),
    /// A value that differs from layer to layer cannot be stacked.
    Value,
}

/// The loop of a run, or of the layers of it that are equal.
pub(crate) fn plan(known: &Known<'_>, mut run: Run) -> Option<Plan> {
    for _ in 0..TRIES {
        if run.count < super::LEAST_LAYERS {
            return None;
        }
        match Planner::new(known, run).finish() {
            Ok(plan) => return Some(plan),
            Err(Refusal::Layer(0)) => run = Run { start: run.start + run.period, count: run.count - 1, ..run },
            Err(Refusal::Layer(layer)) => run.count = layer,
            Err(Refusal::Value) => return None,
        }
    }
    None
}

struct Planner<'a, 'g> {
    known: &'a Known<'g>,
    run: Run,
    carried: Vec<(Local, ValueId)>,
    sides: Vec<Side>,
    side_of: FxHashMap<Vec<ValueId>, usize>,
}

impl<'a, 'g> Planner<'a, 'g> {
    fn new(known: &'a Known<'g>, run: Run) -> Self {
        Planner { known, run, carried: Vec::new(), sides: Vec::new(), side_of: FxHashMap::default() }
    }

    fn node(&self, layer: usize, t: usize) -> &'g clutch_graph::Node {
        self.known.graph.node(self.known.order[self.run.start + layer * self.run.period + t])
    }

    /// `None` for a value of a layer that is neither this nor the one before.
    fn from(&self, layer: usize, v: ValueId) -> Option<From> {
        let place = self.known.place[v.node.index()];
        if place == usize::MAX || place < self.run.start {
            return Some(From::Outside);
        }
        let made = (place - self.run.start) / self.run.period;
        let local = ((place - self.run.start) % self.run.period, v.output);
        match made {
            _ if made == layer => Some(From::Local(local)),
            _ if made + 1 == layer => Some(From::Previous(local)),
            _ => None,
        }
    }

    fn finish(mut self) -> Result<Plan, Refusal> {
        let Run { period, count, .. } = self.run;
        let mut operands = Vec::with_capacity(period);
        for t in 0..period {
            let reference = self.node(1, t);
            for layer in (2..count).chain([0]) {
                let node = self.node(layer, t);
                if node.op != reference.op || node.outputs != reference.outputs || node.operands.len() != reference.operands.len() {
                    return Err(Refusal::Layer(layer));
                }
            }
            let taken = (0..reference.operands.len()).map(|k| self.operand(t, k)).collect::<Result<_, _>>()?;
            operands.push(taken);
        }
        let stacked = self.sides.iter().any(|side| matches!(side, Side::Stacked(_)));
        let product = (0..period).any(|t| is_product(&self.node(0, t).op));
        if !stacked || !product {
            return Err(Refusal::Value);
        }
        let read = self.read();
        Ok(Plan { run: self.run, operands, carried: self.carried, sides: self.sides, read })
    }

    fn operand(&mut self, t: usize, k: usize) -> Result<Operand, Refusal> {
        let count = self.run.count;
        let values: Vec<ValueId> = (0..count).map(|layer| self.node(layer, t).operands[k]).collect();
        let reference = self.from(1, values[1]).ok_or(Refusal::Layer(1))?;
        for (layer, &value) in values.iter().enumerate().skip(2) {
            if self.from(layer, value) != Some(reference) {
                return Err(Refusal::Layer(layer));
            }
        }
        let first = if let From::Previous(_) = reference { From::Outside } else { reference };
        if self.from(0, values[0]) != Some(first) {
            return Err(Refusal::Layer(0));
        }
        match reference {
            From::Local(local) => Ok(Operand::Local(local)),
            From::Previous(local) => {
                let carried = (local, values[0]);
                let number = self.carried.iter().position(|c| *c == carried).unwrap_or_else(|| {
                    self.carried.push(carried);
                    self.carried.len() - 1
                });
                Ok(Operand::Carried(number))
            }
            From::Outside => Ok(Operand::Side(self.side(values, 0)?)),
        }
    }

    /// Number of the outside value that is `values[i]` in layer i.
    fn side(&mut self, values: Vec<ValueId>, depth: usize) -> Result<usize, Refusal> {
        if let Some(&number) = self.side_of.get(&values) {
            return Ok(number);
        }
        let side = if self.is_made_in_layers(&values, depth) {
            let graph = self.known.graph;
            let operands = (0..graph.node(values[0].node).operands.len())
                .map(|k| self.side(values.iter().map(|v| graph.node(v.node).operands[k]).collect(), depth + 1))
                .collect::<Result<_, _>>()?;
            Side::Made(values[0].node, operands)
        } else if values.iter().all(|v| *v == values[0]) {
            Side::Same(values[0])
        } else if self.can_be_stacked(&values) {
            Side::Stacked(values.clone())
        } else {
            return Err(Refusal::Value);
        };
        self.sides.push(side);
        self.side_of.insert(values, self.sides.len() - 1);
        Ok(self.sides.len() - 1)
    }

    /// Whether layers make the value themselves: constants, counters, and what only spreads, reshapes or widens.
    fn is_made_in_layers(&self, values: &[ValueId], depth: usize) -> bool {
        let graph = self.known.graph;
        let first = graph.node(values[0].node);
        if depth == DEPTH || first.outputs.len() != 1 || matches!(first.op, Op::Parameter(..)) {
            return false;
        }
        let equal = values.iter().all(|v| {
            let node = graph.node(v.node);
            let types = || first.operands.iter().map(|&v| graph.ty(v));
            v.node == values[0].node || node.op == first.op && node.operands.iter().map(|&v| graph.ty(v)).eq(types())
        });
        equal
            && match self.known.dependence[values[0].node.index()] {
                Dependence::Nothing => true,
                Dependence::Weights => made_per_call(graph, first),
                Dependence::Call => matches!(first.op, Op::Broadcast { .. }),
            }
    }

    fn can_be_stacked(&self, values: &[ValueId]) -> bool {
        let ty = self.known.graph.ty(values[0]);
        values.iter().all(|&v| {
            let small = ty.byte_size() <= CONSTANT_BYTES;
            self.known.graph.ty(v) == ty
                && match self.known.dependence[v.node.index()] {
                    Dependence::Nothing => small,
                    Dependence::Weights => true,
                    Dependence::Call => false,
                }
        })
    }

    fn read(&self) -> Vec<(Local, Vec<usize>)> {
        let mut found: std::collections::BTreeMap<Local, Vec<usize>> = std::collections::BTreeMap::new();
        let range = self.run.range();
        let mut add = |v: ValueId| {
            let place = self.known.place[v.node.index()];
            if range.contains(&place) {
                let at = place - range.start;
                found.entry((at % self.run.period, v.output)).or_default().push(at / self.run.period);
            }
        };
        for id in &self.known.order[range.end..] {
            self.known.graph.node(*id).operands.iter().copied().for_each(&mut add);
        }
        self.known.graph.outputs.iter().copied().for_each(&mut add);
        for layers in found.values_mut() {
            layers.sort_unstable();
            layers.dedup();
        }
        found.into_iter().collect()
    }
}
