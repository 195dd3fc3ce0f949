"""Factorisations and linear systems against eager, with gradients."""

import pytest
import torch

from op_checks import check, check_all, check_grad, compiled, floats

L = torch.linalg
DTYPES = [torch.float32, torch.float64, torch.complex64]


def matrices(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Well-conditioned matrices, rows in no order."""
    x = floats(*shape, seed=seed, dtype=torch.float64)
    if dtype.is_complex:
        x = torch.complex(x, floats(*shape, seed=seed + 50, dtype=torch.float64))
    n = min(shape[-2:])
    x[..., :n, :n] += 2 * torch.eye(n).flip(0)
    return x.to(dtype)


def positive(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Positive definite matrices."""
    x = matrices(*shape, dtype=dtype, seed=seed)
    return x @ x.mH + torch.eye(shape[-1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 5), (1, 1), (0, 3, 3), (0, 0)])
def test_solves(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a, b = matrices(*shape, dtype=dtype), matrices(*shape[:-1], 3, dtype=dtype, seed=1)
    check_all(
        {
            "det": lambda a, b: torch.ops.aten._linalg_det(a)[0],
            "det of transpose": lambda a, b: torch.ops.aten._linalg_det(a.mT)[0],
            "sign": lambda a, b: L.slogdet(a)[0],
            "logabsdet": lambda a, b: L.slogdet(a)[1],
            "inverse": lambda a, b: L.inv_ex(a)[0],
            "solve": lambda a, b: L.solve_ex(a, b)[0],
            "solve transposed": lambda a, b: L.solve_ex(a.mT, b)[0],
            "solve right": lambda a, b: L.solve_ex(a, b.mT, left=False)[0],
            "solve vector": lambda a, b: L.solve_ex(a, b[..., 0])[0],
            "exp": lambda a, b: torch.matrix_exp(a),
        },
        a,
        b,
        rtol=1e-3 if dtype != torch.float64 else 1e-8,
        atol=1e-4 if dtype != torch.float64 else 1e-9,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 3, 5), (2, 0, 3)])
def test_factors(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = matrices(*shape, dtype=dtype)
    tolerance = 1e-4 if dtype != torch.float64 else 1e-9
    check(lambda a: (L.lu_factor_ex(a), L.lu(a)), a, rtol=tolerance, atol=tolerance)
    lu, pivots = L.lu_factor(a)
    check(lambda lu, p: torch.lu_unpack(lu, p), lu, pivots, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_solves_with_factors(dtype: torch.dtype) -> None:
    lu, pivots = L.lu_factor(matrices(2, 4, 4, dtype=dtype))
    b = matrices(4, 4, dtype=dtype, seed=1)

    def f(lu: torch.Tensor, p: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [L.lu_solve(lu, p, b, left=left, adjoint=adjoint) for left in (True, False) for adjoint in (True, False)]

    check(f, lu, pivots, b, rtol=1e-3 if dtype != torch.float64 else 1e-8, atol=1e-4 if dtype != torch.float64 else 1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 5), (0, 0)])
def test_triangular(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a, b = positive(*shape, dtype=dtype), matrices(*shape[:-1], 3, dtype=dtype, seed=1)
    check_all(
        {
            "cholesky": lambda a, b: L.cholesky_ex(a)[0],
            "upper": lambda a, b: L.cholesky_ex(a, upper=True)[0],
            "info": lambda a, b: L.cholesky_ex(a)[1],
            "cholesky_solve": lambda a, b: torch.cholesky_solve(b, L.cholesky_ex(a)[0]),
            "cholesky_solve upper": lambda a, b: torch.cholesky_solve(b, L.cholesky_ex(a, upper=True)[0], upper=True),
            "cholesky_inverse": lambda a, b: torch.cholesky_inverse(L.cholesky_ex(a)[0]),
            "solve lower": lambda a, b: L.solve_triangular(a.tril(), b, upper=False),
            "solve upper": lambda a, b: L.solve_triangular(a.triu(), b, upper=True),
            "solve right": lambda a, b: L.solve_triangular(a.triu(), b.mT, upper=True, left=False),
            "solve unit": lambda a, b: L.solve_triangular(a.tril() / 10, b, upper=False, unitriangular=True),
            "triangular_solve": lambda a, b: torch.triangular_solve(b, a.triu())[0],
            "triangular_solve transposed": lambda a, b: torch.triangular_solve(b, a.tril(), upper=False, transpose=True)[0],
        },
        a,
        b,
        rtol=1e-3 if dtype != torch.float64 else 1e-8,
        atol=1e-4 if dtype != torch.float64 else 1e-9,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 3, 5), (2, 0, 3), (3, 0)])
def test_orthogonal_factors(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = matrices(*shape, dtype=dtype)
    tolerance = 1e-4 if dtype != torch.float64 else 1e-9
    check(lambda a: [L.qr(a, mode) for mode in ("reduced", "complete", "r")], a, rtol=tolerance, atol=tolerance)
    check(torch.geqrf, a, rtol=tolerance, atol=tolerance)
    stored, tau = torch.geqrf(a)
    x = matrices(*shape[:-1], 2, dtype=dtype, seed=1)
    check(
        lambda s, t, x: [torch.ormqr(s, t, x if left else x.mT, left, adjoined) for left in (True, False) for adjoined in (True, False)],
        stored,
        tau,
        x,
        rtol=tolerance,
        atol=tolerance,
    )
    if shape[-2] >= shape[-1]:
        check(L.householder_product, stored, tau, rtol=tolerance, atol=tolerance)


def test_cholesky_of_an_indefinite_matrix_says_so() -> None:
    low, info = compiled(lambda a: L.cholesky_ex(a))(torch.stack([torch.eye(3), -torch.eye(3)]))
    assert info.tolist() == [0, 1] and torch.equal(low[0], torch.eye(3))


def test_singular_matrices() -> None:
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    check(lambda a: (torch.ops.aten._linalg_det(a)[0], L.slogdet(a), L.lu_factor_ex(a)), a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients(dtype: torch.dtype) -> None:
    tolerance = 2e-3 if dtype == torch.float32 else 1e-7
    a, b = matrices(2, 4, 4, dtype=dtype).requires_grad_(), matrices(2, 4, 3, dtype=dtype, seed=1).requires_grad_()

    def f(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [L.inv_ex(a)[0], L.solve_ex(a, b)[0], L.slogdet(a)[1], L.det(a), torch.matrix_exp(a / 4)]

    check_grad(f, a, b, rtol=tolerance, atol=tolerance)
    check_grad(lambda a: L.qr(a), a, rtol=tolerance, atol=tolerance)
    p = positive(2, 4, 4, dtype=dtype).requires_grad_()
    check_grad(lambda p, b: [L.cholesky_ex(p)[0], L.solve_triangular(p.tril(), b, upper=False)], p, b, rtol=tolerance, atol=tolerance)


def test_checked_functions() -> None:
    a, b = matrices(2, 4, 4), matrices(2, 4, 3, seed=1)
    f = torch.compile(lambda a, b: (L.inv(a), L.solve(a, b), L.matrix_power(a, -2), L.det(a)), backend="tpu", dynamic=False)
    torch.testing.assert_close(f(a, b), (L.inv(a), L.solve(a, b), L.matrix_power(a, -2), L.det(a)), rtol=1e-3, atol=1e-4)
