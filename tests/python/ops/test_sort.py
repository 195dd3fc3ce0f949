"""Sorts, selections and order statistics against eager, with gradients."""

import math

import pytest
import torch

from op_checks import bools, check, check_all, check_grad, floats, ints

NAN, INF = math.nan, math.inf
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.int16, torch.uint8]


def distinct(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Distinct numbers in random order, so that every order is unique."""
    n = math.prod(shape)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0)).reshape(shape)
    return order.to(dtype) if not dtype.is_floating_point else (order - n // 2).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts(dtype: torch.dtype) -> None:
    x = distinct(4, 5, 6, dtype=dtype)
    for dim in (0, 1, -1):
        for descending in (False, True):
            check(lambda x, d=dim, r=descending: (x.sort(d, r), x.sort(dim=d, descending=r, stable=True), x.argsort(d, r)), x)
    check(lambda x: (x.msort(), torch.argsort(x, dim=1, stable=True, descending=True)), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_selections(dtype: torch.dtype) -> None:
    x = distinct(4, 5, 6, dtype=dtype)
    check(lambda x: (x.topk(3), x.topk(2, 0, largest=False), x.topk(5, 1), x.topk(0), x.topk(1, -2)), x)
    check(lambda x: (x.kthvalue(2), x.kthvalue(5, 1), x.kthvalue(1, 0, keepdim=True)), x)
    if dtype != torch.float16:
        check(lambda x: (x.median(), x.median(0), x.median(-1, keepdim=True), x.reshape(-1)[:7].median(0)), x)


def test_median_of_nan() -> None:
    x = torch.tensor([[3.0, NAN, 1.0, 2.0], [4.0, 3.0, 2.0, 1.0], [NAN, NAN, NAN, NAN], [INF, -INF, NAN, 0.0]])
    check_all(
        {
            "all": lambda x: x.median(),
            "rows": lambda x: x.median(1)[0],
            "columns": lambda x: x.median(0)[0],
            "nan all": lambda x: x.nanmedian(),
            "nan rows": lambda x: x.nanmedian(1)[0],
            "nan columns": lambda x: x.nanmedian(0, keepdim=True)[0],
            "row without": lambda x: x[1].median(),
            "quantile": lambda x: torch.quantile(x[1], torch.tensor([0.0, 0.3, 0.5, 1.0])),
            "nanquantile": lambda x: torch.nanquantile(x, 0.4, dim=1),
        },
        x,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_median_positions(dtype: torch.dtype) -> None:
    check(lambda x: (x.median(1), x.median(0)), distinct(5, 7, dtype=dtype))
    check(lambda x: (x.nanmedian(1), x.nanmedian(0)), distinct(5, 7, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_mode(dtype: torch.dtype) -> None:
    x = ints(6, 9, low=0, high=4).to(dtype)
    check(lambda x: (x.mode(1)[0], x.mode(0, keepdim=True)[0], x[0].mode()[0]), x)
    counted = compiled_positions(x)
    assert torch.equal(x.gather(1, counted), x.mode(1, keepdim=True)[0])


def compiled_positions(x: torch.Tensor) -> torch.Tensor:
    """Positions of each row's most frequent value: any of its places is right."""
    from op_checks import compiled

    return compiled(lambda x: x.mode(1, keepdim=True)[1])(x)


@pytest.mark.parametrize("descending", [False, True])
def test_ties_keep_their_order(descending: bool) -> None:
    for x in (ints(5, 40, low=0, high=4), ints(5, 40, low=0, high=4).float(), bools(5, 40), ints(5, 40, low=0, high=4).bfloat16()):
        check(lambda x: (x.sort(dim=1, stable=True, descending=descending), torch.argsort(x, dim=0, stable=True, descending=descending)), x)


def test_special_values() -> None:
    x = torch.tensor([2.0, NAN, 1.0, -0.0, 0.0, 2.5, -INF, INF, NAN, 1.5])
    check(lambda x: (x.sort(stable=True), x.sort(stable=True, descending=True)), x)
    check(lambda x: (x.topk(4)[0], x.topk(4, largest=False)[0], x.kthvalue(3)[0], x.kthvalue(10)[0]), x)


def test_long_rows() -> None:
    x = floats(3, 2000)
    check(lambda x: (x.sort(), x.topk(50), x.topk(7, largest=False), x.kthvalue(1000), x.median(1)), x)


def test_empty_and_scalar() -> None:
    check(lambda x: (x.sort(1), x.sort(0), x.topk(0, 1), x.argsort(0), x.msort(), x.topk(2, 0)), torch.empty(3, 0))
    check(lambda x: (x.sort(0), x.topk(1, 0), x.argsort(), x.kthvalue(1), x.median(), x.median(0), x.mode(0)), torch.tensor(2.5))
    check(lambda x: (x.sort(0), x.median(0), x.kthvalue(1, 0), x.mode(0)), floats(1, 3))
    check(lambda x: x.kthvalue(1, 1), torch.empty(0, 3))
    check(lambda x: x.median(), torch.empty(0))


def test_gradients() -> None:
    x = floats(4, 5, grad=True)
    check_grad(lambda x: (x.sort(1)[0], x.sort(0, descending=True)[0], x.topk(2)[0], x.topk(3, 0, largest=False)[0]), x)
    check_grad(lambda x: (x.kthvalue(2)[0], x.median(), x.median(1)[0], x.nanmedian(0)[0], x.msort(), x.mode(1)[0]), x)


def test_unique_runs_in_eager() -> None:
    f = torch.compile(lambda x: (x * 2).unique() + 1, backend="tpu", dynamic=False)
    x = ints(20, low=0, high=5)
    assert torch.equal(f(x), (x * 2).unique() + 1)
