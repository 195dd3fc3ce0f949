//! Names of ops and of their attributes' values, as the text form and diagnostics spell them, and the numeric class of each op.

use crate::op::{BinaryOp, Combiner, CompareDir, FftKind, Op, Precision, UnaryOp};

macro_rules! named {
    ($ty:ident { $($variant:ident = $name:literal),* $(,)? }) => {
        impl $ty {
            /// All values, in declaration order.
            pub const ALL: &'static [$ty] = &[$($ty::$variant),*];

            /// Spelling in the text form.
            pub fn name(self) -> &'static str {
                match self { $($ty::$variant => $name),* }
            }

            /// The value of a spelling.
            pub fn from_name(name: &str) -> Option<$ty> {
                match name { $($name => Some($ty::$variant),)* _ => None }
            }
        }
    };
}

named!(UnaryOp {
    Abs = "abs",
    Neg = "neg",
    Sign = "sign",
    Exp = "exp",
    Expm1 = "expm1",
    Log = "log",
    Log1p = "log1p",
    Sqrt = "sqrt",
    Rsqrt = "rsqrt",
    Cbrt = "cbrt",
    Sin = "sin",
    Cos = "cos",
    Tan = "tan",
    Tanh = "tanh",
    Erf = "erf",
    Logistic = "logistic",
    Floor = "floor",
    Ceil = "ceil",
    RoundEven = "round_even",
    RoundAway = "round_away",
    Not = "not",
    PopCount = "popcount",
    CountLeadingZeros = "clz",
    IsFinite = "is_finite",
    Real = "real",
    Imag = "imag",
});

named!(BinaryOp {
    Add = "add",
    Sub = "sub",
    Mul = "mul",
    Div = "div",
    Rem = "rem",
    Pow = "pow",
    Max = "max",
    Min = "min",
    And = "and",
    Or = "or",
    Xor = "xor",
    ShiftLeft = "shift_left",
    ShiftRightArithmetic = "shift_right_arithmetic",
    ShiftRightLogical = "shift_right_logical",
    Atan2 = "atan2",
    Complex = "complex",
});

named!(CompareDir { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge" });
named!(Combiner { Add = "add", Mul = "mul", Max = "max", Min = "min", And = "and", Or = "or", Assign = "assign" });
named!(Precision { Default = "default", High = "high", Highest = "highest" });
named!(FftKind { Fft = "fft", Ifft = "ifft", Rfft = "rfft", Irfft = "irfft" });

macro_rules! kinds {
    ($($pattern:pat => $name:literal),* $(,)?) => {
        impl Op {
            /// Name of every variant of [`Op`], in declaration order.
            pub const KINDS: &'static [&'static str] = &[$($name),*];

            /// Name of the variant: `unary` for all elementwise ops of one operand.
            pub fn kind(&self) -> &'static str {
                match self { $($pattern => $name),* }
            }
        }
    };
}

kinds! {
    Op::Parameter(..) => "parameter",
    Op::Constant(_) => "constant",
    Op::Iota { .. } => "iota",
    Op::Unary(_) => "unary",
    Op::Binary(_) => "binary",
    Op::Compare(_) => "compare",
    Op::Select => "select",
    Op::Convert(_) => "convert",
    Op::Bitcast(_) => "bitcast",
    Op::Broadcast { .. } => "broadcast",
    Op::Reshape(_) => "reshape",
    Op::Transpose(_) => "transpose",
    Op::Slice { .. } => "slice",
    Op::Pad(_) => "pad",
    Op::Concat(_) => "concat",
    Op::Reverse(_) => "reverse",
    Op::DotGeneral { .. } => "dot_general",
    Op::Convolution(_) => "convolution",
    Op::Reduce { .. } => "reduce",
    Op::ReduceWindow { .. } => "reduce_window",
    Op::SelectAndScatter { .. } => "select_and_scatter",
    Op::Gather(_) => "gather",
    Op::Scatter { .. } => "scatter",
    Op::DynamicSlice(_) => "dynamic_slice",
    Op::DynamicUpdateSlice => "dynamic_update_slice",
    Op::Sort { .. } => "sort",
    Op::TopK { .. } => "top_k",
    Op::ArgReduce { .. } => "arg_reduce",
    Op::Cumulative { .. } => "cumulative",
    Op::RandomBits { .. } => "random_bits",
    Op::While { .. } => "while",
    Op::Cond { .. } => "cond",
    Op::Call(_) => "call",
    Op::Fft { .. } => "fft",
    Op::Cholesky => "cholesky",
    Op::TriangularSolve { .. } => "triangular_solve",
    Op::OptimizationBarrier => "optimization_barrier",
    Op::Softmax { .. } => "softmax",
    Op::Gelu { .. } => "gelu",
    Op::Silu => "silu",
    Op::LayerNorm { .. } => "layer_norm",
    Op::RmsNorm { .. } => "rms_norm",
    Op::Attention(_) => "attention",
    Op::AttentionBackward(_) => "attention_backward",
}

/// How far two correct implementations of an op may differ on floating-point operands, from least to most. Integer arithmetic is always exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumericClass {
    /// The same bits everywhere: elements are moved, compared or chosen.
    Exact,
    /// One correctly rounded operation an element.
    Rounding,
    /// A function evaluated to within a few units in the last place.
    Transcendental,
    /// Sums whose order and accumulation type are the implementation's.
    Reassociating,
}

impl Op {
    /// Name of the op in the text form: of elementwise ops the function's, otherwise [`Op::kind`].
    pub fn name(&self) -> &'static str {
        match self {
            Op::Unary(u) => u.name(),
            Op::Binary(b) => b.name(),
            _ => self.kind(),
        }
    }

    /// The op's numeric class; of control flow the worst class in its graphs.
    pub fn numeric_class(&self) -> NumericClass {
        use NumericClass::{Exact, Reassociating, Rounding, Transcendental};
        match self {
            Op::Parameter(..) | Op::Constant(_) | Op::Compare(_) | Op::Select | Op::Bitcast(_) => Exact,
            Op::Broadcast { .. } | Op::Reshape(_) | Op::Transpose(_) | Op::Slice { .. } | Op::Pad(_) => Exact,
            Op::Concat(_) | Op::Reverse(_) | Op::Gather(_) | Op::DynamicSlice(_) | Op::DynamicUpdateSlice => Exact,
            Op::Sort { .. } | Op::TopK { .. } | Op::ArgReduce { .. } | Op::RandomBits { .. } | Op::OptimizationBarrier => Exact,
            Op::Iota { .. } | Op::Convert(_) => Rounding,
            Op::Unary(u) => u.numeric_class(),
            Op::Binary(b) => b.numeric_class(),
            Op::Reduce { combiner, .. }
            | Op::ReduceWindow { combiner, .. }
            | Op::Scatter { combiner, .. }
            | Op::Cumulative { combiner, .. } => combiner.numeric_class(),
            Op::Gelu { .. } | Op::Silu => Transcendental,
            Op::DotGeneral { .. } | Op::Convolution(_) | Op::SelectAndScatter { .. } => Reassociating,
            Op::Fft { .. } | Op::Cholesky | Op::TriangularSolve { .. } => Reassociating,
            Op::Softmax { .. } | Op::LayerNorm { .. } | Op::RmsNorm { .. } => Reassociating,
            Op::Attention(_) | Op::AttentionBackward(_) => Reassociating,
            Op::While { cond, body } => cond.numeric_class().max(body.numeric_class()),
            Op::Cond { on_true, on_false } => on_true.numeric_class().max(on_false.numeric_class()),
            Op::Call(g) => g.numeric_class(),
        }
    }
}

impl crate::graph::Graph {
    /// The worst numeric class of the nodes.
    pub fn numeric_class(&self) -> NumericClass {
        self.nodes().iter().map(|n| n.op.numeric_class()).max().unwrap_or(NumericClass::Exact)
    }
}

impl UnaryOp {
    /// The op's numeric class.
    pub fn numeric_class(self) -> NumericClass {
        use UnaryOp::*;
        match self {
            Abs | Neg | Sign | Floor | Ceil | RoundEven | RoundAway | Not | PopCount | CountLeadingZeros | IsFinite | Real | Imag => {
                NumericClass::Exact
            }
            Sqrt => NumericClass::Rounding,
            Exp | Expm1 | Log | Log1p | Rsqrt | Cbrt | Sin | Cos | Tan | Tanh | Erf | Logistic => NumericClass::Transcendental,
        }
    }
}

impl BinaryOp {
    /// The op's numeric class.
    pub fn numeric_class(self) -> NumericClass {
        use BinaryOp::*;
        match self {
            Max | Min | And | Or | Xor | ShiftLeft | ShiftRightArithmetic | ShiftRightLogical | Complex | Rem => NumericClass::Exact,
            Add | Sub | Mul | Div => NumericClass::Rounding,
            Pow | Atan2 => NumericClass::Transcendental,
        }
    }
}

impl Combiner {
    /// The class of combining many elements.
    pub fn numeric_class(self) -> NumericClass {
        match self {
            Combiner::Add | Combiner::Mul => NumericClass::Reassociating,
            Combiner::Max | Combiner::Min | Combiner::And | Combiner::Or | Combiner::Assign => NumericClass::Exact,
        }
    }
}
