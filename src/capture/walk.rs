//! The walk of an FX graph: reads `torch.fx` nodes through PyO3 into a [`Program`].

mod views;

use clutch_graph::{DType, Literal, TensorType};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use rustc_hash::FxHashMap;

use self::views::storage_of;
use super::expr::{ExprId, Size};
use super::layout::dense_order;
use super::program::{Arg, Constant, Input, Meta, Node, Origin, Program, TensorMeta, ValueRef};
use crate::runtime::dlpack::Exchange;

/// Constants up to this many bytes stand in the program; larger ones are passed as inputs.
pub const INLINE_CONSTANT_BYTES: usize = 256;

/// A graph that the walk cannot take, and whose fault it is.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The graph holds a tensor of a kind that has no dense form.
    #[error("{what} {name} is {kind}; Clutch takes dense strided tensors. Convert it first, or leave this part of the model uncompiled")]
    TensorKind {
        /// Placeholder or constant.
        what: &'static str,
        /// Its name.
        name: String,
        /// What it is.
        kind: String,
    },
    /// The element type has no HLO counterpart.
    #[error("{name} has dtype {dtype}, which no device supports")]
    Dtype {
        /// Name of the FX node.
        name: String,
        /// PyTorch's name of the dtype.
        dtype: String,
    },
    /// A construct that FX graphs from AOTAutograd should not have.
    #[error("the FX graph holds {0}")]
    Unexpected(String),
    /// Python raised.
    #[error(transparent)]
    Python(#[from] PyErr),
}

/// What a walk gives: the program and the constant tensors, in the program's order.
pub struct Walked {
    /// The program.
    pub program: Program,
    /// Tensors of the constants that are passed as inputs (in the order of `program.constants`; None for inline ones).
    pub constants: Vec<Option<Py<PyAny>>>,
    /// Values of size expressions in the example that was captured.
    pub hints: Vec<(ExprId, i64)>,
    /// Declared maxima of symbols, by name.
    pub largest: Vec<(String, i64)>,
    /// Nodes that bring in a symbol of their own, since the size of their result depends on data: name and operator.
    pub introduced: Vec<(String, String)>,
}

/// What an FX node stands for.
#[derive(Clone)]
enum Held {
    Value(ValueRef),
    Tuple(u32),
    Size(Size),
    Module(u32),
    Nothing,
}

struct Walk<'py> {
    py: Python<'py>,
    dtypes: Bound<'py, PyDict>,
    fx_node: Bound<'py, PyAny>,
    sym_int: Bound<'py, PyAny>,
    tensor: Bound<'py, PyAny>,
    torch_dtype: Bound<'py, PyAny>,
    torch_device: Bound<'py, PyAny>,
    exchange: Exchange,
    program: Program,
    constants: Vec<Option<Py<PyAny>>>,
    held: FxHashMap<usize, Held>,
    targets: FxHashMap<usize, u32>,
    target_names: FxHashMap<String, u32>,
    attributes: FxHashMap<String, Held>,
    sizes: FxHashMap<String, Size>,
    hints: Vec<(ExprId, i64)>,
    shape_env: Option<Bound<'py, PyAny>>,
    introduced: Vec<(String, String)>,
    /// Placeholders by the memory that they stand for.
    storages: FxHashMap<i64, (u32, Bound<'py, PyAny>)>,
}

/// Walks `gm`; `static_inputs` holds the numbers of the placeholders that are kept across calls.
///
/// # Errors
/// When the graph holds sparse or quantised tensors, lazily conjugated inputs, or something that is not an AOTAutograd graph.
pub fn walk(gm: &Bound<'_, PyAny>, static_inputs: &[usize]) -> Result<Walked, WalkError> {
    let py = gm.py();
    let torch = py.import("torch")?;
    let mut w = Walk {
        py,
        dtypes: dtype_map(&torch)?,
        fx_node: py.import("torch.fx")?.getattr("Node")?,
        sym_int: torch.getattr("SymInt")?,
        tensor: torch.getattr("Tensor")?,
        torch_dtype: torch.getattr("dtype")?,
        torch_device: torch.getattr("device")?,
        exchange: Exchange::get(py)?,
        program: Program::default(),
        constants: Vec::new(),
        held: FxHashMap::default(),
        targets: FxHashMap::default(),
        target_names: FxHashMap::default(),
        attributes: FxHashMap::default(),
        sizes: FxHashMap::default(),
        hints: Vec::new(),
        shape_env: None,
        introduced: Vec::new(),
        storages: FxHashMap::default(),
    };
    w.graph(gm, static_inputs)?;
    let largest = w.shape_env.as_ref().map(largest).transpose()?.unwrap_or_default();
    Ok(Walked { program: w.program, constants: w.constants, hints: w.hints, largest, introduced: w.introduced })
}

/// Finite upper bounds of the symbols that a shape environment knows.
fn largest(shape_env: &Bound<'_, PyAny>) -> PyResult<Vec<(String, i64)>> {
    let mut found = Vec::new();
    for item in shape_env.getattr("var_to_range")?.call_method0("items")?.try_iter()? {
        let (symbol, range): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
        let upper = range.getattr("upper")?;
        if upper.getattr("is_Integer").and_then(|i| i.is_truthy()).unwrap_or(false)
            && let Ok(upper) = upper.call_method0("__int__")?.extract::<i64>()
            && upper < i64::from(i32::MAX)
        {
            found.push((symbol.str()?.to_string(), upper));
        }
    }
    Ok(found)
}

/// torch.dtype objects to element types.
fn dtype_map<'py>(torch: &Bound<'py, PyModule>) -> PyResult<Bound<'py, PyDict>> {
    let map = PyDict::new(torch.py());
    for (name, dtype) in [
        ("bool", DType::Pred),
        ("int8", DType::S8),
        ("int16", DType::S16),
        ("int32", DType::S32),
        ("int64", DType::S64),
        ("uint8", DType::U8),
        ("uint16", DType::U16),
        ("uint32", DType::U32),
        ("uint64", DType::U64),
        ("float16", DType::F16),
        ("bfloat16", DType::BF16),
        ("float32", DType::F32),
        ("float64", DType::F64),
        ("complex64", DType::C64),
        ("complex128", DType::C128),
        ("float8_e4m3fn", DType::F8E4M3FN),
        ("float8_e5m2", DType::F8E5M2),
    ] {
        map.set_item(torch.getattr(name)?, DType::ALL.iter().position(|d| *d == dtype))?;
    }
    Ok(map)
}

impl<'py> Walk<'py> {
    fn graph(&mut self, gm: &Bound<'py, PyAny>, static_inputs: &[usize]) -> Result<(), WalkError> {
        let nodes = gm.getattr("graph")?.getattr("nodes")?;
        let mut placeholder = 0;
        for node in nodes.try_iter()? {
            let node = node?;
            let op = node.getattr(intern!(self.py, "op"))?;
            let held = match op.cast::<PyString>().map_err(PyErr::from)?.to_str()? {
                "placeholder" => {
                    let held = self.placeholder(&node, placeholder, static_inputs.contains(&placeholder))?;
                    placeholder += 1;
                    held
                }
                "get_attr" => self.get_attr(gm, &node)?,
                "call_function" => {
                    let known = self.program.exprs.symbols().len();
                    let held = self.call(&node)?;
                    if self.program.exprs.symbols().len() > known {
                        let target = self.target(&node)?;
                        self.introduced.push((self.name(&node)?, self.program.targets[target as usize].clone()));
                    }
                    held
                }
                "output" => {
                    self.output(&node)?;
                    continue;
                }
                other => return Err(WalkError::Unexpected(format!("a node of kind `{other}`"))),
            };
            self.held.insert(node.as_ptr() as usize, held);
        }
        Ok(())
    }

    fn name(&self, node: &Bound<'py, PyAny>) -> PyResult<String> {
        node.getattr(intern!(self.py, "name"))?.extract()
    }

    fn val(&self, node: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let meta = node.getattr(intern!(self.py, "meta"))?;
        meta.cast::<PyDict>()?.get_item(intern!(self.py, "val"))
    }

    fn placeholder(&mut self, node: &Bound<'py, PyAny>, number: usize, is_static: bool) -> Result<Held, WalkError> {
        let val = self.val(node)?;
        let name = self.name(node)?;
        let mut is_lazy = false;
        let (meta, held) = match val {
            Some(v) if v.is_instance(&self.tensor)? => {
                self.check_tensor("input", &name, &v)?;
                is_lazy = v.call_method0("is_conj")?.is_truthy()? || v.call_method0("is_neg")?.is_truthy()?;
                let meta = self.tensor_meta(&v, &name)?;
                if let Some(storage) = storage_of(&v) {
                    self.storages.entry(storage).or_insert((number as u32, v.clone()));
                }
                (Meta::Tensor(meta), Held::Value(ValueRef::Input(number as u32)))
            }
            Some(v) => match self.int_size(&v)? {
                Some(size) => (Meta::Int(size), Held::Size(size)),
                None => (Meta::None, Held::Nothing),
            },
            None => (Meta::None, Held::Nothing),
        };
        self.program.inputs.push(Input { meta, is_static, is_lazy });
        Ok(held)
    }

    /// Refuses tensors whose memory is not what their sizes and strides say.
    fn check_tensor(&self, what: &'static str, name: &str, v: &Bound<'py, PyAny>) -> Result<(), WalkError> {
        let kind = if v.getattr("layout")?.str()?.to_str()? != "torch.strided" {
            Some(format!("a {} tensor", v.getattr("layout")?.str()?.to_str()?.trim_start_matches("torch.")))
        } else if v.getattr("is_quantized")?.is_truthy()? {
            Some("a quantised tensor".to_owned())
        } else if v.getattr("device")?.getattr("type")?.eq("meta")? {
            Some("on the meta device, which holds no data".to_owned())
        } else {
            None
        };
        match kind {
            Some(kind) => Err(WalkError::TensorKind { what, name: name.to_owned(), kind }),
            None => Ok(()),
        }
    }

    fn dtype(&self, dtype: &Bound<'py, PyAny>, name: &str) -> Result<DType, WalkError> {
        match self.dtypes.get_item(dtype)? {
            Some(i) => Ok(DType::ALL[i.extract::<usize>()?]),
            None => Err(WalkError::Dtype { name: name.to_owned(), dtype: dtype.str()?.to_string() }),
        }
    }

    fn tensor_meta(&mut self, v: &Bound<'py, PyAny>, name: &str) -> Result<TensorMeta, WalkError> {
        let dtype = self.dtype(&v.getattr(intern!(self.py, "dtype"))?, name)?;
        let shape = self.size_list(&v.getattr(intern!(self.py, "shape"))?)?;
        let strides = match v.call_method0(intern!(self.py, "stride")) {
            Ok(s) => self.size_list(&s)?,
            Err(_) => Vec::new(),
        };
        Ok(TensorMeta { dtype, shape, strides })
    }

    fn size_list(&mut self, list: &Bound<'py, PyAny>) -> Result<Vec<Size>, WalkError> {
        let items = list.cast::<PyTuple>().map_err(PyErr::from)?;
        let mut out = Vec::with_capacity(items.len());
        for item in items.iter_borrowed() {
            match self.int_size(&item)? {
                Some(size) => out.push(size),
                None => return Err(WalkError::Unexpected("a size that is no integer".into())),
            }
        }
        Ok(out)
    }

    /// An int or SymInt as a size.
    fn int_size(&mut self, v: &Bound<'py, PyAny>) -> Result<Option<Size>, WalkError> {
        if v.is_instance_of::<PyInt>() && !v.is_instance_of::<PyBool>() {
            return Ok(Some(Size::Const(v.extract()?)));
        }
        if !v.is_instance(&self.sym_int)? {
            return Ok(None);
        }
        let node = v.getattr(intern!(self.py, "node"))?;
        let Ok(expr) = node.getattr(intern!(self.py, "expr")) else {
            return Err(WalkError::Unexpected("a nested (jagged) tensor".into()));
        };
        let text = expr.str()?;
        let text = text.to_str()?;
        if let Some(size) = self.sizes.get(text) {
            return Ok(Some(*size));
        }
        if self.shape_env.is_none() {
            self.shape_env = node.getattr("shape_env").ok();
        }
        let id = self.program.exprs.parse(text).map_err(|e| WalkError::Unexpected(e.to_string()))?;
        let size = self.program.exprs.size(id);
        if let Some(hint) = node.getattr("hint").ok().and_then(|h| h.extract::<i64>().ok()) {
            self.hints.push((id, hint));
        }
        self.sizes.insert(text.to_owned(), size);
        Ok(Some(size))
    }

    fn get_attr(&mut self, gm: &Bound<'py, PyAny>, node: &Bound<'py, PyAny>) -> Result<Held, WalkError> {
        let path: String = node.getattr(intern!(self.py, "target"))?.extract()?;
        if let Some(held) = self.attributes.get(&path) {
            return Ok(held.clone());
        }
        let mut object = gm.clone();
        for part in path.split('.') {
            object = object.getattr(part)?;
        }
        let held = if object.is_instance(&self.tensor)? {
            self.check_tensor("constant", &path, &object)?;
            let object = object.call_method0("resolve_conj")?.call_method0("resolve_neg")?;
            let meta = self.tensor_meta(&object, &path)?;
            self.constant(object, meta)?
        } else if object.hasattr("graph")? {
            let sub = walk(&object, &[])?;
            if sub.constants.iter().any(Option::is_some) {
                return Err(WalkError::Unexpected("a control-flow branch with a large tensor constant of its own".into()));
            }
            self.program.subprograms.push(sub.program);
            Held::Module(self.program.subprograms.len() as u32 - 1)
        } else {
            return Err(WalkError::Unexpected(format!("the attribute `{path}`, which is neither a tensor nor a subgraph")));
        };
        self.attributes.insert(path, held.clone());
        Ok(held)
    }

    fn constant(&mut self, tensor: Bound<'py, PyAny>, mut meta: TensorMeta) -> Result<Held, WalkError> {
        let fixed =
            |sizes: &[Size]| -> Option<Vec<i64>> { sizes.iter().map(|s| if let Size::Const(c) = s { Some(*c) } else { None }).collect() };
        let (Some(dims), Some(strides)) = (fixed(&meta.shape), fixed(&meta.strides)) else {
            return Err(WalkError::Unexpected("a tensor constant of symbolic size".into()));
        };
        let row_major = dense_order(&dims, &strides).is_some_and(|o| o.iter().copied().eq(0..dims.len()));
        let tensor = if row_major { tensor } else { tensor.call_method0("contiguous")? };
        meta.strides = clutch_graph::types::row_major_strides(&dims).iter().map(|&s| Size::Const(s)).collect();
        let ty = TensorType::new(meta.dtype, dims);
        let inline = if ty.byte_size() <= INLINE_CONSTANT_BYTES {
            let plain = tensor.call_method0("detach")?;
            let bytes = self.exchange.read_bytes(&plain, ty.byte_size()).map_err(|e| WalkError::Unexpected(e.to_string()))?;
            Some(Literal::new(ty, bytes).map_err(|e| WalkError::Unexpected(e.to_string()))?)
        } else {
            None
        };
        self.constants.push(inline.is_none().then(|| tensor.unbind()));
        self.program.constants.push(Constant { meta, inline });
        Ok(Held::Value(ValueRef::Constant(self.program.constants.len() as u32 - 1)))
    }

    fn target(&mut self, node: &Bound<'py, PyAny>) -> Result<u32, WalkError> {
        let target = node.getattr(intern!(self.py, "target"))?;
        let address = target.as_ptr() as usize;
        if let Some(&id) = self.targets.get(&address) {
            return Ok(id);
        }
        let name = if target.hasattr("_schema")? {
            target.str()?.to_string()
        } else {
            let module: String = target.getattr("__module__").and_then(|m| m.extract()).unwrap_or_default();
            let name: String = target.getattr("__name__").and_then(|m| m.extract()).unwrap_or_default();
            format!("{module}.{name}")
        };
        let id = *self.target_names.entry(name.clone()).or_insert_with(|| {
            self.program.targets.push(name);
            self.program.targets.len() as u32 - 1
        });
        self.targets.insert(address, id);
        Ok(id)
    }

    fn call(&mut self, node: &Bound<'py, PyAny>) -> Result<Held, WalkError> {
        let val = self.val(node)?;
        let args = node.getattr(intern!(self.py, "args"))?;
        let args = args.cast::<PyTuple>().map_err(PyErr::from)?;
        let target = self.target(node)?;
        if self.program.targets[target as usize] == "_operator.getitem"
            && let Some(held) = self.getitem(args)?
        {
            return Ok(held);
        }
        if let Some(v) = &val
            && let Some(size) = self.int_size(v)?
            && !v.is_instance_of::<PyInt>()
        {
            return Ok(Held::Size(size));
        }
        let name = self.name(node)?;
        let mut outputs = Vec::new();
        let mut tuple = false;
        match &val {
            Some(v) if v.is_instance(&self.tensor)? => outputs.push(Meta::Tensor(self.tensor_meta(v, &name)?)),
            Some(v) if v.is_instance_of::<PyTuple>() || v.is_instance_of::<PyList>() => {
                tuple = true;
                for item in v.try_iter()? {
                    let item = item?;
                    outputs.push(if item.is_instance(&self.tensor)? {
                        Meta::Tensor(self.tensor_meta(&item, &name)?)
                    } else {
                        match self.int_size(&item)? {
                            Some(size) => Meta::Int(size),
                            None => Meta::None,
                        }
                    });
                }
            }
            _ => outputs.push(Meta::None),
        }
        let mut converted = Vec::with_capacity(args.len());
        for a in args.iter_borrowed() {
            converted.push(self.arg(&a)?);
        }
        let kwargs_object = node.getattr(intern!(self.py, "kwargs"))?;
        let mut kwargs = Vec::new();
        if kwargs_object.len()? > 0 {
            for item in kwargs_object.call_method0("items")?.try_iter()? {
                let (key, value): (String, Bound<'py, PyAny>) = item?.extract()?;
                kwargs.push((key, self.arg(&value)?));
            }
            kwargs.sort_by(|a, b| a.0.cmp(&b.0));
        }
        let number = self.program.nodes.len() as u32;
        self.program.nodes.push(Node { target, args: converted, kwargs, outputs });
        self.program.origins.push(Origin { name, line: None });
        Ok(if tuple { Held::Tuple(number) } else { Held::Value(ValueRef::Node(number, 0)) })
    }

    fn getitem(&mut self, args: &Bound<'py, PyTuple>) -> Result<Option<Held>, WalkError> {
        let source = args.get_item(0)?;
        let Some(Held::Tuple(number)) = self.held.get(&(source.as_ptr() as usize)).cloned() else { return Ok(None) };
        let outputs = &self.program.nodes[number as usize].outputs;
        let index: i64 = args.get_item(1)?.extract()?;
        let index = if index < 0 { index + outputs.len() as i64 } else { index };
        Ok(Some(match outputs.get(index as usize) {
            Some(Meta::Int(size)) => Held::Size(*size),
            Some(Meta::Tensor(_)) => Held::Value(ValueRef::Node(number, index as u32)),
            _ => Held::Nothing,
        }))
    }

    fn arg(&mut self, a: &Bound<'py, PyAny>) -> Result<Arg, WalkError> {
        if a.is_none() {
            return Ok(Arg::None);
        }
        if a.is_instance(&self.fx_node)? {
            return Ok(match self.held.get(&(a.as_ptr() as usize)) {
                Some(Held::Value(v)) => Arg::Value(*v),
                Some(Held::Size(Size::Const(c))) => Arg::Int(*c),
                Some(Held::Size(s)) => Arg::Size(*s),
                Some(Held::Module(m)) => Arg::Program(*m),
                Some(Held::Tuple(n)) => {
                    let count = self.program.nodes[*n as usize].outputs.len() as u32;
                    Arg::List((0..count).map(|i| Arg::Value(ValueRef::Node(*n, i))).collect())
                }
                Some(Held::Nothing) | None => Arg::None,
            });
        }
        if a.is_instance_of::<PyBool>() {
            return Ok(Arg::Bool(a.extract()?));
        }
        if let Some(size) = self.int_size(a)? {
            return Ok(match size {
                Size::Const(c) => Arg::Int(c),
                size => Arg::Size(size),
            });
        }
        if a.is_instance_of::<PyFloat>() {
            return Ok(Arg::Float(a.extract()?));
        }
        if a.is_instance_of::<PyList>() || a.is_instance_of::<PyTuple>() {
            let mut items = Vec::new();
            for item in a.try_iter()? {
                items.push(self.arg(&item?)?);
            }
            return Ok(Arg::List(items));
        }
        if a.is_instance_of::<PyString>() {
            return Ok(Arg::Str(a.extract()?));
        }
        if a.is_instance(&self.torch_dtype)? {
            return match self.dtype(a, "an argument") {
                Ok(d) => Ok(Arg::DType(d)),
                Err(WalkError::Dtype { dtype, .. }) => Ok(Arg::Str(dtype)),
                Err(e) => Err(e),
            };
        }
        if a.is_instance(&self.torch_device)? {
            return Ok(Arg::Device);
        }
        if let Ok(c) = a.cast::<PyComplex>() {
            let (re, im): (f64, f64) = (c.getattr("real")?.extract()?, c.getattr("imag")?.extract()?);
            return Ok(Arg::Complex(re, im));
        }
        if let Ok(expr) = a.getattr("node").and_then(|n| n.getattr("expr")) {
            let text = expr.str()?.to_string();
            if let Ok(value) = text.parse::<f64>() {
                return Ok(Arg::Float(value));
            }
            return Ok(Arg::Str(format!("symbolic value {text}")));
        }
        let text = a.str()?.to_string();
        // An operator, as higher-order operators take it.
        if a.hasattr("_schema")? {
            return Ok(Arg::Str(text));
        }
        match text.strip_prefix("torch.") {
            Some(word) => Ok(Arg::Str(word.to_owned())),
            // Only operators without a lowering take such arguments.
            None => Ok(Arg::Str(format!("{}: {text}", a.get_type().name()?))),
        }
    }

    fn output(&mut self, node: &Bound<'py, PyAny>) -> Result<(), WalkError> {
        let args = node.getattr(intern!(self.py, "args"))?;
        let results = args.get_item(0)?;
        let mut vals = Vec::new();
        if results.is_instance_of::<PyList>() || results.is_instance_of::<PyTuple>() {
            for item in results.try_iter()? {
                let item = item?;
                let out = self.arg(&item)?;
                self.program.outputs.push(out);
                let val = if item.is_instance(&self.fx_node)? { self.val(&item)? } else { None };
                vals.push(val.filter(|v| v.is_instance(&self.tensor).unwrap_or(false)));
            }
        } else {
            let out = self.arg(&results)?;
            self.program.outputs.push(out);
        }
        self.views(&vals)
    }
}
