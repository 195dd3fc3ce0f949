"""``clutch inspect``: what a script compiles."""

import os
import runpy
import sys
import traceback

import click
from rich.console import Console
from rich.table import Table

from .. import inspection


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--graph/--no-graph", "show_graph", default=True, help="Print Clutch's graph after its passes.")
@click.option("--hlo/--no-hlo", "show_hlo", default=True, help="Print the HLO text that XLA is given.")
def inspect(script: str, arguments: tuple[str, ...], show_graph: bool, show_hlo: bool) -> None:
    """Run SCRIPT and print the graph, the HLO and statistics of every graph that it compiles.

    Arguments after SCRIPT are the script's own.
    """
    console = Console(soft_wrap=True)
    failure = None
    with inspection.recording() as records:
        failure = _run(script, arguments)
    for number, record in enumerate(records):
        console.rule(f"graph {number}: {record.phase}")
        if show_graph and record.statistics.get("graph_text"):
            console.print(record.statistics["graph_text"], highlight=False, markup=False)
        if show_hlo and record.statistics.get("hlo_text"):
            console.print(record.statistics["hlo_text"], highlight=False, markup=False)
        console.print(_statistics(record))
    graphs = "graph" if len(records) == 1 else "graphs"
    console.print(f"{len(records)} {graphs} compiled by {script}", highlight=False)
    if failure is not None:
        console.print(failure, style="red", highlight=False, markup=False)
        sys.exit(1)


def _run(script: str, arguments: tuple[str, ...]) -> str | None:
    """Runs the script as a program; the text of its failure, if it failed."""
    before_argv, before_path = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if stop.code not in (None, 0):
            return f"{script} exited with {stop.code}"
    except Exception:
        return f"{script} failed:\n{traceback.format_exc()}"
    finally:
        sys.argv, sys.path[:] = before_argv, before_path
    return None


def _statistics(record: inspection.Compiled) -> Table:
    s = record.statistics
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("FX nodes", str(record.fx_nodes))
    table.add_row("graph nodes", f"{s['nodes_before']} before the passes, {s['nodes_after']} after")
    table.add_row("HLO", f"{s['instructions']} instructions, {s['hlo_bytes']} bytes")
    for phase in ("lower", "passes", "emit", "compile"):
        table.add_row(f"{phase}", f"{s[f'{phase}_seconds'] * 1e3:.2f} ms")
    for name, micros, before, after in s.get("passes", []):
        table.add_row(f"  {name}", f"{micros / 1e3:.2f} ms, {before} to {after} nodes")
    for key in ("fingerprint", "code_bytes", "serialized_bytes"):
        table.add_row(key.replace("_", " "), str(s[key]))
    for key in ("memory", "cost_analysis"):
        value = s[key]
        if isinstance(value, dict):
            for name, number in value.items():
                table.add_row(f"{key.replace('_', ' ')}: {name.replace('_', ' ')}", str(number))
        else:
            table.add_row(key.replace("_", " "), str(value))
    return table
