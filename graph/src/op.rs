//! Operations: primitives close to HLO and a few composites that passes see whole.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::graph::Graph;
use crate::literal::Literal;
use crate::types::{Dims, TensorType};

/// Axis numbers, major first.
pub type Axes = SmallVec<[usize; 6]>;

/// An `f64` attribute compared and hashed by its bits.
#[derive(Clone, Copy, Debug)]
pub struct Real(pub f64);

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Real {}

impl std::hash::Hash for Real {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// Elementwise operations of one operand. Result type: the operand's, except as noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// Absolute value; of a complex number its real magnitude.
    Abs,
    /// Negation.
    Neg,
    /// -1, 0 or 1; NaN stays NaN; signed zero stays.
    Sign,
    /// e to the power x.
    Exp,
    /// e to the power x, less one.
    Expm1,
    /// Natural logarithm.
    Log,
    /// Natural logarithm of one plus x.
    Log1p,
    /// Square root.
    Sqrt,
    /// Reciprocal square root.
    Rsqrt,
    /// Cube root.
    Cbrt,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Hyperbolic tangent.
    Tanh,
    /// Error function.
    Erf,
    /// Logistic sigmoid.
    Logistic,
    /// Round towards negative infinity.
    Floor,
    /// Round towards positive infinity.
    Ceil,
    /// Round to nearest, ties to even.
    RoundEven,
    /// Round to nearest, ties away from zero.
    RoundAway,
    /// Logical not of `Pred`, bitwise not of integers.
    Not,
    /// Count of one bits.
    PopCount,
    /// Count of leading zero bits.
    CountLeadingZeros,
    /// `Pred`: neither infinite nor NaN.
    IsFinite,
    /// Real part, of the part's type.
    Real,
    /// Imaginary part, of the part's type.
    Imag,
}

/// Elementwise operations of two operands of equal type. Result type: the operands', except as noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Sum; of `Pred` logical or.
    Add,
    /// Difference.
    Sub,
    /// Product; of `Pred` logical and.
    Mul,
    /// Quotient; integers truncate; x / 0 of integers is -1 for signed, all ones for unsigned.
    Div,
    /// Remainder with the sign of the dividend; x rem 0 of integers is x.
    Rem,
    /// Power.
    Pow,
    /// Larger; NaN if either is NaN.
    Max,
    /// Smaller; NaN if either is NaN.
    Min,
    /// Logical and of `Pred`, bitwise of integers.
    And,
    /// Logical or of `Pred`, bitwise of integers.
    Or,
    /// Exclusive or of `Pred`, bitwise of integers.
    Xor,
    /// Left shift; 0 when the amount is not in range.
    ShiftLeft,
    /// Right shift filling with the sign.
    ShiftRightArithmetic,
    /// Right shift filling with zeros; 0 when the amount is not in range.
    ShiftRightLogical,
    /// Angle of the point (second, first).
    Atan2,
    /// Complex number of two real parts.
    Complex,
}

/// Direction of a comparison. Floats compare in IEEE order, so comparisons with NaN are false except `Ne`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareDir {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less than.
    Lt,
    /// Less than or equal.
    Le,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    Ge,
}

/// How a reduction, window reduction, scatter or cumulative operation combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combiner {
    /// Sum; identity 0.
    Add,
    /// Product; identity 1.
    Mul,
    /// Larger, NaN wins; identity the lowest value, -inf for floats.
    Max,
    /// Smaller, NaN wins; identity the highest value, +inf for floats.
    Min,
    /// Logical or bitwise and; identity all ones.
    And,
    /// Logical or bitwise or; identity 0.
    Or,
    /// The second operand: scatter overwrites. Not for reductions.
    Assign,
}

/// Requested accuracy of a dot or convolution on devices that can trade it, as HLO's precision config.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// One pass of the device's fast type.
    Default,
    /// Three passes.
    High,
    /// Full precision of the operand type.
    #[default]
    Highest,
}

/// Dimension numbers of `DotGeneral`. The result has the batch axes, then the free axes of the left, then those of the right operand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DotDims {
    /// Batch axes of the left operand.
    pub lhs_batch: Axes,
    /// Batch axes of the right operand, paired with `lhs_batch`.
    pub rhs_batch: Axes,
    /// Contracting axes of the left operand.
    pub lhs_contract: Axes,
    /// Contracting axes of the right operand, paired with `lhs_contract`.
    pub rhs_contract: Axes,
}

/// One axis of a window, as in HLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowDim {
    /// Window size in elements.
    pub size: i64,
    /// Step between windows.
    pub stride: i64,
    /// Padding before the first element; may be negative.
    pub pad_low: i64,
    /// Padding after the last element; may be negative.
    pub pad_high: i64,
    /// Spacing of the window's elements.
    pub window_dilation: i64,
    /// Spacing of the operand's elements.
    pub base_dilation: i64,
    /// Window applied reversed.
    pub reversal: bool,
}

impl WindowDim {
    /// A window of one element: the axis is passed through.
    pub const TRIVIAL: WindowDim =
        WindowDim { size: 1, stride: 1, pad_low: 0, pad_high: 0, window_dilation: 1, base_dilation: 1, reversal: false };
}

/// Which axes of a convolution's operands and result are which.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvDims {
    /// Batch axis of the input.
    pub input_batch: usize,
    /// Feature axis of the input.
    pub input_feature: usize,
    /// Spatial axes of the input.
    pub input_spatial: Axes,
    /// Input-feature axis of the kernel.
    pub kernel_input_feature: usize,
    /// Output-feature axis of the kernel.
    pub kernel_output_feature: usize,
    /// Spatial axes of the kernel.
    pub kernel_spatial: Axes,
    /// Batch axis of the result.
    pub output_batch: usize,
    /// Feature axis of the result.
    pub output_feature: usize,
    /// Spatial axes of the result.
    pub output_spatial: Axes,
}

/// A convolution's attributes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// One window axis per spatial axis.
    pub window: SmallVec<[WindowDim; 3]>,
    /// Axis roles.
    pub dims: ConvDims,
    /// Groups over the feature axis.
    pub feature_groups: i64,
    /// Groups over the batch axis (weight gradients of grouped convolutions).
    pub batch_groups: i64,
    /// Requested accuracy.
    pub precision: Precision,
}

/// Dimension numbers of `Gather`, as in HLO.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GatherDims {
    /// Result axes that hold slice offsets.
    pub offset_dims: Axes,
    /// Operand axes dropped from the slice, each of slice size 1.
    pub collapsed_slice_dims: Axes,
    /// Operand axis that each index component selects.
    pub start_index_map: Axes,
    /// Axis of the indices that holds one index vector; equal to the rank when scalars.
    pub index_vector_dim: usize,
    /// Slice size for each operand axis.
    pub slice_sizes: Dims,
    /// The indices are in range and need no clamping. Undefined results otherwise.
    pub in_bounds: bool,
}

/// Dimension numbers of `Scatter`, as in HLO. An update window that is not wholly in range is dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterDims {
    /// Update axes that hold window offsets.
    pub update_window_dims: Axes,
    /// Operand axes not in the update window.
    pub inserted_window_dims: Axes,
    /// Operand axis that each index component selects.
    pub scatter_dims_to_operand_dims: Axes,
    /// Axis of the indices that holds one index vector; equal to the rank when scalars.
    pub index_vector_dim: usize,
    /// No two updates go to one element.
    pub unique: bool,
}

/// Padding of one axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PadDim {
    /// Elements before; negative crops.
    pub low: i64,
    /// Elements after; negative crops.
    pub high: i64,
    /// Elements between neighbours.
    pub interior: i64,
}

/// Which mask an attention composite applies besides the optional mask operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionAttrs {
    /// Query i sees keys 0..=i (top-left aligned, as PyTorch's `is_causal`).
    pub causal: bool,
    /// Factor on the scores.
    pub scale: Real,
    /// Requested accuracy of both products.
    pub precision: Precision,
}

/// Fast Fourier transform kinds of HLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FftKind {
    /// Complex to complex.
    Fft,
    /// Inverse complex to complex, scaled by 1/n.
    Ifft,
    /// Real to half-complex.
    Rfft,
    /// Half-complex to real, scaled by 1/n.
    Irfft,
}

/// An operation with its attributes. [`crate::infer::infer`] gives the result types,
/// [`Op::numeric_class`] the numeric class.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Input number `0` of the graph, of the given type. No operands.
    Parameter(usize, TensorType),
    /// A constant. No operands.
    Constant(Literal),
    /// 0, 1, 2... along `axis` of a tensor of the given type. No operands.
    Iota {
        /// Result type; integer or float.
        ty: TensorType,
        /// The counted axis.
        axis: usize,
    },
    /// Elementwise, one operand.
    Unary(UnaryOp),
    /// Elementwise, two operands of one type.
    Binary(BinaryOp),
    /// Elementwise comparison of two operands of one type; `Pred`.
    Compare(CompareDir),
    /// Elementwise choice: `Pred` operand, value where true, value where false.
    Select,
    /// Value conversion: floats to integers truncate and saturate (NaN to 0), integers wrap, to `Pred` compares with zero.
    Convert(DType),
    /// The same bits as another type of equal size.
    Bitcast(DType),
    /// Operand axis i becomes result axis `axes[i]`, increasing; the operand's size is the result's, or 1 when expanded.
    Broadcast {
        /// Result sizes.
        dims: Dims,
        /// Result axis of each operand axis.
        axes: Axes,
    },
    /// The same row-major elements under other sizes.
    Reshape(Dims),
    /// Result axis i is operand axis `perm[i]`.
    Transpose(Axes),
    /// Elements `start, start + stride, ...` below `limit` along each axis.
    Slice {
        /// First index of each axis.
        start: Dims,
        /// Index past the last of each axis.
        limit: Dims,
        /// Step of each axis, positive.
        stride: Dims,
    },
    /// Operand padded with the scalar second operand.
    Pad(SmallVec<[PadDim; 6]>),
    /// Operands joined along the axis.
    Concat(usize),
    /// Order of elements reversed along the axes.
    Reverse(Axes),
    /// Contraction of two operands; accumulates in `acc` and returns it.
    DotGeneral {
        /// Axis roles.
        dims: DotDims,
        /// Result element type.
        out: DType,
        /// Requested accuracy.
        precision: Precision,
    },
    /// Convolution of an input with a kernel, of the input's type.
    Convolution(Box<Convolution>),
    /// Reduction of the axes.
    Reduce {
        /// Combination of elements.
        combiner: Combiner,
        /// Reduced axes, increasing.
        axes: Axes,
    },
    /// Reduction over sliding windows; padding holds the combiner's identity.
    ReduceWindow {
        /// Combination of elements.
        combiner: Combiner,
        /// One window axis per operand axis.
        window: SmallVec<[WindowDim; 6]>,
    },
    /// Maximum-pooling gradient: each element of the second operand is added where the first has its window's first maximum.
    SelectAndScatter {
        /// One window axis per operand axis, no dilation.
        window: SmallVec<[WindowDim; 6]>,
    },
    /// HLO gather of operand and indices. Start indices are clamped unless promised in range.
    Gather(Box<GatherDims>),
    /// HLO scatter of operand, indices and updates.
    Scatter {
        /// Combination with what stands there.
        combiner: Combiner,
        /// Axis roles.
        dims: Box<ScatterDims>,
    },
    /// Slice of the given sizes at start indices given by one scalar integer operand per axis, clamped to fit.
    DynamicSlice(Dims),
    /// The second operand written into the first at start indices given by one scalar integer operand per axis, clamped to fit.
    DynamicUpdateSlice,
    /// All operands sorted together along `axis` by the first. Floats order with NaN as the largest, -0 equal to 0. As many results.
    Sort {
        /// The sorted axis.
        axis: usize,
        /// Largest first.
        descending: bool,
        /// Equal keys keep their order.
        stable: bool,
    },
    /// Largest or smallest `k` of the last axis and their `S64` positions, in order; equal values lower position first; NaN is the largest.
    TopK {
        /// How many.
        k: i64,
        /// Largest rather than smallest.
        largest: bool,
    },
    /// `S64` position of the largest or smallest element along `axis` (first of equals; NaN wins), axis dropped.
    ArgReduce {
        /// The searched axis.
        axis: usize,
        /// Maximum rather than minimum.
        max: bool,
    },
    /// Running combination along `axis`, each element included.
    Cumulative {
        /// Combination of elements; `Add`, `Mul`, `Max` or `Min`.
        combiner: Combiner,
        /// The axis run over.
        axis: usize,
    },
    /// `U32` random bits of the given sizes: Threefry-2x32 (Salmon et al. 2011) keyed by the `U64` scalar operand, counter
    /// `stream * 2^40 + linear index / 2`.
    RandomBits {
        /// Result sizes.
        dims: Dims,
        /// Which draw of the program this is, so that draws differ.
        stream: u32,
    },
    /// Repeats `body` while `cond` holds; operands and results are the carried values. Both graphs take them as parameters.
    While {
        /// One `Pred` scalar result.
        cond: Arc<Graph>,
        /// As many results as carried values.
        body: Arc<Graph>,
    },
    /// `on_true` or `on_false` on the operands after the leading `Pred` scalar.
    Cond {
        /// Taken when true.
        on_true: Arc<Graph>,
        /// Taken when false.
        on_false: Arc<Graph>,
    },
    /// The graph applied to the operands.
    Call(Arc<Graph>),
    /// Discrete Fourier transform of the last `lengths.len()` axes.
    Fft {
        /// Kind.
        kind: FftKind,
        /// Transform lengths of the last axes, in real-side elements.
        lengths: Dims,
    },
    /// Lower Cholesky factor of the last two axes.
    Cholesky,
    /// Solution x of a x = b (`left`) or x a = b, with a lower or upper triangular.
    TriangularSolve {
        /// a stands left of x.
        left: bool,
        /// a is lower triangular.
        lower: bool,
        /// The diagonal is taken as ones.
        unit_diagonal: bool,
        /// a is transposed first.
        transpose: bool,
    },
    /// Operands passed through; XLA moves nothing across. As many results.
    OptimizationBarrier,
    /// Composite: softmax along `axis`, computed in the compute type. A row of only -inf gives NaN.
    Softmax {
        /// Normalised axis.
        axis: usize,
        /// Its logarithm instead.
        log: bool,
    },
    /// Composite: exact (erf) or tanh-approximated GELU.
    Gelu {
        /// The tanh approximation.
        tanh: bool,
    },
    /// Composite: x * sigmoid(x).
    Silu,
    /// Composite: (x - mean) * rstd * weight + bias over the last `axes` axes; operands x, weight, bias; weight and bias of the
    /// normalised sizes. Results: y of x's type, then mean and rstd in the compute type with normalised sizes 1.
    LayerNorm {
        /// How many trailing axes are normalised.
        axes: usize,
        /// Added to the variance.
        eps: Real,
    },
    /// Composite: x * rsqrt(mean(x^2) + eps) * weight over the last axis; operands x and weight.
    RmsNorm {
        /// Added to the mean square.
        eps: Real,
    },
    /// Composite: scaled dot-product attention over `[batch..., length, head size]`. Operands query, key, value, and optionally a mask
    /// (`Pred`: true is seen; float: added) that broadcasts to the scores. Key and value may have fewer heads (axis rank-3), each
    /// serving a group of query heads. Results: output of query's type and the log-sum-exp of the scores in the compute type. A row that
    /// sees nothing gives zeros.
    Attention(AttentionAttrs),
    /// Composite: gradient of `Attention`. Operands gradient, query, key, value, output, log-sum-exp and optionally the mask. Results:
    /// gradients of query, key and value.
    AttentionBackward(AttentionAttrs),
}
