"""Convolutions and their gradients against eager."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import check, check_grad, floats

CLOSE = {"rtol": 1e-4, "atol": 1e-4}

CASES = {
    "1d": ((2, 4, 9), (6, 4, 3), {}),
    "1d causal depthwise": ((2, 4, 9), (4, 1, 4), {"padding": 3, "groups": 4}),
    "2d": ((2, 3, 7, 8), (5, 3, 3, 2), {"padding": (1, 0)}),
    "2d strided, stride does not divide": ((2, 4, 8, 9), (6, 2, 3, 3), {"stride": (2, 3), "padding": 1, "groups": 2}),
    "2d dilated": ((1, 3, 11, 10), (4, 3, 3, 2), {"dilation": (2, 3), "stride": 2, "padding": 2}),
    "2d multiplied depthwise": ((2, 3, 6, 6), (6, 1, 3, 3), {"groups": 3, "padding": 1, "stride": 2}),
    "2d pointwise strided": ((2, 3, 7, 7), (4, 3, 1, 1), {"stride": 2}),
    "2d patches": ((1, 3, 8, 8), (5, 3, 4, 4), {"stride": 4}),
    "3d": ((1, 2, 5, 4, 6), (3, 2, 2, 3, 2), {"padding": (0, 1, 1), "stride": (1, 2, 1)}),
}

TRANSPOSED = {
    "1d": ((2, 4, 5), (4, 3, 4), {"stride": 3, "padding": 1, "output_padding": 2}),
    "2d": ((2, 4, 5, 4), (4, 3, 3, 2), {}),
    "2d grouped": ((2, 4, 5, 4), (4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
    "2d dilated": ((1, 2, 4, 5), (2, 3, 3, 2), {"dilation": (3, 2), "stride": 2, "output_padding": (2, 1), "padding": (2, 0)}),
    "2d depthwise": ((1, 3, 4, 4), (3, 1, 2, 2), {"stride": 2, "groups": 3}),
    "3d": ((1, 2, 3, 2, 3), (2, 3, 2, 2, 2), {"stride": (1, 2, 2)}),
}


def conv(rank: int, transposed: bool = False):
    return getattr(F, f"conv{'_transpose' if transposed else ''}{rank - 2}d")


@pytest.mark.parametrize("name", CASES)
def test_convolution(name):
    x, w, options = CASES[name]
    bias = floats(w[0], seed=2, grad=True)
    f = conv(len(x))
    check_grad(lambda x, w, b: f(x, w, b, **options), floats(*x, grad=True), floats(*w, seed=1, grad=True), bias, **CLOSE)


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed(name):
    x, w, options = TRANSPOSED[name]
    bias = floats(w[1] * options.get("groups", 1), seed=2, grad=True)
    f = conv(len(x), True)
    check_grad(lambda x, w, b: f(x, w, b, **options), floats(*x, grad=True), floats(*w, seed=1, grad=True), bias, **CLOSE)


def test_no_bias_and_partial_gradients():
    x, w = floats(2, 3, 6, 5, grad=True), floats(4, 3, 3, 3, seed=1, grad=True)
    check_grad(lambda x, w: F.conv2d(x, w, padding="same"), x, w, **CLOSE)
    check_grad(lambda x, w: F.conv2d(x, w), x, w.detach(), **CLOSE)
    check_grad(lambda x, w: F.conv2d(x, w), x.detach(), w, **CLOSE)
    check_grad(lambda x, w: F.conv2d(x[0], w), x, w, **CLOSE)


def test_channels_last():
    x = floats(2, 3, 6, 5).contiguous(memory_format=torch.channels_last)
    w = floats(4, 3, 3, 3, seed=1).contiguous(memory_format=torch.channels_last)
    check(lambda x, w: F.conv2d(x, w, padding=1), x, w, **CLOSE)


def test_nothing():
    check(lambda x, w, b: F.conv2d(x, w, b), floats(0, 3, 6, 5), floats(4, 3, 3, 3), floats(4))


@pytest.mark.parametrize("dtype,rtol", [(torch.float64, 1e-7), (torch.bfloat16, 3e-2)])
def test_dtypes(dtype, rtol):
    x, w, b = floats(2, 4, 6, 6, dtype=dtype, grad=True), floats(4, 2, 3, 3, dtype=dtype, grad=True), floats(4, dtype=dtype, grad=True)
    atol = 1e-7 if dtype == torch.float64 else 0.25
    check_grad(lambda x, w, b: F.conv2d(x, w, b, groups=2, padding=1), x, w, b, rtol=rtol, atol=atol)
    check_grad(lambda x, w, b: F.conv_transpose2d(x, w, b.repeat(1), groups=2, stride=2), x, w, b, rtol=rtol, atol=atol)
