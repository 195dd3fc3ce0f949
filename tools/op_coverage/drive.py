"""Runs chosen entries over worker processes; a crash or a hang counts against its sample alone."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from workers import pool
from workers.process import Worker


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


class _Runner:
    """One thread's worker, made anew after a crash or a hang."""

    def __init__(self, environment: dict[str, str], sample_seconds: float) -> None:
        self.environment, self.sample_seconds = environment, sample_seconds
        self.worker: Worker | None = None

    def run(self, task: Task) -> Result:
        """All samples of the task."""
        result = Result(*task.key)
        current, lost, after = -1, 0, -1
        while lost < 3:
            if self.worker is None:
                self.worker = Worker("op_coverage.worker", self.environment)
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
    pool.run(tasks, jobs, lambda environment: _Runner(environment, sample_seconds), done)
