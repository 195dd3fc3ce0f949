"""Eigenvalues, singular values and pseudo-inverses. Vectors are unique up to a phase: their products are compared."""

import pytest
import torch

from op_checks import assert_same, check, check_grad, compiled, floats

SHAPES = [(1, 1), (2, 2), (5, 5), (2, 1, 7, 7), (12, 12)]
RECTANGLES = [(5, 3), (2, 3, 4, 6), (1, 8), (3, 1), (9, 12)]
TYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def _matrix(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    real = floats(*shape, dtype=torch.float64, seed=seed)
    if dtype.is_complex:
        real = torch.complex(real, floats(*shape, dtype=torch.float64, seed=seed + 1))
    return real.to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_eigh(shape, dtype):
    side = "U" if len(shape) > 2 else "L"
    a = _matrix(shape, dtype)
    values, vectors = compiled(lambda x: torch.linalg.eigh(x, side))(a)
    expected = torch.linalg.eigvalsh(a, side)
    assert_same(values, expected, rtol=1e-5, atol=2e-5 if dtype in (torch.float32, torch.complex64) else 1e-12)
    kept = a.tril(-1) if side == "L" else a.triu(1)
    whole = kept + kept.mH + torch.diag_embed(a.diagonal(dim1=-2, dim2=-1).real).to(dtype)
    tight = {"rtol": 1e-5, "atol": 2e-5} if dtype in (torch.float32, torch.complex64) else {"rtol": 1e-11, "atol": 1e-11}
    assert_same((vectors * values.to(dtype)[..., None, :]) @ vectors.mH, whole, **tight)
    assert_same(vectors.mH @ vectors, torch.eye(shape[-1], dtype=dtype).expand(shape), **tight)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", RECTANGLES)
@pytest.mark.parametrize("full", [False, True])
def test_svd(shape, dtype, full):
    a = _matrix(shape, dtype)
    u, s, vh = compiled(lambda x: torch.linalg.svd(x, full_matrices=full))(a)
    eu, es, evh = torch.linalg.svd(a, full_matrices=full)
    assert (u.shape, vh.shape) == (eu.shape, evh.shape)
    tight = {"rtol": 1e-5, "atol": 2e-5} if dtype in (torch.float32, torch.complex64) else {"rtol": 1e-11, "atol": 1e-11}
    assert_same(s, es, **tight)
    k = s.shape[-1]
    assert_same((u[..., :k] * s.to(dtype)[..., None, :]) @ vh[..., :k, :], a, **tight)
    assert_same(u.mH @ u, torch.eye(u.shape[-1], dtype=dtype).expand(*shape[:-2], -1, -1), **tight)
    assert_same(vh @ vh.mH, torch.eye(vh.shape[-2], dtype=dtype).expand(*shape[:-2], -1, -1), **tight)


def test_svd_of_low_rank_and_of_zeros():
    low = floats(6, 2, dtype=torch.float64) @ floats(2, 5, dtype=torch.float64, seed=1)
    for a in (low, torch.zeros(4, 3, dtype=torch.float64), torch.diag(torch.tensor([3.0, 0.0, 3.0], dtype=torch.float64))):
        u, s, vh = compiled(lambda x: torch.linalg.svd(x))(a)
        assert_same(s, torch.linalg.svdvals(a), atol=1e-12, rtol=0)
        assert_same(u.mT @ u, torch.eye(a.shape[0], dtype=a.dtype), atol=1e-12, rtol=0)
        assert_same((u[:, : len(s)] * s) @ vh[: len(s)], a, atol=1e-12, rtol=0)


def test_larger():
    a = floats(64, 64)
    values = compiled(torch.linalg.eigvalsh)(a)
    assert_same(values, torch.linalg.eigvalsh(a.double()).float(), rtol=1e-5, atol=1e-4)
    assert_same(compiled(torch.linalg.svdvals)(a), torch.linalg.svdvals(a.double()).float(), rtol=1e-5, atol=1e-5)


def test_empty():
    check(torch.linalg.svdvals, torch.zeros(3, 0))
    check(lambda x: torch.linalg.svd(x, full_matrices=True), torch.zeros(2, 0, 3))
    check(torch.linalg.eigvalsh, torch.zeros(2, 0, 0))
    check(torch.linalg.pinv, torch.zeros(0, 3))


def test_pinv():
    a = floats(5, 3, dtype=torch.float64)
    check(torch.linalg.pinv, a)
    check(lambda x: torch.linalg.pinv(x, atol=1.0, rtol=0.1), a)
    check(lambda x: torch.linalg.pinv(x, atol=torch.tensor(1.0)), a)
    check(lambda x: torch.linalg.pinv(x @ x.mT, hermitian=True), a)
    check(torch.linalg.pinv, _matrix((2, 3, 4), torch.complex128))


def test_gradients():
    a = floats(2, 4, 4, dtype=torch.float64, grad=True)
    check_grad(lambda x: torch.linalg.eigvalsh(x + x.mT), a)
    check_grad(lambda x: torch.linalg.eigh(x + x.mT)[1].abs(), a)
    check_grad(torch.linalg.svdvals, a)
    check_grad(lambda x: torch.linalg.svd(x)[0].abs(), a)
    check_grad(torch.linalg.pinv, floats(5, 3, dtype=torch.float64, grad=True))
    check_grad(lambda x: torch.linalg.matrix_norm(x, "nuc"), a)


def test_what_is_made_of_them():
    a = floats(5, 3, dtype=torch.float64)
    check(torch.linalg.matrix_rank, a)
    check(torch.linalg.cond, a)
    check(lambda x: torch.linalg.norm(x, 2), a)


def test_checks_of_linear_systems():
    regular, singular = floats(3, 3, dtype=torch.float64), torch.ones(3, 3, dtype=torch.float64)
    for f in (torch.linalg.inv, lambda x: torch.linalg.solve(x, x), lambda x: torch.linalg.cholesky(x @ x.mT)):
        check(f, regular)
    f = compiled(torch.linalg.inv)
    with pytest.raises(RuntimeError, match="singular"):
        f(singular)
    check_grad(torch.linalg.inv, regular.requires_grad_())
