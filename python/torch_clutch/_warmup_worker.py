"""A worker process of ``clutch warmup``: captures what a job needs, or compiles what was captured.

Run as ``python -m torch_clutch._warmup_worker FD``; takes pickled messages (operation, arguments...) from the socket
and answers each with ("ok", result) or ("failed", error class, text).
"""

import contextlib
import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from . import _clutch
from .errors import ClutchError, OptionError

FUNCTION = "clutch_warmup"


class Job:
    """The models of a job file, made one after the other as its generator yields them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.module: Any = None
        self.generator: Iterator[Any] | None = None
        self.index = -1
        self.model: Any = None

    def models(self) -> Iterator[Any]:
        """Runs the job's ``clutch_warmup()``; the file is imported once."""
        from .warmup import Model

        if self.module is None:
            self.module = _import(self.path)
        function = getattr(self.module, FUNCTION, None)
        if not callable(function):
            raise OptionError(
                f"{self.path} has no function {FUNCTION}(); define one that yields torch_clutch.warmup.Model objects, "
                f"or run a plain script with `clutch warmup --record {self.path}`"
            )
        for model in function():
            if not isinstance(model, Model):
                raise OptionError(f"{FUNCTION}() of {self.path} yielded {type(model).__name__}, not torch_clutch.warmup.Model")
            yield model

    def get(self, index: int) -> Any:
        """The model with this number; the one asked for last is kept."""
        if self.generator is None or index < self.index:
            self.generator, self.index = self.models(), -1
        while self.index < index:
            self.model = None
            self.model = next(self.generator)
            self.index += 1
        return self.model


def _import(path: str) -> Any:
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_jobs: dict[str, Job] = {}


def list_models(path: str) -> list[tuple[str, list[str]]]:
    """Name and bucket labels of each model."""
    return [(model.name, model.labels()) for model in Job(path).models()]


def capture(path: str, index: int, bucket: int) -> list[Any]:
    """The programs that one bucket of one model needs."""
    model = _jobs.setdefault(path, Job(path)).get(index)
    requests = _capture_once(model, bucket)
    if model.dynamic is None and len(model.buckets) > 1:
        # A job that meets several sizes gets symbolic graphs from its second size on.
        other = 1 if bucket == 0 else 0
        requests += [r for r in _capture_once(model, bucket, after=other) if r.symbols]
    return requests


def _capture_once(model: Any, bucket: int, after: int | None = None) -> list[Any]:
    import torch

    from . import capturing
    from .backend import tpu

    torch._dynamo.reset()
    plain = getattr(model.model, "_orig_mod", model.model)
    compiled = torch.compile(plain, backend=tpu, dynamic=model.dynamic, options=dict(model.options) or None)
    taken = capturing.Capture()
    for number in ([] if after is None else [after]) + [bucket]:
        taken.requests.clear()
        args, kwargs = model.inputs(number)
        with capturing.using(taken), contextlib.nullcontext() if model.training else torch.no_grad():
            result = compiled(*args, **kwargs)
            if model.training:
                _backward(result)
    return taken.requests


def _backward(result: Any) -> None:
    import torch
    from torch.utils._pytree import tree_leaves

    outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    losses = [t for t in outputs if t.ndim == 0]
    if losses:
        losses[0].backward()
    elif outputs:
        torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])


def record(path: str, arguments: list[str]) -> tuple[list[Any], str | None]:
    """Runs a script as a program; what it compiled, and the text of its failure if it failed."""
    import torch_clutch.backend  # noqa: F401

    from . import capturing

    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    taken, failure = capturing.Record(), None
    with capturing.using(taken):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as stop:
            failure = f"{path} exited with {stop.code}" if stop.code not in (None, 0) else None
        except Exception:
            failure = f"{path} failed:\n{traceback.format_exc()}"
    return taken.requests(), failure


def probe(settings: dict[str, Any]) -> dict[str, Any]:
    """The device of the settings' target."""
    return _clutch.device_info(settings)


def compile_program(request: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Compiles one program into the cache."""
    result = _clutch.compile_captured(request.program, request.symbols, request.largest, settings)
    return {**result, "main": result["main"] or {}}


OPERATIONS: dict[str, Callable[..., Any]] = {
    "list": list_models,
    "capture": capture,
    "record": record,
    "probe": probe,
    "compile": compile_program,
}


def main(fd: int) -> None:
    """Answers messages until the other end closes."""
    connection = Connection(fd)
    while True:
        try:
            operation, *arguments = connection.recv()
        except (EOFError, ConnectionResetError):
            return
        try:
            answer: tuple[Any, ...] = ("ok", OPERATIONS[operation](*arguments))
        except ClutchError as error:
            answer = ("failed", type(error).__name__, str(error))
        except Exception as error:
            answer = ("failed", type(error).__name__, "".join(traceback.format_exception(error)).rstrip())
        try:
            connection.send(answer)
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main(int(sys.argv[1]))
