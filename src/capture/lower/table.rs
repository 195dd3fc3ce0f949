//! The table of lowerings: operator name to rule, joined from the families.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::LowerFn;

/// One family's operators.
pub type Family = &'static [(&'static str, LowerFn)];

/// All families.
pub const FAMILIES: &[(&str, Family)] = &[
    ("activation", super::activation::OPS),
    ("adaptive_max", super::adaptive_max::OPS),
    ("arithmetic", super::arithmetic::OPS),
    ("attention", super::attention::OPS),
    ("batch_norm", super::batch_norm::OPS),
    ("bessel", super::bessel::OPS),
    ("cast", super::cast::OPS),
    ("compare", super::compare::OPS),
    ("conv", super::conv::OPS),
    ("creation", super::creation::OPS),
    ("cumulative", super::cumulative::OPS),
    ("distance", super::distance::OPS),
    ("elementwise", super::elementwise::OPS),
    ("embedding_bag", super::embedding_bag::OPS),
    ("fft", super::fft::OPS),
    ("float_parts", super::float_parts::OPS),
    ("foreach", super::foreach::OPS),
    ("grid_sample", super::grid_sample::OPS),
    ("incomplete_gamma", super::incomplete_gamma::OPS),
    ("index", super::index::OPS),
    ("jacobi", super::jacobi::OPS),
    ("join", super::join::OPS),
    ("linalg", super::linalg::OPS),
    ("logit", super::logit::OPS),
    ("loss", super::loss::OPS),
    ("matmul", super::matmul::OPS),
    ("moe", super::moe::OPS),
    ("mutation", super::mutation::OPS),
    ("norm", super::norm::OPS),
    ("piecewise", super::piecewise::OPS),
    ("polynomials", super::polynomials::OPS),
    ("pool", super::pool::OPS),
    ("qr", super::qr::OPS),
    ("random", super::random::OPS),
    ("reduce", super::reduce::OPS),
    ("resample", super::resample::OPS),
    ("rrelu", super::rrelu::OPS),
    ("scatter", super::scatter::OPS),
    ("slicing", super::slicing::OPS),
    ("softmax", super::softmax::OPS),
    ("sort", super::sort::OPS),
    ("special", super::special::OPS),
    ("statistics", super::statistics::OPS),
    ("strided", super::strided::OPS),
    ("triangular", super::triangular::OPS),
    ("view", super::view::OPS),
    ("zeta", super::zeta::OPS),
];

/// The rule of an operator.
pub fn find(target: &str) -> Option<LowerFn> {
    static TABLE: OnceLock<FxHashMap<&'static str, LowerFn>> = OnceLock::new();
    let table = TABLE.get_or_init(|| FAMILIES.iter().flat_map(|(_, family)| family.iter().copied()).collect());
    table.get(target).copied()
}

/// Names of all operators with a rule, sorted.
pub fn supported() -> Vec<&'static str> {
    let mut names: Vec<&str> = FAMILIES.iter().flat_map(|(_, family)| family.iter().map(|(name, _)| *name)).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::supported;

    #[test]
    fn no_operator_has_two_rules() {
        let names = supported();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1], "two families lower this operator");
        }
    }
}
