"""Interpolation, grid sampling, pixel shuffles and patches against eager, with gradients."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import check, check_exact, check_grad, floats, ints

MODES = {1: ["nearest", "nearest-exact", "linear", "area"], 3: ["nearest", "nearest-exact", "trilinear", "area"]}
MODES[2] = ["nearest", "nearest-exact", "bilinear", "bicubic", "area"]
SHAPES = {1: (2, 3, 7), 2: (2, 3, 7, 5), 3: (1, 2, 4, 5, 3)}
SIZES = {1: [(14,), (10,), (3,), (7,), (1,)], 2: [(14, 10), (10, 4), (3, 9), (7, 5), (1, 1)], 3: [(8, 10, 6), (3, 7, 2)]}
ALIGNED = ("linear", "bilinear", "bicubic", "trilinear")
CASES = [(n, mode, align) for n in SIZES for mode in MODES[n] for align in ((False, True) if mode in ALIGNED else (None,))]


@pytest.mark.parametrize(("n", "mode", "align"), CASES)
def test_interpolation(n: int, mode: str, align: bool | None) -> None:
    x = floats(*SHAPES[n], grad=True)

    def f(x: torch.Tensor) -> list[torch.Tensor]:
        return [F.interpolate(x, size, mode=mode, align_corners=align) for size in SIZES[n]]

    check_grad(f, x, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("n", "mode", "align"), CASES)
def test_scale_factors(n: int, mode: str, align: bool | None) -> None:
    def f(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.interpolate(x, scale_factor=s, mode=mode, align_corners=align, recompute_scale_factor=r)
            for s in (2.0, 0.6, 1.7)
            for r in (False, True)
        ]

    check(f, floats(*SHAPES[n]), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_interpolation_types(dtype: torch.dtype) -> None:
    for n in SIZES:
        # Eager finds weights of narrow types in float32 and rounds the result; the exact reference rounds once.
        x = floats(*SHAPES[n], dtype=dtype)
        check_exact(lambda x, n=n: [F.interpolate(x, SIZES[n][0], mode=mode) for mode in MODES[n]], x)


def test_interpolation_of_integers() -> None:
    check(lambda x: (F.interpolate(x, (9, 4)), F.interpolate(x, scale_factor=2)), ints(2, 3, 5, 4, low=0, high=200, dtype=torch.uint8))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_antialias(mode: str, align: bool) -> None:
    def f(x: torch.Tensor) -> list[torch.Tensor]:
        return [F.interpolate(x, size, mode=mode, align_corners=align, antialias=True) for size in SIZES[2]]

    check_grad(f, floats(2, 3, 7, 5, grad=True), rtol=1e-5, atol=1e-5)


def grid(*shape: int) -> torch.Tensor:
    """Points inside and outside of the image."""
    return 1.4 * torch.tanh(floats(*shape, seed=4))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str, align: bool) -> None:
    x, g = floats(2, 3, 6, 5, grad=True), grid(2, 4, 7, 2).requires_grad_()
    check_grad(lambda x, g: F.grid_sample(x, g, mode, padding, align), x, g, rtol=1e-4, atol=1e-5)
    if mode != "bicubic":
        x, g = floats(2, 3, 4, 6, 5, grad=True), grid(2, 3, 4, 2, 3).requires_grad_()
        check_grad(lambda x, g: F.grid_sample(x, g, mode, padding, align), x, g, rtol=1e-4, atol=1e-5)


def test_grid_sample_types() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        # Whole positions: a narrow grid would round them otherwise.
        x, g = floats(1, 2, 5, 5, dtype=dtype), (ints(1, 3, 4, 2, low=-5, high=6) / 4).to(dtype)
        check(lambda x, g: F.grid_sample(x, g, align_corners=True), x, g)
    check(lambda x, g: F.grid_sample(x, g, align_corners=False), floats(1, 2, 5, 5), torch.empty(1, 0, 4, 2))


def test_affine_grid() -> None:
    theta = floats(2, 2, 3, grad=True)
    check_grad(lambda t: [F.affine_grid(t, [2, 3, 4, 5], align_corners=a) for a in (True, False)], theta, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_shuffles(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> list[torch.Tensor]:
        y = F.pixel_shuffle(x, 2)
        return [y, F.pixel_unshuffle(y, 2), F.channel_shuffle(x, 4), F.pixel_unshuffle(x, 1)]

    check(f, ints(2, 8, 3, 4).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_patches(dtype: torch.dtype) -> None:
    x = floats(2, 3, 8, 7, dtype=dtype, grad=True)

    def f(x: torch.Tensor) -> list[torch.Tensor]:
        a = F.unfold(x, 3)
        b = F.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 2), stride=(2, 1))
        c = F.fold(a, (8, 7), 3)
        d = F.fold(b, (8, 7), (2, 3), dilation=(2, 1), padding=(1, 2), stride=(2, 1))
        return [a, b, c, d, x.unfold(2, 3, 2), F.unfold(x[0], 2)]

    check_grad(f, x, exact=True, rtol=1e-5 if dtype == torch.float32 else 2e-2, atol=1e-5 if dtype == torch.float32 else 6e-2)
