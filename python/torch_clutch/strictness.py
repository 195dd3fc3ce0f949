"""``torch_clutch.strict()``: after warm-up, a new compilation is an error that says what caused it."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from . import _clutch
from .errors import StrictModeError

# For each place in the user's code: names and sizes of the arguments of each Dynamo graph that was compiled from it.
_compiled: dict[str, list[dict[str, str]]] = {}


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


def place(gm: torch.fx.GraphModule) -> str:
    """Where the code of a Dynamo graph begins and ends: the same for all its sizes, another for other code."""
    traces = [node.stack_trace for node in gm.graph.nodes if node.op not in ("placeholder", "output") and node.stack_trace]
    return "\n".join([traces[0], traces[-1]]) if traces else ""


def remember(where: str, arguments: dict[str, str]) -> None:
    """Takes note of a Dynamo graph that was compiled from the code at a `place`."""
    known = _compiled.setdefault(where, [])
    if arguments not in known:
        known.append(arguments)


def explained(error: StrictModeError, where: str, arguments: dict[str, str]) -> StrictModeError:
    """The error with the arguments in which this graph differs from the nearest ones compiled from the same code."""
    alike = [known for known in _compiled.get(where, []) if known.keys() == arguments.keys()]
    if not alike:
        return StrictModeError(f"{error}: no graph of this code with these arguments was compiled before: {_list(arguments)}")
    differences = [[name for name in arguments if arguments[name] != known[name]] for known in alike]
    differing = min(differences, key=len)
    if not differing:
        return StrictModeError(f"{error}: a graph with the same arguments but other code or constants: {_list(arguments)}")
    nearest = [known for known, names in zip(alike, differences, strict=True) if names == differing]
    changes = "; ".join(
        f"{name} is {arguments[name]}, compiled so far: {' or '.join(dict.fromkeys(known[name] for known in nearest))}"
        for name in differing
    )
    return StrictModeError(f"{error}: {changes}")


def _describe(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return "*" if isinstance(value, torch.SymInt) else str(value)
    sizes = ", ".join("*" if isinstance(size, torch.SymInt) else str(size) for size in value.shape)
    return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"


def _list(arguments: dict[str, str]) -> str:
    shown = [f"{name}: {what}" for name, what in arguments.items()]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
