"""The worker processes of ``clutch warmup`` and the work that is shared out among them."""

import collections
import contextlib
import dataclasses
import hashlib
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

LOG_LINES = 4


class WorkFailed(Exception):
    """An operation raised; the worker goes on."""


class WorkerDied(Exception):
    """The worker's process ended in the middle of an operation."""


class Worker:
    """One worker process, started at the first call and again after it died."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen | None = None
        self._connection: Connection | None = None
        self._log: Any = None
        self._closed = False
        self._lock = threading.Lock()

    def call(self, operation: str, *arguments: Any) -> Any:
        """The operation's result. Raises WorkFailed with its error's text, WorkerDied when the process ends."""
        with self._lock:
            if self._closed:
                raise WorkerDied("stopped")
            if self._process is None:
                self._start()
        connection = self._connection
        assert connection is not None
        try:
            connection.send((operation, *arguments))
            answer = connection.recv()
        except (EOFError, OSError):
            raise WorkerDied(self._obituary()) from None
        if answer[0] == "ok":
            return answer[1]
        raise WorkFailed(answer[2])

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "torch_clutch._warmup_worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        theirs.close()
        self._connection = Connection(ours.detach())

    def log(self) -> str:
        """What the process printed last."""
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-LOG_LINES:])

    def _obituary(self) -> str:
        process = self._process
        code = process.wait() if process is not None else 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        log = self.log()
        with self._lock:
            self._forget()
        return f"the process {how}" + (f"; it printed last:\n{log}" if log else "")

    def _forget(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        if self._log is not None:
            self._log.close()
        self._process = self._connection = self._log = None

    def close(self) -> None:
        """Ends the process at once, whatever it is doing."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


@dataclasses.dataclass
class Row:
    """One line of the closing table: a graph for a target, or a capture that failed."""

    model: str
    bucket: str
    graph: str = ""
    target: str = ""
    cached: bool = False
    seconds: float = 0.0
    main: dict[str, str] = dataclasses.field(default_factory=dict)
    weights: dict[str, str] | None = None
    key: str = ""
    sizes: list[int] | None = None
    error: str | None = None

    def number(self, name: str) -> float | None:
        """A number that the plugin gave for the program run on each call."""
        value = self.main.get(name)
        return None if value is None else float(value)

    def memory(self) -> float | None:
        """Bytes of device memory in use while the program runs."""
        parts = [self.number(f"{n}_bytes") for n in ("argument", "output", "temp", "code")]
        if any(p is None for p in parts):
            return None
        return sum(p for p in parts if p is not None) - (self.number("alias_bytes") or 0)


@dataclasses.dataclass
class CaptureTask:
    """A capture to make: ``call`` is the worker's operation, which gives requests, or also the text of a failure."""

    model: str
    bucket: str
    call: tuple[Any, ...]


@dataclasses.dataclass
class CompileTask:
    """A program to compile for a target; ``row`` tells where it came from."""

    row: Row
    request: Any
    target: str


class Pool:
    """Shares captures and compilations out among ``jobs`` threads, each with worker processes of its own."""

    def __init__(self, jobs: int, targets: list[str], captures: list[CaptureTask]) -> None:
        self.targets = targets
        self.events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._captures = collections.deque(captures)
        self._compiles: collections.deque[CompileTask] = collections.deque()
        self._seen: set[str] = set()
        self._busy = 0
        self._stopped = False
        self._changed = threading.Condition()
        self._workers = [(Worker(), Worker()) for _ in range(jobs)]
        self._threads = [threading.Thread(target=self._serve, args=w, daemon=True) for w in self._workers]

    def start(self) -> None:
        """Starts the work; ``events`` gets ("captured", number of compilations found), ("row", Row), ("end", None)."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends all processes at once. What is in the cache already is whole and stays."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for pair in self._workers:
            for worker in pair:
                worker.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _serve(self, capturer: Worker, compiler: Worker) -> None:
        while (task := self._next()) is not None:
            try:
                if isinstance(task, CaptureTask):
                    self._capture(capturer, task)
                else:
                    self._compile(compiler, task)
            except Exception as error:
                self._put("row", Row(task.model if isinstance(task, CaptureTask) else task.row.model, "", error=repr(error)))
            finally:
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()
        with self._changed:
            if not self._busy and not self._stopped:
                self._stopped = True
                self.events.put(("end", None))
        for worker in (capturer, compiler):
            worker.close()

    def _next(self) -> CaptureTask | CompileTask | None:
        with self._changed:
            while not self._stopped:
                for tasks in (self._compiles, self._captures):
                    if tasks:
                        self._busy += 1
                        return tasks.popleft()
                if not self._busy:
                    return None
                self._changed.wait()
            return None

    def _put(self, kind: str, value: Any) -> None:
        if not self._stopped:
            self.events.put((kind, value))

    def _capture(self, worker: Worker, task: CaptureTask) -> None:
        found: list[CompileTask] = []
        try:
            answer = worker.call(*task.call)
            requests, failure = answer if isinstance(answer, tuple) else (answer, None)
            if failure is not None:
                self._put("row", Row(task.model, task.bucket, error=failure))
        except (WorkFailed, WorkerDied) as error:
            requests = []
            self._put("row", Row(task.model, task.bucket, error=f"capture failed: {error}"))
        counts: collections.Counter[str] = collections.Counter()
        for request in requests:
            graph = request.phase + (f" of symbolic sizes {request.symbols}" if request.symbols else "")
            counts[graph] += 1
            if counts[graph] > 1:
                graph += f" #{counts[graph]}"
            for target in self.targets:
                if self._is_new(request, target):
                    found.append(CompileTask(Row(task.model, task.bucket, graph, target), request, target))
        self._put("captured", len(found))
        with self._changed:
            self._compiles.extend(found)
            self._changed.notify_all()

    def _is_new(self, request: Any, target: str) -> bool:
        settings = sorted((k, str(v)) for k, v in request.settings.items())
        digest = hashlib.blake2b(request.program)
        digest.update(repr((request.symbols, request.largest, settings, target)).encode())
        with self._changed:
            known = digest.hexdigest() in self._seen
            self._seen.add(digest.hexdigest())
        return not known

    def _compile(self, worker: Worker, task: CompileTask) -> None:
        row = task.row
        try:
            result = worker.call("compile", task.request, settings_for(task.request.settings, task.target))
            for name, value in result.items():
                setattr(row, name, value)
        except (WorkFailed, WorkerDied) as error:
            row.error = str(error)
        self._put("row", row)


def settings_for(settings: dict[str, Any], target: str) -> dict[str, Any]:
    """The settings with another target; nothing is dumped and no texts are kept, since those are not cached."""
    return {**settings, "target": target, "dump_dir": None, "keep_texts": False}


def each(worker: Worker, names: list[str], call: Callable[[str], tuple[Any, ...]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Results and errors of one operation for each name."""
    results, errors = {}, {}
    for name in names:
        try:
            results[name] = worker.call(*call(name))
        except (WorkFailed, WorkerDied) as error:
            errors[name] = str(error)
    return results, errors
