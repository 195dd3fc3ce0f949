"""``clutch warmup``: compiles ahead of time what a job will need, also for devices that are not here."""

import dataclasses
import json
import os
import sys
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from .. import _clutch
from .._warmup_pool import CaptureTask, Pool, Row, Worker, WorkerDied, WorkFailed, each, settings_for
from ..errors import CacheError, ClutchError, TargetError
from ..options import Options
from .cache import human

INTERRUPTED = 130


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
@click.argument("job", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--target", "targets", multiple=True, help="Compile for this: cpu, tpu, auto, or a topology as v5e:2x2. Repeatable.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, help="Worker processes at a time.")
@click.option("--record", is_flag=True, help="JOB is a plain script: run it with its ARGUMENTS and compile what it compiles.")
@click.option("--json", "as_json", is_flag=True, help="Print the closing table as JSON.")
def warmup(job: str, arguments: tuple[str, ...], targets: tuple[str, ...], jobs: int, record: bool, as_json: bool) -> None:
    """Compile everything that JOB needs into the cache, for targets that need not be here.

    JOB is a Python file whose clutch_warmup() yields torch_clutch.warmup.Model objects; nothing is executed. Ctrl-C
    keeps what is finished, and running the command again continues. Exits with 1 when something failed or does not fit
    its device.
    """
    if arguments and not record:
        raise click.UsageError(f"unexpected arguments {' '.join(arguments)}; only scripts run with --record take arguments")
    names = list(dict.fromkeys(targets)) or [Options.read().target]
    for name in names:
        _clutch.check_target(name)
    settings = _settings()
    console = Console(stderr=True)
    try:
        limits = _limits(names, settings)
        rows, interrupted = _run(_captures(job, arguments, record, console), names, jobs, console)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    if as_json:
        click.echo(json.dumps([_as_dict(r, limits) for r in rows], indent=2))
    else:
        _report(rows, limits, settings)
    if interrupted:
        console.print("interrupted; what is finished is in the cache, and running the command again continues", highlight=False)
        sys.exit(INTERRUPTED)
    if any(r.error is not None or not _fits(r, limits) for r in rows):
        sys.exit(1)


def _settings() -> dict[str, Any]:
    """Settings for asking about devices. The cache must be usable: without it nothing would be kept."""
    options = Options.read()
    cache = options.cache_settings()
    if not cache["cache"]:
        raise CacheError("the cache is off (CLUTCH_CACHE), so a warm-up has nowhere to put what it compiles")
    _clutch.cache_stats(cache)
    return options.for_rust(inference=True)


def _limits(targets: list[str], settings: dict[str, Any]) -> dict[str, int | None]:
    """Memory in bytes of a device of each target; raises TargetError for those that cannot be had, before any work."""
    worker = Worker()
    try:
        found, errors = each(worker, targets, lambda t: ("probe", settings_for(settings, t)))
    finally:
        worker.close()
    if errors:
        raise TargetError("\n".join(f"target {name}: {text}" for name, text in errors.items()))
    return {name: info["memory_bytes"] for name, info in found.items()}


def _captures(job: str, arguments: tuple[str, ...], record: bool, console: Console) -> list[CaptureTask]:
    path = os.path.abspath(job)
    if record:
        return [CaptureTask(os.path.basename(job), "", ("record", path, list(arguments)))]
    worker = Worker()
    try:
        with console.status(f"importing {job}"):
            models = worker.call("list", path)
    except (WorkFailed, WorkerDied) as error:
        raise ClutchError(f"{job} cannot be used: {error}") from None
    finally:
        worker.close()
    if not models:
        raise ClutchError(f"clutch_warmup() of {job} yields no models")
    return [
        CaptureTask(name, label, ("capture", path, index, bucket))
        for index, (name, labels) in enumerate(models)
        for bucket, label in enumerate(labels)
    ]


def _run(captures: list[CaptureTask], targets: list[str], jobs: int, console: Console) -> tuple[list[Row], bool]:
    """Does the work under a progress bar; the rows, and whether it was interrupted."""
    rows: list[Row] = []
    pool = Pool(jobs, targets, captures)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("warming up", total=len(captures) * (1 + len(targets)))
        waiting, found = len(captures), 0
        try:
            pool.start()
            while (event := pool.events.get())[0] != "end":
                kind, value = event
                if kind == "captured":
                    waiting -= 1
                    found += value
                    # Captures to come are taken to find one graph for each target.
                    progress.update(task, total=len(captures) + found + waiting * len(targets))
                    progress.advance(task)
                else:
                    rows.append(value)
                    if value.target:
                        progress.update(task, description=f"{value.model} for {value.target}")
                        progress.advance(task)
        except KeyboardInterrupt:
            return sorted(rows, key=_order), True
        finally:
            pool.stop()
    return sorted(rows, key=_order), False


def _order(row: Row) -> tuple[Any, ...]:
    return (row.model, len(row.bucket), row.bucket, row.graph, row.target)


def _fits(row: Row, limits: dict[str, int | None]) -> bool:
    limit, use = limits.get(row.target), row.memory()
    return limit is None or use is None or use <= limit


def _as_dict(row: Row, limits: dict[str, int | None]) -> dict[str, Any]:
    info = dataclasses.asdict(row)
    info |= {"memory_bytes": row.memory(), "memory_limit": limits.get(row.target), "fits": _fits(row, limits)}
    return info


def _report(rows: list[Row], limits: dict[str, int | None], settings: dict[str, Any]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    made = Table()
    for column in ("graph", "bucket", "target"):
        made.add_column(column, overflow="fold")
    for column in ("seconds", "size", "flops", "bytes", "device memory"):
        made.add_column(column, justify="right", no_wrap=True)
    failures = []
    for row in rows:
        name = f"{row.model} {row.graph}".strip() + (f" in bucket {row.sizes}" if row.sizes else "")
        if row.error is not None:
            failures.append((f"{name} {row.bucket} {row.target}".strip(), row.error))
            made.add_row(name, row.bucket, row.target, "[red]failed[/red]", "", "", "", "")
            continue
        seconds = "cached" if row.cached else f"{row.seconds:.2f}"
        size = sum(float(p["serialized_bytes"]) for p in (row.main, row.weights or {}) if "serialized_bytes" in p)
        flops, moved = row.number("flops"), row.number("bytes accessed")
        made.add_row(
            name,
            row.bucket,
            row.target,
            seconds,
            human(size),
            "" if flops is None else f"{flops:.3g}",
            "" if moved is None else human(moved),
            _memory(row, limits),
        )
    console.print(made)
    for name, text in failures:
        console.print(f"[red]failed[/red]: {name}: ", end="", highlight=False)
        console.print(text, markup=False, highlight=False)
    done = [r for r in rows if r.error is None]
    cached = sum(r.cached for r in done)
    console.print(
        f"{len(done) - cached} graphs compiled, {cached} were in the cache, {len(failures)} failed; cache: {settings['cache_dir']}",
        highlight=False,
        soft_wrap=True,
    )


def _memory(row: Row, limits: dict[str, int | None]) -> str:
    use, limit = row.memory(), limits.get(row.target)
    if use is None:
        return ""
    if not limit:
        return human(use)
    text = f"{human(use)} of {human(limit)} ({use / limit:.0%})"
    return text if use <= limit else f"[red]{text}, does not fit[/red]"
