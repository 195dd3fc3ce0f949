"""Keeps the texts of compiled graphs while an inspection is under way (``clutch inspect``)."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch


@dataclasses.dataclass
class Compiled:
    """One compiled FX graph."""

    phase: str
    fx_nodes: int
    statistics: dict[str, Any]


_records: list[Compiled] | None = None


def active() -> bool:
    """Whether texts are kept."""
    return _records is not None


@contextlib.contextmanager
def recording() -> Iterator[list[Compiled]]:
    """Collects every graph compiled inside the block."""
    global _records
    before, _records = _records, []
    try:
        yield _records
    finally:
        _records = before


def record(gm: torch.fx.GraphModule, compiled: Any, phase: str) -> None:
    """Adds a graph to the inspection under way, if there is one."""
    if _records is not None:
        _records.append(Compiled(phase, len(gm.graph.nodes), compiled.statistics()))
