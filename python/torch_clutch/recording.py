"""The sizes that calls have: ``CLUTCH_RECORD_SIZES=FILE`` counts them, ``clutch buckets suggest FILE`` makes a ladder of them."""

import atexit
import collections
import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .errors import ClutchError
from .ladders import dynamic_sizes

log = logging.getLogger("torch_clutch")

VARIABLE = "CLUTCH_RECORD_SIZES"

# Calls after which counts are written, beside the end of the process.
_EVERY = 10_000


class Recorder:
    """Counts sizes and appends them to a file, one JSON object a line; any number of processes may share the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._counts: collections.Counter[tuple[str, int]] = collections.Counter()
        self._calls = 0

    def add(self, sizes: Sequence[tuple[str, int]]) -> None:
        """Counts the sizes of one call."""
        with self._lock:
            self._counts.update(sizes)
            self._calls += 1
            full = self._calls >= _EVERY
        if full:
            self.flush()

    def flush(self) -> None:
        """Appends what was counted since the last time. A file that cannot be written is logged, and the counts are dropped."""
        with self._lock:
            counts, self._counts, self._calls = self._counts, collections.Counter(), 0
        if not counts:
            return
        lines = "".join(
            json.dumps({"size": label, "value": value, "calls": calls}) + "\n" for (label, value), calls in sorted(counts.items())
        )
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(lines)
        except OSError as error:
            log.warning("%s: sizes cannot be recorded: %s", VARIABLE, error)


_recorders: dict[str, Recorder] = {}


def recorder() -> Recorder | None:
    """The recorder that the environment asks for."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    if path not in _recorders:
        _recorders[path] = Recorder(path)
        atexit.register(_recorders[path].flush)
    return _recorders[path]


def recorded(compiled: Callable, names: Sequence[str], example_inputs: Sequence[Any]) -> Callable:
    """The compiled graph, with the sizes of its calls recorded when the environment asks for it. ``names`` are Dynamo's sources."""
    taker = recorder()
    places: dict[str, tuple[str, int, int | None]] = {}
    for size in dynamic_sizes(names, example_inputs):
        if size.symbol.isidentifier():
            places.setdefault(size.symbol, (size.label, size.argument, size.axis))
    if taker is None or not places:
        return compiled

    def run(args: list[Any]) -> Sequence[Any]:
        taker.add([(label, args[i] if axis is None else args[i].shape[axis]) for label, i, axis in places.values()])
        return compiled(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def read(path: str) -> dict[str, collections.Counter[int]]:
    """The calls of each value of each size in a file of records. Raises ClutchError when it is something else."""
    found: dict[str, collections.Counter[int]] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                label, value, calls = str(record["size"]), int(record["value"]), int(record["calls"])
            except (ValueError, KeyError, TypeError):
                raise ClutchError(f"{path}:{number} is no record of sizes; make the file with {VARIABLE}=FILE") from None
            found.setdefault(label, collections.Counter())[value] += calls
    return found
