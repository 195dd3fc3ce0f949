//! Products: siblings merged, chains in the cheapest order, factors moved into an operand.

use clutch_graph::op::{Axes, BinaryOp, DotDims, Precision};
use clutch_graph::{DType, Dims, GraphError, Op, TensorType};
use egg::Id;
use smallvec::{SmallVec, smallvec};

use crate::egraph::cost::{Device, Placed, op_cost};
use crate::egraph::search::{Found, Search};
use crate::rules::{Apply, Rounding, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "merge-products",
        condition: "two to eight products of one operand with weight matrices of one type but for their columns; no batch axes; a device \
                    that reads slices in place",
        rounding: Rounding::Reassociating,
        apply: Apply::Region(merge_products),
    },
    Rule {
        name: "product-chain",
        condition: "three to twelve matrices of f32 or f64 multiplied in a row",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(product_chain),
    },
    Rule {
        name: "scale-into-operand",
        condition: "a product of floats times a number of at most 1 in size, or times a power of two",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(scale_into_operand),
    },
    Rule {
        name: "columns-into-weight",
        condition: "a product with a weight matrix times a weight vector along the matrix's columns",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(columns_into_weight),
    },
    Rule {
        name: "product-of-slice",
        condition: "a unit-stride slice of a product cuts free axes only",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(product_of_slice),
    },
    Rule {
        name: "transpose-of-product",
        condition: "the transpose swaps the free axes of the left operand with those of the right",
        rounding: Rounding::Reassociating,
        apply: Apply::Term(transpose_of_product),
    },
];

/// A product that may be merged with its like.
struct Sibling {
    root: Id,
    left: Id,
    right: Id,
    op: Op,
    /// Size of the right operand's free axis.
    columns: i64,
}

const MOST_SIBLINGS: usize = 8;

fn merge_products(s: &mut Search<'_>) -> Result<Vec<(Id, Id)>, GraphError> {
    // The TPU compiler copies the slices: at most sizes that costs 1.1 to 1.7 times what the products do.
    if s.options.device != Device::Cpu {
        return Ok(Vec::new());
    }
    let mut groups: Vec<Vec<Sibling>> = Vec::new();
    let mut ids: Vec<Id> = s.terms.classes().map(|c| c.id).collect();
    ids.sort_unstable();
    for root in ids {
        let sibling = s.find(root, |op, x| {
            let Op::DotGeneral { dims, .. } = op else { return None };
            let right = s.ty(x[1]);
            let plain = dims.lhs_batch.is_empty() && right.rank() == 2 && dims.rhs_contract.len() == 1;
            if !plain {
                return None;
            }
            let columns = right.dims[1 - dims.rhs_contract[0]];
            let fits = columns > 0 && s.is_weight(x[1]) && !s.is_weight(x[0]);
            // A product that merging made is not merged again.
            let merged = s.find(x[1], |op, _| matches!(op, Op::Concat(_)).then_some(())).is_some();
            (fits && !merged).then(|| Sibling { root, left: s.terms.find(x[0]), right: x[1], op: op.clone(), columns })
        });
        let Some(sibling) = sibling else { continue };
        let alike = |g: &Vec<Sibling>| g[0].left == sibling.left && g[0].op == sibling.op && s.dtype(g[0].right) == s.dtype(sibling.right);
        match groups.iter_mut().find(|g| alike(g)) {
            Some(group) => group.push(sibling),
            None => groups.push(vec![sibling]),
        }
    }
    let mut equal = Vec::new();
    for group in groups.iter().filter(|g| (2..=MOST_SIBLINGS).contains(&g.len())) {
        let Op::DotGeneral { dims, out, precision } = group[0].op.clone() else { continue };
        let weights: Vec<Id> = group.iter().map(|p| p.right).collect();
        let weight = s.add(Op::Concat(1 - dims.rhs_contract[0]), &weights)?;
        let product = s.dot([group[0].left, weight], dims, out, precision)?;
        let last = s.ty(product).rank() - 1;
        let mut from = 0;
        for p in group {
            equal.push((p.root, s.slice_axis(product, last, from, from + p.columns)?));
            from += p.columns;
        }
    }
    Ok(equal)
}

/// A matrix of a chain; `flipped` when its transpose stands there.
#[derive(Clone, Copy)]
struct Factor {
    id: Id,
    flipped: bool,
}

const LONGEST_CHAIN: usize = 12;

/// The two factors of a product of two matrices, as they stand in a row.
fn factors(s: &Search<'_>, op: &Op, x: &[Id]) -> Option<([Factor; 2], DType, Precision)> {
    let Op::DotGeneral { dims, out, precision } = op else { return None };
    let matrices = s.ty(x[0]).rank() == 2 && s.ty(x[1]).rank() == 2 && dims.lhs_batch.is_empty() && dims.lhs_contract.len() == 1;
    let alike = *out == s.dtype(x[0]) && matches!(out, DType::F32 | DType::F64);
    let left = Factor { id: x[0], flipped: *dims.lhs_contract.first()? == 0 };
    let right = Factor { id: x[1], flipped: *dims.rhs_contract.first()? == 1 };
    (matrices && alike).then_some(([left, right], *out, *precision))
}

/// The matrices that `f` is the product of, left to right, down to those that are no products of the same kind.
fn flatten(s: &Search<'_>, f: Factor, kind: (DType, Precision), chain: &mut Vec<Factor>, depth: usize) {
    let inner = if depth == 0 { None } else { s.find(f.id, |op, x| factors(s, op, x).filter(|(_, d, p)| (*d, *p) == kind)) };
    match inner {
        Some(([a, b], ..)) if !f.flipped => {
            flatten(s, a, kind, chain, depth - 1);
            flatten(s, b, kind, chain, depth - 1);
        }
        Some(([a, b], ..)) => {
            flatten(s, Factor { flipped: !b.flipped, ..b }, kind, chain, depth - 1);
            flatten(s, Factor { flipped: !a.flipped, ..a }, kind, chain, depth - 1);
        }
        None => chain.push(f),
    }
}

fn product_chain(s: &mut Search<'_>, op: &Op, x: &[Id], root: Id) -> Found {
    let Some(([a, b], dtype, precision)) = factors(s, op, x) else { return Ok(None) };
    let mut chain = Vec::new();
    flatten(s, a, (dtype, precision), &mut chain, LONGEST_CHAIN);
    flatten(s, b, (dtype, precision), &mut chain, LONGEST_CHAIN);
    let n = chain.len();
    let distinct = chain.iter().all(|f| !s.same(f.id, root));
    if !(3..=LONGEST_CHAIN).contains(&n) || !distinct {
        return Ok(None);
    }
    // Sizes between the factors: factor i is [size[i], size[i + 1]].
    let rows = |f: &Factor| s.dims(f.id)[usize::from(f.flipped)];
    let columns = |f: &Factor| s.dims(f.id)[usize::from(!f.flipped)];
    let sizes: Vec<i64> = chain.iter().map(rows).chain([columns(&chain[n - 1])]).collect();
    let weight: Vec<bool> = chain.iter().map(|f| s.is_weight(f.id)).collect();
    let table = s.options.device.table();
    let price = |i: usize, k: usize, j: usize| {
        if weight[i..j].iter().all(|&w| w) {
            return 0.0;
        }
        let ty = |r: usize, c: usize| TensorType::new(dtype, [sizes[r], sizes[c]]);
        let op = Op::DotGeneral { dims: in_row(false, false), out: dtype, precision };
        op_cost(&op, &[&ty(i, k), &ty(k, j)], &[ty(i, j)], table, Placed::Among)
    };
    let mut cost = vec![vec![0.0f64; n + 1]; n + 1];
    let mut split = vec![vec![0usize; n + 1]; n + 1];
    for length in 2..=n {
        for i in 0..=n - length {
            let j = i + length;
            cost[i][j] = f64::INFINITY;
            for k in i + 1..j {
                let c = cost[i][k] + cost[k][j] + price(i, k, j);
                if c < cost[i][j] {
                    (cost[i][j], split[i][j]) = (c, k);
                }
            }
        }
    }
    let best = multiply(s, &chain, &split, (0, n), (dtype, precision))?;
    Ok(Some(best.id))
}

fn in_row(left_flipped: bool, right_flipped: bool) -> DotDims {
    DotDims {
        lhs_contract: smallvec![usize::from(!left_flipped)],
        rhs_contract: smallvec![usize::from(right_flipped)],
        ..DotDims::default()
    }
}

fn multiply(
    s: &mut Search<'_>,
    chain: &[Factor],
    split: &[Vec<usize>],
    (i, j): (usize, usize),
    kind: (DType, Precision),
) -> Result<Factor, GraphError> {
    if j == i + 1 {
        return Ok(chain[i]);
    }
    let k = split[i][j];
    let left = multiply(s, chain, split, (i, k), kind)?;
    let right = multiply(s, chain, split, (k, j), kind)?;
    let id = s.dot([left.id, right.id], in_row(left.flipped, right.flipped), kind.0, kind.1)?;
    Ok(Factor { id, flipped: false })
}

/// The number that a product is scaled by, and the product.
fn scaled_product<'s>(s: &'s Search<'_>, op: &Op, x: &[Id]) -> Option<(&'s Op, [Id; 2], f64)> {
    let Op::Binary(BinaryOp::Mul) = op else { return None };
    for (product, number) in [(x[0], x[1]), (x[1], x[0])] {
        let Some(c) = s.facts(number).uniform else { continue };
        let dot = s.find(product, |op, y| matches!(op, Op::DotGeneral { .. }).then(|| (op, [y[0], y[1]])));
        if let Some((op, y)) = dot {
            return Some((op, y, c));
        }
    }
    None
}

fn is_power_of_two(c: f64) -> bool {
    c.is_normal() && c.to_bits() << 12 == 0
}

fn scale_into_operand(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Some((dot, y, c)) = scaled_product(s, op, x) else { return Ok(None) };
    let Op::DotGeneral { out, .. } = dot else { return Ok(None) };
    let dot = dot.clone();
    let float = matches!(out, DType::F32 | DType::F64) && s.dtype(y[0]) == *out;
    if !float || c == 0.0 || !(c.abs() <= 1.0 || is_power_of_two(c)) {
        return Ok(None);
    }
    let side = usize::from(s.is_weight(y[1]) || (!s.is_weight(y[0]) && s.ty(y[1]).numel() < s.ty(y[0]).numel()));
    let (dtype, dims) = (s.dtype(y[side]), Dims::from(s.dims(y[side])));
    let number = s.number(dtype, &dims, c)?;
    let mut operands = y;
    operands[side] = s.binary(BinaryOp::Mul, y[side], number)?;
    s.add(dot, &operands).map(Some)
}

fn columns_into_weight(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Binary(BinaryOp::Mul) = op else { return Ok(None) };
    for (product, spread) in [(x[0], x[1]), (x[1], x[0])] {
        let Some((vector, axes)) = s.broadcast_of(spread) else { continue };
        let last = s.ty(product).rank().wrapping_sub(1);
        if !s.is_weight(vector) || axes[..] != [last] || s.dims(vector)[0] != s.dims(product)[last] {
            continue;
        }
        let found = s.find(product, |op, y| {
            let Op::DotGeneral { dims, out, .. } = op else { return None };
            let matrix = dims.lhs_batch.is_empty() && s.ty(y[1]).rank() == 2 && dims.rhs_contract.len() == 1;
            let float = matches!(out, DType::F32 | DType::F64) && s.dtype(y[1]) == *out;
            (matrix && float && s.is_weight(y[1]) && !s.is_weight(y[0])).then(|| (op.clone(), [y[0], y[1]], 1 - dims.rhs_contract[0]))
        });
        if let Some((dot, y, free)) = found {
            let dims = Dims::from(s.dims(y[1]));
            let factor = s.broadcast(vector, &dims, &[free])?;
            let weight = s.binary(BinaryOp::Mul, y[1], factor)?;
            return s.add(dot, &[y[0], weight]).map(Some);
        }
    }
    Ok(None)
}

/// For each result axis of a product, which operand it comes from and which axis of it; batch axes come from both.
fn result_axes(dims: &DotDims, left: usize, right: usize) -> Vec<(Option<usize>, Option<usize>)> {
    let free = |rank: usize, batch: &Axes, contract: &Axes| -> SmallVec<[usize; 6]> {
        (0..rank).filter(|a| !batch.contains(a) && !contract.contains(a)).collect()
    };
    let batch = dims.lhs_batch.iter().zip(&dims.rhs_batch).map(|(&l, &r)| (Some(l), Some(r)));
    let left = free(left, &dims.lhs_batch, &dims.lhs_contract);
    let right = free(right, &dims.rhs_batch, &dims.rhs_contract);
    batch.chain(left.into_iter().map(|a| (Some(a), None))).chain(right.into_iter().map(|a| (None, Some(a)))).collect()
}

fn product_of_slice(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Slice { start, limit, stride } = op else { return Ok(None) };
    if stride.iter().any(|&n| n != 1) {
        return Ok(None);
    }
    let Some((dot, y)) = s.find(x[0], |op, y| matches!(op, Op::DotGeneral { .. }).then(|| (op.clone(), [y[0], y[1]]))) else {
        return Ok(None);
    };
    // Undoing a merge would go back and forth.
    let merged = s.find(y[1], |op, _| matches!(op, Op::Concat(_)).then_some(())).is_some();
    let Op::DotGeneral { dims, .. } = &dot else { return Ok(None) };
    if merged {
        return Ok(None);
    }
    let mut operands = y;
    for (axis, (left, right)) in result_axes(dims, s.ty(y[0]).rank(), s.ty(y[1]).rank()).into_iter().enumerate() {
        if start[axis] == 0 && limit[axis] == s.dims(x[0])[axis] {
            continue;
        }
        for (side, from) in [left, right].into_iter().enumerate() {
            if let Some(from) = from {
                operands[side] = s.slice_axis(operands[side], from, start[axis], limit[axis])?;
            }
        }
    }
    s.add(dot, &operands).map(Some)
}

fn transpose_of_product(s: &mut Search<'_>, op: &Op, x: &[Id], _: Id) -> Found {
    let Op::Transpose(perm) = op else { return Ok(None) };
    let Some((dims, out, precision, y)) = s.find(x[0], |op, y| match op {
        Op::DotGeneral { dims, out, precision } => Some((dims.clone(), *out, *precision, [y[0], y[1]])),
        _ => None,
    }) else {
        return Ok(None);
    };
    let batch = dims.lhs_batch.len();
    let left = s.ty(y[0]).rank() - batch - dims.lhs_contract.len();
    let swapped = (0..batch).chain(batch + left..perm.len()).chain(batch..batch + left);
    if !perm.iter().copied().eq(swapped) || s.dtype(y[0]) != s.dtype(y[1]) {
        return Ok(None);
    }
    let mut pairs: SmallVec<[(usize, usize); 6]> = dims.rhs_contract.iter().copied().zip(dims.lhs_contract.iter().copied()).collect();
    pairs.sort_unstable();
    let dims = DotDims {
        lhs_batch: dims.rhs_batch,
        rhs_batch: dims.lhs_batch,
        lhs_contract: pairs.iter().map(|p| p.0).collect(),
        rhs_contract: pairs.iter().map(|p| p.1).collect(),
    };
    s.dot([y[1], y[0]], dims, out, precision).map(Some)
}
