"""``clutch buckets``: ladders from recorded sizes."""

from collections import Counter

import click
from rich.console import Console
from rich.table import Table

from .. import _clutch, recording
from ..errors import ClutchError
from ..suggestion import SMALLEST, suggest, waste

# Columns of the chart.
_WIDTH = 48


@click.group()
def buckets() -> None:
    """Ladders of buckets for the sizes that a job really has."""


@buckets.command("suggest")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option("--compiles", type=click.IntRange(1, 1000), default=8, show_default=True, help="Most programs to compile for a size.")
@click.option("--align", type=click.IntRange(1, 1024), default=8, show_default=True, help="Buckets are multiples of this.")
@click.option(
    "--exponent", type=click.FloatRange(0.1, 4), default=1.0, show_default=True, help="Work grows as size ** this: 2 for attention."
)
@click.option("--size", "chosen", help="Only this size, as NAME:AXIS.")
def suggest_command(file: str, compiles: int, align: int, exponent: float, chosen: str | None) -> None:
    """Print the ladder with the least expected work for the sizes in FILE.

    Record sizes first: run the job with CLUTCH_RECORD_SIZES=FILE and dynamic sizes.
    """
    recorded = recording.read(file)
    if chosen is not None and chosen not in recorded:
        raise ClutchError(f"{file} has no size {chosen!r}; it has {', '.join(sorted(recorded)) or 'none'}")
    if not recorded:
        raise ClutchError(f"{file} has no sizes; run the job with {recording.VARIABLE}={file} and dynamic sizes")
    console = Console()
    ladders: dict[str, list[int]] = {}
    for label in [chosen] if chosen else sorted(recorded):
        calls = Counter({value: count for value, count in recorded[label].items() if value > SMALLEST})
        if not calls:
            console.print(f"{label}: no size above {SMALLEST}; such sizes are compiled exactly", highlight=False)
            continue
        ladders[label] = suggest(calls, compiles, align=align, exponent=exponent)
        console.print(_table(label, calls, ladders[label], exponent))
        console.print(_chart(calls, ladders[label]), highlight=False, markup=False)
    if ladders:
        console.print(f'options={{"buckets": {ladders | {"*": "auto"}}}}', highlight=False, markup=False, soft_wrap=True)


def _table(label: str, calls: Counter[int], suggested: list[int], exponent: float) -> Table:
    table = Table(title=f"{label}: {calls.total()} calls, sizes {min(calls)} to {max(calls)}")
    for column in ("ladder", "programs", "padding", "work"):
        table.add_column(column, justify="left" if column == "ladder" else "right")
    exact = sum(size**exponent * count for size, count in calls.items())
    texts = {"exact": "exact", "pow2": "pow2", "auto": "auto", "suggested": ",".join(map(str, suggested))}
    for name, text in texts.items():
        bucket = {size: _clutch.ladder_bucket(text, size) for size in calls}
        work = sum(bucket[size] ** exponent * count for size, count in calls.items()) / exact
        table.add_row(name, str(len(set(bucket.values()))), f"{waste(calls, bucket):.1%}", f"{work:.3f}")
    return table


def _chart(calls: Counter[int], suggested: list[int]) -> str:
    """Calls that each suggested bucket serves."""
    bucket = {size: _clutch.ladder_bucket(",".join(map(str, suggested)), size) for size in calls}
    served = {rung: sum(count for size, count in calls.items() if bucket[size] == rung) for rung in suggested}
    most = max(served.values())
    return "\n".join(f"{rung:>8}  {'█' * max(1, round(count / most * _WIDTH))} {count}" for rung, count in served.items())
