//! Which part of an axis is true data: an axis as a row-major product of factors, each full or a valid prefix.

use clutch_graph::Dims;
use smallvec::{SmallVec, smallvec};

/// A size in the bucket's graph and in each witness graph. Where they differ the size depends on a symbol.
pub type Sizes = [i64; GRAPHS];

/// The bucket's graph and two witnesses at other sizes.
pub const GRAPHS: usize = 3;

/// Whether a size is the same in all graphs.
pub fn is_fixed(sizes: &Sizes) -> bool {
    sizes.iter().all(|s| *s == sizes[0])
}

fn times(a: &Sizes, b: &Sizes) -> Sizes {
    std::array::from_fn(|i| a[i] * b[i])
}

/// `a / b` where it is whole in all graphs.
fn quotient(a: &Sizes, b: &Sizes) -> Option<Sizes> {
    let whole = (0..GRAPHS).all(|i| b[i] != 0 && a[i] % b[i] == 0);
    whole.then(|| std::array::from_fn(|i| a[i] / b[i]))
}

/// One factor of an axis. A factor whose size varies holds true data in its first elements only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Its size in each graph.
    pub sizes: Sizes,
    /// The value does not depend on the position in this factor.
    pub uniform: bool,
}

impl Factor {
    /// Whether part of it may be padding.
    pub fn is_partial(&self) -> bool {
        !is_fixed(&self.sizes)
    }
}

/// An axis, outermost factor first. In normal form: no factor is 1, and only a varying factor follows another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis(pub SmallVec<[Factor; 2]>);

impl Axis {
    /// An axis whose true data is a prefix.
    pub fn prefix(sizes: Sizes, uniform: bool) -> Self {
        Axis::of(smallvec![Factor { sizes, uniform }])
    }

    /// The axis of the given factors.
    pub fn of(factors: SmallVec<[Factor; 2]>) -> Self {
        let mut axis = Axis::default();
        for f in factors {
            if f.sizes == [1; GRAPHS] {
                continue;
            }
            match axis.0.last_mut() {
                // A prefix of rows, each whole, is a prefix of elements.
                Some(last) if is_fixed(&f.sizes) => {
                    last.sizes = times(&last.sizes, &f.sizes);
                    last.uniform &= f.uniform;
                }
                _ => axis.0.push(f),
            }
        }
        axis
    }

    /// Whether part of the axis may be padding.
    pub fn is_partial(&self) -> bool {
        self.0.iter().any(Factor::is_partial)
    }

    /// Whether the value does not depend on the position in this axis.
    pub fn is_uniform(&self) -> bool {
        self.0.iter().all(|f| f.uniform)
    }

    /// The axis of a value made from two along this axis; `None` when their true data lies at different places.
    pub fn meet(&self, other: &Axis) -> Option<Axis> {
        let same = self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| a.sizes == b.sizes);
        if same {
            let both = self.0.iter().zip(&other.0).map(|(a, b)| Factor { sizes: a.sizes, uniform: a.uniform && b.uniform });
            return Some(Axis(both.collect()));
        }
        if self.is_uniform() {
            return Some(other.clone());
        }
        other.is_uniform().then(|| self.clone())
    }
}

/// The axes after a reshape to `dims` (one list of sizes a graph); `None` when the true data would not be prefixes of factors.
pub fn reshape(axes: &[Axis], dims: &[&Dims; GRAPHS]) -> Option<Vec<Axis>> {
    let mut rest: Vec<Factor> = axes.iter().rev().flat_map(|a| a.0.iter().rev().copied()).collect();
    let mut out = Vec::with_capacity(dims[0].len());
    let [top, a, b] = dims;
    for ((&top, &a), &b) in top.iter().zip(a.iter()).zip(b.iter()) {
        let mut need: Sizes = [top, a, b];
        let mut factors: SmallVec<[Factor; 2]> = SmallVec::new();
        while need != [1; GRAPHS] {
            let next = rest.pop()?;
            if let Some(left) = quotient(&need, &next.sizes) {
                factors.push(next);
                need = left;
            } else {
                let inner = quotient(&next.sizes, &need)?;
                // Rows of a prefix stay whole only when each row is full.
                if !is_fixed(&inner) && !next.uniform {
                    return None;
                }
                factors.push(Factor { sizes: need, uniform: next.uniform });
                rest.push(Factor { sizes: inner, uniform: next.uniform });
                need = [1; GRAPHS];
            }
        }
        out.push(Axis::of(factors));
    }
    rest.iter().all(|f| f.sizes == [1; GRAPHS]).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Sizes = [16, 11, 9];
    const B: Sizes = [2; GRAPHS];
    const H: Sizes = [12; GRAPHS];

    fn full(sizes: Sizes) -> Axis {
        Axis::prefix(sizes, false)
    }

    fn dims(list: &[Sizes]) -> [Dims; GRAPHS] {
        std::array::from_fn(|g| list.iter().map(|s| s[g]).collect())
    }

    fn reshaped(axes: &[Axis], to: &[Sizes]) -> Option<Vec<Axis>> {
        let d = dims(to);
        reshape(axes, &[&d[0], &d[1], &d[2]])
    }

    #[test]
    fn merging_and_splitting_undo_each_other() {
        let axes = [full(B), full(S), full(H)];
        let flat = reshaped(&axes, &[times(&B, &S), H]).unwrap();
        assert_eq!(flat[0].0.iter().map(|f| f.sizes).collect::<Vec<_>>(), [B, S]);
        assert_eq!(reshaped(&flat, &[B, S, H]).unwrap(), axes);
        assert_eq!(reshaped(&flat, &[B, S, [3; 3], [4; 3]]).unwrap(), [full(B), full(S), full([3; 3]), full([4; 3])]);
    }

    #[test]
    fn a_prefix_of_rows_is_a_prefix() {
        let flat = reshaped(&[full(S), full(H)], &[times(&S, &H)]).unwrap();
        assert_eq!(flat, [full(times(&S, &H))]);
        assert_eq!(reshaped(&flat, &[S, H]).unwrap(), [full(S), full(H)]);
        assert_eq!(reshaped(&flat, &[H, S]), None);
    }

    #[test]
    fn uniform_axes_meet_any_other() {
        let mosaic = Axis::of(smallvec![Factor { sizes: B, uniform: false }, Factor { sizes: S, uniform: false }]);
        let flat = Axis::prefix(times(&B, &S), true);
        assert_eq!(flat.meet(&mosaic), Some(mosaic.clone()));
        assert_eq!(Axis::prefix(times(&B, &S), false).meet(&mosaic), None);
    }
}
