//! Reference interpreter: what every op means, computed plainly on the host.
//!
//! Each op is evaluated from its definition, composites included, so that the interpreter is independent of expansions and rewrites.
//! Real arithmetic is done in `f64` and rounded once an op to the result type; for types narrower than `F32` by way of `F32`. For
//! sums, products, quotients and square roots of `F32` this equals `F32` arithmetic; functions and long sums come out at least as
//! accurate as in `F32`. Integers wrap. Complex numbers are computed as pairs of `f64`.

mod attention;
mod complex;
mod composite;
mod convolution;
mod dot;
mod elementwise;
mod elems;
mod fft;
mod index;
mod linalg;
mod movement;
mod random;
mod reduce;
mod sort;
mod window;

#[cfg(test)]
mod tests;

use smallvec::{SmallVec, smallvec};

use crate::error::GraphError;
use crate::graph::{Graph, Node};
use crate::literal::Literal;
use crate::op::{Combiner, Op};
use crate::types::TensorType;
use crate::verify::verify;

pub use random::threefry2x32;

/// Most elements of one value.
const MAX_ELEMENTS: i64 = 1 << 31;

/// Most rounds of one loop.
const MAX_ROUNDS: u64 = 100_000_000;

/// Why a graph could not be interpreted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterpError {
    /// Fault of the compiler: the graph is broken.
    #[error("invalid graph: {0}")]
    Graph(#[from] GraphError),
    /// Fault of the caller: wrong number of inputs.
    #[error("the graph takes {expected} inputs, got {got}")]
    InputCount {
        /// Parameters of the graph.
        expected: usize,
        /// Inputs given.
        got: usize,
    },
    /// Fault of the caller: an input of another type than its parameter.
    #[error("input {number} is of type {got}, the parameter of type {expected}")]
    InputType {
        /// Parameter number.
        number: usize,
        /// Type of the parameter.
        expected: Box<TensorType>,
        /// Type of the input.
        got: Box<TensorType>,
    },
    /// A value larger than the interpreter computes.
    #[error("node %{node}: a result of type {ty} is too large to interpret")]
    TooLarge {
        /// Node number in its graph.
        node: u32,
        /// Type of the result.
        ty: Box<TensorType>,
    },
    /// A loop that does not end in a sensible number of rounds.
    #[error("a loop did not end within {rounds} rounds")]
    EndlessLoop {
        /// Rounds done.
        rounds: u64,
    },
}

/// Results of a node.
type Results = SmallVec<[Literal; 1]>;

/// The outputs of `graph` on `inputs`, one per parameter.
///
/// # Errors
/// When the graph does not verify, the inputs do not match the parameters, or a value or loop is too large.
pub fn interpret(graph: &Graph, inputs: &[Literal]) -> Result<Vec<Literal>, InterpError> {
    verify(graph)?;
    if inputs.len() != graph.parameters().len() {
        return Err(InterpError::InputCount { expected: graph.parameters().len(), got: inputs.len() });
    }
    for (number, (expected, input)) in graph.parameter_types().zip(inputs).enumerate() {
        if expected != input.ty() {
            return Err(InterpError::InputType { number, expected: Box::new(expected.clone()), got: Box::new(input.ty().clone()) });
        }
    }
    run(graph, inputs)
}

/// Evaluates a verified graph on inputs of its parameters' types. Values are dropped after their last use.
fn run(graph: &Graph, inputs: &[Literal]) -> Result<Vec<Literal>, InterpError> {
    let mut uses = graph.use_counts();
    let mut values: Vec<Results> = Vec::with_capacity(graph.nodes().len());
    for (id, node) in graph.ids().zip(graph.nodes()) {
        if let Some(ty) = node.outputs.iter().find(|ty| ty.numel() > MAX_ELEMENTS) {
            return Err(InterpError::TooLarge { node: id.0, ty: Box::new(ty.clone()) });
        }
        let args: SmallVec<[Literal; 4]> = node.operands.iter().map(|v| values[v.node.index()][v.output as usize].clone()).collect();
        let results = if uses[id.index()] == 0 { Results::new() } else { eval(node, &args, inputs)? };
        debug_assert!(results.iter().zip(&node.outputs).all(|(r, ty)| r.ty() == ty), "{} gave a wrong type", node.op.name());
        values.push(results);
        for v in &node.operands {
            uses[v.node.index()] -= 1;
            if uses[v.node.index()] == 0 {
                values[v.node.index()].clear();
            }
        }
    }
    Ok(graph.outputs.iter().map(|v| values[v.node.index()][v.output as usize].clone()).collect())
}

/// Results of one node on its operands.
fn eval(node: &Node, args: &[Literal], inputs: &[Literal]) -> Result<Results, InterpError> {
    let outs = &node.outputs;
    Ok(match &node.op {
        Op::While { cond, body } => return run_while(cond, body, args),
        Op::Cond { on_true, on_false } => {
            let branch = if args[0].splat_i64() == Some(0) { on_false } else { on_true };
            run(branch, &args[1..])?.into()
        }
        Op::Call(g) => run(g, args)?.into(),
        Op::OptimizationBarrier => args.into(),
        Op::Sort { axis, descending, .. } => sort::sort(args, *axis, *descending).into(),
        Op::TopK { k, largest } => sort::top_k(&args[0], *k, *largest, outs).into(),
        Op::LayerNorm { axes, eps } => composite::layer_norm(args, *axes, eps.0, outs).into(),
        Op::Attention(attrs) => attention::forward(args, attrs, outs).into(),
        Op::AttentionBackward(attrs) => attention::backward(args, attrs, outs).into(),

        Op::Parameter(number, _) => smallvec![inputs[*number].clone()],
        Op::Constant(literal) => smallvec![literal.clone()],
        Op::Iota { axis, .. } => smallvec![movement::iota(*axis, &outs[0])],
        Op::Unary(u) => smallvec![elementwise::unary(*u, &args[0], &outs[0])],
        Op::Binary(b) => smallvec![elementwise::binary(*b, &args[0], &args[1], &outs[0])],
        Op::Compare(dir) => smallvec![elementwise::compare(*dir, &args[0], &args[1], &outs[0])],
        Op::Select => smallvec![elementwise::select(&args[0], &args[1], &args[2])],
        Op::Convert(_) => smallvec![elems::encode(&outs[0], elems::decode(&args[0]))],
        Op::Bitcast(_) => smallvec![elems::literal(&outs[0], args[0].bytes().to_vec())],
        Op::Broadcast { axes, .. } => smallvec![movement::broadcast(&args[0], axes, &outs[0])],
        Op::Reshape(_) => smallvec![elems::literal(&outs[0], args[0].bytes().to_vec())],
        Op::Transpose(perm) => smallvec![movement::transpose(&args[0], perm, &outs[0])],
        Op::Slice { start, stride, .. } => smallvec![movement::slice(&args[0], start, stride, &outs[0])],
        Op::Pad(pads) => smallvec![movement::pad(&args[0], &args[1], pads, &outs[0])],
        Op::Concat(axis) => smallvec![movement::concat(args, *axis, &outs[0])],
        Op::Reverse(axes) => smallvec![movement::reverse(&args[0], axes)],
        Op::DotGeneral { dims, .. } => smallvec![dot::dot_general(&args[0], &args[1], dims, &outs[0])],
        Op::Convolution(c) => smallvec![convolution::convolution(&args[0], &args[1], c, &outs[0])],
        Op::Reduce { combiner, axes } => smallvec![reduce::reduce(&args[0], *combiner, axes, &outs[0])],
        Op::Cumulative { combiner, axis } => smallvec![reduce::cumulative(&args[0], *combiner, *axis)],
        Op::ReduceWindow { combiner, window } => smallvec![window::reduce_window(&args[0], *combiner, window, &outs[0])],
        Op::SelectAndScatter { window } => smallvec![window::select_and_scatter(&args[0], &args[1], window)],
        Op::Gather(g) => smallvec![index::gather(&args[0], &args[1], g, &outs[0])],
        Op::Scatter { combiner: Combiner::Assign, dims } => smallvec![index::scatter_assign(&args[0], &args[1], &args[2], dims)],
        Op::Scatter { combiner, dims } => smallvec![index::scatter(&args[0], &args[1], &args[2], *combiner, dims)],
        Op::DynamicSlice(_) => smallvec![index::dynamic_slice(&args[0], &args[1..], &outs[0])],
        Op::DynamicUpdateSlice => smallvec![index::dynamic_update_slice(&args[0], &args[1], &args[2..])],
        Op::ArgReduce { axis, max } => smallvec![sort::arg_reduce(&args[0], *axis, *max, &outs[0])],
        Op::RandomBits { stream, .. } => smallvec![random::random_bits(&args[0], *stream, &outs[0])],
        Op::Fft { kind, lengths } => smallvec![fft::fft(&args[0], *kind, lengths, &outs[0])],
        Op::Cholesky => smallvec![linalg::cholesky(&args[0])],
        Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
            let shape = linalg::Triangle { left: *left, lower: *lower, unit_diagonal: *unit_diagonal, transpose: *transpose };
            smallvec![linalg::triangular_solve(&args[0], &args[1], shape)]
        }
        Op::Softmax { axis, log } => smallvec![composite::softmax(&args[0], *axis, *log)],
        Op::Gelu { tanh } => smallvec![composite::gelu(&args[0], *tanh)],
        Op::Silu => smallvec![composite::silu(&args[0])],
        Op::RmsNorm { eps } => smallvec![composite::rms_norm(&args[0], &args[1], eps.0)],
    })
}

fn run_while(cond: &Graph, body: &Graph, carried: &[Literal]) -> Result<Results, InterpError> {
    let mut carried = carried.to_vec();
    for _ in 0..MAX_ROUNDS {
        if run(cond, &carried)?[0].splat_i64() == Some(0) {
            return Ok(carried.into());
        }
        carried = run(body, &carried)?;
    }
    Err(InterpError::EndlessLoop { rounds: MAX_ROUNDS })
}
