"""The Dynamo backend ``tpu``."""

import atexit
import functools
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch.utils._python_dispatch import _disable_current_modes

from . import _clutch, capturing, inspection, recording, strictness
from .decompositions import table
from .errors import ClutchError, StrictModeError, UnsupportedError, for_dynamo
from .joint import split_joint
from .ladders import by_symbol
from .options import Options, note_once
from .partition import compile_in_parts, whole_in_eager

log = logging.getLogger("torch_clutch")

_last = threading.local()

os.register_at_fork(after_in_child=_clutch.after_fork)


def tpu(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **inductor_arguments: Any,
) -> Callable:
    """Compiles a Dynamo graph. Named by ``torch.compile(model, backend="tpu")``; see README for the options."""
    try:
        return _compile_graph(gm, example_inputs, mode, options, inductor_arguments)
    except ClutchError as error:
        raise for_dynamo(error) from error.__cause__


def _compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None,
    options: dict[str, Any] | None,
    inductor_arguments: dict[str, Any],
) -> Callable:
    if mode is not None and mode != "default":
        note_once(f"mode={mode!r} is Inductor's and has no effect on backend='tpu'")
    for name in inductor_arguments:
        if name != "name":
            note_once(f"the argument {name!r} has no effect on backend='tpu'")
    chosen = Options.read(options)
    if chosen.async_compile:
        _wait_at_exit()
    names = strictness.argument_names(gm)
    where, arguments = strictness.place(gm), strictness.signature(names, example_inputs)
    ladders = by_symbol(chosen.ladders(), names, example_inputs)
    compile_graph = aot_autograd(
        fw_compiler=_compiler(chosen, "forward", names, ladders),
        bw_compiler=_compiler(chosen, "backward", [], ladders),
        inference_compiler=_compiler(chosen, "inference", names, ladders),
        decompositions=table(),
        partition_fn=split_joint,
        keep_inference_input_mutations=True,
    )
    try:
        # Tokens of effects are made inside of graphs: they are no arguments.
        with torch._functorch.config.patch(unlift_effect_tokens=True):
            compiled = compile_graph(gm, example_inputs)
    except StrictModeError as error:
        raise strictness.explained(error, where, arguments) from None
    strictness.remember(where, arguments)
    return compiled


@functools.cache
def _wait_at_exit() -> None:
    """The plugin's compiler must not run while the process takes its libraries down."""
    atexit.register(_finish)


def _finish() -> None:
    if _clutch.is_forked():
        return
    unfinished = _clutch.unfinished_compiles()
    if unfinished:
        log.info("waiting for %d compilations in the background", unfinished)
        _clutch.wait_for_compiles()


def _compiler(options: Options, phase: str, names: list[str], ladders: dict[str, str]) -> Callable:
    def compile_phase(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        static = () if phase == "backward" else _static_inputs(len(example_inputs))
        settings = options.for_rust(inference=phase == "inference", keep_texts=inspection.active())
        settings["ladders"] = ladders
        settings["names"] = names if len(names) == len(example_inputs) else []
        compiled = compile_fx(gm, static, settings, options, phase)
        if settings["names"]:
            compiled = recording.recorded(compiled, names, example_inputs)
        return _as_function(compiled) if phase == "backward" else compiled

    return compile_phase


def _as_function(compiled: Callable) -> Callable:
    """A plain function: Dynamo wraps backward callables and keeps attributes of functions only."""

    def run(args: list[Any]) -> Sequence[Any]:
        return compiled(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def compile_fx(gm: torch.fx.GraphModule, static: Sequence[int], settings: dict[str, Any], options: Options, phase: str) -> Callable:
    """Compiles one FX graph; parts that cannot be compiled run in eager unless ``fallback="error"``."""
    taker = capturing.active()
    try:
        with _disable_current_modes():
            if isinstance(taker, capturing.Capture):
                return taker.take(gm, static, settings, phase)
            compiled = _clutch.compile(gm, list(static), settings)
    except UnsupportedError as error:
        if not error.nodes:
            raise
        if options.fallback == "error":
            raise UnsupportedError(_describe(gm, error.nodes)) from None
        note_once("these operators run in eager on every call:\n" + _describe(gm, error.nodes, lines_only=True))
        if any("overlap in memory" in reason for _, _, reason in error.nodes):
            # Only eager's own kernels see a write through one element of such an input in the others.
            return whole_in_eager(gm)
        return compile_in_parts(gm, {name for name, _, _ in error.nodes}, settings, compile_fx, options, phase)
    _last.compiled = compiled
    inspection.record(gm, compiled, phase)
    if taker is not None:
        taker.add(gm, compiled, settings, phase)
    return compiled


def _describe(gm: torch.fx.GraphModule, nodes: Sequence[tuple[str, str, str]], *, lines_only: bool = False) -> str:
    by_name = {node.name: node for node in gm.graph.nodes}
    lines = []
    for name, target, reason in nodes:
        where = user_line(by_name.get(name))
        lines.append(f"  {target} (node {name}){f' at {where}' if where else ''}: {reason}")
    text = "\n".join(lines)
    if lines_only:
        return text
    return f"{len(lines)} operators cannot be compiled (fallback='error' is set):\n{text}"


def user_line(node: torch.fx.Node | None) -> str | None:
    """The line of the user's code that an FX node came from, as ``file:line: code``."""
    trace = getattr(node, "stack_trace", None)
    if not trace:
        return None
    frames = [line.strip() for line in trace.strip().splitlines()]
    for i in range(len(frames) - 1, -1, -1):
        if frames[i].startswith("File "):
            file, _, rest = frames[i].removeprefix("File ").partition(", line ")
            number = rest.partition(",")[0]
            code = frames[i + 1] if i + 1 < len(frames) else ""
            return f"{file.strip(chr(34))}:{number}: {code if len(code) <= 120 else code[:117] + '...'}"
    return None


def _static_inputs(count: int) -> list[int]:
    context = TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    indices = getattr(metadata, "static_input_indices", None) or []
    return [i for i in indices if i < count]


def last_compiled() -> Any:
    """The graph compiled last in this thread, or None."""
    return getattr(_last, "compiled", None)
