//! Products of rows with one matrix per group of rows, as mixtures of experts use them. Group ends are data; the loops run over
//! row tiles of a fixed size, each within one group.

use std::sync::Arc;

use clutch_graph::op::{Axes, BinaryOp, Combiner, CompareDir, DotDims, PadDim, Precision};
use clutch_graph::{Builder, DType, Dims, Graph, GraphError, InputKind, Op, TensorType, ValueId};

use super::helpers::{Scalar, cast, filled};
use super::index::take_along;
use super::table::Family;
use super::{Call, LowerError, Lowering, Outputs, many, one};

/// Operators of this family.
pub const OPS: Family = &[
    ("transformers.grouped_mm_fallback.default", rows_by_group),
    ("transformers.grouped_mm_fallback_backward.default", rows_by_group_backward),
    ("aten._grouped_mm.default", grouped_mm),
];

type Built = Result<ValueId, LowerError>;

/// The tiles that cover the groups: `S32` tables with an entry for each tile that there can be.
struct Tiles {
    /// Rows of a tile.
    rows: i64,
    /// Group of each tile.
    group: ValueId,
    /// First row of each tile.
    first: ValueId,
    /// Row past the last of each tile's group.
    end: ValueId,
    /// How many tiles there are; a scalar.
    count: ValueId,
    /// Row past the last of all groups; a scalar.
    total: ValueId,
}

impl Tiles {
    /// Cuts `length` rows into tiles by the ends of the groups.
    fn new(l: &mut Lowering<'_>, ends: ValueId, length: i64) -> Result<Self, LowerError> {
        let groups = l.b.ty(ends).numel();
        let rows = (length / groups.max(1)).max(1).unsigned_abs().next_power_of_two().clamp(8, 128) as i64;
        let most = length / rows + groups;
        let ends = cast(l, ends, DType::S32)?;
        let ends = clamp(l, ends, length)?;
        let ends = l.b.op(Op::Cumulative { combiner: Combiner::Max, axis: 0 }, [ends])?;
        let zero = filled(l, Scalar::Int(0), DType::S32, &[1])?;
        let before = l.b.slice_axis(ends, 0, 0, groups - 1, 1)?;
        let starts = l.b.concat(&[zero, before], 0)?;
        let sizes = l.b.sub(ends, starts)?;
        let rounded = l.b.binary_int(BinaryOp::Add, sizes, rows - 1)?;
        let tiles = l.b.binary_int(BinaryOp::Div, rounded, rows)?;
        let done = l.b.op(Op::Cumulative { combiner: Combiner::Add, axis: 0 }, [tiles])?;
        let group = groups_of(l, done, most)?;
        let earlier = l.b.sub(done, tiles)?;
        let (start, earlier, end) = (take_along(l, starts, 0, group)?, take_along(l, earlier, 0, group)?, take_along(l, ends, 0, group)?);
        let tile = l.b.iota(DType::S32, &[most], 0)?;
        let within = l.b.sub(tile, earlier)?;
        let within = l.b.binary_int(BinaryOp::Mul, within, rows)?;
        let first = l.b.add(start, within)?;
        let (count, total) = (last(l, done)?, last(l, ends)?);
        Ok(Tiles { rows, group, first, end, count, total })
    }
}

fn clamp(l: &mut Lowering<'_>, x: ValueId, most: i64) -> Built {
    let top = l.b.full_int(DType::S32, &l.b.dims(x), most)?;
    let x = l.b.min(x, top)?;
    let zero = l.b.full_like(x, 0.0)?;
    Ok(l.b.max(x, zero)?)
}

/// The last element as a scalar.
fn last(l: &mut Lowering<'_>, x: ValueId) -> Built {
    let n = l.b.ty(x).numel();
    let x = l.b.slice_axis(x, 0, n - 1, n, 1)?;
    Ok(l.b.reshape(x, &[])?)
}

/// For each of `most` tiles the number of groups whose tiles all come before it: its group.
fn groups_of(l: &mut Lowering<'_>, done: ValueId, most: i64) -> Built {
    let groups = l.b.ty(done).numel();
    let tile = l.b.iota(DType::S32, &[most, groups], 0)?;
    let done = l.b.broadcast_in_dim(done, &[most, groups], &[1])?;
    let before = l.b.compare(CompareDir::Le, done, tile)?;
    let before = cast(l, before, DType::S32)?;
    let group = l.b.reduce(Combiner::Add, before, &[1])?;
    clamp(l, group, groups - 1)
}

/// Values inside the loop's body.
struct Step {
    b: Builder,
    /// Number of the tile.
    tile: ValueId,
    /// Loop parameters in order.
    carried: Vec<ValueId>,
}

impl Step {
    fn new(types: &[TensorType]) -> Self {
        let mut b = Builder::new();
        let carried: Vec<ValueId> = types.iter().map(|t| b.parameter(t.clone(), InputKind::Dynamic)).collect();
        Step { b, tile: carried[0], carried }
    }

    /// The entry of a table for this tile.
    fn entry(&mut self, table: ValueId) -> Result<ValueId, GraphError> {
        let x = self.b.op(Op::DynamicSlice(smallvec::smallvec![1]), [table, self.tile])?;
        self.b.reshape(x, &[])
    }

    /// Start operands: `at` on the first axis, 0 on the others.
    fn starts(&mut self, at: ValueId, rank: usize) -> Result<Vec<ValueId>, GraphError> {
        let zero = self.b.scalar_int(DType::S32, 0)?;
        Ok((0..rank).map(|a| if a == 0 { at } else { zero }).collect())
    }

    /// `count` entries of the first axis from `at`.
    fn rows(&mut self, x: ValueId, at: ValueId, count: i64) -> Result<ValueId, GraphError> {
        let mut dims = self.b.dims(x);
        dims[0] = count;
        let starts = self.starts(at, dims.len())?;
        self.b.op(Op::DynamicSlice(dims), std::iter::once(x).chain(starts))
    }

    /// `x` with entries of the first axis from `at` replaced.
    fn write(&mut self, x: ValueId, part: ValueId, at: ValueId) -> Result<ValueId, GraphError> {
        let starts = self.starts(at, self.b.rank(x))?;
        self.b.op(Op::DynamicUpdateSlice, [x, part].into_iter().chain(starts))
    }

    /// The body, with the second carried value replaced and the tile counted up.
    fn finish(mut self, result: ValueId) -> Result<Graph, GraphError> {
        let next = self.b.binary_int(BinaryOp::Add, self.tile, 1)?;
        let rest: Vec<ValueId> = self.carried[2..].to_vec();
        Ok(self.b.finish([next, result].into_iter().chain(rest)))
    }
}

/// Runs the body for each tile. Carried are the tile's number, `result`, the tiles' count, groups, first rows, ends, then `operands`.
fn for_each_tile<F>(l: &mut Lowering<'_>, tiles: &Tiles, result: ValueId, operands: &[ValueId], body: F) -> Built
where
    F: FnOnce(&mut Step) -> Result<ValueId, GraphError>,
{
    let zero = l.b.scalar_int(DType::S32, 0)?;
    let mut initial = vec![zero, result, tiles.count, tiles.group, tiles.first, tiles.end];
    initial.extend(operands);
    let types: Vec<TensorType> = initial.iter().map(|v| l.b.ty(*v).clone()).collect();
    let mut cond = Step::new(&types);
    let more = cond.b.compare(CompareDir::Lt, cond.tile, cond.carried[2])?;
    let cond = cond.b.finish([more]);
    let mut step = Step::new(&types);
    let next = body(&mut step)?;
    let body = step.finish(next)?;
    let results = l.b.op_multi(Op::While { cond: Arc::new(cond), body: Arc::new(body) }, initial)?;
    Ok(results[1])
}

fn pad_rows(l: &mut Lowering<'_>, x: ValueId, more: i64) -> Built {
    let mut pads: smallvec::SmallVec<[PadDim; 6]> = smallvec::smallvec![PadDim::default(); l.b.rank(x)];
    pads[0].high = more;
    let zero = filled(l, Scalar::Int(0), l.b.dtype(x), &[])?;
    Ok(l.b.pad(x, zero, &pads)?)
}

fn axes(list: &[usize]) -> Axes {
    list.into()
}

/// Row i of the result is row i of `x` times the matrix of its group (transposed if `transposed`); rows past the last group are zero.
/// A tile that runs over into the next group writes rows that the next tile writes again.
fn rows_times_groups(l: &mut Lowering<'_>, x: ValueId, weight: ValueId, ends: ValueId, transposed: bool) -> Built {
    let (dims, matrices, dtype, precision) = (l.b.dims(x), l.b.dims(weight), l.b.dtype(x), l.precision());
    let (length, width) = (dims[0], matrices[if transposed { 1 } else { 2 }]);
    let out: Dims = smallvec::smallvec![length, width];
    if length == 0 || width == 0 || dims[1] == 0 || matrices[0] == 0 {
        return filled(l, Scalar::Int(0), dtype, &out);
    }
    let tiles = Tiles::new(l, ends, length)?;
    let x = pad_rows(l, x, tiles.rows)?;
    let empty = filled(l, Scalar::Int(0), dtype, &[length + tiles.rows, width])?;
    let count = tiles.rows;
    let result = for_each_tile(l, &tiles, empty, &[x, weight], |s| {
        let [_, result, _, group, first, _, x, weight] = s.carried[..] else { unreachable!("eight values are carried") };
        let (group, first) = (s.entry(group)?, s.entry(first)?);
        let (rows, matrix) = (s.rows(x, first, count)?, s.rows(weight, group, 1)?);
        let matrix = s.b.reshape(matrix, &matrices[1..])?;
        let contract = DotDims { lhs_contract: axes(&[1]), rhs_contract: axes(&[usize::from(transposed)]), ..DotDims::default() };
        let part = s.b.dot_general(rows, matrix, contract, dtype, precision)?;
        s.write(result, part, first)
    })?;
    let result = l.b.slice_axis(result, 0, 0, length, 1)?;
    let row = l.b.iota(DType::S32, &out, 0)?;
    let total = l.b.broadcast_in_dim(tiles.total, &out, &[])?;
    let there = l.b.compare(CompareDir::Lt, row, total)?;
    let zero = l.b.full_like(result, 0.0)?;
    Ok(l.b.select(there, result, zero)?)
}

/// For each group the sum over its rows of the outer products of `x` and `y`: `[groups, x width, y width]`.
fn products_by_group(l: &mut Lowering<'_>, x: ValueId, y: ValueId, ends: ValueId) -> Built {
    let (left, right, dtype) = (l.b.dims(x), l.b.dims(y), l.b.dtype(x));
    let (length, groups, precision) = (left[0], l.b.ty(ends).numel(), l.precision());
    let compute = dtype.compute_type();
    let out: Dims = smallvec::smallvec![groups, left[1], right[1]];
    let zeros = filled(l, Scalar::Int(0), compute, &out)?;
    if length == 0 || out.contains(&0) {
        return cast(l, zeros, dtype);
    }
    let tiles = Tiles::new(l, ends, length)?;
    let (x, y) = (pad_rows(l, x, tiles.rows)?, pad_rows(l, y, tiles.rows)?);
    let count = tiles.rows;
    let sums = for_each_tile(l, &tiles, zeros, &[x, y], |s| {
        let [_, sums, _, group, first, end, x, y] = s.carried[..] else { unreachable!("eight values are carried") };
        let (group, first, end) = (s.entry(group)?, s.entry(first)?, s.entry(end)?);
        let (x, y) = (s.rows(x, first, count)?, s.rows(y, first, count)?);
        let (x, y) = (only_before(&mut s.b, x, first, end)?, only_before(&mut s.b, y, first, end)?);
        let part = outer_sum(&mut s.b, x, y, compute, precision)?;
        let part = s.b.unsqueeze(part, 0)?;
        let there = s.rows(sums, group, 1)?;
        let sum = s.b.add(there, part)?;
        s.write(sums, sum, group)
    })?;
    cast(l, sums, dtype)
}

/// Zeros in rows that are not before `end`, the first row having number `first`.
fn only_before(b: &mut Builder, x: ValueId, first: ValueId, end: ValueId) -> Result<ValueId, GraphError> {
    let dims = b.dims(x);
    let row = b.iota(DType::S32, &dims, 0)?;
    let left = b.sub(end, first)?;
    let left = b.broadcast_in_dim(left, &dims, &[])?;
    let inside = b.compare(CompareDir::Lt, row, left)?;
    let zero = b.full_like(x, 0.0)?;
    b.select(inside, x, zero)
}

/// Contraction of the first axes.
fn outer_sum(b: &mut Builder, x: ValueId, y: ValueId, out: DType, precision: Precision) -> Result<ValueId, GraphError> {
    b.dot_general(x, y, DotDims { lhs_contract: axes(&[0]), rhs_contract: axes(&[0]), ..DotDims::default() }, out, precision)
}

fn rows_by_group(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, weight, ends) = (c.tensor(l, 0, "input")?, c.tensor(l, 1, "weight")?, c.tensor(l, 2, "offs")?);
    let weight = cast(l, weight, l.b.dtype(x))?;
    one(rows_times_groups(l, x, weight, ends, false)?)
}

fn rows_by_group_backward(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, weight, ends) = (c.tensor(l, 0, "input")?, c.tensor(l, 1, "weight")?, c.tensor(l, 2, "offs")?);
    let grad = c.tensor(l, 3, "grad_output")?;
    let grad = cast(l, grad, l.b.dtype(x))?;
    let to_x = rows_times_groups(l, grad, weight, ends, true)?;
    let to_weight = products_by_group(l, x, grad, ends)?;
    many([to_x, to_weight])
}

/// PyTorch's four forms: the operand without a group axis is cut along its rows, its columns, or the contracted axis.
fn grouped_mm(l: &mut Lowering<'_>, c: &Call<'_>) -> Result<Outputs, LowerError> {
    let (x, y, ends) = (c.tensor(l, 0, "self")?, c.tensor(l, 1, "mat2")?, c.opt_tensor(l, 2, "offs")?);
    if c.arg(3, "bias").is_some() {
        return Err(LowerError::unsupported("a bias"));
    }
    let result = match (l.b.rank(x), l.b.rank(y), ends) {
        (3, 3, _) => {
            let precision = l.precision();
            l.b.matmul(x, y, precision)?
        }
        (2, 3, Some(ends)) => rows_times_groups(l, x, y, ends, false)?,
        (3, 2, Some(ends)) => {
            let columns = l.b.swap_last(y)?;
            let rows = rows_times_groups(l, columns, x, ends, true)?;
            l.b.swap_last(rows)?
        }
        (2, 2, Some(ends)) => {
            let x = l.b.swap_last(x)?;
            products_by_group(l, x, y, ends)?
        }
        _ => return Err(LowerError::unsupported("operands of these ranks without group ends")),
    };
    one(cast(l, result, c.out_dtype()?)?)
}
