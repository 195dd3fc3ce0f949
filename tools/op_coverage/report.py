"""docs/supported-ops.md from results."""

import collections
import re

from .drive import Result
from .table import COLUMNS, FAILURES, OUTSIDE, column_name

_SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64", "int64": "i64", "int32": "i32", "bool": "bool"}
_HEAD = """# Supported operators

Written by `make coverage`. PyTorch's operator database (`op_db`, PyTorch {version}) compiled with
`torch.compile(fn, fullgraph=True, backend="tpu")` and no fallback, compared with eager on CPU in the operator's own tolerances.
{samples} A result out of tolerance also passes where it is as near to the result in float64 as eager's, up to a factor of two.
An entry counts where at least one sample passes under `aot_eager` with fullgraph, and passes where all such samples pass. Samples
whose sizes or Python values depend on the contents of tensors are counted apart.
"""


def standing(result: Result) -> str:
    """The entry's worst failure, `passed`, or why it is outside the yardstick."""
    statuses = {s["status"] for s in result.samples}
    for status in (*FAILURES, "passed", *OUTSIDE):
        if status in statuses:
            return status
    return "skipped"


def figures(results: list[Result]) -> str:
    """The table of figures by type and direction."""
    lines = ["| type | passed | of | share | samples passed | of | data-dependent | uncaptured |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for dtype, backward in COLUMNS:
        here = [r for r in results if (r.dtype, r.backward) == (dtype, backward)]
        if not here:
            continue
        entries = collections.Counter(standing(r) for r in here)
        samples = collections.Counter(s["status"] for r in here for s in r.samples)
        of = sum(entries[s] for s in (*FAILURES, "passed"))
        of_samples = sum(samples[s] for s in (*FAILURES, "passed"))
        share = f"{100 * entries['passed'] / of:.1f}%" if of else ""
        counts = [entries["passed"], of, share, samples["passed"], of_samples, samples["data-dependent"], samples["uncaptured"]]
        lines.append(f"| {column_name(dtype, backward)} | " + " | ".join(str(c) for c in counts) + " |")
    return "\n".join(lines)


def plain(detail: str) -> str:
    """A detail without what varies between runs and machines, fit for a cell."""
    detail = re.sub(r"0x[0-9a-f]+", "0x…", " ".join(detail.split()))
    detail = re.sub(r"(/[\w.+-]+){2,}", "…", detail)
    # Sizes of differences depend on the processor's vector width.
    detail = (
        re.sub(r"Mismatched elements: .*|Greatest .*|Expected .* but got .*", "values differ", detail) if "result " in detail else detail
    )
    return detail.replace("|", "\\|").replace("<", "&lt;").strip()[:160]


def _names(cells: list[tuple[str, bool]]) -> str:
    return ", ".join(_SHORT[d] + (" backward" if b else "") for d, b in COLUMNS if (d, b) in cells)


def document(results: list[Result], most: int, version: str) -> str:
    """The whole document; the same for the same results in any order."""
    samples = "Every sample of every entry." if most == 0 else f"Up to {most} samples of each entry, spread over all of them."
    by_op: dict[str, list[Result]] = collections.defaultdict(list)
    for result in sorted(results, key=lambda r: (r.op, COLUMNS.index((r.dtype, r.backward)))):
        by_op[result.op].append(result)
    lines = [_HEAD.format(version=version, samples=samples), figures(results), "", "| entry | passes | does not pass |", "|---|---|---|"]
    for op in sorted(by_op):
        passed = [(r.dtype, r.backward) for r in by_op[op] if standing(r) == "passed"]
        why: dict[str, list[tuple[str, bool]]] = collections.defaultdict(list)
        for r in by_op[op]:
            status = standing(r)
            if status == "passed":
                continue
            bad = [s for s in r.samples if s["status"] == status]
            detail = plain(bad[0]["detail"]) if bad else ""
            why[f"{status} ({len(bad)} of {len(r.samples)}): {detail}" if detail else status].append((r.dtype, r.backward))
        reasons = "; ".join(f"{_names(cells)}: {reason}" for reason, cells in why.items())
        lines.append(f"| {op} | {_names(passed)} | {reasons} |")
    return "\n".join(lines) + "\n"
