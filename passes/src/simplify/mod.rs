//! Canonical forms, common subexpressions and constant folding in one rebuild.
//!
//! Every rule keeps results bit for bit (up to the payload of NaN) and leaves no more nodes or elements than it found. One file a family.

mod contraction;
mod elementwise;
mod empty;
mod fold;
mod shape;

use std::hash::{Hash, Hasher};

use clutch_graph::builder::Builder;
use clutch_graph::graph::{InputKind, Operands};
use clutch_graph::{Graph, GraphError, Node, NodeId, Op, TensorType, ValueId};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use smallvec::smallvec;

use crate::layout;
use crate::options::{PassOptions, Target};
use crate::rewrite::{ValueMap, Values, finish, live_nodes, results};

/// A graph under construction in which equal nodes are one node.
pub(crate) struct Simplifier<'a> {
    b: Builder,
    table: HashTable<NodeId>,
    options: &'a PassOptions,
    families: &'static [Rule],
}

/// A rule: the value that replaces `op` on `operands`, or `None` where it does not apply.
pub(crate) type Rule = fn(&mut Simplifier<'_>, &Op, &[ValueId]) -> Result<Option<ValueId>, GraphError>;

/// The rule families in order; the first that applies wins.
const FAMILIES: &[Rule] = &[empty::rules, shape::rules, elementwise::rules, contraction::rules, fold::rules];

impl<'a> Simplifier<'a> {
    /// Over an empty graph that is expected to grow to about `nodes` nodes.
    fn new(options: &'a PassOptions, nodes: usize, families: &'static [Rule]) -> Self {
        Simplifier { b: Builder::new(), table: HashTable::with_capacity(nodes), options, families }
    }

    /// Kind of the parameter that `v` is, if it is one.
    pub fn parameter_kind(&self, v: ValueId) -> Option<InputKind> {
        match &self.def(v).op {
            Op::Parameter(number, _) => Some(self.b.graph().input_kinds[*number]),
            _ => None,
        }
    }

    /// The options of the run.
    pub fn options(&self) -> &'a PassOptions {
        self.options
    }

    /// Type of a value.
    pub fn ty(&self, v: ValueId) -> &TensorType {
        self.b.ty(v)
    }

    /// The node that computes a value.
    pub fn def(&self, v: ValueId) -> &Node {
        self.b.graph().node(v.node)
    }

    /// Sizes of a value.
    pub fn dims(&self, v: ValueId) -> &[i64] {
        &self.b.ty(v).dims
    }

    /// The canonical value of a single-result `op` on canonical operands.
    pub fn emit(&mut self, op: Op, operands: &[ValueId]) -> Result<ValueId, GraphError> {
        Ok(self.emit_all(op, operands)?[0])
    }

    /// The canonical values of `op` on canonical operands.
    pub fn emit_all(&mut self, op: Op, operands: &[ValueId]) -> Result<Values, GraphError> {
        for family in self.families {
            if let Some(v) = family(self, &op, operands)? {
                return Ok(smallvec![v]);
            }
        }
        self.unique(op, operands)
    }

    /// The node `op` on `operands`, shared with an equal one.
    fn unique(&mut self, op: Op, operands: &[ValueId]) -> Result<Values, GraphError> {
        let hash = node_hash(&op, operands);
        let graph = self.b.graph();
        let same = |&id: &NodeId| {
            let node = graph.node(id);
            node.operands[..] == *operands && node.op == op
        };
        if let Some(&id) = self.table.find(hash, same) {
            return Ok(results(graph, id));
        }
        let id = self.b.graph_mut().add(op, operands.iter().copied())?;
        let graph = self.b.graph();
        self.table.insert_unique(hash, id, |&other| {
            let node = graph.node(other);
            node_hash(&node.op, &node.operands)
        });
        Ok(results(graph, id))
    }
}

/// Bodies are left out: equal ones are usually one allocation, which comparing sees at once and hashing does not.
fn node_hash(op: &Op, operands: &[ValueId]) -> u64 {
    let mut hasher = FxHasher::default();
    match op {
        Op::While { .. } | Op::Cond { .. } | Op::Call(_) => std::mem::discriminant(op).hash(&mut hasher),
        _ => op.hash(&mut hasher),
    }
    operands.hash(&mut hasher);
    hasher.finish()
}

/// The pass.
pub(crate) fn simplify(graph: &Graph, options: &PassOptions) -> Result<Graph, GraphError> {
    run_rules(graph, options, FAMILIES)
}

/// The pass with rules that also change layouts.
pub(crate) fn simplify_and_lay_out(graph: &Graph, options: &PassOptions) -> Result<Graph, GraphError> {
    const WITH_LAYOUT: &[Rule] = &[
        empty::rules,
        shape::rules,
        elementwise::rules,
        contraction::rules,
        fold::rules,
        layout::convolution::rules,
        layout::pooling::rules,
        layout::motion::rules,
    ];
    run_rules(graph, options, WITH_LAYOUT)
}

/// Whether the graph has products with one row that are better padded.
pub(crate) fn has_single_rows(graph: &Graph, options: &PassOptions) -> bool {
    let single = |n: &Node| match &n.op {
        Op::DotGeneral { dims, .. } => contraction::is_single_row(dims, graph.ty(n.operands[0]), graph.ty(n.operands[1])),
        _ => false,
    };
    options.target == Target::Cpu && graph.nodes().iter().any(single)
}

/// The pass with the rule that pads products with one row.
pub(crate) fn simplify_single_rows(graph: &Graph, options: &PassOptions) -> Result<Graph, GraphError> {
    const WITH_PRODUCTS: &[Rule] =
        &[empty::rules, shape::rules, elementwise::rules, contraction::rules, fold::rules, contraction::single_row];
    run_rules(graph, options, WITH_PRODUCTS)
}

fn run_rules(graph: &Graph, options: &PassOptions, families: &'static [Rule]) -> Result<Graph, GraphError> {
    let live = live_nodes(graph);
    let mut s = Simplifier::new(options, graph.nodes().len(), families);
    let mut map = ValueMap::new(graph.nodes().len());
    for id in graph.ids() {
        let node = graph.node(id);
        if let Op::Parameter(number, ty) = &node.op {
            map.set(id, smallvec![s.b.parameter(ty.clone(), graph.input_kinds[*number])]);
        } else if live[id.index()] {
            let operands: Operands = map.operands(node);
            let values = s.emit_all(node.op.clone(), &operands)?;
            map.set(id, values);
        }
    }
    Ok(finish(s.b, graph, &map))
}
