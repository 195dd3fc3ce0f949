"""From a model or an exported program to the graph that is compiled and what the file of a saved program says about it."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils._pytree import tree_unflatten
from torch.utils._sympy.numbers import int_oo

from . import _structure
from .decompositions import export_table
from .errors import SavedModelError, UnsupportedError


@dataclasses.dataclass
class Exported:
    """A graph of core operators, the weights by name, and the header's fields."""

    graph: torch.fx.GraphModule
    static: list[int]
    """Numbers of the placeholders that are weights."""
    names: list[str]
    """Of the placeholders."""
    examples: list[Any]
    """Fake values of the placeholders."""
    ranges: list[tuple[str, int, int | None]]
    """Name, smallest and largest size of each symbol."""
    tensors: dict[str, torch.Tensor]
    header: dict[str, Any]


def capture(program: Any, args: tuple[Any, ...] | None, kwargs: Mapping[str, Any] | None) -> Exported:
    """Exports a module if need be and lowers the program to core operators.

    Raises SavedModelError for what cannot be exported here, UnsupportedError for numbers that are dynamic.
    """
    if not isinstance(program, ExportedProgram):
        program = _export(program, args, kwargs)
    elif args is not None or kwargs is not None:
        raise SavedModelError("an exported program has its inputs already; leave args and kwargs out")
    program = program.run_decompositions(export_table())
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    state = {**program.state_dict, **program.constants}
    tensors: dict[str, torch.Tensor] = {}
    arguments: list[dict[str, Any]] = []
    inputs: list[dict[str, Any]] = []
    static = []
    for number, (node, spec) in enumerate(zip(placeholders, program.graph_signature.input_specs, strict=True)):
        value = node.meta.get("val")
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            static.append(number)
            tensors[spec.target] = state[spec.target].detach()
            arguments.append({"weight": spec.target})
        elif spec.kind == InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument):
            arguments.append({"input": len(inputs)})
            inputs.append({"dtype": str(value.dtype).removeprefix("torch."), "shape": _sizes(value)})
        elif spec.kind == InputKind.USER_INPUT and isinstance(spec.arg, ConstantArgument):
            arguments.append({"input": len(inputs)})
            inputs.append({"dtype": None, "shape": [], "value": spec.arg.value})
        elif spec.kind == InputKind.USER_INPUT:
            raise UnsupportedError(f"the input {node.name!r} is a dynamic number; export the model with a fixed one to save it")
        else:
            raise SavedModelError(f"the input {node.name!r} ({spec.kind.name.lower()}) cannot be saved")
    takes = _numbered(program.call_spec.in_spec)
    numbers = {node.name: a["input"] for node, a in zip(placeholders, arguments, strict=True) if "input" in a}
    header = {
        "arguments": arguments,
        "inputs": inputs,
        "tensors": {name: [str(t.dtype).removeprefix("torch."), list(t.shape)] for name, t in tensors.items()},
        "results": [_result(spec, numbers) for spec in program.graph_signature.output_specs],
        "takes": takes[1],
        "gives": _numbered(program.call_spec.out_spec),
    }
    names, examples = [node.name for node in placeholders], [node.meta.get("val") for node in placeholders]
    return Exported(program.graph_module, static, names, examples, _ranges(program), tensors, header)


def _export(module: Any, args: tuple[Any, ...] | None, kwargs: Mapping[str, Any] | None) -> ExportedProgram:
    module = getattr(module, "_orig_mod", module)
    if not isinstance(module, torch.nn.Module):
        raise SavedModelError(f"cannot save a {type(module).__name__}; pass a torch.export.ExportedProgram or a torch.nn.Module")
    if args is None and kwargs is None:
        raise SavedModelError("a module needs example inputs to be exported: save(model, path, args=(x,))")
    with torch.no_grad():
        return torch.export.export(module, tuple(args or ()), dict(kwargs or {}))


def _sizes(value: torch.Tensor) -> list[int | str]:
    """Each size, dynamic ones as their expressions."""
    return [size if isinstance(size, int) else str(size) for size in value.shape]


def _ranges(program: ExportedProgram) -> list[tuple[str, int, int | None]]:
    def largest(bound: Any) -> int | None:
        return None if bound in (int_oo, sys.maxsize, sys.maxsize - 1) else int(bound)

    return [(str(symbol), int(bounds.lower), largest(bounds.upper)) for symbol, bounds in program.range_constraints.items()]


def _numbered(spec: Any) -> list[Any]:
    return _structure.describe(tree_unflatten(list(range(spec.num_leaves)), spec))


def _result(spec: Any, numbers: Mapping[str, int]) -> dict[str, Any] | None:
    """Where an output goes: None for a result, or what it is written back to."""
    if spec.kind == OutputKind.USER_OUTPUT:
        return None
    if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
        return {"weight": spec.target}
    if spec.kind == OutputKind.USER_INPUT_MUTATION:
        return {"input": numbers[spec.target]}
    raise SavedModelError(f"an output of kind {spec.kind.name.lower()} cannot be saved; export the model for inference")
