//! Tensor types: an element type and static dimensions.

use std::fmt;

use smallvec::SmallVec;

use crate::dtype::DType;

/// Dimension sizes in elements, major to minor.
pub type Dims = SmallVec<[i64; 6]>;

/// Element type and dimensions of one value.
///
/// Dimensions are static here: symbols live in the captured program and are bound to a bucket or to the exact size before lowering.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Sizes in elements, major to minor; none is negative.
    pub dims: Dims,
}

impl TensorType {
    /// A type of the given element type and sizes.
    pub fn new(dtype: DType, dims: impl IntoIterator<Item = i64>) -> Self {
        TensorType { dtype, dims: dims.into_iter().collect() }
    }

    /// A type with no dimensions.
    pub fn scalar(dtype: DType) -> Self {
        TensorType { dtype, dims: Dims::new() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements; 1 for a scalar. Saturates, see [`TensorType::is_valid`].
    pub fn numel(&self) -> i64 {
        self.dims.iter().fold(1i64, |n, &d| n.saturating_mul(d))
    }

    /// No size is negative and the bytes can be counted. Every type in a graph is valid.
    pub fn is_valid(&self) -> bool {
        let mut bytes = self.dtype.size() as i64;
        self.dims.iter().all(|&d| {
            let product = bytes.checked_mul(d.max(1));
            bytes = product.unwrap_or(0);
            d >= 0 && product.is_some()
        })
    }

    /// Size in bytes in dense host memory.
    pub fn byte_size(&self) -> usize {
        usize::try_from(self.numel()).unwrap_or(0).saturating_mul(self.dtype.size())
    }

    /// The same dimensions with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        TensorType { dtype, dims: self.dims.clone() }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, d) in self.dims.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

/// Row-major strides, in elements, of the given sizes.
pub fn row_major_strides(dims: &[i64]) -> Dims {
    let mut strides: Dims = smallvec::smallvec![1; dims.len()];
    for i in (0..dims.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * dims[i + 1].max(1);
    }
    strides
}
