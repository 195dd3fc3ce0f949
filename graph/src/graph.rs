//! The graph: nodes in topological order.

use smallvec::SmallVec;

use crate::error::GraphError;
use crate::infer::infer;
use crate::op::Op;
use crate::types::TensorType;

/// Position of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One result of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId {
    /// The node that computes it.
    pub node: NodeId,
    /// Which of its results.
    pub output: u32,
}

impl ValueId {
    /// The first result of a node.
    pub fn first(node: NodeId) -> Self {
        ValueId { node, output: 0 }
    }
}

/// Operand list of a node.
pub type Operands = SmallVec<[ValueId; 3]>;

/// An operation applied to operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// What it is applied to; all earlier in the graph.
    pub operands: Operands,
    /// Types of its results, as the shape rule gives them.
    pub outputs: SmallVec<[TensorType; 1]>,
}

/// How long an input keeps its contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// Changes on every call.
    #[default]
    Dynamic,
    /// Held on the device between calls and checked: a parameter, a buffer or a hoisted constant.
    Static,
}

/// An output that may reuse the memory of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Alias {
    /// Position in `outputs`.
    pub output: usize,
    /// Parameter number.
    pub parameter: usize,
}

/// A tensor program: parameters, nodes in topological order, outputs.
///
/// Nodes are appended with [`Graph::add`], which runs the shape rule; operands stand before their users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Graph {
    nodes: Vec<Node>,
    parameters: Vec<NodeId>,
    /// Kind of each parameter, by parameter number.
    pub input_kinds: Vec<InputKind>,
    /// Results of the graph, in order; a value may appear more than once.
    pub outputs: Vec<ValueId>,
    /// Donations: outputs that may take over an input's memory, by output number.
    pub aliases: Vec<Alias>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Graph::default()
    }

    /// Appends a parameter and returns its value; numbers count up from 0.
    pub fn parameter(&mut self, ty: TensorType, kind: InputKind) -> ValueId {
        let id = NodeId(self.nodes.len() as u32);
        let number = self.parameters.len();
        self.nodes.push(Node { op: Op::Parameter(number, ty.clone()), operands: Operands::new(), outputs: smallvec::smallvec![ty] });
        self.parameters.push(id);
        self.input_kinds.push(kind);
        ValueId::first(id)
    }

    /// Appends a node, checking it by the op's shape rule.
    ///
    /// # Errors
    /// When an operand is not in the graph or the shape rule refuses. [`Op::Parameter`] must go through [`Graph::parameter`].
    pub fn add(&mut self, op: Op, operands: impl IntoIterator<Item = ValueId>) -> Result<NodeId, GraphError> {
        let operands: Operands = operands.into_iter().collect();
        if matches!(op, Op::Parameter(..)) {
            return Err(GraphError::shape(&op, "parameters are added with Graph::parameter"));
        }
        let outputs = {
            let mut types: SmallVec<[&TensorType; 4]> = SmallVec::with_capacity(operands.len());
            for &v in &operands {
                types.push(self.try_ty(v).ok_or(GraphError::UnknownValue { node: v.node.0, output: v.output })?);
            }
            infer(&op, &types)?
        };
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { op, operands, outputs });
        Ok(id)
    }

    /// Appends a node of one result and returns it.
    ///
    /// # Errors
    /// As [`Graph::add`].
    pub fn add1(&mut self, op: Op, operands: impl IntoIterator<Item = ValueId>) -> Result<ValueId, GraphError> {
        self.add(op, operands).map(ValueId::first)
    }

    /// All nodes in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Ids of all nodes in topological order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// A node of this graph. Panics on an id of another, longer graph.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Type of a value of this graph. Panics on a value of another graph.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.nodes[value.node.index()].outputs[value.output as usize]
    }

    /// Type of a value, if the graph has it.
    pub fn try_ty(&self, value: ValueId) -> Option<&TensorType> {
        self.nodes.get(value.node.index())?.outputs.get(value.output as usize)
    }

    /// Parameter nodes by parameter number.
    pub fn parameters(&self) -> &[NodeId] {
        &self.parameters
    }

    /// Types of the parameters by number.
    pub fn parameter_types(&self) -> impl Iterator<Item = &TensorType> {
        self.parameters.iter().map(|&p| &self.nodes[p.index()].outputs[0])
    }

    /// Types of the outputs in order.
    pub fn output_types(&self) -> impl Iterator<Item = &TensorType> {
        self.outputs.iter().map(|&v| self.ty(v))
    }

    /// For each node, how many operands and outputs refer to it.
    pub fn use_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.nodes.len()];
        for node in &self.nodes {
            for v in &node.operands {
                counts[v.node.index()] += 1;
            }
        }
        for v in &self.outputs {
            counts[v.node.index()] += 1;
        }
        counts
    }
}
