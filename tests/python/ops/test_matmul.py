"""Matrix products against eager."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import check, check_all, check_grad, floats, ints

TOLERANCE = {torch.float32: {"rtol": 1e-5, "atol": 1e-5}, torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}}


def numbers(*shape, dtype, seed=0):
    return ints(*shape, seed=seed) if dtype == torch.int64 else floats(*shape, dtype=dtype, seed=seed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64])
def test_products(dtype):
    x, y, v = (numbers(*s, dtype=dtype, seed=i) for i, s in enumerate([(3, 4, 5), (3, 5, 6), (5,)]))
    fs = {
        "mm": lambda x, y, v: x[0] @ y[0],
        "bmm": lambda x, y, v: x @ y,
        "mv": lambda x, y, v: torch.mv(x[0], v),
        "dot": lambda x, y, v: torch.dot(x[0, 0], v),
        "vdot": lambda x, y, v: torch.vdot(x[0, 0], v),
        "outer": lambda x, y, v: torch.outer(x[0, 0], v),
        "matmul": lambda x, y, v: torch.matmul(x, y[0]),
        "einsum": lambda x, y, v: torch.einsum("bij,bjk->ik", x, y),
        "over nothing": lambda x, y, v: x[0, :, :0] @ y[0, :0],
        "of nothing": lambda x, y, v: x[0, :0] @ y[0],
        "no matrices": lambda x, y, v: x[:0] @ y[:0],
    }
    check_all(fs, x, y, v, **TOLERANCE.get(dtype, {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("beta,alpha", [(1, 1), (2, 3), (0, 1)])
def test_products_with_addend(dtype, beta, alpha):
    x, y, b = (numbers(*s, dtype=dtype, seed=i) for i, s in enumerate([(3, 4, 5), (3, 5, 6), (3, 4, 6)]))
    k = {"beta": beta, "alpha": alpha}
    fs = {
        "addmm": lambda x, y, b: torch.addmm(b[0], x[0], y[0], **k),
        "addmm row": lambda x, y, b: torch.addmm(b[0, 0], x[0], y[0], **k),
        "baddbmm": lambda x, y, b: torch.baddbmm(b, x, y, **k),
        "baddbmm row": lambda x, y, b: torch.baddbmm(b[:1, :1], x, y, **k),
        "addbmm": lambda x, y, b: torch.addbmm(b[0], x, y, **k),
        "addmv": lambda x, y, b: torch.addmv(b[0, :, 0], x[0], y[0, :, 0], **k),
        "addr": lambda x, y, b: torch.addr(b[0], x[0, :, 0], y[0, 0], **k),
    }
    tolerance = {"rtol": 3e-2, "atol": 2e-1} if dtype == torch.bfloat16 else TOLERANCE.get(dtype, {})
    check_all(fs, x, y, b, **tolerance)


def test_zero_beta_hides_nan():
    check(lambda b, x: torch.addmm(b, x, x, beta=0), torch.full((3, 3), torch.nan), floats(3, 3))


def test_integers_keep_64_bits():
    x = torch.tensor([[2**40 + 1, -3], [5, 2**33]])
    check(lambda x: x @ x, x)
    check(lambda x, y: torch._int_mm(x, y), ints(20, 16, dtype=torch.int8), ints(16, 24, dtype=torch.int8, seed=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_gradients(dtype):
    x, w, b = floats(2, 3, 5, dtype=dtype, grad=True), floats(4, 5, dtype=dtype, seed=1, grad=True), floats(4, dtype=dtype, grad=True)
    tolerance = {"rtol": 2e-2, "atol": 5e-2} if dtype == torch.bfloat16 else TOLERANCE[dtype]
    check_grad(lambda x, w, b: (F.linear(x, w, b), F.linear(x, w), F.linear(x[0, 0], w, b)), x, w, b, **tolerance)


def test_gradients():
    x, y = floats(3, 4, 5, grad=True), floats(3, 5, 6, seed=1, grad=True)
    check_grad(lambda x, y: (x @ y, torch.addbmm(x[0, :, :1], x, y), torch.dot(x[0, 0], y[0, :, 0])), x, y, rtol=1e-5, atol=1e-5)
