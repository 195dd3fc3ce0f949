"""Pooling and interpolation against eager, forward and backward."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from op_checks import check, check_all, check_grad, floats, ints

NAN, INF = float("nan"), float("inf")

MAX = {
    "plain": {"kernel_size": 2},
    "resnet": {"kernel_size": 3, "stride": 2, "padding": 1},
    "uneven": {"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0)},
    "ceil": {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    "dilated": {"kernel_size": 2, "dilation": 2, "padding": 1},
}
AVERAGE = {
    "plain": {"kernel_size": 2},
    "padded": {"kernel_size": 3, "stride": 2, "padding": 1},
    "valid": {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    "ceil": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    "divisor": {"kernel_size": (2, 3), "stride": 1, "divisor_override": 5},
    "cropped": {"kernel_size": 2, "stride": 3},
}


def max_pools(indices: bool) -> list[Callable[[torch.Tensor], torch.Tensor]]:
    return [lambda x, k=k: F.max_pool2d(x, return_indices=indices, **k) for k in MAX.values()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_max_pool2d(dtype: torch.dtype) -> None:
    x = floats(2, 3, 9, 8, dtype=dtype, grad=True)
    check_grad(
        lambda x: [f(x) for f in max_pools(False)],
        x,
        rtol=2e-2 if dtype == torch.bfloat16 else 1e-5,
        atol=1e-2 if dtype == torch.bfloat16 else 1e-5,
    )


def test_max_pool2d_positions() -> None:
    pools = max_pools(True)
    check(lambda x: [f(x) for f in pools], floats(2, 3, 9, 8))
    check(lambda x: [f(x) for f in pools], ints(3, 9, 8, low=0, high=3).float())
    check(lambda x: [f(x) for f in pools], torch.full((1, 1, 7, 7), -INF))


def test_max_pool2d_of_nan() -> None:
    x = floats(1, 2, 9, 8)
    x[0, 0, 3, 4] = x[0, 0, 4, 4] = x[0, 1, 0, 0] = NAN
    check(lambda x: [f(x) for f in max_pools(True)], x)


def test_max_pool_of_other_ranks() -> None:
    check_grad(lambda x: F.max_pool1d(x, 3, 2, 1), floats(2, 3, 9, grad=True))
    check_grad(lambda x: F.max_pool3d(x, 2, 2, 1), floats(2, 2, 5, 4, 6, grad=True))
    check(lambda x: F.max_pool3d(x, (2, 3, 2), 2, 1, return_indices=True), floats(2, 5, 4, 6))


def test_low_memory_max_pool() -> None:
    import torch._inductor.inductor_prims

    prims = torch.ops.prims

    def f(x: torch.Tensor) -> list[torch.Tensor]:
        values, offsets = prims._low_memory_max_pool_with_offsets(x, [3, 3], [2, 2], [1, 1], [1, 1], False)
        return [values, offsets, prims._low_memory_max_pool_offsets_to_indices(offsets, [3, 3], [9, 8], [2, 2], [1, 1], [1, 1])]

    check(f, floats(2, 3, 9, 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_avg_pool2d(dtype: torch.dtype) -> None:
    t = 1e-5 if dtype == torch.float32 else 3e-2
    x = floats(2, 3, 9, 8, dtype=dtype, grad=True)
    check_grad(lambda x: [F.avg_pool2d(x, **k) for k in AVERAGE.values()], x, rtol=t, atol=t)


def test_avg_pool_of_other_ranks() -> None:
    check_grad(lambda x: [F.avg_pool1d(x, 3, 2, 1), F.avg_pool1d(x, 2, ceil_mode=True)], floats(2, 3, 9, grad=True), rtol=1e-5, atol=1e-6)
    check_grad(
        lambda x: [F.avg_pool3d(x, 2, 2, 1), F.avg_pool3d(x, (1, 2, 3), count_include_pad=False)],
        floats(2, 2, 5, 4, 6, grad=True),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adaptive_avg_pool(dtype: torch.dtype) -> None:
    t = 1e-5 if dtype == torch.float32 else 2e-2
    sizes = [1, (3, 4), (5, 3), (None, 2), (9, 8), (11, 16)]
    x = floats(2, 3, 9, 8, dtype=dtype, grad=True)
    check_grad(lambda x: [F.adaptive_avg_pool2d(x, s) for s in sizes], x, rtol=t, atol=t)


def test_adaptive_pools_of_other_ranks() -> None:
    check_grad(lambda x: [F.adaptive_avg_pool1d(x, 4), F.adaptive_avg_pool1d(x, 3)], floats(2, 3, 9, grad=True), rtol=1e-5, atol=1e-6)
    check_grad(lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)), floats(2, 3, 4, 5, 6, grad=True), rtol=1e-5, atol=1e-6)
    check_grad(lambda x: F.adaptive_max_pool2d(x, (3, 2)), floats(2, 3, 9, 8, grad=True))
    check(lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True), floats(2, 3, 9, 8))


UPSAMPLE = {
    "nearest": {"size": (18, 24), "mode": "nearest"},
    "nearest uneven": {"size": (13, 5), "mode": "nearest"},
    "nearest scale": {"scale_factor": 2, "mode": "nearest"},
    "nearest odd scale": {"scale_factor": 1.7, "mode": "nearest"},
    "exact": {"size": (13, 5), "mode": "nearest-exact"},
    "bilinear": {"size": (18, 5), "mode": "bilinear"},
    "bilinear aligned": {"size": (13, 20), "mode": "bilinear", "align_corners": True},
    "bilinear scale": {"scale_factor": 1.5, "mode": "bilinear"},
    "bicubic": {"size": (13, 5), "mode": "bicubic"},
    "bicubic aligned": {"scale_factor": 2, "mode": "bicubic", "align_corners": True},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_upsample2d(dtype: torch.dtype) -> None:
    t = 2e-5 if dtype == torch.float32 else 4e-2
    fs = {name: lambda x, k=k: F.interpolate(x, **k) for name, k in UPSAMPLE.items()}
    check_all(fs, floats(2, 3, 9, 8, dtype=dtype), rtol=t, atol=t)


def test_upsample2d_gradients() -> None:
    x = floats(2, 3, 9, 8, grad=True)
    check_grad(lambda x: [F.interpolate(x, **k) for k in UPSAMPLE.values()], x, rtol=5e-5, atol=5e-5)


def test_upsample_of_other_ranks() -> None:
    check_grad(lambda x: [F.interpolate(x, 13), F.interpolate(x, 7, mode="linear")], floats(2, 3, 9, grad=True), rtol=1e-5, atol=1e-5)
    check_grad(
        lambda x: [F.interpolate(x, scale_factor=2), F.interpolate(x, (3, 7, 5), mode="trilinear")],
        floats(1, 2, 4, 5, 6, grad=True),
        rtol=1e-5,
        atol=1e-5,
    )


def test_nothing() -> None:
    check(lambda x: [F.max_pool2d(x, 2), F.avg_pool2d(x, 2)], floats(0, 3, 4, 4))


@pytest.mark.parametrize("size", [(3, 2), (1, 1), (7, 5), (9, 3), (2, 5)])
def test_adaptive_maximum_of_uneven_windows(size: tuple[int, int]) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.adaptive_max_pool2d(x, size, return_indices=True)

    check_grad(f, floats(2, 3, 7, 5, grad=True))
    check(f, ints(2, 7, 5, low=0, high=3).float())
    check(lambda x: F.adaptive_max_pool3d(x, (2, *size), return_indices=True), floats(1, 2, 3, 7, 5))
    check(lambda x: F.adaptive_max_pool1d(x, size[0], return_indices=True), floats(2, 3, 7))
