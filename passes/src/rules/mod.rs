//! Rewrite rules of the e-graph: one file a family. Each rule has a unique name, a stated condition and a rounding class. None is applied
//! for its own sake: it adds an equal form, and the device's cost table chooses. There is no blanket commutativity or associativity.

mod activation;
mod algebra;
mod attention;
mod cast;
mod conv;
mod matmul;
mod movement;
mod norm;
mod reduce;
mod select;

use std::sync::LazyLock;

use clutch_graph::{GraphError, Op};
use egg::Id;

use crate::egraph::search::{Found, Search};

/// What a rule may do to results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rounding {
    /// Every bit stays, up to the payload of NaN.
    Exact,
    /// The order of a sum or the place of a rounding changes: results differ by a few units in the last place of the largest term.
    Reassociating,
}

/// A rule of the region: all pairs of classes that are equal.
type RegionRule = fn(&mut Search<'_>) -> Result<Vec<(Id, Id)>, GraphError>;

/// How a rule is applied.
#[derive(Clone, Copy)]
pub(crate) enum Apply {
    /// To every term by its op and children; the class that it belongs to comes last.
    Term(fn(&mut Search<'_>, &Op, &[Id], Id) -> Found),
    /// To the region as a whole.
    Region(RegionRule),
}

/// A rule.
pub(crate) struct Rule {
    /// Unique among all rules.
    pub name: &'static str,
    /// When it holds, besides the form that it looks for.
    pub condition: &'static str,
    /// What it may do to results.
    pub rounding: Rounding,
    /// The rule.
    pub apply: Apply,
}

/// What is said of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    /// Its family, which is its file.
    pub family: Family,
    /// Unique among all rules.
    pub name: &'static str,
    /// When it holds.
    pub condition: &'static str,
    /// What it may do to results.
    pub rounding: Rounding,
}

/// Name of a family of rules.
pub type Family = &'static str;

const FAMILIES: &[(Family, &[Rule])] = &[
    ("activation", activation::RULES),
    ("algebra", algebra::RULES),
    ("attention", attention::RULES),
    ("cast", cast::RULES),
    ("conv", conv::RULES),
    ("matmul", matmul::RULES),
    ("movement", movement::RULES),
    ("norm", norm::RULES),
    ("reduce", reduce::RULES),
    ("select", select::RULES),
];

/// Every rule, family by family.
pub fn rules() -> impl Iterator<Item = RuleInfo> {
    let info = |family, r: &Rule| RuleInfo { family, name: r.name, condition: r.condition, rounding: r.rounding };
    FAMILIES.iter().flat_map(move |(family, rules)| rules.iter().map(move |r| info(*family, r)))
}

/// Every rule, in the order in which they are applied.
pub(crate) fn all() -> &'static [&'static Rule] {
    static ALL: LazyLock<Vec<&'static Rule>> = LazyLock::new(|| FAMILIES.iter().flat_map(|(_, rules)| rules.iter()).collect());
    &ALL
}
