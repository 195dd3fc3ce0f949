"""Splits a graph around operators that cannot be compiled: those run in eager, anew on every call."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.passes.split_module import split_module

from . import _clutch


def compile_in_parts(
    gm: torch.fx.GraphModule,
    unsupported: set[str],
    settings: dict[str, Any],
    compile_fx: Callable,
    options: Any,
    phase: str,
) -> Callable:
    """A callable that runs ``gm`` with the named nodes in eager and everything between them compiled."""
    part_of, eager = _assign_parts(gm, unsupported)
    split = split_module(gm, None, lambda node: part_of[node.name])
    count = 0
    parts = {f"submod_{number}": number for number in set(part_of.values())}
    for name, part in list(split.named_children()):
        number = parts.get(name)
        if number is None:  # a subgraph that a control-flow operator of an eager part calls
            continue
        if number in eager:
            count += 1
            continue
        inner = {**settings, "inference": False}
        setattr(split, name, _Part(compile_fx(_with_values(part), (), inner, options, phase)))
    _clutch.count_eager_parts(count)
    split.recompile()
    return _boxed(split)


def whole_in_eager(gm: torch.fx.GraphModule) -> Callable:
    """A callable that runs all of ``gm`` in eager."""
    _clutch.count_eager_parts(1)
    return _boxed(gm)


def _boxed(module: torch.nn.Module) -> Callable:
    """The module as AOTAutograd calls compiled graphs: with one list of arguments, which the callee empties."""

    def run(args: list[Any]) -> Sequence[Any]:
        inputs = list(args)
        args.clear()
        return module(*inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _assign_parts(gm: torch.fx.GraphModule, unsupported: set[str]) -> tuple[dict[str, int], set[int]]:
    """A part for each node, so that parts in order form the program; the eager parts.

    A node joins the latest part that one of its operands is in, or the next one when the kinds differ: compiled parts have even
    numbers, eager parts odd ones. Nodes that write to inputs come last of all.
    """
    part: dict[str, int] = {}
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            part[node.name] = 0
            continue
        latest = max((part[n.name] for n in node.all_input_nodes if n.op == "call_function"), default=0)
        if node.name in unsupported:
            latest += 1 - latest % 2
        else:
            latest += latest % 2
        part[node.name] = latest
    # A getitem belongs with the node whose tuple it takes apart.
    for node in gm.graph.nodes:
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem":
            part[node.name] = part[node.args[0].name]
    last = max(part.values(), default=0)
    for node in gm.graph.nodes:
        if node.target is torch.ops.aten.copy_.default:
            part[node.name] = last + (1 - last % 2 if node.name in unsupported else last % 2)
    return part, {p for p in part.values() if p % 2}


def _with_values(part: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The part with one output list, as compiled graphs have."""
    output = next(node for node in part.graph.nodes if node.op == "output")
    if not isinstance(output.args[0], tuple | list):
        output.args = ((output.args[0],),)
        part.meta["single_output"] = True
    return part


class _Part(torch.nn.Module):
    """A compiled part as a module of the split graph."""

    def __init__(self, compiled: Callable) -> None:
        super().__init__()
        self.compiled = compiled

    def forward(self, *args: Any) -> Any:
        results = self.compiled(list(args))
        return results[0] if len(results) == 1 else tuple(results)
