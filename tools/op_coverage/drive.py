"""Runs chosen entries over worker processes; a crash or a hang counts against its sample alone."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Task:
    """One entry in one type and direction. `numbers` names its samples; otherwise up to `most` are spread over all (0: all)."""

    op: str
    dtype: str
    backward: bool
    most: int = 0
    numbers: tuple[int, ...] | None = None

    @property
    def key(self) -> tuple[str, str, bool]:
        return self.op, self.dtype, self.backward


@dataclass
class Result:
    """What became of a task: how many samples the entry has, and the status and detail of each that ran."""

    op: str
    dtype: str
    backward: bool
    count: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, bool]:
        return self.op, self.dtype, self.backward


class _Worker:
    """A worker process with a limit on the time of each line of its answer."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "op_coverage.worker"],
            cwd=TOOLS,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.lines.put("")

    def line(self, seconds: float) -> dict[str, Any] | str:
        """The next line, or what became of the worker: `crashed` or `timeout`."""
        try:
            text = self.lines.get(timeout=seconds)
        except queue.Empty:
            self.stop()
            return "timeout"
        if text.endswith("\n"):
            return json.loads(text)
        code = self.process.wait()
        return f"crashed: exit status {code}"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class _Runner:
    """One thread's worker, made anew after a crash or a hang."""

    def __init__(self, environment: dict[str, str], sample_seconds: float) -> None:
        self.environment, self.sample_seconds = environment, sample_seconds
        self.worker: _Worker | None = None

    def run(self, task: Task) -> Result:
        """All samples of the task."""
        result = Result(*task.key)
        current, lost, after = -1, 0, -1
        while lost < 3:
            if self.worker is None:
                self.worker = _Worker(self.environment)
            self.worker.send(asdict(task) | {"after": after})
            while True:
                # The start of a process and the making of samples count against no sample.
                answer = self.worker.line(self.sample_seconds if current > after else 4 * self.sample_seconds)
                if isinstance(answer, str):
                    self.worker = None
                    # Before the first sample: nothing to step over.
                    lost += 1 if current == after else 0
                    status, _, detail = answer.partition(": ")
                    if current > after:
                        result.samples.append({"number": current, "status": status, "detail": detail})
                    elif lost == 3:
                        result.samples.append({"number": current + 1, "status": status, "detail": f"outside of samples; {detail}"})
                    after = current
                    break
                if "end" in answer:
                    result.count = answer["end"]
                    return result
                if "start" in answer:
                    current = answer["start"]
                else:
                    result.samples.append(answer)
                    current = after = answer["number"]
        return result

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.stop()


def run(tasks: list[Task], jobs: int, sample_seconds: float, done: Callable[[Result], None]) -> None:
    """Runs the tasks; `done` is called with each result by one thread at a time, in the order of completion."""
    waiting: queue.Queue[Task] = queue.Queue()
    for task in tasks:
        waiting.put(task)
    lock, failures = threading.Lock(), []
    with tempfile.TemporaryDirectory(prefix="clutch-coverage-") as cache:
        environment = os.environ | {"CLUTCH_CACHE": "off", "CLUTCH_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}

        def drive() -> None:
            runner = _Runner(environment, sample_seconds)
            try:
                while True:
                    try:
                        task = waiting.get_nowait()
                    except queue.Empty:
                        return
                    result = runner.run(task)
                    with lock:
                        done(result)
            except BaseException as error:
                failures.append(error)
            finally:
                runner.stop()

        threads = [threading.Thread(target=drive) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
