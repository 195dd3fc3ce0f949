"""Complex numbers and Fourier transforms against eager."""

import pytest
import torch

from op_checks import check, check_all, check_grad, floats

FFT = torch.fft
COMPLEX = [torch.complex64, torch.complex128]


def numbers(*shape: int, dtype: torch.dtype = torch.complex64, seed: int = 0, grad: bool = False) -> torch.Tensor:
    """Complex normal numbers, the same in each run."""
    real = torch.float64 if dtype == torch.complex128 else torch.float32
    return torch.complex(floats(*shape, dtype=real, seed=seed), floats(*shape, dtype=real, seed=seed + 100)).requires_grad_(grad)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_elementwise(dtype: torch.dtype) -> None:
    check_all(
        {
            "add": lambda x, y: x + y,
            "subtract": lambda x, y: x - 2 * y,
            "multiply": lambda x, y: x * y,
            "divide": lambda x, y: x / y,
            "real scalar": lambda x, y: x * 2.5 + 1,
            "complex scalar": lambda x, y: x * (1 + 2j),
            "real tensor": lambda x, y: x * y.real,
            "negate": lambda x, y: -x,
            "conjugate": lambda x, y: x.conj() * y,
            "resolved": lambda x, y: (x.conj() + 0).resolve_conj(),
            "real": lambda x, y: x.real + 0,
            "imag": lambda x, y: x.imag + 0,
            "abs": lambda x, y: x.abs(),
            "angle": lambda x, y: x.angle(),
            "exp": lambda x, y: x.exp(),
            "log": lambda x, y: x.log(),
            "sqrt": lambda x, y: x.sqrt(),
            "sin": lambda x, y: x.sin(),
            "cos": lambda x, y: x.cos(),
            "tanh": lambda x, y: x.tanh(),
            "sigmoid": lambda x, y: x.sigmoid(),
            "reciprocal": lambda x, y: x.reciprocal(),
            "square": lambda x, y: x.square(),
            "power": lambda x, y: x**2.5,
            "equal": lambda x, y: x == y,
            "where": lambda x, y: torch.where(x.real > 0, x, y),
            "polar": lambda x, y: torch.polar(x.abs(), y.real),
            "complex": lambda x, y: torch.complex(x.imag, y.real),
            "view as real": lambda x, y: torch.view_as_real(x),
            "view as complex": lambda x, y: torch.view_as_complex(torch.view_as_real(x) * 2),
            "sgn": lambda x, y: x.sgn(),
            "isfinite": lambda x, y: x.isfinite(),
        },
        numbers(3, 5, dtype=dtype),
        numbers(3, 5, dtype=dtype, seed=1),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("dtype", COMPLEX)
def test_shapes_and_reductions(dtype: torch.dtype) -> None:
    check_all(
        {
            "sum": lambda x, y: x.sum(1),
            "mean": lambda x, y: x.mean(),
            "prod": lambda x, y: x.prod(0),
            "cumsum": lambda x, y: x.cumsum(1),
            "var": lambda x, y: x.var(1),
            "norm": lambda x, y: torch.linalg.vector_norm(x),
            "matmul": lambda x, y: x @ y.mT,
            "adjoint": lambda x, y: x @ y.mH,
            "einsum": lambda x, y: torch.einsum("ij,ij->i", x, y),
            "cat": lambda x, y: torch.cat([x, y], 1),
            "index": lambda x, y: x[:, torch.tensor([2, 0])],
            "scatter": lambda x, y: x.index_add(0, torch.tensor([0, 0, 2]), y),
            "flip": lambda x, y: x.flip(0),
            "full": lambda x, y: torch.full_like(x, 1j),
            "to complex": lambda x, y: x.real.to(torch.complex64) * 1j,
            "pad": lambda x, y: torch.nn.functional.pad(x, (1, 2)),
            "zeros": lambda x, y: torch.zeros(2, dtype=torch.complex64) + x[0, 0],
        },
        numbers(3, 4, dtype=dtype),
        numbers(3, 4, dtype=dtype, seed=1),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_fourier_transforms(dtype: torch.dtype, norm: str) -> None:
    check_all(
        {
            "fft": lambda x: FFT.fft(x, norm=norm),
            "fft padded": lambda x: FFT.fft(x, 10, dim=0, norm=norm),
            "ifft": lambda x: FFT.ifft(x, norm=norm),
            "fft2": lambda x: FFT.fft2(x, norm=norm),
            "ifftn": lambda x: FFT.ifftn(x, norm=norm),
            "rfft": lambda x: FFT.rfft(x.real, norm=norm),
            "rfft odd": lambda x: FFT.rfft(x.imag[:, :5], norm=norm),
            "rfftn": lambda x: FFT.rfftn(x.real, norm=norm),
            "irfft": lambda x: FFT.irfft(x, norm=norm),
            "irfft odd": lambda x: FFT.irfft(x, 7, norm=norm),
            "irfft2": lambda x: FFT.irfft2(x, norm=norm),
            "hfft": lambda x: FFT.hfft(x, norm=norm),
            "ihfft": lambda x: FFT.ihfft(x.real, norm=norm),
            "real fft": lambda x: FFT.fft(x.real, norm=norm),
            "shift": lambda x: FFT.fftshift(x) + FFT.ifftshift(x),
            "frequencies": lambda x: FFT.fftfreq(9) + FFT.rfftfreq(16),
        },
        numbers(3, 4, 6, dtype=dtype),
        rtol=1e-4,
        atol=1e-4 if dtype == torch.complex64 else 1e-9,
    )


def test_short_time_transform() -> None:
    x, window = floats(2, 64), torch.hann_window(16)

    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spectrum = torch.stft(x, 16, 4, window=w, return_complex=True)
        return spectrum, torch.istft(spectrum, 16, 4, window=w, length=64)

    check(f, x, window, rtol=1e-4, atol=1e-5)


def test_gradients() -> None:
    x = floats(3, 8, grad=True)
    check_grad(lambda x: (FFT.rfft(x).abs(), FFT.irfft(FFT.rfft(x) * 2), FFT.fft(x).real, FFT.fft2(x).imag), x, rtol=1e-4, atol=1e-4)
    check_grad(lambda x: torch.view_as_real(torch.complex(x, x * 2) * (1 + 1j)), x, rtol=1e-5, atol=1e-5)
    check_grad(lambda x: torch.polar(x.abs() + 1, x).angle(), x, rtol=1e-4, atol=1e-5)


def test_rotary_embedding_by_complex_numbers() -> None:
    def rotate(x: torch.Tensor, phase: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = pairs * torch.polar(torch.ones_like(phase), phase)
        return torch.view_as_real(turned).flatten(-2).type_as(x)

    check_grad(rotate, floats(2, 5, 8, grad=True), floats(5, 4, seed=1), rtol=1e-5, atol=1e-5)


def test_empty_and_scalar() -> None:
    check(lambda x, y: (x * 2j, x.sum(0), x.abs(), y.exp(), y.real + 0, y * y.conj()), numbers(0, 3), numbers())
