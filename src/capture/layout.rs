//! Memory orders of strided tensors.

use clutch_graph::op::Axes;

/// The axes from major to minor when the strides are those of a dense permuted tensor; `None` for gaps, overlaps and expanded axes.
/// Axes of size 1 stay in place. Tensors without elements are row-major.
pub fn dense_order(dims: &[i64], strides: &[i64]) -> Option<Axes> {
    let mut order: Axes = (0..dims.len()).collect();
    if dims.contains(&0) {
        return Some(order);
    }
    if strides.len() != dims.len() {
        return None;
    }
    let mut expected = 1;
    let row_major = (0..dims.len()).rev().all(|a| {
        let fits = dims[a] == 1 || strides[a] == expected;
        expected *= dims[a];
        fits
    });
    if row_major {
        return Some(order);
    }
    let mut moving: Axes = order.iter().copied().filter(|&a| dims[a] != 1).collect();
    moving.sort_by_key(|&a| std::cmp::Reverse(strides[a]));
    let mut expected = 1;
    for &a in moving.iter().rev() {
        if strides[a] != expected {
            return None;
        }
        expected *= dims[a];
    }
    let mut next = moving.into_iter();
    for slot in order.iter_mut().filter(|a| dims[**a] != 1) {
        *slot = next.next()?;
    }
    Some(order)
}

/// The permutation that undoes `order`.
pub fn inverse_order(order: &[usize]) -> Axes {
    let mut inverse: Axes = smallvec::smallvec![0; order.len()];
    for (i, &a) in order.iter().enumerate() {
        inverse[a] = i;
    }
    inverse
}

/// Whether two elements may share memory.
pub fn overlaps(dims: &[i64], strides: &[i64]) -> bool {
    if dims.contains(&0) || dims.len() != strides.len() {
        return false;
    }
    let mut axes: Axes = (0..dims.len()).filter(|&a| dims[a] > 1).collect();
    axes.sort_by_key(|&a| strides[a]);
    let mut span = 1;
    axes.iter().any(|&a| {
        let shares = strides[a] < span;
        span += (dims[a] - 1) * strides[a];
        shares
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_common_layouts() {
        let order = |d: &[i64], s: &[i64]| dense_order(d, s).map(|o| o.to_vec());
        assert_eq!(order(&[2, 3, 4], &[12, 4, 1]), Some(vec![0, 1, 2]));
        assert_eq!(order(&[3, 2], &[1, 3]), Some(vec![1, 0]));
        assert_eq!(order(&[1, 64, 7, 7], &[3136, 1, 448, 64]), Some(vec![0, 2, 3, 1]));
        assert_eq!(order(&[4, 5], &[0, 1]), None);
        assert_eq!(order(&[4, 5], &[10, 1]), None);
        assert_eq!(order(&[0, 5], &[9, 9]), Some(vec![0, 1]));
        assert_eq!(order(&[1, 5], &[77, 1]), Some(vec![0, 1]));
        assert_eq!(order(&[], &[]), Some(vec![]));
    }

    #[test]
    fn overlap() {
        assert!(!overlaps(&[2, 3], &[3, 1]));
        assert!(!overlaps(&[3, 2], &[1, 3]));
        assert!(!overlaps(&[4, 1], &[10, 0]));
        assert!(overlaps(&[7, 4], &[1, 1]));
        assert!(overlaps(&[4, 5], &[0, 1]));
    }

    #[test]
    fn inverse_undoes() {
        assert_eq!(inverse_order(&[0, 2, 3, 1]).to_vec(), vec![0, 3, 1, 2]);
    }
}
