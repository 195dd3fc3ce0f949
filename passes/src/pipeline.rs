//! The ordered pass list and its timer.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use clutch_graph::{Graph, GraphError, Op};
use rustc_hash::FxHashMap;

use crate::egraph;
use crate::error::PassError;
use crate::expand;
use crate::layout;
use crate::options::{PassOptions, Rewrite};
use crate::rewrite::{drop_dead, live_nodes, results, rewrite};
use crate::roll;
use crate::simplify::{has_single_rows, simplify, simplify_and_lay_out, simplify_single_rows};

/// Bodies nested deeper than this are refused.
const NESTING_LIMIT: usize = 32;

/// One pass.
pub struct Pass {
    /// Unique in the list.
    pub name: &'static str,
    /// What it does, in one line.
    pub description: &'static str,
    /// Whether it runs on the graph under the options.
    pub applies: fn(&Graph, &PassOptions) -> bool,
    rewrite: fn(&Graph, &PassOptions) -> Result<Graph, GraphError>,
}

impl Pass {
    /// Runs this pass alone, on the outermost graph only.
    ///
    /// # Errors
    /// When the pass breaks a rule of the IR.
    pub fn run(&self, graph: &Graph, options: &PassOptions) -> Result<Graph, PassError> {
        (self.rewrite)(graph, options).map_err(|source| PassError::Graph { pass: self.name, source })
    }
}

/// The passes in order. Each runs on the bodies of loops, branches and calls too.
pub static PASSES: &[Pass] = &[
    Pass {
        name: "simplify",
        description: "canonical forms, common subexpressions, constant folding",
        applies: |_, _| true,
        rewrite: simplify,
    },
    Pass {
        name: "rewrite",
        description: "the cheapest equal program by the device's cost table, found in an e-graph",
        applies: |_, options| options.rewrite != Rewrite::Off,
        rewrite: egraph::rewrite,
    },
    Pass {
        name: "expand",
        description: "composites become primitives in the form that is best on the target",
        applies: expand::applies,
        rewrite: expand::expand,
    },
    Pass {
        name: "layout",
        description: "convolutions channels-last or as dots, pooling as slices, transposes sunk until they cancel",
        applies: layout::applies,
        rewrite: simplify_and_lay_out,
    },
    Pass {
        name: "products",
        description: "products with a single row in the form that is best on the target",
        applies: has_single_rows,
        rewrite: simplify_single_rows,
    },
    Pass { name: "tidy", description: "simplify again, over what the other passes left", applies: |_, _| true, rewrite: simplify },
    Pass { name: "dead-code", description: "nodes that no output needs are dropped", applies: |_, _| true, rewrite: |g, _| drop_dead(g) },
    Pass {
        name: "roll",
        description: "consecutive equal layers become a loop over stacked weights",
        applies: roll::applies,
        rewrite: roll::roll,
    },
];

/// What one pass did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassTiming {
    /// Name in [`PASSES`].
    pub name: &'static str,
    /// The pass's one-line description.
    pub description: &'static str,
    /// Wall time in microseconds.
    pub micros: u64,
    /// Nodes of the outermost graph before.
    pub nodes_before: usize,
    /// Nodes of the outermost graph after.
    pub nodes_after: usize,
}

/// What a run of the pass list did, pass by pass in order. The bodies of loops, branches and calls are timed as pass `bodies`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassReport {
    /// One entry a pass that ran.
    pub passes: Vec<PassTiming>,
}

impl PassReport {
    /// Wall time of all passes in microseconds.
    pub fn total_micros(&self) -> u64 {
        self.passes.iter().map(|p| p.micros).sum()
    }

    fn record(&mut self, name: &'static str, description: &'static str, started: Instant, before: usize, after: usize) {
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.passes.push(PassTiming { name, description, micros, nodes_before: before, nodes_after: after });
    }
}

/// Runs the pass list. Parameters, outputs and donations keep their numbers and types.
///
/// # Errors
/// When a pass breaks a rule of the IR, or bodies are nested too deep.
pub fn run(graph: Graph, options: &PassOptions) -> Result<(Graph, PassReport), PassError> {
    run_nested(graph, options, 0)
}

fn run_nested(graph: Graph, options: &PassOptions, depth: usize) -> Result<(Graph, PassReport), PassError> {
    if depth > NESTING_LIMIT {
        return Err(PassError::Nesting { limit: NESTING_LIMIT });
    }
    let mut report = PassReport::default();
    let mut graph = graph;
    if graph.nodes().iter().any(|n| !bodies(&n.op).is_empty()) {
        let (started, before) = (Instant::now(), graph.nodes().len());
        graph = run_bodies(&graph, options, depth)?;
        report.record("bodies", "the pass list on the bodies of loops, branches and calls", started, before, graph.nodes().len());
    }
    for pass in PASSES {
        if !(pass.applies)(&graph, options) {
            continue;
        }
        let (started, before) = (Instant::now(), graph.nodes().len());
        graph = pass.run(&graph, options)?;
        report.record(pass.name, pass.description, started, before, graph.nodes().len());
    }
    Ok((graph, report))
}

fn bodies(op: &Op) -> Vec<&Arc<Graph>> {
    match op {
        Op::While { cond, body } => vec![cond, body],
        Op::Cond { on_true, on_false } => vec![on_true, on_false],
        Op::Call(body) => vec![body],
        _ => Vec::new(),
    }
}

/// Runs the list on every body once; bodies that are shared stay shared.
fn run_bodies(graph: &Graph, options: &PassOptions, depth: usize) -> Result<Graph, PassError> {
    let live = live_nodes(graph);
    let mut done: FxHashMap<*const Graph, Arc<Graph>> = FxHashMap::default();
    for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
        for body in bodies(&node.op) {
            if let Entry::Vacant(entry) = done.entry(Arc::as_ptr(body)) {
                let (new, _) = run_nested((**body).clone(), options, depth + 1)?;
                entry.insert(Arc::new(new));
            }
        }
    }
    let new = |body: &Arc<Graph>| done[&Arc::as_ptr(body)].clone();
    rewrite(graph, |b, site| {
        let op = match &site.node.op {
            Op::While { cond, body } => Op::While { cond: new(cond), body: new(body) },
            Op::Cond { on_true, on_false } => Op::Cond { on_true: new(on_true), on_false: new(on_false) },
            Op::Call(body) => Op::Call(new(body)),
            other => other.clone(),
        };
        let id = b.graph_mut().add(op, site.operands.iter().copied())?;
        Ok(results(b.graph(), id))
    })
    .map_err(|source| PassError::Graph { pass: "bodies", source })
}
