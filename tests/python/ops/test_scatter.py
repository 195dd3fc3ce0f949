"""Scatters and their reductions against eager, with gradients."""

import pytest
import torch

from op_checks import bools, check, check_all, check_grad, floats, ints

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


def numbers(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Small whole numbers, so that no order of summation rounds."""
    return ints(*shape, low=0 if dtype == torch.uint8 else -4, high=5, dtype=dtype, seed=seed)


def distinct(n: int, size: int, seed: int = 0) -> torch.Tensor:
    """Distinct positions on an axis of the size, shuffled."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:n]


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter(dtype: torch.dtype) -> None:
    x, src = numbers(4, 6, 3, dtype=dtype), numbers(4, 6, 3, dtype=dtype, seed=1)
    columns = torch.stack([distinct(6, 6, s) for s in range(4)])[:, :, None].expand(4, 6, 3).contiguous()
    many = ints(4, 5, 3, low=0, high=6)
    check_all(
        {
            "scatter": lambda x, s, i, m: x.scatter(1, i, s),
            "scatter part": lambda x, s, i, m: x.scatter(-2, i[:2, :4, 1:], s),
            "scatter number": lambda x, s, i, m: x.scatter(1, m, 3),
            "scatter_add": lambda x, s, i, m: x.scatter_add(1, m, s),
            "scatter_add first": lambda x, s, i, m: x.scatter_add(0, m[:2, :3] % 4, s),
            "scatter none": lambda x, s, i, m: x.scatter(1, i[:, :0], s),
            "scatter_add none": lambda x, s, i, m: x.scatter_add(1, m[:0], s),
            "in place": lambda x, s, i, m: x.clone().scatter_(1, i, s).scatter_add_(1, m, s),
        },
        x,
        src,
        columns,
        many,
    )


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_reduce(dtype: torch.dtype, include_self: bool) -> None:
    x, src, i = numbers(4, 6, dtype=dtype), numbers(4, 7, dtype=dtype, seed=1), ints(4, 7, low=0, high=5)
    reductions = [r for r in REDUCTIONS if dtype != torch.uint8 or r != "prod"]
    check_all({r: lambda x, s, i, r=r: x.scatter_reduce(1, i, s, r, include_self=include_self) for r in reductions}, x, src, i)
    check_all(
        {r: lambda x, s, i, r=r: x.scatter_reduce(0, i[:3] % 4, s, r, include_self=include_self) for r in reductions},
        x,
        src[:, :6],
        i[:, :6],
    )


@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_special(include_self: bool) -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([1.0, nan, -inf, inf, 0.0, -0.0])
    src, i = torch.tensor([nan, 2.0, inf, -inf, 5.0, 0.0]), torch.tensor([0, 1, 2, 3, 4, 4])
    check_all({r: lambda x, s, i, r=r: x.scatter_reduce(0, i, s, r, include_self=include_self) for r in REDUCTIONS}, x, src, i)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_writes(dtype: torch.dtype) -> None:
    x, src = numbers(5, 4, 3, dtype=dtype), numbers(2, 4, 3, dtype=dtype, seed=1)
    once, twice = distinct(2, 5), torch.tensor([3, 3])
    check_all(
        {
            "index_add": lambda x, s, i, t: x.index_add(0, t, s),
            "index_add alpha": lambda x, s, i, t: x.index_add(0, i, s, alpha=2),
            "index_add int32": lambda x, s, i, t: x.index_add(0, t.int(), s),
            "index_add last": lambda x, s, i, t: x.index_add(-1, t - 1, s.repeat(3, 1, 1)[:5, :, :2]),
            "index_copy": lambda x, s, i, t: x.index_copy(0, i, s),
            "index_copy none": lambda x, s, i, t: x.index_copy(0, i[:0], s[:0]),
            "index_fill": lambda x, s, i, t: x.index_fill(0, i - 5, 1),
            "index_fill tensor": lambda x, s, i, t: x.index_fill(0, t, s[0, 0, 0]),
            "index_put": lambda x, s, i, t: x.index_put((i,), s),
            "index_put negative": lambda x, s, i, t: x.index_put((i - 5,), s),
            "index_put add": lambda x, s, i, t: x.index_put((t - 5,), s, accumulate=True),
            "index_put pairs": lambda x, s, i, t: x.index_put((t, t - 4), s[0, :2], accumulate=True),
            "index_put number": lambda x, s, i, t: x.index_put((t, i - 5 + 1), s[0, 0, 0], accumulate=True),
            "put": lambda x, s, i, t: x.put(i * 7 - 30, s[0, 0, :2]),
            "put add": lambda x, s, i, t: x.put(t * 2, s[0, 0, :2], accumulate=True),
        },
        x,
        src,
        once,
        twice,
    )


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_index_reduce(dtype: torch.dtype, include_self: bool) -> None:
    x, src, i = numbers(5, 4, dtype=dtype), numbers(6, 4, dtype=dtype, seed=1), ints(6, low=0, high=4)
    fs = {r: lambda x, s, i, r=r: x.index_reduce(0, i, s, r, include_self=include_self) for r in REDUCTIONS if r != "sum"}
    check_all(fs, x, src, i)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool])
def test_masked_writes(dtype: torch.dtype) -> None:
    x, src = numbers(4, 6, dtype=dtype), numbers(5, 6, dtype=dtype, seed=1)
    check_all(
        {
            "masked_scatter": lambda x, m, s: x.masked_scatter(m, s),
            "masked_scatter row": lambda x, m, s: x.masked_scatter(m[0], s),
            "masked_scatter none": lambda x, m, s: x.masked_scatter(m & False, s),
            "masked_scatter all": lambda x, m, s: x.masked_scatter(m | True, s),
            "masked_fill": lambda x, m, s: x.masked_fill(m, 1),
            "masked_fill tensor": lambda x, m, s: x.masked_fill(m[0], s[0, 0]),
            "index_put mask": lambda x, m, s: x.index_put((m,), s[0, 0]),
            "where": lambda x, m, s: torch.where(m, x, s[:4]),
        },
        x,
        bools(4, 6),
        src,
    )


def test_slices_and_diagonals() -> None:
    check_all(
        {
            "slice_scatter": lambda x, s: torch.slice_scatter(x, s[:, :2], 1, 1, 5, 2),
            "select_scatter": lambda x, s: torch.select_scatter(x, s[:, 0], 1, -2),
            "diagonal_scatter": lambda x, s: torch.diagonal_scatter(x, s[:, 1], 1),
            "as_strided_scatter": lambda x, s: torch.as_strided_scatter(x, s[:2, :2], (2, 2), (7, 2), 3),
            "fill_diagonal": lambda x, s: x.clone().fill_diagonal_(3.0),
            "assign slice": lambda x, s: assign(x, s),
        },
        floats(4, 6),
        floats(4, 3, seed=1),
    )


def assign(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """A copy with a strided part overwritten."""
    y = x.clone()
    y[::2, 1:4] = s[:2]
    return y


def test_without_axes() -> None:
    x, s, i = torch.tensor(2.0), torch.tensor(5.0), torch.tensor(0)
    check(lambda x, s, i: (x.scatter(0, i, s), x.scatter_add(0, i, s), x.index_add(0, i, s), x.index_fill(0, i, 4.0)), x, s, i)
    check(lambda x, s, i: [x.scatter_reduce(0, i, s, r, include_self=b) for r in REDUCTIONS for b in (True, False)], x, s, i)
    check(lambda x, s, i: (x.index_copy(0, i, s), x.masked_fill(s > 0, 1.0), x.masked_scatter(s > 0, s.reshape(1))), x, s, i)


def test_empty() -> None:
    x, s, i = torch.empty(0, 3), torch.empty(0, 3), torch.empty(0, 3, dtype=torch.int64)
    check(lambda x, s, i: (x.scatter(1, i, s), x.scatter_add(0, i, s), x.index_add(0, i[:, 0], s), x.masked_scatter(s > 0, s)), x, s, i)


def test_gradients() -> None:
    x, s, i = floats(4, 6, grad=True), floats(4, 6, seed=1, grad=True), torch.stack([distinct(6, 6, k) for k in range(4)])
    j = ints(4, 5, low=0, high=6, seed=2)
    check_grad(lambda x, s, i, j: (x.scatter(1, i, s), x.scatter(1, j, 2.0), x.scatter_add(1, j, s[:, :5])), x, s, i, j)
    for r in REDUCTIONS:
        for b in (True, False):
            check_grad(lambda x, s, i, j, r=r, b=b: x.scatter_reduce(1, j, s[:, :5], r, include_self=b), x, s, i, j, rtol=1e-5, atol=1e-5)
    check_grad(lambda x, s, i, j: (x.index_add(0, i[0, :2] % 4, s[:2]), x.index_copy(1, i[0], s), x.index_fill(1, j[0], 1.0)), x, s, i, j)
    check_grad(lambda x, s, i, j: (x.index_put((j[0] % 4,), s[0], accumulate=True), x.masked_fill(s > 0, 0.5)), x, s, i, j)
    check_grad(lambda x, s, i, j: (x.masked_scatter(x > 0, s), torch.slice_scatter(x, s[:, :2], 1, 1, 5, 2)), x, s, i, j)
