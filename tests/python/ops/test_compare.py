"""Comparisons, logic, choices and bounds against eager."""

import math

import pytest
import torch

from op_checks import bools, check, check_all, check_grad, floats, ints

INF, NAN = math.inf, math.nan
COMPARISONS = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_comparisons(dtype):
    x = floats(6, 5).round().to(dtype)
    y = floats(5, seed=1).round().to(dtype)
    check_all(COMPARISONS, x, y)
    check_all({k: lambda x, f=f: f(x, 1) for k, f in COMPARISONS.items()}, x)
    check_all({k: lambda x, f=f: f(x, 0.5) for k, f in COMPARISONS.items()}, x)


def test_comparisons_promote():
    check_all(COMPARISONS, ints(20), floats(20).round())
    check_all(COMPARISONS, ints(20), torch.tensor(0.5))
    check_all(COMPARISONS, floats(20, dtype=torch.bfloat16), torch.tensor(0.1))
    check_all(COMPARISONS, torch.tensor([NAN, 1.0, NAN, INF, -0.0]), torch.tensor([NAN, NAN, 1.0, INF, 0.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.bool])
def test_classes_of_numbers(dtype):
    x = torch.tensor([0.0, 1.0, -1.0, INF, -INF, NAN]) if dtype.is_floating_point else torch.tensor([0, 1, 2])
    check_all(
        {"nan": torch.isnan, "inf": torch.isinf, "finite": torch.isfinite, "posinf": torch.isposinf, "neginf": torch.isneginf}, x.to(dtype)
    )


def test_logic():
    x, y = floats(6).round(), ints(6, low=0, high=2)
    check_all(
        {
            "and": torch.logical_and,
            "or": torch.logical_or,
            "xor": torch.logical_xor,
            "not": lambda x, y: torch.logical_not(x),
            "not int": lambda x, y: torch.logical_not(y),
        },
        x,
        y,
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_bits(dtype):
    x, y = ints(20, low=0, high=100, dtype=dtype), ints(20, low=0, high=7, dtype=dtype, seed=1)
    check_all(
        {
            "and": lambda x, y: x & y,
            "or": lambda x, y: x | y,
            "xor": lambda x, y: x ^ y,
            "not": lambda x, y: ~x,
            "and number": lambda x, y: x & 6,
            "left": lambda x, y: x << y,
            "right": lambda x, y: x >> y,
            "left number": lambda x, y: x << 2,
            "right number": lambda x, y: (-x) >> 2,
        },
        x,
        y,
    )
    check(lambda a, b: (a & b, a | b, a ^ b, ~a), bools(9), bools(9, seed=1))


def test_choices():
    mask, x, y = bools(4, 5), floats(4, 5), floats(5, seed=1)
    check_all(
        {
            "where": torch.where,
            "where number": lambda m, x, y: torch.where(m, x, -1.0),
            "where number first": lambda m, x, y: torch.where(m, 2, y),
            "where promotes": lambda m, x, y: torch.where(m, x, y.double()),
            "where row": lambda m, x, y: torch.where(m[:, :1], x, y),
            "masked_fill": lambda m, x, y: x.masked_fill(m, -INF),
            "masked_fill tensor": lambda m, x, y: x.masked_fill(m, torch.tensor(3.0)),
            "masked_fill half": lambda m, x, y: x.bfloat16().masked_fill(m[0], 1e9),
            "masked_fill int": lambda m, x, y: x.int().masked_fill(m, 7),
        },
        mask,
        x,
        y,
    )
    check_grad(lambda x: (torch.where(mask, x, y), x.masked_fill(mask, 2.0)), x.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_bounds(dtype):
    x = (floats(5, 7) * 4).to(dtype)
    low, high = (floats(7, seed=1) - 1).to(dtype), (floats(7, seed=2) + 1).to(dtype)
    check_all(
        {
            "both": lambda x, a, b: x.clamp(-2, 2),
            "min": lambda x, a, b: x.clamp(min=1),
            "max": lambda x, a, b: x.clamp(max=1),
            "fraction": lambda x, a, b: x.clamp(-0.5, 1.5),
            "tensors": lambda x, a, b: x.clamp(a, b),
            "crossed": lambda x, a, b: x.clamp(2, -2),
            "clamp_min": lambda x, a, b: x.clamp_min(1),
            "clamp_max": lambda x, a, b: x.clamp_max(1),
            "clamp_min tensor": lambda x, a, b: torch.clamp_min(x, a),
            "maximum": lambda x, a, b: torch.maximum(x, a),
            "minimum": lambda x, a, b: torch.minimum(x, a),
            "fmax": lambda x, a, b: torch.fmax(x, a),
            "fmin": lambda x, a, b: torch.fmin(x, a),
        },
        x,
        low,
        high,
    )


def test_bounds_with_nan():
    x, y = torch.tensor([NAN, 1.0, NAN, INF, -INF]), torch.tensor([1.0, NAN, NAN, NAN, 0.0])
    check_all(
        {"maximum": torch.maximum, "minimum": torch.minimum, "fmax": torch.fmax, "fmin": torch.fmin, "clamp": lambda x, y: x.clamp(-1, 2)},
        x,
        y,
    )
    check(lambda a, b: (torch.maximum(a, b), torch.minimum(a, b)), bools(8), bools(8, seed=1))


def test_bounds_gradients():
    x = floats(4, 5, grad=True)
    check_grad(lambda x: (x.clamp(-0.5, 0.5), x.clamp_min(0), torch.maximum(x, -x), torch.minimum(x, x * 2)), x)


def test_membership():
    check(lambda x, t: (torch.isin(x, t), torch.isin(x, t, invert=True), torch.isin(x, 3)), ints(4, 5), torch.tensor([1, 3, -2]))
