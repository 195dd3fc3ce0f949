"""Softmax against eager, forward and backward."""

import pytest
import torch

from op_checks import check, check_all, check_grad, floats

NAN, INF = float("nan"), float("inf")

FUNCTIONS = {
    "softmax last": lambda x: torch.softmax(x, -1),
    "softmax first": lambda x: torch.softmax(x, 0),
    "log_softmax last": lambda x: torch.log_softmax(x, -1),
    "log_softmax first": lambda x: torch.log_softmax(x, 0),
    "softmin": lambda x: torch.nn.functional.softmin(x, -1),
    "safe": lambda x: torch.ops.aten._safe_softmax(x, -1),
}


def to_float(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1, dtype=torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5, 7), (4,), (), (3, 0), (0, 3)])
def test_values(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-9}.get(dtype, 2e-2)
    check_all(FUNCTIONS, floats(*shape, dtype=dtype), rtol=tolerance, atol=tolerance)
    check(to_float, floats(*shape, dtype=dtype))


def test_infinities() -> None:
    x = torch.tensor([[-INF, -INF, -INF], [0.0, -INF, 1.0], [INF, 0.0, 0.0], [NAN, 0.0, 1.0], [1e30, 0.0, -1e30]])
    check_all(FUNCTIONS, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients(dtype: torch.dtype) -> None:
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    x = floats(3, 5, dtype=dtype, grad=True)
    check_grad(lambda x: [f(x) for f in [*FUNCTIONS.values(), to_float]], x, rtol=tolerance, atol=tolerance)


def test_gradient_without_axes() -> None:
    fs = [FUNCTIONS["softmax last"], FUNCTIONS["log_softmax last"]]
    check_grad(lambda x: [f(x) for f in fs], floats(grad=True))
