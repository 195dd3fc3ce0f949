//! The base of all passes: a graph rebuilt node by node in topological order through a value map.

use clutch_graph::builder::Builder;
use clutch_graph::graph::Operands;
use clutch_graph::{Graph, GraphError, Node, NodeId, Op, ValueId};
use smallvec::SmallVec;

/// Results of one node in the new graph.
pub(crate) type Values = SmallVec<[ValueId; 2]>;

/// The node being rewritten.
pub(crate) struct Site<'a> {
    /// The node as it stands in the old graph.
    pub node: &'a Node,
    /// Its operands in the new graph.
    pub operands: &'a [ValueId],
}

/// From values of an old graph to values of the new one.
pub(crate) struct ValueMap(Vec<Values>);

impl ValueMap {
    /// A map of nothing over a graph of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        ValueMap(vec![Values::new(); nodes])
    }

    /// The new value of an old one. Panics when its node was not rewritten.
    pub fn get(&self, v: ValueId) -> ValueId {
        self.0[v.node.index()][v.output as usize]
    }

    /// Sets the new values of all results of an old node.
    pub fn set(&mut self, node: NodeId, values: Values) {
        self.0[node.index()] = values;
    }

    /// Sets the new value of one of the `count` results of an old node; those never set must not be read.
    pub fn set_result(&mut self, v: ValueId, value: ValueId, count: usize) {
        let values = &mut self.0[v.node.index()];
        if values.is_empty() {
            values.resize(count, value);
        }
        values[v.output as usize] = value;
    }

    /// New operands of an old node.
    pub fn operands(&self, node: &Node) -> Operands {
        node.operands.iter().map(|&v| self.get(v)).collect()
    }
}

/// Which nodes the outputs need.
pub(crate) fn live_nodes(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.nodes().len()];
    for v in &graph.outputs {
        live[v.node.index()] = true;
    }
    for (i, node) in graph.nodes().iter().enumerate().rev() {
        if live[i] {
            for v in &node.operands {
                live[v.node.index()] = true;
            }
        }
    }
    live
}

/// All results of a node of the builder's graph.
pub(crate) fn results(graph: &Graph, node: NodeId) -> Values {
    (0..graph.node(node).outputs.len() as u32).map(|output| ValueId { node, output }).collect()
}

/// Rebuilds the graph: `rule` gives the new values of a node's results. All parameters stay; other nodes that no output needs are dropped.
pub(crate) fn rewrite(
    graph: &Graph,
    mut rule: impl FnMut(&mut Builder, &Site<'_>) -> Result<Values, GraphError>,
) -> Result<Graph, GraphError> {
    let live = live_nodes(graph);
    let mut b = Builder::new();
    let mut map = ValueMap::new(graph.nodes().len());
    for id in graph.ids() {
        let node = graph.node(id);
        let values = if let Op::Parameter(number, ty) = &node.op {
            smallvec::smallvec![b.parameter(ty.clone(), graph.input_kinds[*number])]
        } else if live[id.index()] {
            let operands = map.operands(node);
            rule(&mut b, &Site { node, operands: &operands })?
        } else {
            continue;
        };
        map.set(id, values);
    }
    Ok(finish(b, graph, &map))
}

/// The built graph with outputs and donations of the old one.
pub(crate) fn finish(b: Builder, graph: &Graph, map: &ValueMap) -> Graph {
    let mut out = b.finish(graph.outputs.iter().map(|&v| map.get(v)));
    out.aliases.clone_from(&graph.aliases);
    out
}

/// The node unchanged, on its new operands.
pub(crate) fn keep(b: &mut Builder, site: &Site<'_>) -> Result<Values, GraphError> {
    let id = b.graph_mut().add(site.node.op.clone(), site.operands.iter().copied())?;
    Ok(results(b.graph(), id))
}

/// The graph without the nodes that no output needs; all parameters stay.
///
/// # Errors
/// When a node breaks its shape rule, which a verified graph does not.
pub fn drop_dead(graph: &Graph) -> Result<Graph, GraphError> {
    rewrite(graph, keep)
}
