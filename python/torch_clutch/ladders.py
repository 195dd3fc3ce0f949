"""Ladders of single sizes: from what the user calls a size to the symbol that stands for it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .options import note_once


class DynamicSize(NamedTuple):
    """A dynamic size of a Dynamo graph."""

    label: str
    """``NAME:AXIS``, or ``NAME`` for an integer."""
    symbol: str
    """The symbol, or the expression, that stands for it."""
    argument: int
    """Number of the argument."""
    axis: int | None
    """Axis of a tensor; None for an integer."""


def dynamic_sizes(names: Sequence[str], example_inputs: Sequence[Any]) -> Iterator[DynamicSize]:
    """The dynamic sizes of a Dynamo graph; ``names`` are Dynamo's sources of its arguments."""
    for number, (source, value) in enumerate(zip(names, example_inputs, strict=False)):
        name = _argument(source)
        if isinstance(value, torch.SymInt):
            yield DynamicSize(name, str(value), number, None)
        elif isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    yield DynamicSize(f"{name}:{axis}", str(size), number, axis)


def by_symbol(ladders: Mapping[str, str], names: Sequence[str], example_inputs: Sequence[Any]) -> dict[str, str]:
    """The ladder of each symbol of a Dynamo graph, from ladders by ``NAME:AXIS`` or ``NAME``.

    A key that names no dynamic size of this graph is noted once, with those it has.
    """
    wanted = {key: ladder for key, ladder in ladders.items() if key != "*"}
    if not wanted:
        return {}
    sizes = {size.label: size.symbol for size in dynamic_sizes(names, example_inputs)}
    unknown = [key for key in wanted if key not in sizes]
    if unknown and sizes:
        note_once(f"option 'buckets': this graph has no dynamic size {', '.join(unknown)}; it has {', '.join(sorted(sizes))}")
    return {sizes[key]: ladder for key, ladder in wanted.items() if key in sizes}


def _argument(source: str) -> str:
    """The user's name in a source: ``x`` in ``L['x']``, ``args[0]`` in ``L['args'][0]``, ``x:0`` in ``L['x'].size()[0]``."""
    axis = re.search(r"\.size\(\)\[(\d+)\]$", source)
    source = source[: axis.start()] if axis else source
    named = re.search(r"\['(\w+)'\]((?:\[\d+\])*)$", source)
    name = named[1] + named[2] if named else source
    return f"{name}:{axis[1]}" if axis else name
