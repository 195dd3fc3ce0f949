"""Elementwise functions against eager, at special values too, with gradients."""

import math

import pytest
import torch

from op_checks import bools, check, check_all, check_grad, floats, ints

INF, NAN = math.inf, math.nan
ANY = {
    "abs": torch.abs,
    "neg": torch.neg,
    "sign": torch.sign,
    "sgn": torch.sgn,
    "signbit": torch.signbit,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "square": torch.square,
    "positive": torch.positive,
    "sinc": torch.sinc,
    "angle": torch.angle,
    "deg2rad": torch.deg2rad,
}
POSITIVE = {
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "entr": torch.special.entr,
}
UNIT = {"asin": torch.asin, "acos": torch.acos, "atanh": torch.atanh, "logit": lambda x: torch.logit(x, 1e-3)}


def only(fs, *names):
    return {k: v for k, v in fs.items() if k in names}


def without(fs, *names):
    return {k: v for k, v in fs.items() if k not in names}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_floats(dtype):
    x = floats(6, 7) * 3
    check_all(ANY | {"frac": torch.frac}, x.to(dtype))
    check_all(POSITIVE, (x.abs() + 0.1).to(dtype))
    check_all(UNIT, (x / 15).to(dtype))
    check_all({"acosh": torch.acosh}, (x.abs() + 1).to(dtype))


def test_integers():
    check_all(without(ANY, "exp2", "angle"), ints(5, 4))
    check_all({k: lambda x, f=f: f(x.abs() + 1) for k, f in POSITIVE.items()}, ints(5, 4))
    check_all(only(ANY, "abs", "neg", "sign", "floor", "exp"), ints(5, low=0, dtype=torch.uint8))
    check_all(only(ANY, "sign", "exp", "sin", "tanh"), bools(5))


def test_special_values():
    x = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1e-30, -1e-30, 80.0, -80.0, 89.0, 1e20])
    check_all(without(ANY, "sin", "cos", "tan", "sinc"), x)
    check_all(POSITIVE, x)
    check_all(UNIT | {"acosh": torch.acosh}, torch.tensor([1.0, -1.0, 0.0, 1.5, NAN, 1e-20]))


def test_round_half_even():
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 3.5000002, 12.345, -12.355])
    check(lambda x: (x.round(), x.round(decimals=2), x.round(decimals=-1), x.bfloat16().round()), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32])
def test_nan_to_num(dtype):
    x = torch.tensor([1.0, INF, -INF, NAN]).to(dtype) if dtype.is_floating_point else torch.tensor([1, 2])
    check(lambda x: (torch.nan_to_num(x), torch.nan_to_num(x, 2.0, 5.0, -7.0)), x)


def test_gradients():
    smooth = [torch.exp, torch.sin, torch.cos, torch.tanh, torch.erf, torch.atan, torch.sinh, torch.asinh, torch.abs, torch.expm1]
    positive = [torch.sqrt, torch.rsqrt, torch.reciprocal, torch.log, torch.log1p, torch.log2]
    check_grad(lambda x: [f(x) for f in smooth], floats(4, 3, grad=True))
    check_grad(lambda x: [f(x) for f in positive], (floats(4, 3).abs() + 0.2).requires_grad_())


def test_empty_and_scalar():
    fs = [torch.exp, torch.neg, torch.sqrt, torch.floor, torch.sign]
    check(lambda x, y: [f(x) for f in fs] + [f(y) for f in fs], torch.empty(0, 4), torch.tensor(2.5))
