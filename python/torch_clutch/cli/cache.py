"""``clutch cache``: what the compile cache holds, its verification, and bundles."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from .. import _clutch
from ..options import Options

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
AGES = ((86400, "d"), (3600, "h"), (60, "min"))

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


@click.group()
@click.option("--dir", "directory", metavar="DIR", help="Directory of the cache; default: CLUTCH_CACHE_DIR, else the user's.")
@click.pass_context
def cache(ctx: click.Context, directory: str | None) -> None:
    """Look at the compile cache, check it, and move entries between machines."""
    ctx.obj = Options.read({"cache_dir": directory} if directory else {}).cache_settings()


def human(size: float) -> str:
    """A size in bytes for people, as ``1.5 MiB``."""
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def read_size(text: str) -> int:
    """The bytes that ``500M``, ``2GiB`` or ``1000000`` mean; units are powers of 1024.

    Raises ValueError for anything else.
    """
    word = text.strip().upper().removesuffix("IB").removesuffix("B")
    power = "KMGT".find(word[-1:]) + 1 if word[-1:] else 0
    number = float(word[:-1] if power else word)
    if not 0 <= number < float("inf"):
        raise ValueError(text)
    return int(number * 1024**power)


class Size(click.ParamType):
    """A size in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return read_size(value)
        except ValueError:
            self.fail(f"{value!r} is no size; write it as 500M, 2G or a number of bytes", param, ctx)


def age(seconds: float) -> str:
    """A duration for people, as ``3 h``."""
    for length, unit in AGES:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def show(info: Any) -> None:
    """Prints JSON."""
    click.echo(json.dumps(info, indent=2, default=str))


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table whose first line names the columns; those in ``right`` hold numbers."""
    made = Table()
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold", no_wrap=column in right)
    return made


class Progressing:
    """A progress bar on the terminal; nothing where the error stream is none."""

    def __init__(self, text: str) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.progress.add_task(text, total=None)

    def __enter__(self) -> Callable[[int, int], None]:
        self.progress.start()
        return lambda done, total: self.progress.update(self.task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self.progress.stop()


@cache.command()
@as_json
@click.pass_obj
def stats(settings: dict[str, Any], as_json: bool) -> None:
    """How much the cache holds, and its bound."""
    info = _clutch.cache_stats(settings)
    if as_json:
        show(info)
        return
    console = Console()
    made = table("kind", "entries", "size", right=("entries", "size"))
    made.add_row("graphs", str(info["graph_entries"]), human(info["graph_bytes"]))
    made.add_row("executables", str(info["executable_entries"]), human(info["executable_bytes"]))
    total = info["graph_bytes"] + info["executable_bytes"]
    made.add_row("all", str(info["graph_entries"] + info["executable_entries"]), human(total), style="bold")
    if info["temporaries"]:
        made.add_row("being written, or left by dead writers", str(info["temporaries"]), human(info["temporary_bytes"]))
    console.print(made)
    share = total / info["max_bytes"] if info["max_bytes"] else 0
    console.print(f"bound: {human(info['max_bytes'])} ({share:.0%} used)", highlight=False)
    there = "" if info["exists"] else " (not there yet: nothing was compiled)"
    console.print(f"directory: {info['directory']}{there}", highlight=False, soft_wrap=True)
    for shared in info["shared"]:
        console.print(f"shared directory, read-only: {shared}", highlight=False, soft_wrap=True)


@cache.command()
@click.option("--kind", type=click.Choice(["graph", "exec"]), help="Only entries of this kind.")
@click.option("--sort", type=click.Choice(["used", "size", "key"]), default="used", help="Order; the first is the default.")
@as_json
@click.pass_obj
def ls(settings: dict[str, Any], kind: str | None, sort: str, as_json: bool) -> None:
    """List the entries."""
    entries, unreadable = _clutch.cache_ls(settings)
    orders = {"used": lambda e: -e["last_used"], "size": lambda e: -e["file_bytes"], "key": lambda e: e["key"]}
    entries = sorted((e for e in entries if kind in (None, e["kind"])), key=orders[sort])
    if as_json:
        show({"entries": entries, "unreadable": unreadable})
        return
    console = Console()
    made = table("key", "kind", "size", "used", "device", "what", right=("size", "used"))
    now = time.time()
    for e in entries:
        fields = dict(e["fields"])
        device = fields.get("device_kind", "").strip('"') or fields.get("platform", "").strip('"')
        made.add_row(e["key"][:12], e["kind"], human(e["file_bytes"]), age(now - e["last_used"]), device, _what(e))
    console.print(made)
    console.print(f"{len(entries)} entries, {human(sum(e['file_bytes'] for e in entries))}", highlight=False)
    if unreadable:
        console.print(f"{unreadable} files cannot be read; `clutch cache verify` says why", style="yellow")


def _what(entry: dict[str, Any]) -> str:
    metadata = entry["metadata"]
    parts = [f"{metadata['instructions']} instructions"] if "instructions" in metadata else []
    parts += [f"{metadata['label']} program"] if "label" in metadata else []
    parts += [f"compiled in {metadata['compile_seconds']} s"] if "compile_seconds" in metadata else []
    if entry["layer"] != "local":
        parts.append(entry["layer"])
    return ", ".join(parts)


@cache.command()
@click.option("--repair", is_flag=True, help="Remove bad entries from the local directory; they are compiled again when needed.")
@as_json
@click.pass_obj
def verify(settings: dict[str, Any], repair: bool, as_json: bool) -> None:
    """Read and check every entry. Exits with 1 when some are bad and were not removed."""
    with Progressing("checking") as progress:
        info = _clutch.cache_verify(settings, repair, progress)
    left = [b for b in info["bad"] if not b["removed"]]
    if as_json:
        show(info)
    else:
        console = Console()
        for b in info["bad"]:
            note = " (removed)" if b["removed"] else ""
            console.print(f"{b['path']}: {b['problem']}{note}", highlight=False, markup=False, soft_wrap=True)
        console.print(f"{info['good']} entries are good ({human(info['good_bytes'])}), {len(info['bad'])} bad", highlight=False)
        if left and not repair:
            console.print("run `clutch cache verify --repair` to remove the bad ones; they are never loaded", highlight=False)
        elif left:
            console.print(
                "what is left is not the cache's to remove (other users' files, later versions, strays, shared "
                "directories); it is never loaded: delete it by hand if it is not wanted",
                highlight=False,
            )
    if left:
        sys.exit(1)


@cache.command()
@click.option("--to", "size", type=Size(), help="Keep at most this much, as 500M or 2G; default: the cache's bound.")
@click.option("--all", "everything", is_flag=True, help="Remove every entry.")
@as_json
@click.pass_obj
def prune(settings: dict[str, Any], size: int | None, everything: bool, as_json: bool) -> None:
    """Remove the least recently used entries, and what dead processes left behind."""
    if everything and size is not None:
        raise click.UsageError("give --to or --all, not both")
    info = _clutch.cache_prune(settings, 0 if everything else settings["cache_bytes"] if size is None else size)
    if as_json:
        show(info)
        return
    left = f"{info['remaining']} entries left ({human(info['remaining_bytes'])})"
    click.echo(f"removed {info['removed']} entries ({human(info['removed_bytes'])}); {left}")


@cache.command("export")
@click.argument("file", type=click.Path(dir_okay=False, writable=True))
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="Only this entry, and the executables of a graph; a prefix will do. Repeatable.",
)
@as_json
@click.pass_obj
def export(settings: dict[str, Any], file: str, keys: tuple[str, ...], as_json: bool) -> None:
    """Write entries to one FILE, for `clutch cache import` on another machine."""
    with Progressing("exporting") as progress:
        info = _clutch.cache_export(settings, file, list(keys), progress)
    if as_json:
        show(info)
    else:
        click.echo(f"wrote {info['exported']} entries ({human(info['bytes'])}) to {file}")
        if info["skipped"]:
            click.echo(f"left out {info['skipped']} bad entries; see `clutch cache verify`", err=True)


@cache.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@as_json
@click.pass_obj
def import_(settings: dict[str, Any], file: str, as_json: bool) -> None:
    """Read the entries of FILE into the cache. Entries are code: import only files that you trust.

    Exits with 1 when entries were damaged or could not be written; the others are kept.
    """
    with Progressing("importing") as progress:
        info = _clutch.cache_import(settings, file, progress)
    if as_json:
        show(info)
    else:
        click.echo(f"imported {info['imported']} entries ({human(info['bytes'])}); {info['present']} were there already")
    problems = [
        (info["corrupt"], "damaged entries were left out: copy the file anew"),
        (info["future_version"], "entries of a later format were left out: use the Clutch version that wrote them"),
        (info["failed"], f"entries could not be written to {settings['cache_dir']}: is the disk full or read-only?"),
        (not info["complete"], "the file is cut off or damaged; the entries before that were imported: copy it anew"),
    ]
    for count, text in problems:
        if count:
            click.echo(text if count is True else f"{count} {text}", err=True)
    if any(count for count, _ in problems):
        sys.exit(1)


@cache.command()
@click.argument("key")
@click.argument("other", required=False)
@as_json
@click.pass_obj
def explain(settings: dict[str, Any], key: str, other: str | None, as_json: bool) -> None:
    """What the entry KEY depends on, and how it differs from OTHER (default: the nearest entry).

    Prefixes of keys will do.
    """
    info = _clutch.cache_explain(settings, key, other)
    if as_json:
        show(info)
        return
    console = Console()
    made = table("field", "value")
    for name, value in info["entry"]["fields"]:
        made.add_row(name, value)
    for name, value in sorted(info["entry"]["metadata"].items()):
        made.add_row(f"({name})", value)
    console.print(made)
    if info["other"] is None:
        console.print("there is no other entry of this kind to compare with")
        return
    theirs = info["other"]["key"][:12]
    which = "the entry" if other else "the nearest entry"
    if not info["differences"]:
        console.print(f"{which} {theirs} has the same fields", highlight=False)
        return
    made = table("differs in", info["entry"]["key"][:12], theirs)
    for name, ours, value in info["differences"]:
        made.add_row(name, ours or "absent", value or "absent")
    console.print(f"{which} {theirs} differs in {len(info['differences'])} fields, the first is {info['differences'][0][0]}:")
    console.print(made)
