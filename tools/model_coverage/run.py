"""One call of a model in eager or compiled: inference, or a training step."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from .case import Case
from .compare import Named

Forward = Callable[..., Any]


def infer(case: Case, forward: Forward) -> Named:
    """Tensors of the output."""
    with torch.no_grad(), _as_before(case.model):
        return {f"output {i}": t.clone() for i, t in enumerate(_tensors(forward(*case.args, **case.kwargs)))}


def train(case: Case, forward: Forward) -> Named:
    """The loss, the gradients and the buffers after one forward and backward pass."""
    model, args = case.model, case.args if case.training_args is None else case.training_args
    model.zero_grad()
    with _as_before(model):
        value = loss(forward(*args, **case.kwargs))
        value.backward()
        found = {"loss": value.detach()}
        found |= {f"gradient of {n}": p.grad for n, p in model.named_parameters() if p.grad is not None}
        found |= {f"buffer {n}": b.clone() for n, b in model.named_buffers()}
    model.zero_grad()
    return found


class NotTrained(Exception):
    """The output has no differentiable tensor."""


def loss(output: Any) -> torch.Tensor:
    """The model's own losses; else the sum of the mean squares of what is differentiable."""
    own = getattr(output, "loss", None)
    if isinstance(own, torch.Tensor) and own.requires_grad:
        return own.sum()
    wanted = [t for t in _tensors(output) if t.requires_grad]
    if not wanted:
        raise NotTrained("no differentiable output")
    if isinstance(output, dict) and all(t.ndim == 0 for t in wanted):
        return torch.stack(wanted).sum()
    return torch.stack([t.abs().square().mean() for t in wanted]).sum()


def draws(step: Callable[[], Named]) -> tuple[Named, bool]:
    """The step's result, and whether it draws random numbers: it moves a generator."""
    torch.manual_seed(0)
    random.seed(0)
    before, plain = torch.get_rng_state(), random.getstate()
    result = step()
    return result, not torch.equal(before, torch.get_rng_state()) or random.getstate() != plain


def without_dropout(model: nn.Module) -> None:
    """Sets every dropout rate of the model to zero: the numbers drawn are not eager's."""
    for holder in (*model.modules(), *(m.config for m in model.modules() if hasattr(m, "config"))):
        for name, value in list(getattr(holder, "__dict__", {}).items()):
            if type(value) is float and ("drop" in name or (name == "p" and isinstance(holder, nn.modules.dropout._DropoutNd))):
                setattr(holder, name, 0.0)


def _tensors(output: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(output) if isinstance(t, torch.Tensor)]


@contextmanager
def _as_before(model: nn.Module) -> Iterator[None]:
    """Buffers written to by a call are put back."""
    kept = {n: b.detach().clone() for n, b in model.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in kept and kept[name].shape == buffer.shape:
                    buffer.copy_(kept[name])
