"""Saved programs: one file that runs without Dynamo, made ahead of time from a ``torch.export``-ed model."""

import ctypes
import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from . import _clutch, _structure
from ._saved_file import SavedFile, write
from .errors import SavedModelError
from .ladders import by_symbol
from .options import Options

log = logging.getLogger("torch_clutch")

APART = ".weights"


def save(
    program: Any,
    path: str | os.PathLike[str],
    *,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    weights: str = "inside",
    options: Mapping[str, Any] | None = None,
) -> None:
    """Compiles a model and writes it to one file for ``torch_clutch.load``.

    ``program`` is a ``torch.export.ExportedProgram``, or a module (compiled or not) that is exported with the example inputs ``args``
    and ``kwargs``. Dynamic sizes are compiled for the buckets that serve all of their range, in parallel; they need a largest size,
    from ``torch.export.Dim(..., max=N)`` or from a list in the option ``buckets``. ``weights="apart"`` writes the weights to
    ``path + ".weights"``; programs that share them can be loaded with one copy. ``options`` are those of ``torch.compile``; with a
    topology as the target, the file is for a device that need not be here. The file holds the executables and the programs that they
    were made from, so that a machine with another plugin version compiles them anew.

    Raises UnsupportedError for operators that cannot be compiled and sizes that cannot be padded; SavedModelError when the file cannot
    be written.
    """
    if weights not in ("inside", "apart"):
        raise SavedModelError(f"weights={weights!r}; accepted: 'inside', 'apart'")
    from ._export import capture

    chosen = Options.read(options)
    exported = capture(program, args, kwargs)
    settings = chosen.for_rust(inference=True)
    settings["names"] = exported.names
    settings["ladders"] = by_symbol(chosen.ladders(), exported.names, exported.examples)
    plan = _clutch.plan_saved(exported.graph, exported.static, exported.ranges, settings)
    tensors = dict(exported.tensors)
    names = []
    for number, constant in enumerate(plan.constants()):
        names.append(None if constant is None else f"constant:{number}")
        if constant is not None:
            tensors[f"constant:{number}"] = constant.detach()
    programs = [(f"program:{number}", content) for number, content in enumerate(_compile(plan))]
    path = os.fspath(path)
    header = {
        "kind": "program",
        "clutch": _clutch.__version__,
        "torch": torch.__version__,
        "target": chosen.target,
        "precision": settings["precision"],
        "constants": names,
        "ranges": {name: [smallest, largest] for name, smallest, largest in plan.ranges()},
        "rungs": plan.rungs(),
        "sizes": plan.sizes(),
        **exported.header,
    }
    sections = [("captured", plan.captured()), *programs]
    if weights == "apart":
        apart = write(path + APART, {"kind": "weights", "weights": _describe(tensors)}, _contents(tensors))
        write(path, {**header, "apart": apart}, sections)
    else:
        write(path, {**header, "weights": _describe(tensors)}, [*sections, *_contents(tensors)])


def _compile(plan: Any) -> list[bytes]:
    """The programs of a plan, compiled by as many threads as there are processors; a terminal sees how far it is."""
    count = len(plan.sizes())
    if count == 1:
        return [plan.compile(0)]
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        running = [threads.submit(plan.compile, number) for number in range(count)]
        try:
            shown = track(running, description="compiling", console=console, disable=not console.is_terminal)
            return [program.result() for program in shown]
        finally:
            for program in running:
                program.cancel()


def _describe(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    return {name: [str(t.dtype).removeprefix("torch."), list(t.shape)] for name, t in tensors.items()}


def _contents(tensors: Mapping[str, torch.Tensor]) -> Any:
    for name, tensor in tensors.items():
        dense = tensor.detach().contiguous()
        size = dense.numel() * dense.element_size()
        yield f"weight:{name}", (ctypes.c_char * size).from_address(dense.data_ptr()) if size else b""


def load(
    path: str | os.PathLike[str],
    *,
    weights: Mapping[str, torch.Tensor] | str | os.PathLike[str] | None = None,
    options: Mapping[str, Any] | None = None,
    verify: bool = True,
) -> "SavedProgram":
    """Loads a program that ``torch_clutch.save`` wrote; it starts without Dynamo.

    The file is code: load only files that you trust. ``weights`` is a state dict, or the file of the weights when it is not at
    ``path + ".weights"``; it replaces weights inside. Weights inside are used where they lie in the mapped file, so the file must
    not be changed while the program lives. ``verify=False`` skips the digests of the weights.

    Raises SavedModelError when a file is missing, damaged, of another format version or does not hold what is needed; TargetError
    when the program is for another kind of device.
    """
    path = os.fspath(path)
    file = SavedFile(path)
    if file.header["kind"] != "program":
        raise SavedModelError(f"{path} holds weights; load the program's file, which is {path.removesuffix(APART)!r} if it was not renamed")
    programs = [f"program:{number}" for number in range(len(file.header["sizes"]))]
    file.verify(["captured", *programs])
    tensors: dict[str, torch.Tensor] = {}
    sources: list[SavedFile] = []
    given = dict(weights) if isinstance(weights, Mapping) else None
    if given is None or any(name is not None for name in file.header["constants"]):
        place = None if given is not None else weights
        sources, tensors = _stored(file, place)  # type: ignore[arg-type]
    if given is not None:
        tensors = {n: t for n, t in tensors.items() if n.startswith("constant:")} | given
    settings = Options.read(options).for_rust(inference=True) | {"precision": file.header["precision"]}
    parts = [(sizes, file.read(name)) for sizes, name in zip(file.header["sizes"], programs, strict=True)]
    constants = [None if name is None else tensors[name] for name in file.header["constants"]]
    with ThreadPoolExecutor(1) as background:
        checks = [background.submit(s.verify, [f"weight:{n}" for n in s.header["weights"]]) for s in sources if verify]
        graph = _clutch.load_saved(file.read("captured"), file.header["rungs"], parts, constants, settings)
        for check in checks:
            check.result()
    return SavedProgram(path, file.header, tensors, graph)


def _stored(file: SavedFile, weights: str | os.PathLike[str] | None) -> tuple[list[SavedFile], dict[str, torch.Tensor]]:
    """The tensors in the program's file, or in the file of the weights, and the file that holds them."""
    if "apart" in file.header:
        place = os.fspath(weights) if weights is not None else file.path + APART
        if not os.path.exists(place):
            raise SavedModelError(f"the weights of {file.path} are apart and {place} is not there; pass weights=, a state dict or a path")
        digest = file.header["apart"]
        file = SavedFile(place)
        if file.header["kind"] != "weights":
            raise SavedModelError(f"{place} is a program, not the weights of one")
        if file.digest != digest:
            log.warning("%s are other weights than the program was saved with", place)
    if not file.header["weights"]:
        return [], {}
    storage = torch.UntypedStorage.from_file(file.path, shared=False, nbytes=file.size)
    tensors = {}
    for name, (dtype, shape) in file.header["weights"].items():
        offset, length, _ = file.sections[f"weight:{name}"]
        if offset + length > file.size:
            raise file.damaged("it is cut off")
        made = torch.empty(0, dtype=getattr(torch, dtype))
        strides = torch.empty(shape, dtype=made.dtype, device="meta").stride()
        tensors[name] = made.set_(storage, offset // made.element_size(), shape, strides)
    return [file], tensors


@dataclasses.dataclass(frozen=True)
class Input:
    """What a program takes in one place: a tensor, or a value that it was exported with."""

    dtype: str | None
    shape: tuple[int | str, ...]
    """Sizes; a dynamic one is the name of its symbol, or an expression."""
    value: Any = None


class SavedProgram:
    """A loaded program; called as the model was. Results that were dict-like objects of other packages are plain dicts."""

    def __init__(self, path: str, header: dict[str, Any], tensors: dict[str, torch.Tensor], graph: Callable) -> None:
        self.path = path
        self.header = header
        self.inputs = [Input(i["dtype"], tuple(i["shape"]), i.get("value")) for i in header["inputs"]]
        self.ranges: dict[str, tuple[int, int]] = {name: (smallest, largest) for name, (smallest, largest) in header["ranges"].items()}
        self.weights = {name: _checked(path, name, like, tensors) for name, like in header["tensors"].items()}
        self._graph = graph
        self._arguments: list[Any] = [
            self.weights[source["weight"]] if "weight" in source else source["input"] for source in header["arguments"]
        ]
        self._places = [(i, a) for i, a in enumerate(self._arguments) if isinstance(a, int)]
        self._results = header["results"]

    @property
    def recompiled_for(self) -> str | None:
        """The part of the executable's key that differs on this machine, when the program was compiled anew."""
        return self._graph.recompiled_for

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program. Raises TypeError or ValueError when the arguments are not what it was exported for."""
        given: list[Any] = [None] * len(self.inputs)
        sizes: dict[str, tuple[int, str]] = {}
        for structure, values, place in zip(self.header["takes"], (args, kwargs), ("args", "kwargs"), strict=True):
            for number, where, value in _structure.leaves(structure, values, place):
                given[number] = self._check(number, where, value, sizes)
        values = list(self._arguments)
        for place, number in self._places:
            values[place] = given[number]
        with torch.no_grad():
            outputs = self._graph(values)
            results = []
            for output, kind in zip(outputs, self._results, strict=True):
                if kind is None:
                    results.append(output)
                elif "weight" in kind:
                    self.weights[kind["weight"]].copy_(output)
                else:
                    given[kind["input"]].copy_(output)
        return _structure.build(self.header["gives"], results.__getitem__)

    def _check(self, number: int, where: str, value: Any, sizes: dict[str, tuple[int, str]]) -> Any:
        """``value``, if it may stand at this place; ``sizes`` holds the symbols' sizes so far, and where they were found."""
        expected = self.inputs[number]
        if expected.dtype is None:
            if value != expected.value or isinstance(value, torch.Tensor):
                raise ValueError(f"{where} must be {expected.value!r}, with which the program was exported, got {value!r}")
            return value
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{where} must be a tensor, got {type(value).__name__}")
        matches = len(value.shape) == len(expected.shape) and str(value.dtype) == f"torch.{expected.dtype}"
        if not matches or any(isinstance(s, int) and s != found for s, found in zip(expected.shape, value.shape, strict=True)):
            shape = ", ".join(map(str, expected.shape)) + ("," if len(expected.shape) == 1 else "")
            raise ValueError(
                f"{where} must be {expected.dtype} of shape ({shape}), got {str(value.dtype).removeprefix('torch.')} of shape "
                f"{tuple(value.shape)}" + ("" if self.ranges else "; the program was saved for this size only")
            )
        for axis, (symbol, found) in enumerate(zip(expected.shape, value.shape, strict=True)):
            if symbol in self.ranges:
                smallest, largest = self.ranges[symbol]
                if not smallest <= found <= largest:
                    raise ValueError(f"axis {axis} of {where} is {found}; the program was saved for sizes {smallest} to {largest}")
                first, place = sizes.setdefault(symbol, (found, f"axis {axis} of {where}"))
                if first != found:
                    raise ValueError(f"axis {axis} of {where} is {found}, but {place} is {first}, and the two must be equal")
        return value


def _checked(path: str, name: str, like: list[Any], tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    dtype, shape = like
    tensor = tensors.get(name)
    if tensor is None:
        raise SavedModelError(f"the weights for {path} lack {name!r}")
    if str(tensor.dtype) != f"torch.{dtype}" or list(tensor.shape) != shape:
        raise SavedModelError(
            f"weight {name!r} must be {dtype} of shape {tuple(shape)}, got {str(tensor.dtype).removeprefix('torch.')} of shape "
            f"{tuple(tensor.shape)}"
        )
    return tensor.detach()
