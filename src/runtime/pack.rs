//! Copies between strided host memory and dense row-major memory.

/// Copies a strided array to dense row-major bytes.
///
/// # Safety
/// `source` must be readable at every element that `dims` and `strides` (in elements of `size` bytes) reach, `target` writable for
/// the dense size, and the two must not overlap.
pub unsafe fn gather(source: *const u8, target: *mut u8, dims: &[i64], strides: &[i64], size: usize) {
    // SAFETY: forwarded to the caller.
    unsafe {
        each_run(dims, strides, size, |dense, strided, bytes| {
            std::ptr::copy_nonoverlapping(source.offset(strided), target.add(dense), bytes)
        })
    }
}

/// Copies dense row-major bytes to a strided array.
///
/// # Safety
/// As [`gather`], with the roles of the two exchanged.
pub unsafe fn scatter(source: *const u8, target: *mut u8, dims: &[i64], strides: &[i64], size: usize) {
    // SAFETY: forwarded to the caller.
    unsafe {
        each_run(dims, strides, size, |dense, strided, bytes| {
            std::ptr::copy_nonoverlapping(source.add(dense), target.offset(strided), bytes)
        })
    }
}

/// Calls `copy(dense byte offset, strided byte offset, bytes)` for each contiguous run.
///
/// # Safety
/// `copy` is called for offsets inside the described arrays only; what it does with them is the caller's.
unsafe fn each_run(dims: &[i64], strides: &[i64], size: usize, copy: impl Fn(usize, isize, usize)) {
    if dims.contains(&0) {
        return;
    }
    let mut run = size;
    let mut outer = dims.len();
    while outer > 0 && (dims[outer - 1] == 1 || strides[outer - 1] * size as i64 == run as i64) {
        run *= dims[outer - 1] as usize;
        outer -= 1;
    }
    let mut index = smallvec::SmallVec::<[i64; 8]>::from_elem(0, outer);
    let (mut dense, mut strided) = (0usize, 0isize);
    loop {
        copy(dense, strided, run);
        dense += run;
        let mut axis = outer;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            strided += strides[axis] as isize * size as isize;
            if index[axis] < dims[axis] {
                break;
            }
            strided -= (strides[axis] * dims[axis]) as isize * size as isize;
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
    fn scalars_and_empty_arrays() {
        let (source, mut target) = ([7u8], [0u8]);
        // SAFETY: one byte each.
        unsafe { gather(source.as_ptr(), target.as_mut_ptr(), &[], &[], 1) };
        assert_eq!(target, [7]);
        // SAFETY: nothing is touched.
        unsafe { gather(source.as_ptr(), target.as_mut_ptr(), &[3, 0], &[0, 1], 1) };
    }
}
