"""Special functions against eager in float64."""

import math
from collections.abc import Callable

import mpmath
import pytest
import torch

from op_checks import check, check_all, check_exact, check_grad, compiled, floats

S = torch.special
NAN, INF = math.nan, math.inf
Function = Callable[[torch.Tensor], torch.Tensor]

# Functions of all real numbers.
REAL: dict[str, Function] = {
    "erf": torch.erf,
    "erfc": torch.erfc,
    "expm1": torch.expm1,
    "sinc": torch.sinc,
    "i0": torch.i0,
    "i0e": S.i0e,
    "i1": S.i1,
    "i1e": S.i1e,
    "modified_bessel_i0": S.modified_bessel_i0,
    "modified_bessel_i1": S.modified_bessel_i1,
    "spherical_bessel_j0": S.spherical_bessel_j0,
    "asinh": torch.asinh,
}
# Functions of positive numbers.
POSITIVE: dict[str, Function] = {
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "trigamma": lambda x: torch.polygamma(1, x),
    "polygamma 2": lambda x: torch.polygamma(2, x),
    "polygamma 4": lambda x: torch.polygamma(4, x),
    "entr": S.entr,
    "modified_bessel_k0": S.modified_bessel_k0,
    "modified_bessel_k1": S.modified_bessel_k1,
    "scaled_modified_bessel_k0": S.scaled_modified_bessel_k0,
    "scaled_modified_bessel_k1": S.scaled_modified_bessel_k1,
    "erfcx": S.erfcx,
}
# Functions of the open interval (-1, 1).
UNIT: dict[str, Function] = {"erfinv": torch.erfinv, "atanh": torch.atanh, "log1p": torch.log1p}
# Functions of the open interval (0, 1).
PROBABILITY: dict[str, Function] = {"ndtri": S.ndtri, "logit": torch.logit}
# Compositions that round in between: exact in wide types only.
COMPOSED: dict[str, Function] = {
    "ndtr": S.ndtr,
    "log_ndtr": S.log_ndtr,
    "xlogy": lambda x: S.xlogy(x, x + 0.5),
    "xlog1py": lambda x: S.xlog1py(x, x),
    "zeta": lambda x: S.zeta(x + 1.1, x),
    "mvlgamma": lambda x: torch.mvlgamma(x + 2, 3),
    "gammainc": lambda x: S.gammainc(x, x.flip(0)),
    "gammaincc": lambda x: S.gammaincc(x, x.flip(0)),
}
# Against mpmath: eager's own error is above the rounding of float64.
BESSEL: dict[str, tuple[Function, Callable[[float], float]]] = {
    "bessel_j0": (S.bessel_j0, lambda x: mpmath.besselj(0, x)),
    "bessel_j1": (S.bessel_j1, lambda x: mpmath.besselj(1, x)),
    "bessel_y0": (S.bessel_y0, lambda x: mpmath.bessely(0, x)),
    "bessel_y1": (S.bessel_y1, lambda x: mpmath.bessely(1, x)),
    "airy_ai": (S.airy_ai, mpmath.airyai),
}
POLYNOMIALS = [
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]
TOLERANCES = {torch.float32: (2e-5, 1e-6), torch.bfloat16: (1.6e-2, 1e-5), torch.float16: (2e-3, 1e-5), torch.float64: (1e-9, 1e-12)}


def defined(fs: dict[str, Function], x: torch.Tensor) -> dict[str, Function]:
    """The functions that eager has for the type."""
    found = {}
    for name, f in fs.items():
        try:
            f(x)
        except (RuntimeError, NotImplementedError):
            continue
        found[name] = f
    return found


def check_each(fs: dict[str, Function], x: torch.Tensor) -> None:
    """Values of all functions agree with eager's in float64 as closely as the type of `x` allows."""
    fs = defined(fs, x)
    rtol, atol = TOLERANCES[x.dtype]
    found = compiled(lambda x: [f(x) for f in fs.values()])(x)
    wrong = []
    for (name, f), y in zip(fs.items(), found, strict=True):
        expected = f(x.double()).to(y.dtype)
        try:
            torch.testing.assert_close(y, expected, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            worst = (y.double() - expected.double()).abs().nan_to_num().argmax()
            wrong.append(f"{name}: {str(error).splitlines()[2:]} at x={x[worst]}: {y[worst]}, {expected[worst]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_real(dtype: torch.dtype) -> None:
    check_each(REAL, torch.linspace(-7.9, 8.1, 161).to(dtype))


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_positive(dtype: torch.dtype) -> None:
    check_each(POSITIVE, torch.linspace(0.07, 20.1, 161).to(dtype))


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_unit(dtype: torch.dtype) -> None:
    check_each(UNIT, torch.linspace(-0.95, 0.95, 96).to(dtype))
    check_each(PROBABILITY, torch.linspace(0.02, 0.98, 97).to(dtype))


def test_quantiles_of_small_probabilities() -> None:
    check_each({"ndtri": S.ndtri}, torch.logspace(-37, -1, 60))
    check_each({"ndtri": S.ndtri}, torch.logspace(-300, -1, 60, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_composed(dtype: torch.dtype) -> None:
    check_each(COMPOSED, torch.linspace(0.07, 20.1, 161).to(dtype))
    check_each({n: COMPOSED[n] for n in ("ndtr", "log_ndtr")}, torch.linspace(-9.0, 3.0, 97).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bessel(dtype: torch.dtype) -> None:
    x = torch.linspace(0.01, 60, 200).to(dtype)
    found = compiled(lambda x: [f(x) for f, _ in BESSEL.values()] + [S.bessel_j0(-x), S.bessel_j1(-x)])(x)
    exact = [torch.tensor([float(g(v)) for v in x.double().tolist()], dtype=torch.float64) for _, g in BESSEL.values()]
    for (name, y), e in zip(zip([*BESSEL, "j0", "j1"], found, strict=True), [*exact, exact[0], -exact[1]], strict=True):
        torch.testing.assert_close(y.double(), e, rtol=TOLERANCES[dtype][0], atol=TOLERANCES[dtype][1], msg=lambda m, n=name: f"{n}: {m}")
    x = torch.linspace(-30, 5, 150).to(dtype)
    exact_airy = torch.tensor([float(mpmath.airyai(v)) for v in x.double().tolist()], dtype=torch.float64)
    rtol, atol = (1e-4, 2e-6) if dtype == torch.float32 else (1e-9, 1e-12)  # The phase is 110 at -30: its rounding is the error.
    torch.testing.assert_close(compiled(S.airy_ai)(x).double(), exact_airy, rtol=rtol, atol=atol)


def test_gamma_of_negative_numbers() -> None:
    x = torch.linspace(-7.93, -0.07, 97)
    check_exact(torch.lgamma, x, rtol=2e-5, atol=5e-6)
    check_exact(torch.digamma, x, rtol=2e-5, atol=5e-6)


def test_large_arguments() -> None:
    x = torch.tensor([30.0, 100.0, 1000.0, 1e6, 1e20])
    fs = {n: f for n, f in (REAL | POSITIVE).items() if n not in ("spherical_bessel_j0", "sinc")}
    check_each(fs, x)
    check_each({n: fs[n] for n in ("erfcx", "lgamma", "digamma", "scaled_modified_bessel_k0")}, 1 / x[:4])


def test_special_arguments() -> None:
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0])
    names = ["erf", "erfc", "erfinv", "lgamma", "digamma", "i0", "i0e", "i1", "i1e", "entr", "logit", "expm1", "log1p", "atanh"]
    names += ["erfcx", "modified_bessel_k0", "modified_bessel_i0", "ndtri"]
    check_all({n: f for n, f in (REAL | POSITIVE | UNIT | PROBABILITY).items() if n in names}, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    f = getattr(S, name)
    x = torch.tensor([-1.7, -1.0, -0.6, 0.0, 0.3, 0.99, 1.0, 1.4])
    n = torch.tensor([[-1.0], [0.0], [1.0], [2.0], [3.0], [5.0], [8.0]])
    check_exact(lambda x, n: (f(x, n), f(x, 3), f(0.4, n)), x, n, rtol=1e-4, atol=1e-4)


def test_integers() -> None:
    fs = {n: f for n, f in (REAL | POSITIVE).items() if n in ("erf", "lgamma", "digamma", "i0", "sinc", "entr", "erfc")}
    check_all(fs, torch.arange(1, 9), rtol=1e-5, atol=1e-6)


def test_empty_and_scalar() -> None:
    check(lambda x: [f(x) for f in REAL.values()], torch.empty(0, 3))
    check(lambda x: [f(x) for f in POSITIVE.values()], torch.tensor(1.5), rtol=1e-5, atol=1e-5)
    check(lambda x: [f(x) for f in COMPOSED.values()], torch.empty(0, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients(dtype: torch.dtype) -> None:
    tolerance = 1e-4 if dtype == torch.float32 else 1e-8
    real = [torch.erf, torch.erfc, torch.expm1, torch.sinc, torch.i0, S.i0e, S.i1, S.i1e, S.ndtr, S.log_ndtr, torch.asinh]
    check_grad(lambda x: [f(x) for f in real], floats(20, dtype=dtype, grad=True), rtol=tolerance, atol=tolerance, exact=True)
    positive = [torch.lgamma, torch.digamma, POSITIVE["trigamma"], S.entr, S.erfcx]
    x = (floats(20).abs() + 0.5).to(dtype).requires_grad_()
    check_grad(lambda x: [f(x) for f in positive], x, rtol=tolerance, atol=tolerance, exact=True)
    x = torch.linspace(-0.9, 0.9, 20, dtype=dtype, requires_grad=True)
    check_grad(lambda x: [f(x) for f in UNIT.values()], x, rtol=tolerance, atol=tolerance, exact=True)
    x = torch.linspace(0.1, 0.9, 20, dtype=dtype, requires_grad=True)
    check_grad(torch.logit, x, rtol=tolerance, atol=tolerance, exact=True)


def test_floats_in_parts() -> None:
    x = torch.tensor([0.0, -0.0, 1.0, -3.75, 1e-40, 1e38, INF, -INF, NAN])
    check(lambda x: (torch.frexp(x), torch.ldexp(x, torch.tensor(3)), torch.nextafter(x, -x + 1), torch.copysign(x, -x)), x)
    check(lambda x: (torch.frexp(x), torch.nextafter(x, x * 0 + 1)), floats(20, dtype=torch.float64))
