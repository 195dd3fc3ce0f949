"""Which decompositions AOTAutograd applies: PyTorch's core table, less what Clutch lowers itself (in Rust, in less time)."""

import functools
from collections.abc import Callable

import torch

from . import _clutch


@functools.cache
def table() -> dict[torch._ops.OperatorBase, Callable]:
    """The decomposition table: entries of the core table whose operator has no lowering of its own."""
    from torch._decomp import core_aten_decompositions

    lowered = frozenset(_clutch.supported_operators())
    return {op: f for op, f in core_aten_decompositions().items() if str(op) not in lowered}
