//! Operations on lists of tensors: each element is lowered by the rule of the operator for one tensor.

use super::table::{Family, find};
use super::{Call, LowerError, Lowering, Outputs};
use crate::capture::program::{Arg, Node};

macro_rules! family {
    (unary: [$($unary:literal),* $(,)?], binary: [$($binary:literal),* $(,)?], other: [$($other:literal),* $(,)?]) => {
        /// Operators of this family.
        pub const OPS: Family = &[
            $((concat!("aten._foreach_", $unary, ".default"), foreach),)*
            $(
                (concat!("aten._foreach_", $binary, ".List"), foreach),
                (concat!("aten._foreach_", $binary, ".Scalar"), foreach),
                (concat!("aten._foreach_", $binary, ".ScalarList"), foreach),
            )*
            $((concat!("aten._foreach_", $other), foreach),)*
        ];
    };
}

family! {
    unary: [
        "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log", "log10",
        "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "max",
        "zero", "copy", "clone",
    ],
    binary: ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow", "lerp"],
    other: [
        "add.Tensor", "mul.Tensor", "div.Tensor", "pow.ScalarAndTensor", "addcmul.Scalar", "addcmul.ScalarList", "addcdiv.Scalar",
        "addcdiv.ScalarList", "norm.Scalar",
    ]
}

/// The operator for one tensor: `name` and `overload` of the one for lists.
fn single(name: &str, overload: &str) -> String {
    let list = overload == "List";
    match (name, overload) {
        ("zero", _) => "aten.fill.Scalar".to_owned(),
        ("norm", _) => "aten.linalg_vector_norm.default".to_owned(),
        ("maximum" | "clamp_min", _) if list => "aten.maximum.default".to_owned(),
        ("minimum" | "clamp_max", _) if list => "aten.minimum.default".to_owned(),
        ("maximum" | "clamp_min", _) => "aten.clamp_min.default".to_owned(),
        ("minimum" | "clamp_max", _) => "aten.clamp_max.default".to_owned(),
        ("pow", "List") => "aten.pow.Tensor_Tensor".to_owned(),
        ("pow", "ScalarAndTensor") => "aten.pow.Scalar".to_owned(),
        ("pow", _) => "aten.pow.Tensor_Scalar".to_owned(),
        ("lerp", "List") => "aten.lerp.Tensor".to_owned(),
        ("lerp", _) => "aten.lerp.Scalar".to_owned(),
        ("add" | "sub" | "mul" | "div", _) => format!("aten.{name}.Tensor"),
        _ => format!("aten.{name}.default"),
    }
}

/// Element `i` of a list; other arguments are every element's.
fn element(arg: &Arg, i: usize) -> Result<Arg, LowerError> {
    match arg {
        Arg::List(items) => items.get(i).cloned().ok_or_else(|| LowerError::unsupported("lists of different lengths")),
        other => Ok(other.clone()),
    }
}

fn foreach(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (name, overload) = c.target.trim_start_matches("aten._foreach_").split_once('.').unwrap_or((c.target, ""));
    let target = single(name, overload);
    let rule = find(&target).ok_or_else(|| LowerError::unsupported(format!("no lowering for {target}")))?;
    let mut results = Outputs::new();
    for (i, meta) in c.node.outputs.iter().enumerate() {
        let mut args = c.node.args.iter().map(|a| element(a, i)).collect::<Result<Vec<_>, _>>()?;
        let mut kwargs = Vec::with_capacity(c.node.kwargs.len() + 1);
        for (key, arg) in &c.node.kwargs {
            kwargs.push((key.clone(), element(arg, i)?));
        }
        match name {
            "zero" => args.push(Arg::Int(0)),
            // The result's type says what the argument `dtype` said.
            "norm" => args.truncate(2),
            "addcmul" | "addcdiv" if args.len() > 3 => kwargs.push(("value".to_owned(), args.remove(3))),
            "copy" => args.truncate(2),
            _ => {}
        }
        let node = Node { target: c.node.target, args, kwargs, outputs: vec![meta.clone()] };
        let one = rule(l, &Call { target: &target, node: &node })?;
        results.push(one.first().copied().flatten());
    }
    Ok(results)
}
