"""Random numbers: seeds repeat them, calls differ, moments are right, and the dropout mask of the backward is the forward's."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from op_checks import compiled

N = 40_000
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]

# Each with its mean and standard deviation.
DRAWS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float, float]] = {
    "rand": (lambda x: torch.rand(x.shape, dtype=x.dtype), 0.5, math.sqrt(1 / 12)),
    "rand_like": (torch.rand_like, 0.5, math.sqrt(1 / 12)),
    "uniform": (lambda x: x.clone().uniform_(-3.0, 5.0), 1.0, 8 * math.sqrt(1 / 12)),
    "randn": (lambda x: torch.randn(x.shape, dtype=x.dtype), 0.0, 1.0),
    "randn_like": (torch.randn_like, 0.0, 1.0),
    "normal_": (lambda x: x.clone().normal_(1.5, 0.5), 1.5, 0.5),
    "normal": (lambda x: torch.normal(x * 0 + 2.0, x * 0 + 3.0), 2.0, 3.0),
    "normal mean": (lambda x: torch.normal(x * 0 + 2.0, 3.0), 2.0, 3.0),
    "exponential": (lambda x: x.clone().exponential_(2.0), 0.5, 0.5),
    "log_normal": (lambda x: x.clone().log_normal_(0.0, 0.25), math.exp(1 / 32), math.exp(1 / 32) * math.sqrt(math.exp(1 / 16) - 1)),
    "geometric": (lambda x: x.clone().geometric_(0.25), 4.0, math.sqrt(12)),
    "bernoulli": (lambda x: torch.bernoulli(x * 0 + 0.25), 0.25, math.sqrt(3) / 4),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.75), 0.75, math.sqrt(3) / 4),
    "dropout": (lambda x: F.dropout(x * 0 + 1.0, 0.25), 1.0, math.sqrt(1 / 3)),
    "rrelu": (lambda x: F.rrelu(x * 0 - 1.0, 0.25, 0.75, training=True), -0.5, 0.5 * math.sqrt(1 / 12)),
}
INTEGERS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float, float]] = {
    "randint": (lambda x: torch.randint(-3, 7, x.shape), 1.5, math.sqrt(99 / 12)),
    "randint_like": (lambda x: torch.randint_like(x.int(), 10), 4.5, math.sqrt(99 / 12)),
    "randint_like low": (lambda x: torch.randint_like(x, -3, 7), 1.5, math.sqrt(99 / 12)),
    "randint float": (lambda x: torch.randint(0, 10, x.shape, dtype=torch.float32), 4.5, math.sqrt(99 / 12)),
    "multinomial": (lambda x: torch.multinomial(torch.tensor([1.0, 0.0, 2.0, 1.0]), x.numel(), replacement=True), 1.75, math.sqrt(19 / 16)),
    "random mask": (lambda x: (torch.rand(x.shape) < 0.5).int(), 0.5, 0.5),
}


def twice(f: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Two draws in one program."""
    return lambda x: (f(x), f(x))


def has_moments(x: torch.Tensor, mean: float, std: float) -> None:
    """Mean and deviation within six standard errors and the rounding of the type."""
    rounding = torch.finfo(x.dtype).eps if x.dtype.is_floating_point else 0.0
    x = x.double()
    assert abs(x.mean().item() - mean) < 6 * std / math.sqrt(x.numel()) + rounding * max(abs(mean), std)
    # The variance of the sample variance is (kurtosis - 1) * std^4 / n; a kurtosis of 10 covers every distribution here.
    assert abs(x.std().item() / std - 1) < 6 * math.sqrt(9 / x.numel()) / 2 + rounding


@pytest.mark.parametrize("name", [*DRAWS, *INTEGERS])
def test_seeds_and_moments(name: str) -> None:
    f, mean, std = (DRAWS | INTEGERS)[name]
    g, x = compiled(twice(f)), torch.zeros(N)
    torch.manual_seed(7)
    a, b = g(x)
    c, d = g(x)
    torch.manual_seed(7)
    assert all(torch.equal(i, j) for i, j in zip((a, b), g(x), strict=True))
    torch.manual_seed(8)
    e, _ = g(x)
    draws = [a, b, c, d, e]
    assert not any(torch.equal(draws[i], draws[j]) for i in range(5) for j in range(i))
    expected = f(x)
    assert all(y.dtype == expected.dtype and y.shape == expected.shape for y in draws)
    for y in draws:
        has_moments(y, mean, std)


@pytest.mark.parametrize("dtype", FLOATS)
def test_types(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> list[torch.Tensor]:
        return [draw(x) for draw, _, _ in DRAWS.values()]

    for y, (name, (_, mean, std)) in zip(compiled(f)(torch.zeros(N, dtype=dtype)), DRAWS.items(), strict=True):
        assert y.dtype == dtype, name
        assert y.isfinite().all(), name
        # Counting distributions and the dropout factor are exact in every type; the rest keeps its moments to the type's precision.
        has_moments(y, mean, std)


@pytest.mark.parametrize("dtype", FLOATS)
def test_bounds(dtype: torch.dtype) -> None:
    f = compiled(lambda x: (torch.rand_like(x), x.clone().uniform_(2.0, 3.0), x.clone().exponential_(1.0)))
    unit, moved, wait = f(torch.zeros(300_000, dtype=dtype))
    assert unit.min() >= 0 and unit.max() < 1
    assert moved.min() >= 2 and moved.max() < 3
    assert wait.min() >= 0 and wait.isfinite().all()


def test_cauchy_quartiles() -> None:
    x = compiled(lambda x: x.clone().cauchy_(1.0, 2.0))(torch.zeros(N))
    quartiles = torch.quantile(x, torch.tensor([0.25, 0.5, 0.75]))
    # The density at the quartiles is 1/(2 pi sigma), at the median 1/(pi sigma).
    assert torch.allclose(quartiles, torch.tensor([-1.0, 1.0, 3.0]), atol=6 * 0.5 * math.pi * 4 / math.sqrt(N))


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutations(n: int) -> None:
    f = compiled(lambda x: (torch.randperm(n), torch.randperm(n, dtype=torch.int32)))
    a, b = f(torch.zeros(1))
    assert torch.equal(a.sort()[0], torch.arange(n)) and torch.equal(b.sort()[0], torch.arange(n, dtype=torch.int32))
    if n == 1000:
        assert not torch.equal(a, torch.arange(n)) and not torch.equal(a, b.long()) and not torch.equal(a, f(torch.zeros(1))[0])


def test_multinomial() -> None:
    weights = torch.tensor([[1.0, 2.0, 0.0, 1.0], [0.0, 0.0, 5.0, 5.0]])
    f = compiled(lambda w: (torch.multinomial(w, 2), torch.multinomial(w, N, replacement=True)))
    without, drawn = f(weights)
    assert (without[:, 0] != without[:, 1]).all() and without[1].sort()[0].tolist() == [2, 3] and 2 not in without[0].tolist()
    for row, w in zip(drawn, weights, strict=True):
        p = w / w.sum()
        counts = torch.bincount(row, minlength=4) / N
        assert ((counts - p).abs() <= 6 * (p * (1 - p) / N).sqrt()).all()


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_gradient_has_the_mask_of_the_forward(dtype: torch.dtype, p: float) -> None:
    x = torch.ones(200, 50, dtype=dtype, requires_grad=True)
    y = compiled(lambda x: F.dropout(x, p))(x)
    y.sum().backward()
    assert torch.equal(y.detach(), x.grad)
    kept = torch.tensor(1 / (1 - p) if p < 1 else 0.0).to(dtype)
    assert set(y.detach().unique().tolist()) == {0.0: {1.0}, 1.0: {0.0}}.get(p, {0.0, kept.item()})


def test_dropouts_of_one_model_differ() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = torch.stack([F.dropout(x, 0.5), F.dropout(x, 0.5)])
        return x

    y = compiled(f)(torch.ones(500)).reshape(4, 500)
    assert len({tuple(row.tolist()) for row in y}) == 4


def test_eval_dropout_is_the_identity() -> None:
    x = torch.randn(5, 6)
    assert torch.equal(compiled(lambda x: F.dropout(x, 0.5, training=False))(x), x)


def test_channels_are_dropped_whole() -> None:
    y = compiled(lambda x: F.dropout2d(x, 0.5))(torch.ones(8, 16, 5, 5))
    sums = y.sum((2, 3))
    assert set(sums.unique().tolist()) == {0.0, 50.0}


def test_rrelu_gradient_is_its_slope() -> None:
    x = torch.linspace(-2, 2, 400, requires_grad=True)
    y = compiled(lambda x: F.rrelu(x, 0.1, 0.3, training=True))(x)
    y.sum().backward()
    torch.testing.assert_close(y.detach(), x.detach() * x.grad)
    below = x.grad[x.detach() < 0]
    assert below.min() >= 0.1 and below.max() <= 0.3 and below.unique().numel() > 100


def test_compiling_draws_nothing_from_the_generator() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    compiled(lambda x: x * 2)(torch.zeros(3))
    assert torch.equal(before, torch.get_rng_state())
    g, x = compiled(lambda x: F.dropout(x, 0.5) + torch.rand_like(x)), torch.ones(50)
    torch.manual_seed(3)
    first, state = g(x), torch.get_rng_state()
    torch.manual_seed(3)
    assert torch.equal(first, g(x)) and torch.equal(state, torch.get_rng_state())


def test_a_generator_does_not_depend_on_the_number_of_elements_drawn() -> None:
    g = compiled(lambda x: torch.rand_like(x))
    torch.manual_seed(5)
    g(torch.zeros(10))
    after = torch.get_rng_state()
    torch.manual_seed(5)
    g(torch.zeros(10_000))
    assert torch.equal(after, torch.get_rng_state())


def test_empty_and_scalar() -> None:
    f = compiled(lambda x, y: [draw(z) for z in (x, y) for draw, _, _ in DRAWS.values()])
    results = f(torch.zeros(0, 3), torch.zeros(()))
    assert [r.shape for r in results] == [torch.Size([0, 3])] * len(DRAWS) + [torch.Size([])] * len(DRAWS)
    assert all(r.isfinite().all() for r in results)
