"""Runs chosen models over worker processes; a crash or a hang counts against its stage alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workers import pool
from workers.process import Worker

STAGES = ("inference", "training")


@dataclass(frozen=True)
class Task:
    """One model in the stages named."""

    source: str
    name: str
    stages: tuple[str, ...] = STAGES

    @property
    def key(self) -> tuple[str, str]:
        return self.source, self.name


@dataclass
class Result:
    """What became of a model: its parameters, and status, detail and wholeness by stage."""

    source: str
    name: str
    parameters: int = 0
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        return self.source, self.name


class _Runner:
    """One thread's worker, made anew after a crash or a hang."""

    def __init__(self, environment: dict[str, str], stage_seconds: float) -> None:
        self.environment, self.stage_seconds = environment, stage_seconds
        self.worker: Worker | None = None

    def run(self, task: Task) -> Result:
        """All stages of the task."""
        result = Result(*task.key)
        while left := [stage for stage in task.stages if stage not in result.stages]:
            self.worker = self.worker or Worker("model_coverage.worker", self.environment)
            self.worker.send({"source": task.source, "name": task.name, "stages": left})
            current = None
            while True:
                answer = self.worker.line(self.stage_seconds)
                if isinstance(answer, str):
                    self.worker = None
                    status, _, detail = answer.partition(": ")
                    lost = left if current is None else [current]
                    detail = f"while built; {detail}" if current is None else detail
                    result.stages |= {stage: {"status": status, "detail": detail, "whole": True} for stage in lost}
                    break
                if "end" in answer:
                    result.parameters = answer["end"]
                    return result
                if "start" in answer:
                    current = answer["start"]
                else:
                    result.stages[answer.pop("stage")] = answer
        return result

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.stop()


def run(tasks: list[Task], jobs: int, stage_seconds: float, done: Callable[[Result], None]) -> None:
    """Runs the tasks; `done` is called with each result by one thread at a time, in the order of completion."""
    pool.run(tasks, jobs, lambda environment: _Runner(environment, stage_seconds), done)
