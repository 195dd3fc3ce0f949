"""Which decompositions AOTAutograd applies: PyTorch's core table, less what Clutch lowers itself (in Rust, in less time)."""

import functools
from collections.abc import Callable

import torch

from . import _clutch

Table = dict[torch._ops.OperatorBase, Callable]


@functools.cache
def table() -> Table:
    """The table for graphs of Dynamo: entries of the core table whose operator has no lowering of its own.

    Operators that PyTorch's dispatcher takes apart by itself are left out: making their entries costs more than all the rest.
    """
    try:
        from torch._decomp import _core_aten_decompositions_post_autograd as decompositions
    except ImportError:
        return export_table()
    return _not_lowered(decompositions())


@functools.cache
def export_table() -> Table:
    """The table for exported programs, which hold operators that the dispatcher would have taken apart."""
    from torch._decomp import core_aten_decompositions

    return _not_lowered(core_aten_decompositions())


def _not_lowered(table: Table) -> Table:
    lowered = frozenset(_clutch.supported_operators())
    return {op: f for op, f in table.items() if str(op) not in lowered}
