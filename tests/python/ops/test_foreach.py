"""Operations on lists of tensors against eager."""

import pytest
import torch

from op_checks import check, floats, ints

UNARY = ["abs", "neg", "sqrt", "exp", "log", "sin", "tanh", "sigmoid", "reciprocal", "sign", "floor", "round", "erf", "zero_"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"]


def lists(dtype: torch.dtype, n: int) -> list[torch.Tensor]:
    """`n` lists of three tensors, flattened: of several sizes, one empty, one without axes."""
    return [(floats(*shape, seed=i).abs() + 0.5).to(dtype) for i in range(n) for shape in ((2, 3), (0,), (), (5,))]


def take(xs: tuple[torch.Tensor, ...], i: int) -> list[torch.Tensor]:
    return list(xs[4 * i : 4 * i + 4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_unary(dtype: torch.dtype) -> None:
    tolerance = 1e-5 if dtype == torch.float32 else 1.6e-2

    def f(*xs: torch.Tensor) -> list[list[torch.Tensor]]:
        results = [getattr(torch, f"_foreach_{name}")(take(xs, 0)) for name in UNARY if not name.endswith("_")]
        zeroed = [x.clone() for x in take(xs, 0)]
        torch._foreach_zero_(zeroed)
        return [*results, zeroed]

    check(f, *lists(dtype, 1), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_binary(dtype: torch.dtype) -> None:
    names = [n for n in BINARY if dtype != torch.int64 or n not in ("div", "pow")]

    def f(*xs: torch.Tensor) -> list[list[torch.Tensor]]:
        a, b = take(xs, 0), take(xs, 1)
        results = [getattr(torch, f"_foreach_{name}")(a, b) for name in names]
        results += [getattr(torch, f"_foreach_{name}")(a, 2) for name in names]
        results += [getattr(torch, f"_foreach_{name}")(a, [1, 2, 3, 4]) for name in names]
        return [*results, torch._foreach_add(a, b, alpha=3), torch._foreach_mul(a, b[2])]

    check(f, *lists(dtype, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pointwise(dtype: torch.dtype) -> None:
    def f(*xs: torch.Tensor) -> list[list[torch.Tensor]]:
        a, b, c = take(xs, 0), take(xs, 1), take(xs, 2)
        return [
            torch._foreach_addcmul(a, b, c, value=0.5),
            torch._foreach_addcdiv(a, b, c, value=-2.0),
            torch._foreach_addcmul(a, b, c, [0.5, 1.0, 2.0, 3.0]),
            torch._foreach_addcdiv(a, b, c, [0.5, 1.0, 2.0, 3.0]),
            torch._foreach_lerp(a, b, 0.25),
            torch._foreach_lerp(a, b, c),
        ]

    check(f, *lists(dtype, 3), rtol=1e-5 if dtype == torch.float32 else 1.6e-2, atol=1e-5)


def test_norms() -> None:
    def f(*xs: torch.Tensor) -> list[torch.Tensor]:
        return [*torch._foreach_norm(list(xs)), *torch._foreach_norm(list(xs), 1)]

    check(f, *lists(torch.float32, 1))
    check(lambda *xs: torch._foreach_norm(list(xs), float("inf")), floats(3, 4), floats(5))


def test_in_place_updates_of_inputs() -> None:
    def f(*xs: torch.Tensor) -> None:
        a, b = list(xs[:2]), list(xs[2:])
        torch._foreach_mul_(a, 0.5)
        torch._foreach_add_(a, b, alpha=2)
        torch._foreach_copy_(b, [x.round() for x in a])

    from op_checks import compiled

    xs = [floats(3, 4), floats(5, seed=1), floats(3, 4, seed=2), floats(5, seed=3)]
    ys = [x.clone() for x in xs]
    f(*xs)
    compiled(f)(*ys)
    assert all(torch.equal(x, y) for x, y in zip(xs, ys, strict=True))


def test_integers() -> None:
    check(lambda a, b: torch._foreach_add([a, b], [b, a]) + torch._foreach_mul([a, b], 3), ints(4), ints(4, seed=1))
