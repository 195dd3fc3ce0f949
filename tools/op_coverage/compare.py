"""Whether results agree with eager's."""

from typing import Any

import torch
from torch.testing._internal.common_device_type import toleranceOverride

from .samples import Sample

Tolerances = dict[str, float | None]


def tolerances(op: Any, dtype: torch.dtype) -> Tolerances:
    """The operator's own tolerances on CPU for the type; none where it has PyTorch's default."""
    found: Tolerances = {"rtol": None, "atol": None}
    for info in op.decorators:
        if getattr(info, "device_type", None) not in (None, "cpu"):
            continue
        for decorator in getattr(info, "decorators", ()):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                tol = decorator.d[dtype]
                found = {"rtol": max(tol.rtol, found["rtol"] or 0), "atol": max(tol.atol, found["atol"] or 0)}
    return found


def difference(found: list[Any], expected: list[Any], values: bool, tol: Tolerances) -> str | None:
    """What differs between the results, or None. Without `values`, types and sizes alone are compared."""
    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if not isinstance(b, torch.Tensor):
            if values and a != b and not (a != a and b != b):
                return f"result {i}: {a!r} instead of {b!r}"
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        if values:
            try:
                torch.testing.assert_close(a.detach(), b.detach(), equal_nan=True, **tol)
            except AssertionError as error:
                return f"result {i}: {' '.join(str(error).split())}"[:300]
    return None


def as_accurate(sample: Sample, found: list[Any], expected: list[Any], tol: Tolerances) -> bool:
    """Whether each result out of tolerance is as near to that in float64 as eager's is, up to a factor of two."""
    try:
        wide = sample.exact()
        best = wide.run(wide.function())
    except Exception:
        return False
    if len(best) != len(found):
        return False
    for a, b, c in zip(found, expected, best, strict=True):
        if difference([a], [b], True, tol) is None:
            continue
        if not isinstance(c, torch.Tensor) or a.shape != c.shape or c.dtype not in (torch.float64, torch.complex128):
            return False
        a, b, c = (torch.view_as_real(t.detach().to(c.dtype)) if c.is_complex() else t.detach().double() for t in (a, b, c))
        ordinary = c.isfinite()
        if not torch.equal(a.isfinite(), ordinary) or not torch.equal(a[~ordinary].nan_to_num(), c[~ordinary].nan_to_num()):
            return False
        mine, theirs = (a - c)[ordinary].abs(), (b - c)[ordinary].abs()
        if mine.numel() and not (mine.max() <= 2 * theirs.max() and mine.mean() <= 2 * theirs.mean()):
            return False
    return True
