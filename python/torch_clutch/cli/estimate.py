"""``clutch estimate``: what the TPU compiler's schedules say about a job's graphs, with and without rewriting."""

import dataclasses
import json
import os
import sys
import tempfile

import click
from rich.console import Console
from rich.table import Table

from .. import _clutch
from .._request import Request
from .._warmup_pool import Worker, WorkerDied, WorkFailed, settings_for
from ..errors import ClutchError, TargetError
from ..schedule import DUMP_FLAGS, HBM_BYTES_PER_CYCLE, Estimate, read


@dataclasses.dataclass
class Compared:
    """A graph for a target; the estimates with rewriting and without, or why there are none."""

    graph: str
    target: str
    on: Estimate | None = None
    off: Estimate | None = None
    error: str | None = None

    def ratio(self) -> float | None:
        """Cycles with rewriting for each cycle without."""
        return self.on.cycles / self.off.cycles if self.on and self.off else None


@click.command()
@click.argument("job", type=click.Path(exists=True, dir_okay=False))
@click.option("--target", "targets", multiple=True, default=("v5e:1x1", "v6e:1x1"), show_default=True, help="TPU topology. Repeatable.")
@click.option("--only", multiple=True, help="Only models with this in their name. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def estimate(job: str, targets: tuple[str, ...], only: tuple[str, ...], as_json: bool) -> None:
    """Compile the graphs of JOB for TPUs with rewriting on and off, and print the cycles of the compiler's schedules.

    JOB is a Python file as for `clutch warmup`. Needs libtpu, but no TPU. The cycles are an estimate by the schedule
    of the program that runs on each call, not a measurement. Exits with 1 when a graph does not compile.
    """
    for target in targets:
        _clutch.check_target(target)
        if target.partition(":")[0] not in HBM_BYTES_PER_CYCLE:
            raise TargetError(f"schedules can be read for {', '.join(HBM_BYTES_PER_CYCLE)} topologies, as v5e:1x1; not for {target!r}")
    rows: list[Compared] = []
    for name, request in _captured(os.path.abspath(job), only):
        for target in targets:
            row = Compared(name, target)
            try:
                row.on, row.off = (_compile(request, target, rewrite) for rewrite in ("on", "off"))
            except (WorkFailed, WorkerDied) as error:
                row.error = str(error)
            rows.append(row)
            if not as_json:
                _progress(row)
    if as_json:
        click.echo(json.dumps([{**dataclasses.asdict(r), "ratio": r.ratio()} for r in rows], indent=2))
    else:
        _report(rows)
    if any(r.error is not None for r in rows):
        sys.exit(1)


def _captured(path: str, only: tuple[str, ...]) -> list[tuple[str, Request]]:
    """Name and request of each graph of the job."""
    worker, found = Worker(), []
    try:
        for index, (name, labels) in enumerate(worker.call("list", path)):
            if only and not any(part in name for part in only):
                continue
            for bucket, label in enumerate(labels):
                for request in worker.call("capture", path, index, bucket):
                    found.append((" ".join(filter(None, (name, label, request.phase))), request))
    except (WorkFailed, WorkerDied) as error:
        raise ClutchError(f"{path} cannot be used: {error}") from None
    finally:
        worker.close()
    return found


def _compile(request: Request, target: str, rewrite: str) -> Estimate:
    """The estimate of one program; libtpu dumps into a directory of its own process. Raises WorkFailed and WorkerDied."""
    with tempfile.TemporaryDirectory() as place:
        dumps = os.path.join(place, "dumps")
        os.mkdir(dumps)
        flags = f"{os.environ.get('LIBTPU_INIT_ARGS', '')} {DUMP_FLAGS.format(dumps)}".strip()
        cache = {"cache": True, "cache_dir": os.path.join(place, "cache"), "cache_shared": []}
        worker = Worker({"LIBTPU_INIT_ARGS": flags})
        try:
            worker.call("compile", request, settings_for({**request.settings, **cache, "rewrite": rewrite}, target))
        finally:
            worker.close()
        programs = read(dumps, target.partition(":")[0])
    if not programs:
        raise WorkFailed("libtpu dumped no schedule")
    # The program that lays out weights, if there is one, is compiled after the one that runs on each call.
    return programs[0]


def _progress(row: Compared) -> None:
    ratio = row.ratio()
    Console(stderr=True).print(f"{row.graph} for {row.target}: {'failed' if ratio is None else f'{ratio:.3f}'}", highlight=False)


def _report(rows: list[Compared]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table()
    table.add_column("graph", overflow="fold")
    table.add_column("target")
    for column in ("cycles, on", "cycles, off", "on / off", "kernels, on", "kernels, off"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        if row.on is None or row.off is None:
            table.add_row(row.graph, row.target, "[red]failed[/red]", "", "", "", "")
            continue
        figures = (f"{row.on.cycles:,}", f"{row.off.cycles:,}", f"{row.ratio():.3f}", str(row.on.kernels), str(row.off.kernels))
        table.add_row(row.graph, row.target, *figures)
    console.print(table)
    for row in rows:
        if row.error is not None:
            console.print(f"failed: {row.graph} for {row.target}: {row.error}", markup=False, highlight=False)
        for name, found in (("on", row.on), ("off", row.off)):
            if found is not None and (found.unknown or found.endless):
                lacks = f"{found.unknown} kernels without a schedule, {found.endless} loops of unknown length"
                console.print(f"{row.graph} for {row.target}, rewriting {name}: {lacks}", markup=False, highlight=False)
