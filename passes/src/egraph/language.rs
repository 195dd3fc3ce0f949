//! The tensor language of the e-graph: one term type for every op, its attributes interned, multi-result ops read through projections.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use clutch_graph::Op;
use egg::{Id, Language};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use smallvec::SmallVec;

/// Children of a term.
pub(crate) type Children = SmallVec<[Id; 3]>;

/// An interned [`Head`]. Numbers count up in the order in which heads are first met, so equal runs give equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HeadId(u32);

/// What a term is, without its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// A value from outside of the region, by number.
    Input(u32),
    /// An op with its attributes; bodies of loops, branches and calls are opaque parts of it. A value when the op has one result.
    Op(Arc<Op>),
    /// One result, by number, of its only child, which has several.
    Result(u32),
}

/// A node of the e-graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Term {
    /// What it is.
    pub head: HeadId,
    /// What it is applied to.
    pub children: Children,
}

impl Language for Term {
    type Discriminant = HeadId;

    fn discriminant(&self) -> HeadId {
        self.head
    }

    fn matches(&self, other: &Self) -> bool {
        self.head == other.head && self.children.len() == other.children.len()
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}

/// All heads met so far.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    heads: Vec<Head>,
    table: HashTable<HeadId>,
}

impl Heads {
    /// The number of a head.
    pub fn intern(&mut self, head: Head) -> HeadId {
        let hash = head_hash(&head);
        let heads = &self.heads;
        if let Some(&id) = self.table.find(hash, |id| heads[id.0 as usize] == head) {
            return id;
        }
        let id = HeadId(self.heads.len() as u32);
        self.heads.push(head);
        let heads = &self.heads;
        self.table.insert_unique(hash, id, |id| head_hash(&heads[id.0 as usize]));
        id
    }

    /// The head of a number.
    pub fn get(&self, id: HeadId) -> &Head {
        &self.heads[id.0 as usize]
    }
}

/// Bodies are left out: equal ones are usually one allocation, which comparing sees at once and hashing does not.
pub(crate) fn op_hash(op: &Op, hasher: &mut FxHasher) {
    match op {
        Op::While { .. } | Op::Cond { .. } | Op::Call(_) => std::mem::discriminant(op).hash(hasher),
        _ => op.hash(hasher),
    }
}

fn head_hash(head: &Head) -> u64 {
    let mut hasher = FxHasher::default();
    match head {
        Head::Input(n) => (0u8, n).hash(&mut hasher),
        Head::Op(op) => op_hash(op, &mut hasher),
        Head::Result(n) => (1u8, n).hash(&mut hasher),
    }
    hasher.finish()
}
