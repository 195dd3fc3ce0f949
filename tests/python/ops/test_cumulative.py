"""Running combinations along an axis against eager, with gradients."""

import math

import pytest
import torch

from op_checks import bools, check, check_all, check_exact, check_grad, floats, ints

NAN, INF = math.nan, math.inf
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype: torch.dtype) -> None:
    x = floats(4, 9, 3).to(dtype)
    for dim in (0, 1, -1):
        check_exact(lambda x, d=dim: (x.cumsum(d), x.cumprod(d), x.logcumsumexp(d)), x)
        check(lambda x, d=dim: (x.cummax(d), x.cummin(d)), x)
    check_exact(lambda x: (x.cumsum(1, dtype=torch.float32), x.cumprod(0, dtype=torch.float64)), x)


@pytest.mark.parametrize("dtype", INTS)
def test_integers(dtype: torch.dtype) -> None:
    x = ints(4, 9, low=0 if dtype == torch.uint8 else -3, high=4, dtype=dtype)
    check(lambda x: (x.cumsum(1), x.cumprod(0), x.cumsum(0, dtype=torch.int32), x.cumprod(1, dtype=torch.float32)), x)
    check(lambda x: (x.cummax(1), x.cummin(0)), x)


def test_booleans() -> None:
    check(lambda x: (x.cumsum(1), x.cumprod(0), x.cummax(1), x.cummin(0), x.cumsum(1, dtype=torch.bfloat16)), bools(4, 9))


def test_wrap_around() -> None:
    x = torch.full((70,), 2**62)
    check(lambda x: (x.cumsum(0), x.cumprod(0)), x)
    check(lambda x: x.to(torch.int8).cumsum(0, dtype=torch.int8), torch.full((40,), 100))


def test_long_rows() -> None:
    check_exact(lambda x: (x.cumsum(0), x.logcumsumexp(0)), floats(5000) + 0.5, rtol=1e-5, atol=1e-4)
    check(lambda x: (x.cummax(0), x.cummin(0), x.long().cumsum(0)), 10 * floats(5000))


def test_special_values() -> None:
    x = torch.tensor([1.0, 3.0, 3.0, NAN, 5.0, NAN, 2.0, -INF, INF, 0.0, -0.0])
    check_all(
        {
            "cumsum": lambda x: x.cumsum(0),
            "cumprod": lambda x: x.cumprod(0),
            "cummax": lambda x: x.cummax(0)[0],
            "cummax position": lambda x: x.cummax(0)[1],
            "cummin": lambda x: x.cummin(0)[0],
            "cummin position": lambda x: x.cummin(0)[1],
            "logcumsumexp": lambda x: x.logcumsumexp(0),
            "infinite sum": lambda x: x[7:].cumsum(0),
            "zero product": lambda x: x[6:].cumprod(0),
        },
        x,
    )
    check(lambda x: x.logcumsumexp(0), torch.tensor([-INF, -INF, 2.0, -1000.0, 1000.0, INF, 1.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_gradients(dtype: torch.dtype) -> None:
    tolerance = {torch.float32: 1e-4, torch.float64: 1e-7, torch.bfloat16: 4e-2}[dtype]
    x = floats(3, 6, dtype=dtype, grad=True)
    check_grad(
        lambda x: (x.cumsum(1), x.cumsum(0), x.cumprod(1), x.logcumsumexp(1), x.cummax(1)[0], x.cummin(0)[0]),
        x,
        rtol=tolerance,
        atol=tolerance,
        exact=True,
    )


@pytest.mark.parametrize("zeros", [[2], [1, 4]])
def test_gradient_of_a_product_with_zeros(zeros: list[int]) -> None:
    x = floats(2, 6)
    x[:, zeros] = 0
    check_grad(lambda x: x.cumprod(1), x.requires_grad_(), rtol=1e-5, atol=1e-6)


def test_empty_and_scalar() -> None:
    check(lambda x: (x.cumsum(0), x.cumsum(1), x.cumprod(1), x.logcumsumexp(0), x.cummax(0), x.cummin(0)), torch.empty(0, 3))
    check(lambda x: (x.cumsum(0), x.cumprod(-1), x.logcumsumexp(0), x.cummax(0), x.cummin(0)), torch.tensor(2.5))
    check_grad(lambda x: (x.cumsum(0), x.cumprod(0), x.logcumsumexp(0)), torch.tensor(2.5, requires_grad=True))


def test_trapezoids_and_differences() -> None:
    x = floats(3, 6, grad=True)
    fs = (torch.cumulative_trapezoid, torch.trapezoid, torch.diff)
    check_grad(lambda x: [f(x, dim=d) for f in fs for d in (0, 1)], x, rtol=1e-5, atol=1e-6)
