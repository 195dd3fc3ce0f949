"""``clutch doctor``: is everything in place?"""

import importlib.metadata
import os
import platform
import sys

import click
import torch
from rich.console import Console
from rich.table import Table

from .. import __version__, _clutch
from ..errors import ClutchError
from ..options import PREFIX, Options

PLUGIN_PACKAGES = ("lammps-jax-pjrt-cpu", "fastatomstruct-xla-cpu", "libtpu")


@click.command()
@click.option("--target", default=None, help="Check this target too, as v5e:2x2 (needs libtpu; no TPU needed).")
def doctor(target: str | None) -> None:
    """Show plugins, versions, devices and the options in force, and run a self-test.

    Exits with 1 when something is wrong; every problem comes with what to do.
    """
    console = Console()
    problems: list[str] = []
    console.print(_versions())
    options = None
    try:
        options = Options.read()
        console.print(_options(options))
    except ClutchError as error:
        problems.append(str(error))
    if options is not None:
        for name in dict.fromkeys([options.target, *([target] if target else [])]):
            try:
                console.print(_device(name, options))
            except ClutchError as error:
                problems.append(f"target {name}: {error}")
        if not problems:
            problems += _self_test()
    for problem in problems:
        console.print(f"[red]problem[/red]: {problem}", highlight=False)
    if problems:
        sys.exit(1)
    console.print("self-test passed: a compiled function, its gradient and its random numbers are right")


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _versions() -> Table:
    table = _table("versions")
    table.add_row("torch-clutch", __version__)
    table.add_row("PyTorch", torch.__version__)
    table.add_row("Python", f"{platform.python_version()} on {platform.machine()}")
    for package in PLUGIN_PACKAGES:
        try:
            table.add_row(package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            hint = " (optional: pip install torch-clutch\\[tpu])" if package == "libtpu" else ""
            table.add_row(package, f"not installed{hint}")
    return table


def _options(options: Options) -> Table:
    table = _table("options in force (option, value, where from)")
    table.add_column()
    for name in options.__dataclass_fields__:
        variable = PREFIX + name.upper()
        source = variable if variable in os.environ else "default"
        table.add_row(name, str(getattr(options, name)), source)
    return table


def _device(target: str, options: Options) -> Table:
    info = _clutch.device_info({**options.for_rust(inference=True), "target": target})
    table = _table(f"target {target}")
    for key in ("plugin", "api_version", "platform", "platform_version", "device_kind", "devices", "topology"):
        if info[key] != "":
            table.add_row(key.replace("_", " "), str(info[key]))
    return table


def _self_test() -> list[str]:
    """Problems found by compiling and running a small function."""
    problems = []

    @torch.compile(backend="tpu", fullgraph=True)
    def step(x, w):
        return torch.nn.functional.gelu(x @ w).sum()

    @torch.compile(backend="tpu", fullgraph=True)
    def draw():
        return torch.rand(1000)

    try:
        x, w = torch.randn(4, 8), torch.randn(8, 3, requires_grad=True)
        expected = torch.nn.functional.gelu(x @ w).sum()
        (expected_grad,) = torch.autograd.grad(expected, w)
        result = step(x, w)
        (grad,) = torch.autograd.grad(result, w)
        if not (torch.allclose(result, expected, rtol=1e-4) and torch.allclose(grad, expected_grad, rtol=1e-4, atol=1e-5)):
            problems.append("the self-test's results differ from eager; please report this with `clutch doctor`'s output")
        if torch.equal(draw(), draw()):
            problems.append("two calls of a random function gave the same numbers; please report this")
    except Exception as error:
        problems.append(f"the self-test failed: {error}")
    return problems
