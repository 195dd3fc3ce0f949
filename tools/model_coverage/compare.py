"""Whether tensors agree with eager's."""

from collections.abc import Callable

import torch

# Of each tensor's largest value, and beside it.
RTOL, ATOL = 1e-4, 1e-5
# How much further from float64 than eager's float32 a result may be where eager's is itself out of tolerance.
FACTOR = 2.0

Named = dict[str, torch.Tensor]


def off_by(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference in units of the tolerance; infinite where values that are not finite differ."""
    if found.is_complex():
        found, expected = torch.view_as_real(found), torch.view_as_real(expected)
    a, b = found.detach().double(), expected.detach().double()
    ordinary = b.isfinite()
    if not torch.equal(a.isfinite(), ordinary) or not torch.equal(a[~ordinary].nan_to_num(), b[~ordinary].nan_to_num()):
        return float("inf")
    a, b = a[ordinary], b[ordinary]
    return ((a - b).abs().max() / (ATOL + RTOL * b.abs().max())).item() if a.numel() else 0.0


def difference(found: Named, expected: Named, values: bool, exact: Callable[[], Named]) -> str | None:
    """What differs, or None. Without `values` types and sizes alone are compared. `exact` gives the same tensors from float64, asked
    for only where a float is out of tolerance."""
    if list(found) != list(expected):
        return f"tensors {sorted(set(found) ^ set(expected))[:3]} are on one side alone"
    far = {}
    for name, a in found.items():
        b = expected[name]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"{name}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        if not values:
            continue
        if not (a.is_floating_point() or a.is_complex()):
            if not torch.equal(a, b):
                return f"{name}: integers differ"
        elif (off := off_by(a, b)) > 1:
            far[name] = off
    if not far:
        return None
    worst = max(far, key=lambda name: far[name])
    text = f"{worst}: {far[worst]:.1f} times the tolerance"
    try:
        true = exact()
    except Exception:
        return text
    if any(name not in true or true[name].shape != found[name].shape for name in far):
        return text
    eager = max(off_by(expected[name], true[name]) for name in far)
    ours = max(off_by(found[name], true[name]) for name in far)
    return None if eager > 1 and ours <= FACTOR * eager else f"{text}; from float64 {ours:.1f}, eager {eager:.1f}"
