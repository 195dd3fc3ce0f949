//! Copies between strided host memory and dense row-major memory.

use clutch_graph::types::row_major_strides;

/// Alignment in bytes at which CPU plugins read host memory in place.
pub const ALIGNMENT: usize = 64;

/// Memory at that alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Line(pub [u8; ALIGNMENT]);

impl Default for Line {
    fn default() -> Self {
        Line([0; ALIGNMENT])
    }
}

/// Copies a strided array to dense row-major bytes.
///
/// # Safety
/// `source` must be readable at every element that `dims` and `strides` (in elements of `size` bytes) reach, `target` writable for
/// the dense size, and the two must not overlap.
pub unsafe fn gather(source: *const u8, target: *mut u8, dims: &[i64], strides: &[i64], size: usize) {
    // SAFETY: forwarded to the caller.
    unsafe { copy(source, target, dims, strides, &row_major_strides(dims), size) }
}

/// Copies dense row-major bytes to a strided array.
///
/// # Safety
/// As [`gather`], with the roles of the two exchanged.
pub unsafe fn scatter(source: *const u8, target: *mut u8, dims: &[i64], strides: &[i64], size: usize) {
    // SAFETY: forwarded to the caller.
    unsafe { copy(source, target, dims, &row_major_strides(dims), strides, size) }
}

/// Copies a strided array to another; strides in elements of `size` bytes.
///
/// # Safety
/// `source` must be readable and `target` writable at every element that `dims` and their strides reach, and the two must not overlap.
pub unsafe fn copy(source: *const u8, target: *mut u8, dims: &[i64], source_strides: &[i64], target_strides: &[i64], size: usize) {
    if dims.contains(&0) {
        return;
    }
    let mut run = size;
    let mut outer = dims.len();
    let whole = |stride: i64, run: usize| stride * size as i64 == run as i64;
    while outer > 0 && (dims[outer - 1] == 1 || (whole(source_strides[outer - 1], run) && whole(target_strides[outer - 1], run))) {
        run *= dims[outer - 1] as usize;
        outer -= 1;
    }
    let step = |strides: &[i64], axis: usize| strides[axis] as isize * size as isize;
    let mut index = smallvec::SmallVec::<[i64; 8]>::from_elem(0, outer);
    let (mut from, mut to) = (0isize, 0isize);
    loop {
        // SAFETY: the offsets are those of a valid index, and the run is contiguous on both sides.
        unsafe { std::ptr::copy_nonoverlapping(source.offset(from), target.offset(to), run) };
        let mut axis = outer;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            from += step(source_strides, axis);
            to += step(target_strides, axis);
            if index[axis] < dims[axis] {
                break;
            }
            from -= step(source_strides, axis) * dims[axis] as isize;
            to -= step(target_strides, axis) * dims[axis] as isize;
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_round_trip() {
        let source: Vec<u16> = (0..24).collect();
        let mut dense = vec![0u16; 12];
        // Every second column of a 3x2x4 array, with the first two axes exchanged: element (i, j, k) is at 4 i + 8 j + 2 k.
        let (dims, strides) = ([2, 3, 2], [4, 8, 2]);
        // SAFETY: all offsets are below 24 elements; the dense size is 12.
        unsafe { gather(source.as_ptr().cast(), dense.as_mut_ptr().cast(), &dims, &strides, 2) };
        assert_eq!(dense, [0, 2, 8, 10, 16, 18, 4, 6, 12, 14, 20, 22]);
        let mut back = vec![99u16; 24];
        // SAFETY: as above.
        unsafe { scatter(dense.as_ptr().cast(), back.as_mut_ptr().cast(), &dims, &strides, 2) };
        for (i, v) in back.iter().enumerate() {
            assert_eq!(*v, if i % 2 == 0 { i as u16 } else { 99 });
        }
    }

    #[test]
    fn a_corner_of_a_larger_array() {
        let source: Vec<u16> = (0..6).collect();
        let mut target = vec![9u16; 12];
        // SAFETY: 2x3 into the corner of 3x4.
        unsafe { copy(source.as_ptr().cast(), target.as_mut_ptr().cast(), &[2, 3], &[3, 1], &[4, 1], 2) };
        assert_eq!(target, [0, 1, 2, 9, 3, 4, 5, 9, 9, 9, 9, 9]);
        let mut back = vec![0u16; 6];
        // SAFETY: the same corner, transposed.
        unsafe { copy(target.as_ptr().cast(), back.as_mut_ptr().cast(), &[3, 2], &[1, 4], &[2, 1], 2) };
        assert_eq!(back, [0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn scalars_and_empty_arrays() {
        let (source, mut target) = ([7u8], [0u8]);
        // SAFETY: one byte each.
        unsafe { gather(source.as_ptr(), target.as_mut_ptr(), &[], &[], 1) };
        assert_eq!(target, [7]);
        // SAFETY: nothing is touched.
        unsafe { gather(source.as_ptr(), target.as_mut_ptr(), &[3, 0], &[0, 1], 1) };
    }
}
