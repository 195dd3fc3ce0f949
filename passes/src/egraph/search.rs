//! Equality saturation over one region: terms are added and joined by the rules until nothing changes or a limit is met.

use std::sync::Arc;

use clutch_graph::infer::infer;
use clutch_graph::op::{Axes, BinaryOp, DotDims, Precision, UnaryOp};
use clutch_graph::{DType, Dims, GraphError, Literal, Op, TensorType};
use egg::Id;
use smallvec::{SmallVec, smallvec};

use crate::egraph::analysis::{Facts, Knowledge, Origin, Terms};
use crate::egraph::language::{Children, Head, Term};
use crate::options::PassOptions;
use crate::rules::{Apply, Rounding, Rule};

/// Rounds of all rules.
const ROUNDS: usize = 5;

/// Terms that a region may grow by: this many for each term it had, and a few more.
const GROWTH: usize = 4;
const GROWTH_BASE: usize = 128;

/// What a rule gives: the term that equals the root, if the rule applies.
pub(crate) type Found = Result<Option<Id>, GraphError>;

/// An e-graph under rules.
pub(crate) struct Search<'a> {
    /// The terms.
    pub terms: Terms,
    /// The options of the run.
    pub options: &'a PassOptions,
    fired: Vec<(&'static str, u32)>,
}

impl<'a> Search<'a> {
    /// An empty e-graph over the given inputs.
    pub fn new(options: &'a PassOptions, inputs: Vec<Facts>) -> Self {
        let knowledge = Knowledge { inputs, ..Knowledge::default() };
        Search { terms: Terms::new(knowledge), options, fired: Vec::new() }
    }

    /// The class of region input `n`.
    pub fn input(&mut self, n: u32) -> Id {
        let head = self.terms.analysis.heads.intern(Head::Input(n));
        self.terms.add(Term { head, children: Children::new() })
    }

    /// The op of a term; `None` for inputs and projections.
    pub fn op(&self, term: &Term) -> Option<&Arc<Op>> {
        match self.terms.analysis.heads.get(term.head) {
            Head::Op(op) => Some(op),
            _ => None,
        }
    }

    /// What is known of a class.
    pub fn facts(&self, id: Id) -> &Facts {
        &self.terms[id].data
    }

    /// Type of a class of single values.
    pub fn ty(&self, id: Id) -> &TensorType {
        &self.facts(id).types[0]
    }

    /// Sizes of a class of single values.
    pub fn dims(&self, id: Id) -> &[i64] {
        &self.ty(id).dims
    }

    /// Element type of a class of single values.
    pub fn dtype(&self, id: Id) -> DType {
        self.ty(id).dtype
    }

    /// Whether two ids are of one class.
    pub fn same(&self, a: Id, b: Id) -> bool {
        self.terms.find(a) == self.terms.find(b)
    }

    /// The first term of a class that `f` takes.
    pub fn find<'s, T>(&'s self, id: Id, f: impl Fn(&'s Op, &'s [Id]) -> Option<T>) -> Option<T> {
        self.terms[id].nodes.iter().find_map(|t| f(self.op(t)?, &t.children))
    }

    /// Operands of the first unary op of this kind in a class.
    pub fn unary_of(&self, id: Id, u: UnaryOp) -> Option<Id> {
        self.find(id, |op, x| (*op == Op::Unary(u)).then(|| x[0]))
    }

    /// Operands of the first binary op of this kind in a class.
    pub fn binary_of(&self, id: Id, b: BinaryOp) -> Option<[Id; 2]> {
        self.find(id, |op, x| (*op == Op::Binary(b)).then(|| [x[0], x[1]]))
    }

    /// `x` and the number `c`, when a class has a term `x op c` or, for sums and products, `c op x`.
    pub fn with_number(&self, id: Id, b: BinaryOp) -> Option<(Id, f64)> {
        self.find(id, |op, x| {
            if *op != Op::Binary(b) {
                return None;
            }
            let right = self.facts(x[1]).uniform.map(|c| (x[0], c));
            let commutes = matches!(b, BinaryOp::Add | BinaryOp::Mul | BinaryOp::Max | BinaryOp::Min);
            right.or_else(|| if commutes { self.facts(x[0]).uniform.map(|c| (x[1], c)) } else { None })
        })
    }

    /// What a class repeats along `axes`: the operand of a broadcast, or itself behind reshapes that only insert ones.
    pub fn broadcast_of(&self, id: Id) -> Option<(Id, Axes)> {
        self.find(id, |op, x| match op {
            Op::Broadcast { axes, .. } => Some((x[0], axes.clone())),
            _ => None,
        })
    }

    /// The class of `op` on classes of single values.
    ///
    /// # Errors
    /// When the shape rule refuses, which is a fault of the rule.
    pub fn add_all(&mut self, op: Op, children: &[Id]) -> Result<Id, GraphError> {
        self.add_shared(Arc::new(op), children)
    }

    /// As [`Search::add_all`] of a shared op.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn add_shared(&mut self, op: Arc<Op>, children: &[Id]) -> Result<Id, GraphError> {
        let head = self.terms.analysis.heads.intern(Head::Op(op.clone()));
        let term = Term { head, children: children.iter().map(|&c| self.terms.find(c)).collect() };
        if let Some(id) = self.terms.lookup(term.clone()) {
            return Ok(id);
        }
        let types = {
            let operands: SmallVec<[&TensorType; 4]> = children.iter().map(|&c| self.ty(c)).collect();
            infer(&op, &operands)?
        };
        self.terms.analysis.checked = Some(types);
        Ok(self.terms.add(term))
    }

    /// The class of result `n` of a class of tuples.
    pub fn result(&mut self, tuple: Id, n: u32) -> Id {
        let head = self.terms.analysis.heads.intern(Head::Result(n));
        self.terms.add(Term { head, children: smallvec![tuple] })
    }

    /// The class of a single-result op; what changes nothing is left out.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn add(&mut self, op: Op, x: &[Id]) -> Result<Id, GraphError> {
        let same = match &op {
            Op::Reshape(dims) => self.dims(x[0]) == &dims[..],
            Op::Transpose(perm) => perm.iter().copied().eq(0..perm.len()),
            Op::Broadcast { dims, axes } => self.dims(x[0]) == &dims[..] && axes.iter().copied().eq(0..dims.len()),
            Op::Convert(to) => self.dtype(x[0]) == *to,
            Op::Concat(_) => x.len() == 1,
            Op::Reduce { axes, .. } => axes.is_empty(),
            Op::Slice { start, limit, stride } => {
                start.iter().all(|&s| s == 0) && stride.iter().all(|&s| s == 1) && self.dims(x[0]) == &limit[..]
            }
            _ => false,
        };
        if same { Ok(x[0]) } else { self.add_all(op, x) }
    }

    /// An elementwise op of one operand.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn unary(&mut self, u: UnaryOp, x: Id) -> Result<Id, GraphError> {
        self.add(Op::Unary(u), &[x])
    }

    /// An elementwise op of two operands.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn binary(&mut self, b: BinaryOp, x: Id, y: Id) -> Result<Id, GraphError> {
        self.add(Op::Binary(b), &[x, y])
    }

    /// Reshape.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn reshape(&mut self, x: Id, dims: &[i64]) -> Result<Id, GraphError> {
        self.add(Op::Reshape(dims.into()), &[x])
    }

    /// Transpose.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn transpose(&mut self, x: Id, perm: &[usize]) -> Result<Id, GraphError> {
        self.add(Op::Transpose(perm.into()), &[x])
    }

    /// Broadcast with explicit axes.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn broadcast(&mut self, x: Id, dims: &[i64], axes: &[usize]) -> Result<Id, GraphError> {
        self.add(Op::Broadcast { dims: dims.into(), axes: axes.into() }, &[x])
    }

    /// Elements `start..limit` of one axis.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn slice_axis(&mut self, x: Id, axis: usize, start: i64, limit: i64) -> Result<Id, GraphError> {
        let mut limits: Dims = self.dims(x).into();
        let mut starts: Dims = smallvec![0; limits.len()];
        (starts[axis], limits[axis]) = (start, limit);
        let stride = smallvec![1; limits.len()];
        self.add(Op::Slice { start: starts, limit: limits, stride }, &[x])
    }

    /// A tensor of one number, of the element type nearest to it.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn number(&mut self, dtype: DType, dims: &[i64], value: f64) -> Result<Id, GraphError> {
        let scalar = self.add(Op::Constant(Literal::scalar_f64(dtype, value)), &[])?;
        self.broadcast(scalar, dims, &[])
    }

    /// Product.
    ///
    /// # Errors
    /// As [`Search::add_all`].
    pub fn dot(&mut self, x: [Id; 2], dims: DotDims, out: DType, precision: Precision) -> Result<Id, GraphError> {
        self.add(Op::DotGeneral { dims, out, precision }, &x)
    }

    /// Whether a class depends on weights alone.
    pub fn is_weight(&self, id: Id) -> bool {
        self.facts(id).origin == Origin::Weights
    }

    /// Classes in the order in which they were made, each with its terms.
    fn snapshot(&self) -> Vec<(Id, Term)> {
        let mut ids: Vec<Id> = self.terms.classes().map(|c| c.id).collect();
        ids.sort_unstable();
        ids.into_iter().flat_map(|id| self.terms[id].nodes.iter().map(move |t| (id, t.clone()))).collect()
    }

    /// Applies the rules until nothing changes or a limit of rounds or terms is met. Rules that need more rounding than `allowed` are left out.
    ///
    /// # Errors
    /// When a rule builds an ill-typed term.
    pub fn saturate(&mut self, rules: &[&'static Rule], allowed: Rounding) -> Result<(), GraphError> {
        let limit = self.terms.total_size() * (1 + GROWTH) + GROWTH_BASE;
        let rules: Vec<&'static Rule> = rules.iter().copied().filter(|r| r.rounding <= allowed).collect();
        self.terms.rebuild();
        for _ in 0..ROUNDS {
            let before = (self.terms.total_size(), self.terms.number_of_classes());
            for rule in &rules {
                if let Apply::Region(apply) = rule.apply {
                    for (root, new) in apply(self)? {
                        self.join(rule, root, new);
                    }
                }
            }
            for (root, term) in self.snapshot() {
                let Some(op) = self.op(&term).cloned() else { continue };
                for rule in &rules {
                    let Apply::Term(apply) = rule.apply else { continue };
                    if let Some(new) = apply(self, &op, &term.children, root)? {
                        self.join(rule, root, new);
                    }
                }
                if self.terms.total_number_of_nodes() > limit {
                    break;
                }
            }
            self.terms.rebuild();
            if (self.terms.total_size(), self.terms.number_of_classes()) == before || self.terms.total_number_of_nodes() > limit {
                break;
            }
        }
        Ok(())
    }

    fn join(&mut self, rule: &'static Rule, root: Id, new: Id) {
        if self.same(root, new) || self.facts(root).types != self.facts(new).types {
            debug_assert_eq!(self.facts(root).types, self.facts(new).types, "rule {} changes a type", rule.name);
            return;
        }
        self.terms.union_trusted(root, new, rule.name);
        match self.fired.iter_mut().find(|(name, _)| *name == rule.name) {
            Some((_, count)) => *count += 1,
            None => self.fired.push((rule.name, 1)),
        }
    }

    /// How often each rule joined classes, in the order of first use.
    pub fn fired(&self) -> &[(&'static str, u32)] {
        &self.fired
    }
}
