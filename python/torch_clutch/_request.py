"""A captured program on its way to a process that compiles it. Importing this module does not import PyTorch."""

import dataclasses
from typing import Any


@dataclasses.dataclass
class Request:
    """One program to compile: its bytes, values and declared maxima of its symbols, and the settings without the target."""

    phase: str
    fx_nodes: int
    program: bytes
    symbols: list[int]
    largest: list[int | None]
    settings: dict[str, Any]
