"""The command ``clutch``."""

import importlib
import sys
from typing import Any

import click

from .. import __version__
from ..errors import ClutchError

COMMANDS = {
    "buckets": "Suggest ladders of buckets from the sizes that a job has.",
    "cache": "Look at the compile cache, check it, and move entries between machines.",
    "doctor": "Show plugins, versions, devices and the options in force, and run a self-test.",
    "estimate": "Compare the TPU compiler's schedules of a job's graphs with rewriting on and off.",
    "inspect": "Run a script and print the graphs, the HLO and statistics of what it compiles.",
    "warmup": "Compile everything that a job will need, ahead of time, also for devices that are not here.",
}


class Commands(click.Group):
    """Commands imported at first use, since some need PyTorch; errors of Clutch are shown without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return getattr(importlib.import_module(f".{cmd_name}", __name__), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ClutchError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(1)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="clutch")
def main() -> None:
    """Clutch: torch.compile(model, backend="tpu") for TPUs and any other PJRT device.

    Start with `clutch doctor`, which checks the installation.
    """
