"""Compares functions compiled by Clutch with eager PyTorch."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import torch_clutch  # noqa: F401  (registers the backend)

Tensors = Sequence[torch.Tensor]


def compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled whole; an operator that Clutch cannot lower is an error."""
    torch._dynamo.reset()
    return torch.compile(f, backend="tpu", fullgraph=True, dynamic=False, options={"fallback": "error"})


def _fresh(inputs: Tensors) -> list[torch.Tensor]:
    return [x.detach().clone(memory_format=torch.preserve_format).requires_grad_(x.requires_grad) for x in inputs]


def assert_same(found: Any, expected: Any, rtol: float | None = None, atol: float | None = None, names: Sequence[str] = ()) -> None:
    """All tensors of both results agree in type, sizes, values and NaN."""
    found, expected = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert len(found) == len(expected)
    wrong = []
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        try:
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            wrong.append(f"result {names[i] if i < len(names) else i}: {error}\n  found    {a}\n  expected {b}")
    assert not wrong, "\n".join(wrong)


def _exact(inputs: Tensors) -> list[torch.Tensor]:
    return [x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x for x in inputs]


def _rounded(found: Any, like: Any) -> list[Any]:
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(like), strict=True)
    return [x.to(y.dtype) if isinstance(x, torch.Tensor) else x for x, y in pairs]


def check(f: Callable[..., Any], *inputs: torch.Tensor, rtol: float | None = None, atol: float | None = None) -> None:
    """The compiled function gives what the function gives."""
    assert_same(compiled(f)(*_fresh(inputs)), f(*_fresh(inputs)), rtol, atol)


def check_exact(f: Callable[..., Any], *inputs: torch.Tensor, rtol: float | None = None, atol: float | None = None) -> None:
    """The compiled function gives what the function gives in float64, rounded to the result's type.

    For functions that eager computes in the narrow type of their inputs with an error above one rounding.
    """
    found = compiled(f)(*_fresh(inputs))
    assert_same(found, _rounded(f(*_exact(inputs)), found), rtol, atol)


def check_all(fs: dict[str, Callable[..., Any]], *inputs: torch.Tensor, rtol: float | None = None, atol: float | None = None) -> None:
    """As `check` for several functions of one tensor result each, compiled as one graph."""

    def together(*xs: torch.Tensor) -> list[torch.Tensor]:
        return [f(*xs) for f in fs.values()]

    found, expected = compiled(together)(*_fresh(inputs)), together(*_fresh(inputs))
    assert_same(found, expected, rtol, atol, list(fs))


def check_grad(
    f: Callable[..., Any], *inputs: torch.Tensor, rtol: float | None = None, atol: float | None = None, exact: bool = False
) -> None:
    """Results and gradients of all inputs that require one agree; each result is weighted by fixed numbers.

    With `exact` the expected numbers are those of the function in float64, rounded.
    """

    def run(g: Callable[..., Any], xs: list[torch.Tensor]) -> list[torch.Tensor]:
        outputs = [y for y in pytree.tree_leaves(g(*xs)) if y.requires_grad]
        loss = sum((y.double() * torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape)).sum() for y in outputs)
        loss.backward()
        return [y.detach() for y in outputs] + [x.grad for x in xs if x.requires_grad]

    found = run(compiled(f), _fresh(inputs))
    expected = _rounded(run(f, _exact(inputs)), found) if exact else run(f, _fresh(inputs))
    assert_same(found, expected, rtol, atol)


def floats(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, grad: bool = False) -> torch.Tensor:
    """Standard normal numbers, the same in each run."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g).to(dtype).requires_grad_(grad)


def ints(*shape: int, low: int = -9, high: int = 10, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    """Integers of `[low, high)`, the same in each run."""
    g = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=g).to(dtype)


def bools(*shape: int, seed: int = 0) -> torch.Tensor:
    """Truth values, the same in each run."""
    return ints(*shape, low=0, high=2, seed=seed).bool()
