"""Tasks over several runners, each with a worker process of its own."""

import os
import queue
import tempfile
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Runner(Protocol[T, R]):
    """Runs one task after another."""

    def run(self, task: T) -> R: ...

    def stop(self) -> None: ...


def run(tasks: list[T], jobs: int, runner: Callable[[dict[str, str]], Runner[T, R]], done: Callable[[R], None]) -> None:
    """Runs the tasks. `runner` makes a runner from the environment of its worker; `done` is called with each result by one thread at a
    time, in the order of completion."""
    waiting: queue.Queue[T] = queue.Queue()
    for task in tasks:
        waiting.put(task)
    lock, failures = threading.Lock(), []
    with tempfile.TemporaryDirectory(prefix="clutch-coverage-") as cache:
        environment = os.environ | {"CLUTCH_CACHE": "off", "CLUTCH_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}

        def drive() -> None:
            mine = runner(environment)
            try:
                while True:
                    try:
                        task = waiting.get_nowait()
                    except queue.Empty:
                        return
                    result = mine.run(task)
                    with lock:
                        done(result)
            except BaseException as error:
                failures.append(error)
            finally:
                mine.stop()

        threads = [threading.Thread(target=drive) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
