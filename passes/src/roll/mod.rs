//! Repeated layers once: consecutive parts of the graph that compute the same on other weights become one loop over stacked weights.
//!
//! The stacks depend on weights alone, so that [`crate::split_weights`] moves them into the weight program.

mod build;
mod plan;
mod profit;
mod sequence;

use std::collections::VecDeque;
use std::ops::Range;

use clutch_graph::{Graph, GraphError, NodeId};

use self::plan::Plan;
use self::sequence::{candidates, sequence};
use crate::options::{PassOptions, Roll};
use crate::rewrite::live_nodes;
use crate::weights::{Dependence, dependences};

/// Layers of a loop at least.
const LEAST_LAYERS: usize = 3;

/// Parts of the graph that are searched at most.
const MOST_SEARCHES: usize = 64;

/// Whether the pass runs: stacks are made once only where work on weights is split off.
pub(crate) fn applies(_: &Graph, options: &PassOptions) -> bool {
    options.inference && options.roll != Roll::Off && profit::may_pay(options)
}

/// What the search knows of the graph.
pub(crate) struct Known<'g> {
    /// The graph.
    pub graph: &'g Graph,
    /// How each node depends on inputs.
    pub dependence: Vec<Dependence>,
    /// Live nodes that depend on inputs of the call, without parameters, in an order that is the same in equal layers.
    pub order: Vec<NodeId>,
    /// Place of each node in `order`; `usize::MAX` elsewhere.
    pub place: Vec<usize>,
}

/// The pass.
pub(crate) fn roll(graph: &Graph, options: &PassOptions) -> Result<Graph, GraphError> {
    let dependence = dependences(graph);
    let live = live_nodes(graph);
    let order = sequence(graph, &live, &dependence);
    let mut place = vec![usize::MAX; graph.nodes().len()];
    order.iter().enumerate().for_each(|(i, id)| place[id.index()] = i);
    let known = Known { graph, dependence, order, place };
    let plans = plans(&known, options);
    if plans.is_empty() { Ok(graph.clone()) } else { build::build(&known, &live, &plans) }
}

/// The loops, in the order in which they stand in the sequence.
fn plans(known: &Known<'_>, options: &PassOptions) -> Vec<Plan> {
    let hashes = sequence::hashes(known.graph, &known.order, &known.dependence);
    let mut found = Vec::new();
    let mut open: VecDeque<Range<usize>> = VecDeque::new();
    open.push_back(0..known.order.len());
    for _ in 0..MOST_SEARCHES {
        let Some(part) = open.pop_front() else { break };
        let plan = candidates(known, &hashes, part.clone())
            .into_iter()
            .filter_map(|run| plan::plan(known, run))
            .find(|plan| plan.run.count >= LEAST_LAYERS && profit::pays(known, plan, options));
        if let Some(plan) = plan {
            let taken = plan.run.range();
            open.extend([part.start..taken.start, taken.end..part.end].into_iter().filter(|r| !r.is_empty()));
            found.push(plan);
        }
    }
    found.sort_by_key(|plan| plan.run.start);
    found
}
