//! Arguments of the call that is being lowered.

use clutch_graph::{DType, Dims, ValueId};

use super::context::Lowering;
use super::error::LowerError;
use crate::capture::program::{Arg, Meta, Node, TensorMeta};

/// One call: typed access to its arguments by position, or by name when given as a keyword, and to what PyTorch says it gives.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Operator name, as in `aten.add.Tensor`.
    pub target: &'a str,
    /// The node.
    pub node: &'a Node,
}

impl<'a> Call<'a> {
    /// The argument at `index` or with the keyword `name`; `None` when absent or None.
    pub fn arg(&self, index: usize, name: &str) -> Option<&'a Arg> {
        let found = self.node.args.get(index).or_else(|| self.kwarg_raw(name));
        found.filter(|a| !matches!(a, Arg::None))
    }

    fn kwarg_raw(&self, name: &str) -> Option<&'a Arg> {
        self.node.kwargs.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// A keyword argument; `None` when absent or None.
    pub fn kwarg(&self, name: &str) -> Option<&'a Arg> {
        self.kwarg_raw(name).filter(|a| !matches!(a, Arg::None))
    }

    fn wrong<T>(&self, index: usize, name: &'static str, expected: &'static str) -> Result<T, LowerError> {
        Err(LowerError::Argument { index, name, expected })
    }

    /// A tensor argument.
    pub fn tensor(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<ValueId, LowerError> {
        match self.arg(index, name) {
            Some(Arg::Value(v)) => l.value(*v),
            _ => self.wrong(index, name, "a tensor"),
        }
    }

    /// An optional tensor argument.
    pub fn opt_tensor(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<Option<ValueId>, LowerError> {
        match self.arg(index, name) {
            None => Ok(None),
            Some(Arg::Value(v)) => l.value(*v).map(Some),
            Some(_) => self.wrong(index, name, "a tensor or None"),
        }
    }

    /// A list of tensors.
    pub fn tensors(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<Vec<ValueId>, LowerError> {
        match self.arg(index, name) {
            Some(Arg::List(items)) => items
                .iter()
                .map(|a| match a {
                    Arg::Value(v) => l.value(*v),
                    _ => self.wrong(index, name, "a list of tensors"),
                })
                .collect(),
            _ => self.wrong(index, name, "a list of tensors"),
        }
    }

    /// A list of tensors or None, as indices are.
    pub fn opt_tensors(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<Vec<Option<ValueId>>, LowerError> {
        match self.arg(index, name) {
            Some(Arg::List(items)) => items
                .iter()
                .map(|a| match a {
                    Arg::Value(v) => l.value(*v).map(Some),
                    Arg::None => Ok(None),
                    _ => self.wrong(index, name, "a list of tensors and None"),
                })
                .collect(),
            _ => self.wrong(index, name, "a list of tensors and None"),
        }
    }

    /// An integer, with symbolic sizes evaluated.
    pub fn int(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<i64, LowerError> {
        match self.opt_int(l, index, name)? {
            Some(i) => Ok(i),
            None => self.wrong(index, name, "an integer"),
        }
    }

    /// An optional integer.
    pub fn opt_int(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<Option<i64>, LowerError> {
        match self.arg(index, name) {
            None => Ok(None),
            Some(a) => match l.arg_int(a)? {
                Some(i) => Ok(Some(i)),
                None => self.wrong(index, name, "an integer"),
            },
        }
    }

    /// An integer with the schema's default.
    pub fn int_or(&self, l: &Lowering<'_>, index: usize, name: &'static str, default: i64) -> Result<i64, LowerError> {
        Ok(self.opt_int(l, index, name)?.unwrap_or(default))
    }

    /// A list of integers; a single integer is a list of one.
    pub fn ints(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<Dims, LowerError> {
        match self.opt_ints(l, index, name)? {
            Some(v) => Ok(v),
            None => self.wrong(index, name, "a list of integers"),
        }
    }

    /// An optional list of integers; a single integer is a list of one.
    pub fn opt_ints(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<Option<Dims>, LowerError> {
        let items = match self.arg(index, name) {
            None => return Ok(None),
            Some(Arg::List(items)) => items.as_slice(),
            Some(single) => std::slice::from_ref(single),
        };
        let mut out = Dims::new();
        for a in items {
            match l.arg_int(a)? {
                Some(i) => out.push(i),
                None => return self.wrong(index, name, "a list of integers"),
            }
        }
        Ok(Some(out))
    }

    /// A truth value with the schema's default.
    pub fn bool_or(&self, index: usize, name: &'static str, default: bool) -> Result<bool, LowerError> {
        match self.arg(index, name) {
            None => Ok(default),
            Some(Arg::Bool(b)) => Ok(*b),
            Some(Arg::Int(i)) => Ok(*i != 0),
            Some(_) => self.wrong(index, name, "a truth value"),
        }
    }

    /// A list of truth values.
    pub fn bools(&self, index: usize, name: &'static str) -> Result<Vec<bool>, LowerError> {
        match self.arg(index, name) {
            Some(Arg::List(items)) => items
                .iter()
                .map(|a| match a {
                    Arg::Bool(b) => Ok(*b),
                    _ => self.wrong(index, name, "a list of truth values"),
                })
                .collect(),
            _ => self.wrong(index, name, "a list of truth values"),
        }
    }

    /// A number as `f64`; integers and truth values convert.
    pub fn float(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<f64, LowerError> {
        match self.opt_float(l, index, name)? {
            Some(x) => Ok(x),
            None => self.wrong(index, name, "a number"),
        }
    }

    /// An optional number as `f64`.
    pub fn opt_float(&self, l: &Lowering<'_>, index: usize, name: &'static str) -> Result<Option<f64>, LowerError> {
        match self.arg(index, name) {
            None => Ok(None),
            Some(Arg::Float(x)) => Ok(Some(*x)),
            Some(a) => match l.arg_int(a)? {
                Some(i) => Ok(Some(i as f64)),
                None => self.wrong(index, name, "a number"),
            },
        }
    }

    /// A number with the schema's default.
    pub fn float_or(&self, l: &Lowering<'_>, index: usize, name: &'static str, default: f64) -> Result<f64, LowerError> {
        Ok(self.opt_float(l, index, name)?.unwrap_or(default))
    }

    /// An optional word.
    pub fn opt_str(&self, index: usize, name: &'static str) -> Result<Option<&'a str>, LowerError> {
        match self.arg(index, name) {
            None => Ok(None),
            Some(Arg::Str(s)) => Ok(Some(s)),
            Some(_) => self.wrong(index, name, "a string"),
        }
    }

    /// An optional dtype.
    pub fn opt_dtype(&self, index: usize, name: &'static str) -> Result<Option<DType>, LowerError> {
        match self.arg(index, name) {
            None => Ok(None),
            Some(Arg::DType(d)) => Ok(Some(*d)),
            Some(_) => self.wrong(index, name, "a dtype"),
        }
    }

    /// An axis argument made non-negative for a tensor of `rank` axes (a scalar counts as one axis).
    pub fn axis(&self, l: &Lowering<'_>, index: usize, name: &'static str, rank: usize) -> Result<usize, LowerError> {
        let axis = self.int(l, index, name)?;
        normalize_axis(axis, rank).map_or_else(|| self.wrong(index, name, "an axis of the tensor"), Ok)
    }

    /// An axis argument with the schema's default.
    pub fn axis_or(&self, l: &Lowering<'_>, index: usize, name: &'static str, rank: usize, default: i64) -> Result<usize, LowerError> {
        let axis = self.int_or(l, index, name, default)?;
        normalize_axis(axis, rank).map_or_else(|| self.wrong(index, name, "an axis of the tensor"), Ok)
    }

    /// A list of axes, sorted and distinct; absent or empty means all axes.
    pub fn axes_or_all(&self, l: &Lowering<'_>, index: usize, name: &'static str, rank: usize) -> Result<Vec<usize>, LowerError> {
        let given = self.opt_ints(l, index, name)?.unwrap_or_default();
        if given.is_empty() {
            return Ok((0..rank).collect());
        }
        let mut axes = Vec::with_capacity(given.len());
        for a in given {
            match normalize_axis(a, rank) {
                Some(a) if rank > 0 => axes.push(a),
                Some(_) => {}
                None => return self.wrong(index, name, "axes of the tensor"),
            }
        }
        axes.sort_unstable();
        axes.dedup();
        Ok(axes)
    }

    /// What PyTorch says of the result `output`.
    pub fn out_meta(&self, output: usize) -> Result<&'a TensorMeta, LowerError> {
        match self.node.outputs.get(output) {
            Some(Meta::Tensor(t)) => Ok(t),
            _ => Err(LowerError::unsupported(format!("result {output} is not a tensor of known type"))),
        }
    }

    /// Element type of the first result.
    pub fn out_dtype(&self) -> Result<DType, LowerError> {
        self.out_meta(0).map(|m| m.dtype)
    }

    /// Sizes of the first result, with symbols evaluated.
    pub fn out_dims(&self, l: &Lowering<'_>) -> Result<Dims, LowerError> {
        l.sizes(&self.out_meta(0)?.shape)
    }
}

/// A possibly negative axis as an index; a scalar counts as one axis.
pub fn normalize_axis(axis: i64, rank: usize) -> Option<usize> {
    let n = rank.max(1) as i64;
    let a = if axis < 0 { axis + n } else { axis };
    (0..n).contains(&a).then_some(a as usize)
}
