"""Command line: runs the database and writes the document and the table."""

import argparse
import hashlib
import json
import os
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path

from .drive import Result, Task, run
from .report import document, figures, standing
from .table import COLUMNS, FAILURES, Table, column_name

ROOT = Path(__file__).parents[2]
DOCUMENT, TABLE = ROOT / "docs/supported-ops.md", ROOT / "tests/python/data/op-coverage.tsv"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="op_coverage", description="PyTorch's operator database through Clutch, beside eager.")
    parser.add_argument("--ops", default="", metavar="REGEX", help="entries whose name matches (default: all)")
    parser.add_argument("--columns", default="", metavar="REGEX", help='types and directions that match, as in "float32 backward"')
    parser.add_argument("--samples", type=int, default=0, help="samples of each entry at most (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes (default: processors)")
    parser.add_argument("--seconds", type=float, default=120, help="limit for one sample (default: 120)")
    parser.add_argument("--state", type=Path, help="file of results by line; entries it has do not run again (default: one for each build)")
    parser.add_argument("--write", action="store_true", help="write the document and the table")
    arguments = parser.parse_args()
    arguments.state = arguments.state or _state(arguments.samples)
    return arguments


def _state(samples: int) -> Path:
    """Results of the same build with the same number of samples: an interrupted run goes on where it ended."""
    from torch_clutch import _clutch

    digest = hashlib.sha256(Path(_clutch.__file__).read_bytes()).hexdigest()[:16]
    directory = ROOT / "target/op-coverage"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{digest}-{samples}.jsonl"


def _tasks(arguments: argparse.Namespace) -> list[Task]:
    import torch

    from .samples import database, supported

    entries = database()
    return [
        Task(op, dtype, backward, arguments.samples)
        for dtype, backward in COLUMNS
        if re.fullmatch(arguments.columns or ".*", column_name(dtype, backward))
        for op, info in entries.items()
        if re.search(arguments.ops, op) and supported(info, getattr(torch, dtype), backward)
    ]


def main() -> int:
    """Exit status 1 where a sample fails that aot_eager passes and nothing is written."""
    arguments = _arguments()
    tasks = _tasks(arguments)
    wanted = {task.key for task in tasks}
    results: dict[tuple[str, str, bool], Result] = {}
    if arguments.state.exists():
        for line in arguments.state.read_text().splitlines():
            result = Result(**json.loads(line))
            if result.key in wanted:
                results[result.key] = result
    left = [task for task in tasks if task.key not in results]
    began = time.monotonic()

    def done(result: Result) -> None:
        results[result.key] = result
        with arguments.state.open("a") as state:
            print(json.dumps(asdict(result)), file=state)
        status, column = standing(result), column_name(result.dtype, result.backward)
        seconds = time.monotonic() - began
        print(f"[{len(results)}/{len(tasks)} {seconds:.0f} s] {result.op} {column}: {status}", file=sys.stderr, flush=True)

    run(left, arguments.jobs, arguments.seconds, done)
    ordered = [results[task.key] for task in tasks]
    print(figures(ordered))
    if arguments.write:
        import torch

        DOCUMENT.write_text(document(ordered, arguments.samples, torch.__version__.split("+")[0]))
        TABLE.write_text(Table.of(ordered, arguments.samples).write())
        return 0
    return 1 if any(standing(result) in FAILURES for result in ordered) else 0


if __name__ == "__main__":
    sys.exit(main())
