"""Capture without compiling, and a record of what is compiled: how ``clutch warmup`` learns what a job needs."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from . import _clutch
from ._request import Request


def elsewhere(settings: dict[str, Any], symbols: Sequence[str]) -> dict[str, Any]:
    """The settings for compiling a program's bytes, in which symbols have numbers instead of names."""
    named = settings["ladders"]
    return {**settings, "ladders": {f"#{i}": named[name] for i, name in enumerate(symbols) if name in named}}


class Capture:
    """Takes the place of the compiler: programs are kept, and calls give zeros of the right sizes."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def take(self, gm: torch.fx.GraphModule, static: Sequence[int], settings: dict[str, Any], phase: str) -> Callable:
        """Captures a graph. Raises UnsupportedError as compiling it would."""
        captured = _clutch.capture(gm, list(static), settings)
        program, fx_nodes = captured.program(), len(gm.graph.nodes)
        dtypes = _output_types(gm)
        bindings: set[tuple[int, ...]] = set()

        def stand_in(args: list[Any]) -> list[Any]:
            given = list(args)
            args.clear()
            symbols = captured.symbols(given)
            if tuple(symbols) not in bindings:
                bindings.add(tuple(symbols))
                kept = elsewhere(settings, captured.symbol_names())
                self.requests.append(Request(phase, fx_nodes, program, symbols, captured.largest(), kept))
            outputs = captured.outputs(symbols, given)
            return [_zeros(o, d) if isinstance(o, tuple) else o for o, d in zip(outputs, dtypes, strict=True)]

        stand_in._boxed_call = True  # type: ignore[attr-defined]
        return stand_in


class Record:
    """Keeps every compiled graph, so that what it was compiled for can be compiled elsewhere."""

    def __init__(self) -> None:
        self._compiled: list[tuple[str, int, Any, dict[str, Any]]] = []

    def add(self, gm: torch.fx.GraphModule, compiled: Any, settings: dict[str, Any], phase: str) -> None:
        """Adds a graph that was just compiled."""
        self._compiled.append((phase, len(gm.graph.nodes), compiled, settings))

    def requests(self) -> list[Request]:
        """One request for each graph and each value of its symbols that it was built for."""
        found = []
        for phase, fx_nodes, compiled, settings in self._compiled:
            program, largest, bindings = compiled.captured()
            settings = elsewhere(settings, compiled.symbol_names())
            found += [Request(phase, fx_nodes, program, symbols, largest, settings) for symbols in bindings]
        return found


_active: Capture | Record | None = None


def active() -> Capture | Record | None:
    """The capture or record under way."""
    return _active


@contextlib.contextmanager
def using(taker: Capture | Record) -> Iterator[None]:
    """Hands every graph that is compiled inside the block to ``taker``."""
    global _active
    before, _active = _active, taker
    try:
        yield
    finally:
        _active = before


def _output_types(gm: torch.fx.GraphModule) -> list[torch.dtype | None]:
    output = next(node for node in gm.graph.nodes if node.op == "output")
    values = [getattr(a, "meta", {}).get("val") for a in output.args[0]]
    return [v.dtype if isinstance(v, torch.Tensor) else None for v in values]


def _zeros(sizes_and_strides: tuple[list[int], list[int]], dtype: torch.dtype | None) -> torch.Tensor:
    sizes, strides = sizes_and_strides
    return torch.empty_strided(sizes, strides, dtype=dtype).zero_()
