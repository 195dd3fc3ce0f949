//! The state of one lowering and the walk over the program's calls.

use clutch_graph::op::{Axes, Precision};
use clutch_graph::{Builder, DType, Dims, Graph, InputKind, TensorType, ValueId};

use super::call::Call;
use super::error::{LowerError, Unsupported};
use super::{Outputs, table};
use crate::capture::expr::Size;
use crate::capture::layout::{dense_order, inverse_order, overlaps};
use crate::capture::program::{Arg, Meta, Program, TensorMeta, ValueRef, ViewBase};

/// Choices that change the lowered graph; all are part of the graph key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LowerOptions {
    /// Accuracy of float32 dots and convolutions, from `torch.get_float32_matmul_precision()`.
    pub precision: Precision,
    /// Ops that change nothing stay, so that graphs at different sizes have equal structure.
    pub keep_no_ops: bool,
}

/// Where a graph parameter's contents come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Placeholder by number, its axes major to minor in memory; the parameter has the sizes in that order.
    Input {
        /// Placeholder number.
        index: usize,
        /// Logical axis at each position of the parameter.
        order: Axes,
    },
    /// Constant of the program by number; dense row-major.
    Constant(usize),
    /// The `U64` seed of this call.
    Seed,
    /// A number or constant that depends on the true sizes, by number; only in programs for buckets.
    Bound(usize),
}

/// Where a program result comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Nothing: the result is None.
    None,
    /// An integer.
    Int(i64),
    /// The placeholder itself, after any mutation.
    Input(usize),
    /// The constant itself.
    Constant(usize),
    /// A view of another result's or an input's memory.
    View {
        /// What it is a view of.
        base: ViewBase,
        /// Sizes.
        dims: Dims,
        /// Strides in elements.
        strides: Dims,
        /// Offset in elements from the base's first element.
        offset: i64,
    },
    /// A graph output with sizes in memory order; `order[i]` is the logical axis at position i.
    Output {
        /// Position in the graph's outputs.
        index: usize,
        /// Logical axis at each position in memory.
        order: Axes,
    },
}

/// A lowered program.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The graph; unusable when `unsupported` is not empty.
    pub graph: Graph,
    /// Source of each graph parameter.
    pub sources: Vec<Source>,
    /// Each program result.
    pub sinks: Vec<Sink>,
    /// Written-back placeholders: (placeholder number, graph output with the new contents in the placeholder's memory order).
    pub mutations: Vec<(usize, usize)>,
    /// Assertions on contents: (graph output, a `Pred` scalar that must be true; what to say when it is not).
    pub assertions: Vec<(usize, String)>,
    /// Calls that could not be lowered.
    pub unsupported: Vec<Unsupported>,
}

/// The state of one lowering.
pub struct Lowering<'p> {
    /// Builds the graph.
    pub b: Builder,
    program: &'p Program,
    symbols: &'p [i64],
    options: LowerOptions,
    inputs: Vec<Option<ValueId>>,
    orders: Vec<Axes>,
    constants: Vec<Option<ValueId>>,
    nodes: Vec<Outputs>,
    sources: Vec<Source>,
    mutations: Vec<(usize, ValueId)>,
    assertions: Vec<(ValueId, String)>,
    seed: Option<ValueId>,
    draws: u32,
}

impl<'p> Lowering<'p> {
    /// The program being lowered.
    pub fn program(&self) -> &'p Program {
        self.program
    }

    /// Accuracy of float32 dots and convolutions.
    pub fn precision(&self) -> Precision {
        self.options.precision
    }

    /// Graph value of a program value.
    pub fn value(&self, v: ValueRef) -> Result<ValueId, LowerError> {
        let found = match v {
            ValueRef::Input(i) => self.inputs.get(i as usize).copied().flatten(),
            ValueRef::Constant(i) => self.constants.get(i as usize).copied().flatten(),
            ValueRef::Node(n, o) => self.nodes.get(n as usize).and_then(|outs| outs.get(o as usize).copied().flatten()),
        };
        found.ok_or_else(|| LowerError::unsupported("it uses a value that is not a dense tensor"))
    }

    /// What PyTorch says of a program value.
    pub fn meta(&self, v: ValueRef) -> Option<&'p TensorMeta> {
        self.program.meta(v)
    }

    /// A size with symbols evaluated.
    pub fn size(&self, size: Size) -> Result<i64, LowerError> {
        Ok(self.program.exprs.eval(size, self.symbols)?)
    }

    /// Sizes with symbols evaluated.
    pub fn sizes(&self, sizes: &[Size]) -> Result<Dims, LowerError> {
        sizes.iter().map(|&s| self.size(s)).collect()
    }

    /// An argument as an integer; `None` when it is no integer.
    pub fn arg_int(&self, arg: &Arg) -> Result<Option<i64>, LowerError> {
        Ok(match arg {
            Arg::Int(i) => Some(*i),
            Arg::Bool(b) => Some(i64::from(*b)),
            Arg::Size(s) => Some(self.size(*s)?),
            _ => None,
        })
    }

    /// The graph type of what PyTorch says.
    pub fn tensor_type(&self, meta: &TensorMeta) -> Result<TensorType, LowerError> {
        Ok(TensorType { dtype: meta.dtype, dims: self.sizes(&meta.shape)? })
    }

    /// The key of this call's random draws: a `U64` scalar parameter, fresh on each call.
    pub fn seed(&mut self) -> ValueId {
        match self.seed {
            Some(v) => v,
            None => {
                let v = self.b.parameter(TensorType::scalar(DType::U64), InputKind::Dynamic);
                self.sources.push(Source::Seed);
                self.seed = Some(v);
                v
            }
        }
    }

    /// Number of the next random draw of this program, so that no two draws use the same counter.
    pub fn next_draw(&mut self) -> u32 {
        self.draws += 1;
        self.draws - 1
    }

    /// Records that a placeholder takes on `value` when the program ends.
    ///
    /// # Errors
    /// When the first operand of the write is not a placeholder.
    pub fn write_back(&mut self, target: ValueRef, value: ValueId) -> Result<(), LowerError> {
        let ValueRef::Input(i) = target else {
            return Err(LowerError::unsupported("it writes to a tensor that is not an input of the graph"));
        };
        let i = i as usize;
        if let Some(meta) = self.meta(target)
            && overlaps(&self.sizes(&meta.shape)?, &self.sizes(&meta.strides)?)
        {
            return Err(LowerError::unsupported("it writes to an input whose elements overlap in memory"));
        }
        self.mutations.retain(|(n, _)| *n != i);
        self.mutations.push((i, value));
        Ok(())
    }

    /// Records that the `Pred` scalar `holds` must be true; a call where it is not raises with `message`.
    pub fn assert(&mut self, holds: ValueId, message: String) {
        self.assertions.push((holds, message));
    }

    fn add_inputs(&mut self) -> Result<(), LowerError> {
        for (i, input) in self.program.inputs.iter().enumerate() {
            let (value, order) = match &input.meta {
                Meta::Tensor(t) => {
                    let dims = self.sizes(&t.shape)?;
                    let order = dense_order(&dims, &self.sizes(&t.strides)?).unwrap_or_else(|| (0..dims.len()).collect());
                    let kind = if input.is_static { InputKind::Static } else { InputKind::Dynamic };
                    let stored = TensorType::new(t.dtype, order.iter().map(|&a| dims[a]));
                    let parameter = self.b.parameter(stored, kind);
                    self.sources.push(Source::Input { index: i, order: order.clone() });
                    (Some(self.b.transpose(parameter, &inverse_order(&order))?), order)
                }
                _ => (None, Axes::new()),
            };
            self.inputs.push(value);
            self.orders.push(order);
        }
        for (i, c) in self.program.constants.iter().enumerate() {
            let value = match &c.inline {
                Some(literal) => self.b.constant(literal.clone())?,
                None => {
                    let ty = self.tensor_type(&c.meta)?;
                    self.sources.push(Source::Constant(i));
                    self.b.parameter(ty, InputKind::Static)
                }
            };
            self.constants.push(Some(value));
        }
        Ok(())
    }

    /// Values of the right types in place of a call that could not be lowered, so that the walk can go on and find the others.
    fn stand_ins(&mut self, outputs: &[Meta]) -> Outputs {
        let mut values = Outputs::new();
        for meta in outputs {
            values.push(match meta {
                Meta::Tensor(t) => self.tensor_type(t).ok().map(|ty| {
                    self.sources.push(Source::Seed);
                    self.b.parameter(ty, InputKind::Dynamic)
                }),
                _ => None,
            });
        }
        values
    }

    /// The result types are what PyTorch says: a mismatch is a fault of a lowering and must not reach the device.
    fn check(&self, call: &Call<'_>, outputs: &Outputs) -> Result<(), LowerError> {
        for (i, (meta, value)) in call.node.outputs.iter().zip(outputs).enumerate() {
            if let (Meta::Tensor(t), Some(v)) = (meta, value) {
                let (expected, found) = (self.tensor_type(t)?, self.b.ty(*v));
                if expected != *found {
                    return Err(LowerError::unsupported(format!("internal: result {i} was lowered to {found}, PyTorch says {expected}")));
                }
            }
        }
        Ok(())
    }

    fn finish(mut self, unsupported: Vec<Unsupported>) -> Result<Lowered, LowerError> {
        let mut outputs: Vec<ValueId> = Vec::new();
        let mut mutations = Vec::new();
        for (i, value) in std::mem::take(&mut self.mutations) {
            let order = self.orders[i].clone();
            let stored = self.b.transpose(value, &order)?;
            mutations.push((i, outputs.len()));
            outputs.push(stored);
        }
        let mut sinks: Vec<Sink> = Vec::new();
        let mut views = self.program.views.iter().peekable();
        for (i, out) in self.program.outputs.iter().enumerate() {
            let view = views.next_if(|v| v.output as usize == i);
            if let Some(view) = view {
                let (dims, strides, offset) = (self.sizes(&view.shape)?, self.sizes(&view.strides)?, self.size(view.offset)?);
                let end = offset + dims.iter().zip(&strides).map(|(d, s)| (d - 1).max(0) * s).sum::<i64>();
                if offset >= 0 && self.holds(view.base, end)? {
                    sinks.push(Sink::View { base: view.base, dims, strides, offset });
                    continue;
                }
            }
            sinks.push(match out {
                Arg::Value(v) => match self.returned_as_is(*v) {
                    Some(sink) => sink,
                    None => {
                        let value = self.value(*v)?;
                        let dims = self.b.dims(value);
                        let strides = match self.program.meta(*v) {
                            Some(meta) => self.sizes(&meta.strides)?,
                            None => Dims::new(),
                        };
                        let order = dense_order(&dims, &strides).unwrap_or_else(|| (0..dims.len()).collect());
                        let stored = self.b.transpose(value, &order)?;
                        outputs.push(stored);
                        Sink::Output { index: outputs.len() - 1, order }
                    }
                },
                Arg::Int(i) => Sink::Int(*i),
                Arg::Size(s) => Sink::Int(self.size(*s)?),
                _ => Sink::None,
            });
        }
        let mut assertions = Vec::new();
        for (holds, message) in std::mem::take(&mut self.assertions) {
            assertions.push((outputs.len(), message));
            outputs.push(holds);
        }
        Ok(Lowered { graph: self.b.finish(outputs), sources: self.sources, sinks, mutations, assertions, unsupported })
    }

    /// Whether a view's base comes out of the program with the strides that PyTorch's has, and with element number `end` of its memory.
    fn holds(&self, base: ViewBase, end: i64) -> Result<bool, LowerError> {
        let ViewBase::Output(i) = base else { return Ok(true) };
        let Some(Arg::Value(v)) = self.program.outputs.get(i as usize) else { return Ok(false) };
        let Some(meta) = self.program.meta(*v) else { return Ok(false) };
        let dims = self.sizes(&meta.shape)?;
        let dense = dense_order(&dims, &self.sizes(&meta.strides)?).is_some();
        Ok(self.returned_as_is(*v).is_none() && dense && end < dims.iter().product::<i64>().max(1))
    }

    /// A result that is a placeholder or a constant, or the result of writing to a placeholder.
    fn returned_as_is(&self, v: ValueRef) -> Option<Sink> {
        match v {
            ValueRef::Input(i) => Some(Sink::Input(i as usize)),
            ValueRef::Constant(i) if self.program.constants[i as usize].inline.is_none() => Some(Sink::Constant(i as usize)),
            ValueRef::Constant(_) => None,
            ValueRef::Node(n, _) => {
                let node = &self.program.nodes[n as usize];
                match (self.program.target(node), node.args.first()) {
                    ("aten.copy_.default", Some(Arg::Value(ValueRef::Input(i)))) => Some(Sink::Input(*i as usize)),
                    _ => None,
                }
            }
        }
    }
}

/// Lowers `program` with the given value for each symbol.
///
/// # Errors
/// When a size expression has no value, or on an internal fault outside of any call. Calls that cannot be lowered are listed in the result.
pub fn lower(program: &Program, symbols: &[i64], options: LowerOptions) -> Result<Lowered, LowerError> {
    let mut l = Lowering {
        b: if options.keep_no_ops { Builder::keeping_no_ops() } else { Builder::new() },
        program,
        symbols,
        options,
        inputs: Vec::with_capacity(program.inputs.len()),
        orders: Vec::with_capacity(program.inputs.len()),
        constants: Vec::new(),
        nodes: Vec::with_capacity(program.nodes.len()),
        sources: Vec::new(),
        mutations: Vec::new(),
        assertions: Vec::new(),
        seed: None,
        draws: 0,
    };
    l.add_inputs()?;
    let mut unsupported = Vec::new();
    for (i, node) in program.nodes.iter().enumerate() {
        let call = Call { target: program.target(node), node };
        let result = match table::find(call.target) {
            Some(rule) => rule(&mut l, &call),
            None => Err(LowerError::unsupported("no lowering for this operator")),
        };
        let result = result.and_then(|outputs| l.check(&call, &outputs).map(|()| outputs));
        let outputs = result.unwrap_or_else(|error| {
            let origin = program.origins.get(i).cloned().unwrap_or_default();
            unsupported.push(Unsupported { node: i, target: call.target.to_owned(), name: origin.name, line: origin.line, error });
            l.stand_ins(&node.outputs)
        });
        l.nodes.push(outputs);
    }
    l.finish(unsupported)
}
