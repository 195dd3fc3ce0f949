"""Activation functions against eager, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import check_all, check_exact, check_grad, floats, ints

NAN, INF = float("nan"), float("inf")

FUNCTIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.75),
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softplus": lambda x: F.softplus(x, beta=2.0, threshold=3.0),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "elu": lambda x: F.elu(x, 1.3),
    "celu": lambda x: F.celu(x, 0.7),
    "selu": F.selu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "mish": F.mish,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "logsigmoid": F.logsigmoid,
    "glu": lambda x: F.glu(x, -1),
    "hardshrink": F.hardshrink,
    "softshrink": lambda x: F.softshrink(x, 0.3),
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "rrelu": lambda x: F.rrelu(x, training=False),
    "logit": lambda x: torch.logit(torch.sigmoid(x), eps=0.0625),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_values(dtype: torch.dtype) -> None:
    tolerance = {torch.float32: 2e-5, torch.float64: 1e-7}.get(dtype, 2e-2)
    check_all(FUNCTIONS, 3 * floats(3, 7, 4, dtype=dtype), rtol=tolerance, atol=tolerance)


def test_extremes() -> None:
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 3.0, -3.0, 100.0, -100.0, 0.5, -0.5, 6.0])
    check_all({k: f for k, f in FUNCTIONS.items() if k not in ("logit", "gelu")}, x, rtol=1e-5, atol=1e-6)
    # Eager's vectorised GELU gives NaN for +inf.
    check_exact(F.gelu, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (0, 4)])
def test_without_axes_or_elements(shape: tuple[int, ...]) -> None:
    check_all({k: f for k, f in FUNCTIONS.items() if k != "glu"}, floats(*shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients(dtype: torch.dtype) -> None:
    tolerance = 3e-5 if dtype == torch.float32 else 4e-2
    for group in (list(FUNCTIONS.values())[:13], list(FUNCTIONS.values())[13:]):
        x = (3 * floats(3, 4)).to(dtype).requires_grad_()
        check_grad(lambda x, group=group: [f(x) for f in group], x, rtol=tolerance, atol=tolerance)


def test_gradient_at_the_edges() -> None:
    x = torch.tensor([-3.0, 3.0, 0.0, 0.1, -0.5, 0.75, 6.0, 0.5, -0.3, 0.3]).requires_grad_()
    names = ["relu", "hardtanh", "hardswish", "hardsigmoid", "threshold", "relu6", "leaky_relu", "elu", "hardshrink", "softshrink"]
    check_grad(lambda x: [FUNCTIONS[n](x) for n in names], x)


def test_prelu() -> None:
    check_grad(F.prelu, floats(2, 3, 5, grad=True), floats(3, seed=1, grad=True), rtol=1e-5, atol=1e-6)
    check_grad(F.prelu, floats(2, 3, grad=True), floats(1, seed=1, grad=True), rtol=1e-5, atol=1e-6)


def test_glu_axes() -> None:
    check_grad(lambda x: [F.glu(x, 0), F.glu(x, 1), F.glu(x, -1)], floats(2, 4, 6, grad=True), rtol=1e-5, atol=1e-6)


def test_integers() -> None:
    fs = {"relu": torch.relu, "threshold": lambda x: F.threshold(x, 1, 7), "sigmoid": torch.sigmoid}
    check_all(fs, ints(3, 5), rtol=1e-5, atol=1e-6)
