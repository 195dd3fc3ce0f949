"""Scaled dot-product attention against eager."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import bools, check, check_grad, compiled, floats

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
HALF = {"rtol": 3e-2, "atol": 3e-2}
SDPA = F.scaled_dot_product_attention


def qkv(q, kv, value_width=None, dtype=torch.float32, grad=True):
    v = (*kv[:-1], value_width or kv[-1])
    return [floats(*s, dtype=dtype, seed=i, grad=grad) for i, s in enumerate([q, kv, v])]


@pytest.mark.parametrize("dtype,close", [(torch.float32, CLOSE), (torch.bfloat16, HALF)])
@pytest.mark.parametrize("causal", [False, True])
def test_plain(dtype, close, causal):
    check_grad(lambda q, k, v: SDPA(q, k, v, is_causal=causal), *qkv((2, 3, 7, 8), (2, 3, 7, 8), dtype=dtype), **close)
    check_grad(lambda q, k, v: SDPA(q, k, v, is_causal=causal, scale=0.3), *qkv((1, 2, 5, 8), (1, 2, 9, 8), dtype=dtype), **close)


@pytest.mark.parametrize("shape", [(7, 9), (2, 1, 7, 9), (2, 3, 1, 9), (1, 1, 7, 9)])
def test_masks(shape):
    tensors = qkv((2, 3, 7, 8), (2, 3, 9, 8))
    check_grad(lambda q, k, v, m: SDPA(q, k, v, attn_mask=m), *tensors, floats(*shape, seed=5), **CLOSE)
    mask = bools(*shape, seed=5)
    mask[..., 0] = True
    check_grad(lambda q, k, v, m: SDPA(q, k, v, attn_mask=m), *tensors, mask, **CLOSE)


def test_rows_that_see_nothing():
    mask = bools(7, 9)
    mask[3] = False
    check_grad(lambda q, k, v, m: SDPA(q, k, v, attn_mask=m), *qkv((2, 3, 7, 8), (2, 3, 9, 8)), mask, **CLOSE)


def test_grouped_heads():
    check_grad(lambda q, k, v: SDPA(q, k, v, is_causal=True, enable_gqa=True), *qkv((2, 6, 5, 8), (2, 2, 5, 8)), **CLOSE)


def test_other_forms():
    check_grad(lambda q, k, v: SDPA(q, k, v), *qkv((2, 3, 7, 8), (2, 3, 7, 8), value_width=6), **CLOSE)
    check_grad(lambda q, k, v: SDPA(q, k, v), *qkv((3, 7, 8), (3, 7, 8)), **CLOSE)
    transposed = [x.transpose(1, 2) for x in qkv((2, 7, 3, 8), (2, 7, 3, 8), grad=False)]
    check(lambda q, k, v: SDPA(q, k, v), *transposed, **CLOSE)
    check(lambda q, k, v: torch.ops.aten._scaled_dot_product_attention_math(q, k, v, is_causal=True)[0], *transposed, **CLOSE)


def test_learned_bias():
    bias = floats(1, 3, 7, 9, seed=7, grad=True)
    check_grad(lambda q, k, v, m: SDPA(q, k, v, attn_mask=m), *qkv((2, 3, 7, 8), (2, 3, 9, 8)), bias, **CLOSE)


def test_dropout_drops():
    q, k, v = qkv((1, 2, 16, 8), (1, 2, 16, 8), grad=False)
    v = torch.ones_like(v)
    out = compiled(lambda q, k, v: SDPA(q, k, v, dropout_p=0.5))(q, k, v)
    assert out.shape == v.shape
    assert out.std() > 0.01
    assert abs(out.mean().item() - 1) < 0.5
