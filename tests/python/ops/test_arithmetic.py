"""Arithmetic against eager: promotion, division rules, powers, gradients."""

import math

import pytest
import torch

from op_checks import bools, check, check_all, check_grad, floats, ints

NUMBERS = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.int8]


def data(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return floats(*shape, dtype=dtype, seed=seed) if dtype.is_floating_point else ints(*shape, dtype=dtype, seed=seed)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_sums_and_products(dtype):
    x, y = data(dtype, 3, 5), data(dtype, 5, seed=1)
    y = torch.where(y == 0, 1, y).to(dtype)
    check_all(
        {
            "add": lambda x, y: x + y,
            "alpha": lambda x, y: torch.add(x, y, alpha=3),
            "sub": lambda x, y: x - y,
            "sub alpha": lambda x, y: torch.sub(x, y, alpha=2),
            "rsub": lambda x, y: 3 - x,
            "mul": lambda x, y: x * y,
            "number": lambda x, y: x * 7,
            "fraction": lambda x, y: x * 0.3,
            "plus fraction": lambda x, y: x + 0.1,
            "div": lambda x, y: x / y,
            "addcmul": lambda x, y: torch.addcmul(x, x, y, value=2),
            "square": lambda x, y: x.square(),
        },
        x,
        y,
    )


def test_promotion():
    check_all(
        {
            "half + number": lambda h, f, i, b, s: h + 0.1,
            "half + scalar tensor": lambda h, f, i, b, s: h * s,
            "half + float": lambda h, f, i, b, s: h + f,
            "int + number": lambda h, f, i, b, s: i + 0.5,
            "int + scalar tensor": lambda h, f, i, b, s: i * s,
            "int + float": lambda h, f, i, b, s: i + f,
            "bool + bool": lambda h, f, i, b, s: b + b,
            "bool * bool": lambda h, f, i, b, s: b * b,
            "bool + int": lambda h, f, i, b, s: b + i,
            "bool + number": lambda h, f, i, b, s: b + 1,
            "bool * fraction": lambda h, f, i, b, s: b * 0.5,
            "uint8 + int64": lambda h, f, i, b, s: i.to(torch.uint8) + i,
        },
        floats(4, 3, dtype=torch.bfloat16),
        floats(4, 3, seed=1),
        ints(4, 3),
        bools(4, 3),
        torch.tensor(0.3),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8])
def test_division_rules(dtype):
    x = torch.tensor([7, -7, 8, -8, 0, 5, -5, 1, 100, 3]).to(dtype)
    y = torch.tensor([2, 2, -3, -3, 5, 5, -5, 7, 11, -4]).to(dtype)
    if dtype.is_floating_point:
        x, y = x * 1.25, y * 0.75
    check_all(
        {
            "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
            "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
            "none": lambda x, y: torch.div(x, y),
            "floor_divide": lambda x, y: x // y,
            "remainder": lambda x, y: x % y,
            "fmod": torch.fmod,
            "floor by number": lambda x, y: x // 3,
            "remainder by number": lambda x, y: x % 3,
            "fmod by number": lambda x, y: torch.fmod(x, 3),
        },
        x,
        y,
    )


def test_float_division_by_zero_and_infinity():
    inf, nan = math.inf, math.nan
    x = torch.tensor([1.0, -1.0, 0.0, -0.0, inf, -inf, nan, 5.0, -5.0, 1e-30])
    y = torch.tensor([0.0, 0.0, 0.0, -3.0, 2.0, 2.0, 1.0, inf, inf, -1e30])
    check_all(
        {
            "div": lambda x, y: x / y,
            "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
            "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
            "remainder": lambda x, y: x % y,
            "fmod": torch.fmod,
        },
        x,
        y,
    )


def test_integer_division_by_zero_does_not_end_the_process():
    from op_checks import compiled

    f = compiled(lambda x, y: (x // y, x % y, torch.div(x, y, rounding_mode="trunc")))
    results = f(torch.tensor([1, 5, -3]), torch.tensor([0, 2, 0]))
    assert [r[1].item() for r in results] == [2, 1, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_powers_of_floats(dtype):
    x = floats(3, 7, dtype=dtype).abs() + 0.1
    exponents = [0, 1, 2, 3, 4, 7, -1, -2, -3, 0.5, -0.5, 1.5, 2.0]
    fs = {f"** {e}": lambda x, y, e=e: x**e for e in exponents}
    check_all(
        fs | {"2 **": lambda x, y: 2**x, "0.9 **": lambda x, y: 0.9**x, "tensor": lambda x, y: x**y}, x, floats(7, dtype=dtype, seed=3)
    )


def test_powers_of_negative_bases():
    x = torch.tensor([-2.0, -1.5, -0.0, 0.0, 1.0, math.nan, math.inf, -math.inf])
    y = torch.tensor([3.0, 0.5, -1.0, 0.0, math.nan, 0.0, -2.0, 3.0])
    check_all(
        {"2": lambda x, y: x**2, "3": lambda x, y: x**3, "5": lambda x, y: x**5, "-3": lambda x, y: x**-3, "tensor": lambda x, y: x**y},
        x,
        y,
    )


def test_powers_of_integers():
    x = ints(40, low=-5, high=6)
    y = ints(40, low=0, high=9, seed=2)
    check_all(
        {
            "tensor": lambda x, y: x**y,
            "0": lambda x, y: x**0,
            "1": lambda x, y: x**1,
            "5": lambda x, y: x**5,
            "11": lambda x, y: x**11,
            "half": lambda x, y: x.abs() ** 0.5,
            "3 **": lambda x, y: 3**y,
            "int32": lambda x, y: x.int() ** y.int(),
            "uint8": lambda x, y: x.to(torch.uint8) ** y.to(torch.uint8),
        },
        x,
        y,
    )
    check(lambda x, y: x**y, torch.tensor([1, -1, -1]), torch.tensor([-3, -3, -2]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_forms(dtype):
    x, y, z = (floats(4, 5, dtype=dtype, seed=s) for s in range(3))
    check_all(
        {
            "addcmul": lambda x, y, z: torch.addcmul(x, y, z),
            "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z, value=0.5),
            "lerp": lambda x, y, z: torch.lerp(x, y, 0.25),
            "lerp far": lambda x, y, z: torch.lerp(x, y, 0.75),
            "lerp tensor": lambda x, y, z: torch.lerp(x, y, z),
        },
        x,
        y,
        z,
    )


def test_two_argument_functions():
    inf, nan = math.inf, math.nan
    x = torch.tensor([1.0, -2.0, 0.0, -0.0, inf, -inf, nan, 3.0, -inf, 1e30])
    y = torch.tensor([0.5, -1.0, 0.0, 2.0, inf, 1.0, 1.0, nan, -inf, 1e30])
    check_all(
        {
            "atan2": torch.atan2,
            "hypot": torch.hypot,
            "copysign": torch.copysign,
            "copysign number": lambda x, y: torch.copysign(x, -1.0),
            "logaddexp": torch.logaddexp,
            "logaddexp2": torch.logaddexp2,
            "xlogy": torch.xlogy,
            "xlog1py": torch.special.xlog1py,
            "heaviside": torch.heaviside,
        },
        x,
        y,
    )
    check(torch.gcd, ints(30), ints(30, seed=5))


def test_gradients():
    x, y, power = floats(3, 4, grad=True), (floats(4, seed=1).abs() + 0.5).requires_grad_(), floats(4, seed=9)
    check_grad(lambda x, y: (x + 2 * y, x * y, x / y, x - y, y**2.5, y**power, torch.lerp(x, y, 0.3), torch.addcdiv(x, x, y)), x, y)
    check_grad(lambda x, y: (torch.atan2(x, y), torch.hypot(x, y), torch.logaddexp(x, y), x.abs() % y, torch.xlogy(y, y)), x, y)


def test_empty_and_scalar():
    check(lambda x, y: (x + y, x * 2, x // 2, x**2), torch.empty(0, 3), torch.empty(3))
    check(lambda x, y: (x + y, x * y, x / y, x % y), torch.tensor(5.5), torch.tensor(2))
