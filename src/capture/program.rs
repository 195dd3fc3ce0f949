//! The captured program: what the FX graph said, without Python. It is canonical: names, paths and line numbers are beside it, not in it.

use clutch_graph::{DType, Literal};

use super::expr::{ExprTable, Size};

/// A tensor that the program takes, holds or computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMeta {
    /// Element type.
    pub dtype: DType,
    /// Sizes in elements.
    pub shape: Vec<Size>,
    /// Strides in elements, as PyTorch's fake tensor has them.
    pub strides: Vec<Size>,
}

/// What a node gives: a tensor, a number computed from sizes, or nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Meta {
    /// A tensor.
    Tensor(TensorMeta),
    /// An integer computed from sizes.
    Int(Size),
    /// Nothing, or something no one uses.
    None,
}

/// A tensor value of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueRef {
    /// Placeholder by number.
    Input(u32),
    /// Constant (get_attr) by number.
    Constant(u32),
    /// Result of a call: node number, which of its results.
    Node(u32, u32),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// None.
    None,
    /// A tensor.
    Value(ValueRef),
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer computed from sizes.
    Size(Size),
    /// A floating-point number.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
    /// A word: string arguments, layouts and memory formats.
    Str(String),
    /// A torch dtype.
    DType(DType),
    /// A device, always this process's target.
    Device,
    /// A list or tuple.
    List(Vec<Arg>),
    /// A subgraph by number, for control flow.
    Program(u32),
}

/// A call of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Number of the target in [`Program::targets`].
    pub target: u32,
    /// Positional arguments.
    pub args: Vec<Arg>,
    /// Keyword arguments in the order of their names.
    pub kwargs: Vec<(String, Arg)>,
    /// What it gives; one entry, or one for each element of a tuple result.
    pub outputs: Vec<Meta>,
}

/// A placeholder.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// What it is.
    pub meta: Meta,
    /// Its conjugation or negation may be pending, and is resolved before the program reads it.
    pub is_lazy: bool,
    /// Kept across calls: a parameter, a buffer or a tensor marked static.
    pub is_static: bool,
}

/// A tensor constant (get_attr).
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// What it is.
    pub meta: TensorMeta,
    /// Its contents when small enough to stand in the program; otherwise it is passed as an input.
    pub inline: Option<Literal>,
}

/// Where a node came from, for messages only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Name of the FX node.
    pub name: String,
    /// The user's line, as `file:line: code`, when known.
    pub line: Option<String>,
}

/// A result that shares memory with an input or with another result.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Number of the result.
    pub output: u32,
    /// What it is a view of.
    pub base: ViewBase,
    /// Sizes, strides and offset in elements; the offset counts from the base's first element.
    pub shape: Vec<Size>,
    /// Strides in elements.
    pub strides: Vec<Size>,
    /// Offset in elements from the base's first element.
    pub offset: Size,
}

/// What a result is a view of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewBase {
    /// A placeholder.
    Input(u32),
    /// Another result, which fills its memory.
    Output(u32),
}

/// A captured FX graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Sizes and symbols.
    pub exprs: ExprTable,
    /// Names of operators, by first use, as in `aten.add.Tensor`.
    pub targets: Vec<String>,
    /// Placeholders in order.
    pub inputs: Vec<Input>,
    /// Tensor constants in order of first use.
    pub constants: Vec<Constant>,
    /// Calls in order.
    pub nodes: Vec<Node>,
    /// Results in order: [`Arg::Value`], [`Arg::Size`], [`Arg::Int`] or [`Arg::None`].
    pub outputs: Vec<Arg>,
    /// Results that share memory, by number.
    pub views: Vec<View>,
    /// Subgraphs of control-flow calls.
    pub subprograms: Vec<Program>,
    /// Where each node came from, parallel to `nodes`; not part of any key.
    pub origins: Vec<Origin>,
}

impl Program {
    /// Name of a node's operator.
    pub fn target(&self, node: &Node) -> &str {
        &self.targets[node.target as usize]
    }

    /// What a tensor value is.
    pub fn meta(&self, value: ValueRef) -> Option<&TensorMeta> {
        let meta = match value {
            ValueRef::Input(i) => &self.inputs.get(i as usize)?.meta,
            ValueRef::Constant(i) => return self.constants.get(i as usize).map(|c| &c.meta),
            ValueRef::Node(n, o) => self.nodes.get(n as usize)?.outputs.get(o as usize)?,
        };
        match meta {
            Meta::Tensor(t) => Some(t),
            _ => None,
        }
    }
}
