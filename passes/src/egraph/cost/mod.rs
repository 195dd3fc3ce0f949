//! The cost of a term on a device: a roofline of arithmetic and memory with a floor for each kernel.
//!
//! Elementwise ops join the kernel that makes or reads their operand, so they cost little; products, reductions and movements are kernels.
//! What depends on weights alone is computed when weights change and costs nothing per call.

mod device;
mod kernel;

use clutch_graph::{Op, TensorType};
use egg::Id;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

pub use device::{Device, Table};
pub use kernel::{Placed, op_cost};

use crate::egraph::analysis::Origin;
use crate::egraph::language::{Head, Term};
use crate::egraph::search::Search;
use crate::options::PassOptions;

/// Cost of what is computed on weights alone: any, so that fewer and simpler terms win among equals.
const ON_WEIGHTS: f64 = 1e-4;

/// Prices terms for one device.
#[derive(Debug)]
pub(crate) struct Model {
    table: &'static Table,
    /// Terms that cost too much wherever their class has another.
    shunned: Option<FxHashSet<Term>>,
}

impl Model {
    /// The prices of the options' device.
    pub fn new(options: &PassOptions) -> Self {
        Model { table: options.device.table(), shunned: None }
    }

    /// Prices under which terms other than those of `original` are chosen wherever they can be.
    pub fn preferring_new(search: &Search<'_>, original: &[Id]) -> Self {
        let canonical = |&id: &Id| {
            let mut term = search.terms.id_to_node(id).clone();
            term.children.iter_mut().for_each(|c| *c = search.terms.find(*c));
            term
        };
        Model { table: search.options.device.table(), shunned: Some(original.iter().map(canonical).collect()) }
    }

    /// Cost of a term of class `id`, without what it is applied to.
    pub fn term(&self, search: &Search<'_>, id: Id, term: &Term) -> f64 {
        if let Some(shunned) = &self.shunned {
            let others = search.terms[id].nodes.iter().any(|t| !shunned.contains(t));
            return if others && shunned.contains(term) { 1e6 } else { 1.0 };
        }
        let Head::Op(op) = search.terms.analysis.heads.get(term.head) else { return 0.0 };
        let origin = term.children.iter().map(|&c| search.facts(c).origin).max().unwrap_or(Origin::Nothing);
        if origin < Origin::Call {
            return if matches!(**op, Op::Constant(_)) { 0.0 } else { ON_WEIGHTS };
        }
        let operands: SmallVec<[&TensorType; 4]> = term.children.iter().map(|&c| search.ty(c)).collect();
        op_cost(op, &operands, &search.facts(id).types, self.table, Placed::Among)
    }
}
