"""Compiled optimizer steps against eager ones."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_clutch
from op_checks import floats

O = torch.optim
Make = Callable[..., O.Optimizer]

OPTIMIZERS: dict[str, tuple[Make, dict[str, Any]]] = {
    "SGD": (O.SGD, {"lr": 0.1}),
    "SGD momentum": (O.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    "SGD nesterov": (O.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    "Adam": (O.Adam, {"lr": 0.01}),
    "Adam amsgrad": (O.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    "AdamW": (O.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    "AdamW amsgrad": (O.AdamW, {"lr": 0.01, "amsgrad": True}),
    "Adagrad": (O.Adagrad, {"lr": 0.1, "lr_decay": 0.1}),
    "Adadelta": (O.Adadelta, {"lr": 0.5}),
    "RMSprop": (O.RMSprop, {"lr": 0.01}),
    "RMSprop centered": (O.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.9}),
    "Adamax": (O.Adamax, {"lr": 0.01}),
    "NAdam": (O.NAdam, {"lr": 0.01}),
    "RAdam": (O.RAdam, {"lr": 0.01}),
    "ASGD": (O.ASGD, {"lr": 0.01}),
    "Rprop": (O.Rprop, {"lr": 0.01}),
    "Adafactor": (O.Adafactor, {"lr": 0.01}),
}
STEPS = 5


def parameters(dtype: torch.dtype) -> list[torch.Tensor]:
    """A matrix, a vector and a number."""
    return [floats(*shape, dtype=dtype, seed=i).requires_grad_() for i, shape in enumerate([(4, 3), (5,), ()])]


def train(make: Make, options: dict[str, Any], compile_step: bool, dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Parameters and state after some steps with fixed gradients."""
    torch._dynamo.reset()
    ps = parameters(dtype)
    optimizer = make(ps, **options)

    def run() -> None:
        optimizer.step()

    step = torch.compile(run, backend="tpu", fullgraph=False) if compile_step else run
    for k in range(STEPS):
        for i, p in enumerate(ps):
            p.grad = floats(*p.shape, dtype=dtype, seed=10 * k + i)
        step()
    state = [v for p in ps for v in optimizer.state[p].values() if isinstance(v, torch.Tensor)]
    return [p.detach() for p in ps], state


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_steps(name: str, foreach: bool) -> None:
    make, options = OPTIMIZERS[name]
    options = {**options, "foreach": foreach}
    found, expected = train(make, options, True, torch.float32), train(make, options, False, torch.float32)
    assert len(found[1]) == len(expected[1])
    for a, b in zip([*found[0], *found[1]], [*expected[0], *expected[1]], strict=True):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=1e-6)
    if name != "Adafactor":  # PyTorch itself captures nothing of Adafactor's step: it reads numbers of tensors.
        assert torch_clutch.metrics()["executions"] >= STEPS - 1


@pytest.mark.parametrize("name", ["SGD momentum", "AdamW"])
def test_bfloat16(name: str) -> None:
    make, options = OPTIMIZERS[name]
    found, expected = train(make, options, True, torch.bfloat16), train(make, options, False, torch.bfloat16)
    for a, b in zip([*found[0], *found[1]], [*expected[0], *expected[1]], strict=True):
        torch.testing.assert_close(a, b, rtol=3e-2, atol=3e-2)


def test_learning_rate_as_a_tensor_does_not_recompile() -> None:
    p = floats(4, 3).requires_grad_()
    rate = torch.tensor(0.1)
    optimizer = O.SGD([p], lr=rate)

    def run() -> None:
        optimizer.step()

    step = torch.compile(run, backend="tpu")
    expected = p.detach().clone()
    compiles = 0
    for k in range(4):
        rate.fill_(0.1 / (k + 1))
        p.grad = floats(4, 3, seed=k)
        expected -= rate * p.grad
        step()
        if k == 1:
            compiles = torch_clutch.metrics()["captures"]
    torch.testing.assert_close(p.detach(), expected)
    assert torch_clutch.metrics()["captures"] == compiles


def test_whole_training_step() -> None:
    """Forward, backward and update, each compiled, train a small network as eager does."""

    def losses(compile_it: bool) -> list[float]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3))
        optimizer = O.AdamW(model.parameters(), lr=0.05)
        x, y = floats(32, 6), torch.arange(32) % 3

        def run() -> None:
            optimizer.step()

        net = torch.compile(model, backend="tpu") if compile_it else model
        step = torch.compile(run, backend="tpu") if compile_it else run
        found = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            step()
            found.append(loss.item())
        return found

    found, expected = losses(True), losses(False)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-3, atol=1e-4)
    assert found[-1] < 0.8 * found[0]
