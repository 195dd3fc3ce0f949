"""One worker process, spoken to in lines of JSON."""

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).parents[1]


class Worker:
    """A worker process with a limit on the time of each line of its answer. `module` is run with `python -m` in tools/."""

    def __init__(self, module: str, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
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
        """Sends one request."""
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
        """Ends the process."""
        self.process.kill()
        self.process.wait()
