"""docs/supported-models.md from results."""

import collections
from importlib.metadata import version

from op_coverage.report import plain

from .compare import FACTOR
from .drive import STAGES, Result
from .models import SOURCES
from .table import AGREES, OUTSIDE, RUNS

_HEAD = """# Supported models

Written by `make models`: {versions}.
Small instances with random weights, compiled with `torch.compile(model, backend="tpu")` (`fullgraph=True` where Dynamo can, with
graph breaks where it cannot) and compared with eager on CPU in float32: within 1e-4 of each tensor's largest value plus 1e-5. A result
out of that tolerance also passes where eager's own is out of it against float64 and ours is at most {factor:g} times as far from float64.
timm's families stand each for their smallest model; torchvision's models have their own widths and small images.

Training is one forward and backward pass in training mode without dropout: loss, gradients and buffers are compared.
Statuses: `passed`; `parts`: agrees with some operators run by eager, which are named; `random`: runs and draws random numbers, so that
types and sizes alone are compared; `breaks`: Dynamo breaks the graph, with its first reason; `uncaptured`: PyTorch's aot_eager
backend fails on it, too; `skipped`: eager does not run it. The latter two count in no figure.
"""


def _counted(results: list[Result], stage: str) -> list[dict]:
    return [r.stages[stage] for r in results if stage in r.stages and r.stages[stage]["status"] not in OUTSIDE]


def figures(results: list[Result]) -> str:
    """Totals by source and stage."""
    lines = [
        "| source | stage | eager runs | runs | agrees | with eager parts | random | with graph breaks |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for source in (*SOURCES, "all"):
        here = [r for r in results if source in (r.source, "all")]
        for stage in STAGES if here else ():
            counted = _counted(here, stage)
            statuses = collections.Counter(s["status"] for s in counted)
            runs, agrees = sum(statuses[s] for s in RUNS), sum(statuses[s] for s in AGREES)
            shares = [f"{n} ({100 * n / len(counted):.1f}%)" if counted else "0" for n in (runs, agrees)]
            counts = [len(counted), *shares, statuses["parts"], statuses["random"], sum(not s["whole"] for s in counted)]
            lines.append(f"| {source} | {stage} | " + " | ".join(str(c) for c in counts) + " |")
    return "\n".join(lines)


def _cell(stage: dict | None) -> str:
    if stage is None:
        return ""
    status = stage["status"] if stage["whole"] else f"{stage['status']}, breaks"
    # How far a mismatch is depends on the processor; which tensor, mostly not.
    detail = stage["detail"].partition(":")[0] if stage["status"] == "mismatch" else plain(stage["detail"])
    return f"{status}: {detail}" if detail else status


def document(results: list[Result], models: int) -> str:
    """The whole document of `models` models; the same for the same results."""
    versions = ", ".join(f"{name} {version(name).split('+')[0]}" for name in ("torch", *SOURCES))
    lines = [_HEAD.format(versions=versions, factor=FACTOR), figures(results), ""]
    counts = [sum(stage in r.stages for r in results) for stage in STAGES]
    if any(count < models for count in counts):
        ran = ", ".join(f"{count} in {stage}" for count, stage in zip(counts, STAGES, strict=True))
        lines += [f"Of {models} models {ran} are in this table; the others have not run yet.", ""]
    lines += ["| source | model | parameters | " + " | ".join(STAGES) + " |", "|---|---|--:|" + "---|" * len(STAGES)]
    for r in results:
        cells = " | ".join(_cell(r.stages.get(stage)) for stage in STAGES)
        lines.append(f"| {r.source} | {r.name} | {r.parameters} | {cells} |")
    return "\n".join(lines) + "\n"
