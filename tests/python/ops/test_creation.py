"""Creation, mutation and random draws."""

import math

import pytest
import torch

from op_checks import check_all, compiled, floats, ints


def test_fills():
    check_all(
        {
            "full": lambda x: torch.full((2, 3), 7),
            "full float": lambda x: torch.full((2,), 0.1, dtype=torch.bfloat16),
            "full bool": lambda x: torch.full((2,), True),
            "zeros": lambda x: torch.zeros(3, 0),
            "ones": lambda x: torch.ones(2, dtype=torch.int32),
            "zeros_like": torch.zeros_like,
            "ones_like": lambda x: torch.ones_like(x, dtype=torch.int64),
            "full_like": lambda x: torch.full_like(x, -math.inf),
            "new_zeros": lambda x: x.new_zeros(2),
            "new_ones": lambda x: x.new_ones(2, dtype=torch.bool),
            "new_full": lambda x: x.new_full((2, 2), 3),
            "scalar_tensor": lambda x: torch.scalar_tensor(3.5),
            "fill": lambda x: x.fill(2.5) if hasattr(x, "fill") else torch.fill(x, 2.5),
            "tensor": lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
        },
        floats(2, 3),
    )


def test_sizes_of_uninitialised():
    f = compiled(lambda x: (torch.empty(2, 3), torch.empty_like(x, dtype=torch.int32), x.new_empty(4)))
    results = f(floats(2, 3))
    assert [tuple(r.shape) for r in results] == [(2, 3), (2, 3), (4,)]


def test_ranges():
    check_all(
        {
            "end": lambda x: torch.arange(7),
            "start": lambda x: torch.arange(3, 9),
            "step": lambda x: torch.arange(10, 0, -3),
            "float": lambda x: torch.arange(0.0, 1.0, 0.1),
            "half": lambda x: torch.arange(0, 5, 0.5, dtype=torch.bfloat16),
            "int to float": lambda x: torch.arange(5, dtype=torch.float32),
            "int32": lambda x: torch.arange(5, dtype=torch.int32),
            "long float": lambda x: torch.arange(0, 5000, 0.7),
            "big": lambda x: torch.arange(2**40, 2**40 + 3),
            "empty": lambda x: torch.arange(0),
            "linspace": lambda x: torch.linspace(-1, 1, 7),
            "linspace one": lambda x: torch.linspace(3, 4, 1),
            "linspace long": lambda x: torch.linspace(0, 1, 5001),
            "linspace int": lambda x: torch.linspace(0, 10, 5, dtype=torch.int64),
            "logspace": lambda x: torch.logspace(-2, 2, 5),
            "eye": lambda x: torch.eye(3),
            "eye wide": lambda x: torch.eye(2, 4, dtype=torch.int64),
            "tril_indices": lambda x: torch.tril_indices(3, 4, 1),
            "triu_indices": lambda x: torch.triu_indices(4, 3, -1),
        },
        floats(1),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_triangles(dtype):
    check_all(
        {
            "tril": torch.tril,
            "triu": torch.triu,
            "tril 1": lambda x: x.tril(1),
            "triu -2": lambda x: x.triu(-2),
            "triu far": lambda x: x.triu(100),
            "tril far": lambda x: x.tril(-100),
        },
        ints(2, 4, 5, low=1).to(dtype),
    )


def test_writes_to_inputs():
    def f(x, y):
        x.add_(y)
        y[1:].mul_(2)
        return x * 2

    x, y = floats(3, 4), floats(3, 4, seed=1)
    a, b = x.clone(), y.clone()
    found, expected = compiled(f)(a, b), f(x, y)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(a, x)
    torch.testing.assert_close(b, y)


def test_writes_to_transposed_inputs():
    def f(x):
        x.copy_(torch.arange(12.0).reshape(3, 4))
        x[0].zero_()

    x, a = floats(4, 3).t(), floats(4, 3).t()
    compiled(f)(a)
    f(x)
    torch.testing.assert_close(a, x)


def test_even_numbers():
    f = compiled(lambda: (torch.rand(100, 100), torch.rand(2000, dtype=torch.float64), torch.rand(5000, dtype=torch.bfloat16)))
    first, second = f(), f()
    for x, y in zip(first, second, strict=True):
        assert x.min() >= 0 and x.max() < 1
        assert abs(x.double().mean() - 0.5) < 0.02 and abs(x.double().var() - 1 / 12) < 0.01
        assert not torch.equal(x, y), "each call draws anew"
    assert first[0].unique().numel() > 9900


def test_draws_differ_within_a_call():
    x, y = compiled(lambda: (torch.rand(100), torch.rand(100)))()
    assert not torch.equal(x, y)


def test_normal_numbers():
    x, y, z = compiled(lambda: (torch.randn(101, 99), torch.randn(3), torch.normal(2.0, 3.0, (10000,))))()
    assert y.shape == (3,) and torch.isfinite(x).all()
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.03 and abs((x**4).mean() - 3) < 0.3
    assert abs(z.mean() - 2) < 0.15 and abs(z.std() - 3) < 0.1


def test_other_distributions():
    def f(x):
        p = torch.full((10000,), 0.3)
        return (
            torch.bernoulli(p),
            torch.randint(-3, 4, (10000,)),
            torch.randperm(500),
            torch.empty(10000).uniform_(2, 5),
            torch.empty(10000).exponential_(2.0),
            torch.empty(10000).normal_(1, 0.5),
            torch.rand_like(x),
            torch.empty(10000).bernoulli_(0.7),
        )

    flips, numbers, order, even, waits, normal, like, other = compiled(f)(floats(20))
    assert set(flips.tolist()) == {0.0, 1.0} and abs(flips.mean() - 0.3) < 0.03
    assert set(numbers.tolist()) == set(range(-3, 4)) and abs(numbers.double().mean()) < 0.1
    assert sorted(order.tolist()) == list(range(500)) and order.tolist() != list(range(500))
    assert even.min() >= 2 and even.max() < 5 and abs(even.mean() - 3.5) < 0.05
    assert waits.min() >= 0 and abs(waits.mean() - 0.5) < 0.03
    assert abs(normal.mean() - 1) < 0.03 and abs(normal.std() - 0.5) < 0.03
    assert like.shape == (20,) and abs(other.mean() - 0.7) < 0.03


def test_multinomial():
    weights = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]])
    many, few = compiled(lambda w: (torch.multinomial(w, 2000, replacement=True), torch.multinomial(w[:1], 2)))(weights)
    assert (many[1] == 0).all() and (many[0] > 0).all()
    assert abs((many[0] == 2).double().mean() - 0.75) < 0.05
    assert sorted(few[0].tolist()) == [1, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout(dtype):
    x = torch.ones(100, 100, dtype=dtype, requires_grad=True)
    f = compiled(lambda x: torch.nn.functional.dropout(x, 0.25))
    y = f(x)
    kept = y != 0
    assert abs(kept.double().mean() - 0.75) < 0.03
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 1 / 0.75))
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    assert not torch.equal(f(x) != 0, kept)


def test_dropout_limits():
    none, everything = compiled(lambda x: (torch.dropout(x, 0.0, True), torch.dropout(x, 1.0, True)))(floats(3, 4))
    torch.testing.assert_close(none, floats(3, 4))
    assert not everything.any()
