"""Command line: runs the models and writes the document and the table."""

import argparse
import hashlib
import json
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path

from .drive import STAGES, Result, Task, run
from .models import SOURCES, names
from .report import document, figures
from .table import FAILURES, Table, cell

ROOT = Path(__file__).parents[2]
DOCUMENT, TABLE = ROOT / "docs/supported-models.md", ROOT / "tests/python/data/model-coverage.tsv"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="model_coverage", description="Models through Clutch, beside eager.")
    parser.add_argument("--only", default="", metavar="NAMES", help="models with these names, separated by commas (default: all)")
    parser.add_argument("--source", choices=SOURCES, help="models of one source (default: all)")
    parser.add_argument("--stages", default=",".join(STAGES), metavar="NAMES", help="stages, separated by commas (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes; large models take some GiB each (default: 2)")
    parser.add_argument("--seconds", type=float, default=600, help="limit for one stage of one model (default: 600)")
    parser.add_argument("--state", type=Path, help="file of results by line; what it has does not run again (default: one for each build)")
    parser.add_argument("--write", action="store_true", help="write the document and the table of all results there are")
    arguments = parser.parse_args()
    arguments.state = arguments.state or _state()
    return arguments


def _state() -> Path:
    """Results of the same build: an interrupted run goes on where it ended."""
    from torch_clutch import _clutch

    digest = hashlib.sha256(Path(_clutch.__file__).read_bytes()).hexdigest()[:16]
    directory = ROOT / "target/model-coverage"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{digest}.jsonl"


def _tasks(arguments: argparse.Namespace) -> list[Task]:
    sources = [arguments.source] if arguments.source else SOURCES
    only = set(filter(None, arguments.only.split(",")))
    stages = tuple(stage for stage in STAGES if stage in arguments.stages.split(","))
    tasks = [Task(source, name, stages) for source in sources for name in names(source) if not only or name in only]
    if unknown := only - {task.name for task in tasks}:
        raise SystemExit(f"no such models: {', '.join(sorted(unknown))}")
    return tasks


def _known(state: Path) -> dict[tuple[str, str], Result]:
    """Results of the file; lines of one model add their stages."""
    results: dict[tuple[str, str], Result] = {}
    for line in state.read_text().splitlines() if state.exists() else ():
        result = Result(**json.loads(line))
        kept = results.setdefault(result.key, result)
        kept.stages |= result.stages
        kept.parameters = kept.parameters or result.parameters
    return results


def main() -> int:
    """Exit status 1 where a model fails that eager runs and nothing is written."""
    arguments = _arguments()
    tasks, results = _tasks(arguments), _known(arguments.state)
    had = {key: set(result.stages) for key, result in results.items()}
    missing = [Task(*t.key, tuple(s for s in t.stages if s not in had.get(t.key, ()))) for t in tasks]
    missing = [task for task in missing if task.stages]
    # In an order that lets the first results stand for all.
    random.Random(len(tasks)).shuffle(missing)
    began, ran = time.monotonic(), 0

    def done(result: Result) -> None:
        nonlocal ran
        ran += 1
        with arguments.state.open("a") as state:
            print(json.dumps(asdict(result)), file=state)
        seconds = time.monotonic() - began
        ahead = seconds / ran * (len(missing) - ran)
        statuses = ", ".join(f"{stage} {cell(outcome)}" for stage, outcome in result.stages.items())
        line = f"[{ran}/{len(missing)} {seconds:.0f} s, about {ahead:.0f} s left] {result.source} {result.name}: {statuses}"
        print(line, file=sys.stderr, flush=True)

    run(missing, arguments.jobs, arguments.seconds, done)
    results = _known(arguments.state)
    ordered = [results[task.key] for task in tasks]
    print(figures(ordered))
    if arguments.write:
        every = [(source, name) for source in SOURCES for name in names(source)]
        present = [results[key] for key in every if key in results]
        DOCUMENT.write_text(document(present, len(every)))
        TABLE.write_text(Table.of(present).write())
        return 0
    return 1 if any(s["status"] in FAILURES for r in ordered for s in r.stages.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
