"""``torch_clutch.strict()``: after warm-up, a new compilation is an error that says what caused it."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from . import _clutch
from .errors import StrictModeError

# Names and sizes of the arguments of each Dynamo graph that was compiled, to tell what is new about another.
_compiled: list[dict[str, str]] = []


@contextlib.contextmanager
def strict() -> Iterator[None]:
    """While it is active, a call that needs a new compilation raises StrictModeError, which names the argument and axis.

    Programs that are ready, and those that the cache holds, run as always. It holds for all threads of the process.
    """
    _clutch.enter_strict()
    try:
        yield
    finally:
        _clutch.leave_strict()


def argument_names(gm: torch.fx.GraphModule) -> list[str]:
    """What the user calls each argument of a Dynamo graph."""
    names = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            source = getattr(node, "_dynamo_source", None)
            names.append(source.name if source is not None and isinstance(source.name, str) else node.name)
    return names


def signature(names: Sequence[str], example_inputs: Sequence[Any]) -> dict[str, str]:
    """Types and sizes of the arguments by name; what is symbolic is a star."""
    return {name: _describe(value) for name, value in zip(names, example_inputs, strict=False)}


def remember(arguments: dict[str, str]) -> None:
    """Takes note of a Dynamo graph that was compiled."""
    if arguments not in _compiled:
        _compiled.append(arguments)


def explained(error: StrictModeError, arguments: dict[str, str]) -> StrictModeError:
    """The error with the arguments in which this graph differs from the nearest one that was compiled."""
    alike = [known for known in _compiled if known.keys() == arguments.keys()]
    if not alike:
        return StrictModeError(f"{error}: no graph with these arguments was compiled before: {_list(arguments)}")
    nearest = min(alike, key=lambda known: sum(known[name] != arguments[name] for name in arguments))
    differing = [name for name in arguments if arguments[name] != nearest[name]]
    if not differing:
        return StrictModeError(f"{error}: a graph with the same arguments but other code or constants: {_list(arguments)}")
    changes = "; ".join(f"{name} is {arguments[name]}, compiled so far: {nearest[name]}" for name in differing)
    return StrictModeError(f"{error}: {changes}")


def _describe(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return "*" if isinstance(value, torch.SymInt) else str(value)
    sizes = ", ".join("*" if isinstance(size, torch.SymInt) else str(size) for size in value.shape)
    return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"


def _list(arguments: dict[str, str]) -> str:
    shown = [f"{name}: {what}" for name, what in arguments.items()]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
