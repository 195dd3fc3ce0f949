"""The command ``clutch``."""

import click

from .. import __version__
from .doctor import doctor
from .inspect import inspect


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="clutch")
def main() -> None:
    """Clutch: torch.compile(model, backend="tpu") for TPUs and any other PJRT device.

    Start with `clutch doctor`, which checks the installation.
    """


main.add_command(doctor)
main.add_command(inspect)
