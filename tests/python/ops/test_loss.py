"""Losses against eager, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import assert_same, check, check_grad, compiled, floats, ints

REDUCTIONS = ["none", "mean", "sum"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy(reduction: str, dtype: torch.dtype) -> None:
    def f(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.cross_entropy(x, y, reduction=reduction),
            F.cross_entropy(x, y, weight=w, reduction=reduction, ignore_index=2),
            F.cross_entropy(x, y, ignore_index=1, reduction=reduction, label_smoothing=0.1),
        ]

    y = ints(9, low=0, high=5)
    y[4] = 2
    t = 1e-5 if dtype == torch.float32 else 3e-2
    x = floats(9, 5, dtype=dtype, grad=True)
    check_grad(f, x, y, floats(5, seed=1).abs().to(dtype), rtol=t, atol=t)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll(reduction: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        return [F.nll_loss(x, y, reduction=reduction), F.nll_loss(x, y, w, ignore_index=-100, reduction=reduction)]

    y = ints(2, 3, 4, low=0, high=5)
    y2 = y.clone()
    y2[0, 1] = -100
    check_grad(f, floats(2, 5, 3, 4, grad=True), y2, floats(5, seed=1), rtol=1e-5, atol=1e-5)
    check_grad(f, floats(2, 5, 3, grad=True), y2[:, :, 0], floats(5, seed=1), rtol=1e-5, atol=1e-5)
    check_grad(f, floats(5, grad=True), torch.tensor(3), floats(5, seed=1), rtol=1e-5, atol=1e-5)


def test_all_ignored() -> None:
    y = torch.full((4,), -100)
    check(lambda x, y: [F.cross_entropy(x, y), F.cross_entropy(x, y, reduction="sum")], floats(4, 3), y)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_regression(reduction: str, dtype: torch.dtype) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.mse_loss(x, y, reduction=reduction),
            F.l1_loss(x, y, reduction=reduction),
            F.smooth_l1_loss(x, y, reduction=reduction),
            F.smooth_l1_loss(x, y, reduction=reduction, beta=0.3),
            F.huber_loss(x, y, reduction=reduction, delta=0.7),
            F.soft_margin_loss(x, torch.sign(y), reduction=reduction),
        ]

    t = 1e-5 if dtype == torch.float32 else 4e-2
    check_grad(f, floats(3, 5, dtype=dtype, grad=True), floats(3, 5, dtype=dtype, seed=1), rtol=t, atol=t)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary(reduction: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, p: torch.Tensor) -> list[torch.Tensor]:
        s = torch.sigmoid(x)
        return [
            F.binary_cross_entropy(s, y, reduction=reduction),
            F.binary_cross_entropy(s, y, w, reduction=reduction),
            F.binary_cross_entropy_with_logits(x, y, reduction=reduction),
            F.binary_cross_entropy_with_logits(x, y, w, pos_weight=p, reduction=reduction),
            F.kl_div(F.log_softmax(x, -1), y, reduction=reduction),
        ]

    y = torch.sigmoid(floats(3, 5, seed=1))
    check_grad(f, floats(3, 5, grad=True), y, floats(3, 5, seed=2).abs(), floats(5, seed=3).abs(), rtol=1e-5, atol=1e-5)


def test_binary_at_the_ends() -> None:
    x, y = torch.tensor([0.0, 1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 1.0, 0.0])
    check(F.binary_cross_entropy, x, y)


@pytest.mark.parametrize("target", [[0, 5], [0, -1], [4, -100], [0, 1]])
def test_nll_loss_of_targets_outside(target):
    x, t = floats(2, 5), torch.tensor(target)
    f = compiled(lambda x, t: torch.nn.functional.cross_entropy(x, t))
    if target in ([0, 5], [0, -1]):
        with pytest.raises(RuntimeError, match="out of bounds"):
            f(x, t)
    else:
        assert_same(f(x, t), torch.nn.functional.cross_entropy(x, t))
