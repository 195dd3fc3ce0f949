"""Steady latency of compiled models beside Inductor and eager, and the overhead of a call.

The alternatives take turns in one process; figures are medians. Run it with nothing else on the machine.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "examples")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from do_nothing import do_nothing
from rich.console import Console
from rich.table import Table
from torch import nn

import quickstart
import torch_clutch


def seconds(run: Callable[[], object], calls: int) -> float:
    """Mean time of one of `calls` calls."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def in_turn(runs: dict[str, Callable[[], object]], rounds: int, calls: int = 1) -> dict[str, float]:
    """Median seconds of each alternative; in each round all of them run once."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        seconds(run, max(3, calls))
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds(run, calls))
    return {name: statistics.median(t) for name, t in times.items()}


def mlp(width: int = 256, layers: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU()))).eval()


class Additions(nn.Module):
    """As many parameters and launches as the MLP, next to no arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.terms = nn.ParameterList([torch.randn(256) for _ in range(6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for term in self.terms:
            x = x + term
        return x


def models(names: list[str], rounds: int) -> list[dict]:
    rows = []
    for name in names:
        torch.manual_seed(0)
        model, inputs = quickstart.MODELS[name]()
        model.eval()
        runs = {"eager": model, "inductor": torch.compile(model), "clutch": torch.compile(model, backend="tpu")}
        with torch.no_grad():
            times = in_turn({k: lambda f=f, x=inputs: f(*x) for k, f in runs.items()}, rounds)
        rows.append({"model": name, **times})
        torch._dynamo.reset()
    return rows


def overhead(rounds: int) -> list[dict]:
    x, rows = torch.randn(8, 256), []
    with torch.no_grad():
        for name, make in {"MLP of three 256-wide layers, batch 8": mlp, "six additions of 8 x 256": Additions}.items():
            result = [make()(x)]
            runs = {
                "do-nothing": torch.compile(make(), backend=do_nothing(result)),
                "eager": make(),
                "clutch": torch.compile(make(), backend="tpu"),
            }
            rows.append({"model": name, **in_turn({k: lambda f=f: f(x) for k, f in runs.items()}, rounds, 200)})
            torch._dynamo.reset()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="calls of each alternative (default: 50)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    arguments = parser.parse_args()
    console = Console()
    steady = models(list(quickstart.MODELS), arguments.rounds)
    calls = overhead(arguments.rounds)
    table = Table("model", "eager", "Inductor", "Clutch", "of Inductor", title="steady latency, inference, float32")
    for r in steady:
        ratio = f"{r['clutch'] / r['inductor']:.2f}"
        table.add_row(r["model"], *(f"{r[k] * 1e3:.1f} ms" for k in ("eager", "inductor", "clutch")), ratio)
    console.print(table)
    table = Table("program", "eager", "do-nothing", "Clutch", "above do-nothing", title="one call")
    for r in calls:
        above = f"{(r['clutch'] - r['do-nothing']) * 1e6:.1f} us"
        table.add_row(r["model"], *(f"{r[k] * 1e6:.1f} us" for k in ("eager", "do-nothing", "clutch")), above)
    console.print(table)
    versions = f"torch {torch.__version__}, torch-clutch {torch_clutch.__version__}"
    console.print(f"medians of {arguments.rounds}; {torch.get_num_threads()} threads; {versions}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"steady": steady, "calls": calls}, indent=2))


if __name__ == "__main__":
    main()
