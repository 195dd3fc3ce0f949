"""Status of one sample."""

import re
from typing import Any

import torch

from torch_clutch.errors import UnsupportedError

from .compare import Tolerances, as_accurate, difference
from .samples import Sample

# Contents are undefined by contract: sizes and types are compared, values are not.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_"}
# What PyTorch says of sizes and Python values that depend on the contents of tensors.
DATA_DEPENDENT = re.compile(r"data.dependent|DynamicOutputShape|dynamic shape|\.item\(\)|_local_scalar_dense|\bu\d+\b", re.IGNORECASE)

# What Clutch says of the same.
BY_CONTENTS = re.compile(r"depends on data|_local_scalar_dense")


def first_line(error: BaseException) -> str:
    """The error's type and the start of its text on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"[:300]


def missing_operators(text: str) -> str:
    """What an `UnsupportedError` names: `operator: reason` without the places in the user's code."""
    found = re.findall(r"^ {2}(\S+) \(node \S+\)(?: at .*)?: ([^:\n]+)$", text, flags=re.MULTILINE)
    return "; ".join(sorted({f"{op}: {reason.strip()}" for op, reason in found}))


def _by_contents(detail: str) -> bool:
    """Whether what is missing depends on contents: Clutch says so, or PyTorch does of each operator named."""
    found = re.findall(r"(\w+)\.(\w+)\.(\w+): ", detail)
    tags = [getattr(getattr(getattr(getattr(torch.ops, n), o), v, None), "tags", ()) for n, o, v in found if hasattr(torch.ops, n)]
    return bool(BY_CONTENTS.search(detail)) or (bool(tags) and all(torch.Tag.dynamic_output_shape in t for t in tags))


def unsupported(error: BaseException | None) -> BaseException | None:
    """The `UnsupportedError` behind an error."""
    while error is not None and not isinstance(error, UnsupportedError):
        error = error.__cause__ or getattr(error, "inner_exception", None)
    return error


def check(sample: Sample, tol: Tolerances) -> tuple[str, str]:
    """Status of the sample and its detail.

    `passed`; `mismatch`, `unsupported` or `error`: Clutch's failures; `uncaptured`: aot_eager with fullgraph fails, too;
    `data-dependent`: sizes or Python values depend on contents, and the sample agrees with parts run by eager, or aot_eager fails;
    `skipped`: eager fails.
    """
    f = sample.function()
    try:
        expected = sample.run(f)
        again = sample.run(f)
    except Exception as error:
        return "skipped", first_line(error)
    values = sample.op.name not in UNDEFINED and difference(again, expected, True, {"rtol": 0, "atol": 0}) is None and not sample.draws()
    torch._dynamo.reset()
    try:
        found = sample.run(torch.compile(f, backend="tpu", fullgraph=True, dynamic=False, options={"fallback": "error"}))
        wrong = difference(found, expected, values, tol)
        if wrong is None or (values and as_accurate(sample, found, expected, tol)):
            return "passed", ""
        status, detail = "mismatch", wrong
    except Exception as error:
        cause = unsupported(error)
        if cause is not None or "cannot be compiled" in str(error):
            status, detail = "unsupported", missing_operators(str(cause or error)) or first_line(error)
        else:
            status, detail = "error", first_line(error)
    if status == "unsupported" and _by_contents(detail):
        status, detail = _with_eager_parts(sample, expected, values, tol, detail)
    if status == "data-dependent":
        return status, detail
    return _yardstick(sample, expected, values, tol) or (status, detail)


def _with_eager_parts(sample: Sample, expected: list[Any], values: bool, tol: Tolerances, reason: str) -> tuple[str, str]:
    """Status of a sample that cannot be one program because of its contents, compiled with parts run by eager."""
    torch._dynamo.reset()
    try:
        found = sample.run(torch.compile(sample.function(), backend="tpu", fullgraph=True, dynamic=False))
    except Exception as error:
        return "error", first_line(error)
    wrong = difference(found, expected, values, tol)
    return ("mismatch", wrong) if wrong else ("data-dependent", reason)


def _yardstick(sample: Sample, expected: list[Any], values: bool, tol: Tolerances) -> tuple[str, str] | None:
    """Status of a sample that aot_eager with fullgraph fails; None where it passes."""
    torch._dynamo.reset()
    try:
        found = sample.run(torch.compile(sample.function(), backend="aot_eager", fullgraph=True, dynamic=False))
    except Exception as error:
        status = "data-dependent" if DATA_DEPENDENT.search(f"{type(error).__name__} {error}") else "uncaptured"
        return status, first_line(error)
    wrong = difference(found, expected, values, tol)
    return ("uncaptured", f"aot_eager differs: {wrong}") if wrong else None
