"""Normalisations against eager, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import check, check_grad, compiled, floats

TOLERANCES = {torch.float32: 5e-5, torch.float64: 1e-8, torch.bfloat16: 5e-2}
DTYPES = list(TOLERANCES)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [(6,), (5, 6)])
def test_layer_norm(inner: tuple[int, ...], dtype: torch.dtype) -> None:
    x = floats(3, 5, 6, dtype=dtype, grad=True)
    w, b = floats(*inner, dtype=dtype, seed=1, grad=True), floats(*inner, dtype=dtype, seed=2, grad=True)
    t = TOLERANCES[dtype]
    check_grad(lambda x, w, b: [F.layer_norm(x, inner, w, b), F.layer_norm(x, inner), F.layer_norm(x, inner, w)], x, w, b, rtol=t, atol=t)


def test_layer_norm_of_a_row_and_of_nothing() -> None:
    check_grad(lambda x: F.layer_norm(x, (7,), eps=1e-3), floats(7, grad=True), rtol=1e-4, atol=1e-5)
    check(lambda x: F.layer_norm(x, (7,)), floats(0, 7))


def test_layer_norm_with_float_weights() -> None:
    x, w, b = floats(4, 8, dtype=torch.bfloat16, grad=True), floats(8, seed=1, grad=True), floats(8, seed=2, grad=True)
    check_grad(lambda x, w, b: F.layer_norm(x, (8,), w, b), x, w, b, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(dtype: torch.dtype) -> None:
    t = TOLERANCES[dtype]
    x, w = floats(3, 5, 6, dtype=dtype, grad=True), floats(6, dtype=dtype, seed=1, grad=True)
    v = floats(5, 6, dtype=dtype, seed=2, grad=True)
    check_grad(
        lambda x, w, v: [F.rms_norm(x, (6,), w), F.rms_norm(x, (6,), eps=1e-4), F.rms_norm(x, (5, 6), v, eps=1e-5)], x, w, v, rtol=t, atol=t
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 6, 3, 4), (2, 6), (3, 6, 5)])
def test_group_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    t = 2 * TOLERANCES[dtype]
    x = floats(*shape, dtype=dtype, grad=True)
    w, b = floats(6, dtype=dtype, seed=1, grad=True), floats(6, dtype=dtype, seed=2, grad=True)
    check_grad(lambda x, w, b: [F.group_norm(x, 2, w, b), F.group_norm(x, 3)], x, w, b, rtol=t, atol=t)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(4, 3, 5, 2), (8, 3), (4, 3, 6), (2, 3, 2, 3, 4)])
def test_batch_norm(shape: tuple[int, ...], training: bool) -> None:
    def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> list[torch.Tensor]:
        return [F.batch_norm(x, mean, var, w, b, training, 0.3, 1e-3), F.batch_norm(x, mean, var, None, None, training)]

    x, w, b = floats(*shape, grad=True), floats(3, seed=1, grad=True), floats(3, seed=2, grad=True)
    check_grad(f, x, w, b, floats(3, seed=3), floats(3, seed=4).abs() + 0.5, rtol=1e-4, atol=1e-5)


def test_batch_norm_module_updates_its_statistics() -> None:
    x = floats(4, 3, 5, 2, grad=True)
    ours, theirs = (torch.nn.BatchNorm2d(3, momentum=0.25) for _ in range(2))
    f = compiled(ours)
    for _ in range(2):
        torch.testing.assert_close(f(x), theirs(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_batch_norm_without_statistics() -> None:
    check_grad(lambda x: [F.batch_norm(x, None, None, training=True), F.instance_norm(x)], floats(4, 3, 5, grad=True), rtol=1e-4, atol=1e-5)


def test_batch_norm_in_half_precision() -> None:
    x, w = floats(4, 3, 5, dtype=torch.bfloat16, grad=True), floats(3, seed=1, grad=True)
    check_grad(lambda x, w: F.batch_norm(x, None, None, w, w, training=True), x, w, rtol=5e-2, atol=5e-2)
