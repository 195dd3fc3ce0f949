"""Reductions, running combinations and order against eager, with gradients."""

import math

import pytest
import torch

from op_checks import bools, check, check_all, check_grad, floats, ints

INF, NAN = math.inf, math.nan
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool])
def test_sums_and_extrema(dtype):
    x = floats(3, 4, 5).to(dtype) if dtype.is_floating_point else ints(3, 4, 5, low=0).to(dtype)
    fs = {
        "sum": lambda x: x.sum(),
        "sum dim": lambda x: x.sum(1),
        "sum dims": lambda x: x.sum((0, -1), keepdim=True),
        "sum dtype": lambda x: x.sum(0, dtype=torch.float32),
        "prod": lambda x: x[0, 0].prod(),
        "prod dim": lambda x: x.prod(0, keepdim=True),
        "amax": lambda x: x.amax(1),
        "amin": lambda x: x.amin((0, 2), keepdim=True),
        "max": lambda x: x.max(),
        "min": lambda x: x.min(),
        "any": lambda x: x.any(),
        "any dim": lambda x: x.any(1),
        "all": lambda x: x.all(),
        "all dim": lambda x: x.all(-1, keepdim=True),
        "count_nonzero": lambda x: x.count_nonzero(),
        "count_nonzero dim": lambda x: x.count_nonzero(1),
        "mean dtype": lambda x: x.mean(1, dtype=torch.float32),
    }
    if dtype != torch.bool:
        fs |= {"argmax": lambda x: x.argmax(), "argmin dim": lambda x: x.argmin(1), "argmax keepdim": lambda x: x.argmax(-1, keepdim=True)}
    check_all(fs, x)
    check(lambda x: (x.max(1), x.min(-1, keepdim=True), x.max(0), torch.aminmax(x), torch.aminmax(x, dim=1, keepdim=True)), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_moments_and_norms(dtype):
    tolerance = {} if dtype != torch.float32 else {"rtol": 3e-6, "atol": 1e-6}
    check_all(
        {
            "mean": lambda x: x.mean(),
            "mean dims": lambda x: x.mean((0, 2)),
            "var": lambda x: x.var(),
            "var dim": lambda x: x.var(1),
            "var biased": lambda x: x.var(-1, unbiased=False, keepdim=True),
            "var correction": lambda x: x.var((0, 1), correction=2),
            "std": lambda x: x.std(),
            "std dim": lambda x: x.std(2, keepdim=True),
            "logsumexp": lambda x: x.logsumexp(1),
            "logsumexp dims": lambda x: x.logsumexp((0, 2), keepdim=True),
            "norm": lambda x: x.norm(),
            "norm 1": lambda x: x.norm(1, dim=1),
            "norm 3": lambda x: x.norm(3, dim=(0, 1), keepdim=True),
            "norm inf": lambda x: torch.linalg.vector_norm(x, INF, dim=1),
            "norm -inf": lambda x: torch.linalg.vector_norm(x, -INF, dim=1),
            "norm 0": lambda x: torch.linalg.vector_norm(x, 0),
            "matrix norm": lambda x: torch.linalg.matrix_norm(x),
            "nansum": lambda x: x.nansum(1),
        },
        floats(3, 4, 5, dtype=dtype),
        **tolerance,
    )
    check(
        lambda x: (torch.var_mean(x, 1), torch.std_mean(x, (0, 2), correction=0, keepdim=True)), floats(3, 4, 5, dtype=dtype), **tolerance
    )


def test_special_values():
    x = torch.tensor([[1.0, NAN, 2.0], [INF, 1.0, -INF], [-INF, -INF, -INF], [0.0, -0.0, 5.0]])
    check_all(
        {
            "sum": lambda x: x.sum(1),
            "amax": lambda x: x.amax(1),
            "amin": lambda x: x.amin(1),
            "argmax": lambda x: x.argmax(1),
            "argmin": lambda x: x.argmin(1),
            "any": lambda x: x.any(1),
            "all": lambda x: x.all(1),
            "nansum": lambda x: x.nansum(1),
            "logsumexp": lambda x: x.logsumexp(1),
        },
        x,
    )


def test_empty_and_scalar():
    check_all(
        {
            "sum": lambda x, y: x.sum(0),
            "prod": lambda x, y: x.prod(),
            "mean": lambda x, y: x.mean(0),
            "any": lambda x, y: x.any(0),
            "all": lambda x, y: x.all(0),
            "amax kept": lambda x, y: x.amax(1),
            "var": lambda x, y: x.var(0),
            "logsumexp": lambda x, y: x.logsumexp(0),
            "norm": lambda x, y: x.norm(),
            "scalar sum": lambda x, y: y.sum(0),
            "scalar mean": lambda x, y: y.mean(),
            "scalar argmax": lambda x, y: y.argmax(0),
            "scalar max": lambda x, y: y.max(0)[1],
            "scalar cumsum": lambda x, y: y.cumsum(0),
            "scalar sort": lambda x, y: y.sort()[1],
            "scalar topk": lambda x, y: y.topk(1)[0],
            "empty cumsum": lambda x, y: x.cumsum(0),
            "empty sort": lambda x, y: x.sort(1)[1],
        },
        torch.empty(0, 3),
        torch.tensor(2.5),
    )
    check(lambda x: (x.var(), x.var(0), x.std(1, correction=5)), floats(1, 3))


def test_gradients():
    check_grad(
        lambda x: (
            x.sum(1),
            x.mean((0, 2)),
            x.amax(1),
            x.max(2)[0],
            x.var(1),
            x.std((0, 2)),
            x.logsumexp(-1),
            x.norm(dim=1),
            x.norm(3),
            x.prod(2),
            x.cumsum(1),
            x.cumprod(2),
            x.sort(1)[0],
            x.topk(2, 2)[0],
            x.logcumsumexp(1),
            x.cummax(1)[0],
        ),
        floats(2, 3, 4, grad=True),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.bool])
def test_running(dtype):
    x = floats(3, 9).to(dtype) if dtype.is_floating_point else ints(3, 9, low=-2, high=3).to(dtype)
    check_all({"cumsum": lambda x: x.cumsum(1), "cumsum 0": lambda x: x.cumsum(0), "cumprod": lambda x: x.cumprod(-1)}, x)
    check(lambda x: (x.cummax(1), x.cummin(0)), x)


def test_running_long():
    check(lambda x: (x.cumsum(0), x.cummax(0), x.logcumsumexp(0), x.long().cumsum(0)), floats(1000) + 0.5, rtol=1e-5, atol=1e-4)
    check(lambda x: (x.cummax(0), x.cummin(0)), torch.tensor([1.0, 3.0, 3.0, NAN, 5.0, NAN, 2.0]))
    check(lambda x: x.logcumsumexp(0), torch.tensor([-1000.0, 0.0, -INF, 2.0]))
    check(lambda x: x.logcumsumexp(0), torch.tensor([-INF, -INF, 2.0, INF, 1.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8])
def test_order(dtype):
    x = torch.randperm(36, generator=torch.Generator().manual_seed(0)).reshape(4, 9).to(dtype)
    check(
        lambda x: (
            x.sort(),
            x.sort(0, descending=True),
            x.sort(stable=True, dim=1),
            x.argsort(),
            torch.argsort(x, dim=1, stable=True),
            x.msort(),
            x.topk(3),
            x.topk(2, 0, largest=False),
            x.topk(9),
            x.kthvalue(3),
            x.kthvalue(2, 0, keepdim=True),
        ),
        x,
    )


def test_order_with_ties_and_nan():
    x = torch.tensor([2.0, NAN, 1.0, -0.0, 0.0, 2.0, -INF, INF, NAN, 1.0])
    check(lambda x: (x.sort(stable=True), x.sort(stable=True, descending=True), x.argmax(), x.argmin()), x)
    check(lambda x: (x.sort(stable=True), x.sort(stable=True, descending=True)), ints(30, low=0, high=4))
    check(lambda x: x.sort(stable=True), bools(12))


def test_searches():
    edges = torch.tensor([-1.0, 0.0, 0.5, 2.0])
    x = torch.tensor([[-2.0, -1.0, 0.25], [0.5, 2.0, 9.0]])
    rows = floats(2, 6, seed=3).sort()[0]
    check_all(
        {
            "bucketize": lambda x, e, r: torch.bucketize(x, e),
            "bucketize right": lambda x, e, r: torch.bucketize(x, e, right=True, out_int32=True),
            "bucketize number": lambda x, e, r: torch.bucketize(0.5, e),
            "searchsorted": lambda x, e, r: torch.searchsorted(e, x),
            "searchsorted rows": lambda x, e, r: torch.searchsorted(r, x, side="right"),
            "histc": lambda x, e, r: torch.histc(x, 5, -2, 2),
            "histc data": lambda x, e, r: torch.histc(x, 4),
        },
        x,
        edges,
        rows,
    )


@pytest.mark.parametrize("reduce", [lambda x: x.max(), lambda x: x.min(), lambda x: x.max(0), lambda x: x.min(0), lambda x: x.t().max(-1)])
def test_the_extremum_of_no_elements_raises_as_in_eager(reduce):
    x = torch.empty(0, 4)
    for run in (reduce, torch.compile(reduce, backend="tpu")):
        with pytest.raises((IndexError, RuntimeError)):
            run(x)


def test_extrema_along_another_axis_of_no_elements():
    x = torch.empty(0, 4)
    values, positions = torch.compile(lambda x: x.max(1), backend="tpu", options={"fallback": "error"})(x)
    assert values.shape == positions.shape == (0,)
