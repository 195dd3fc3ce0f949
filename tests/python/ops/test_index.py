"""Indexing with tensors, embeddings, gathers and scatters against eager."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import bools, check, check_all, check_grad, floats, ints

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool]


def distinct(n: int, size: int, seed: int = 0) -> torch.Tensor:
    """Distinct positions on an axis of the size, shuffled."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:n]


@pytest.mark.parametrize("dtype", DTYPES)
def test_index(dtype):
    x = ints(5, 4, 3, 6).to(dtype)
    i, j = ints(2, 3, low=-5, high=5), ints(3, low=-3, high=3)
    check_all(
        {
            "first": lambda x, i, j: x[i],
            "last": lambda x, i, j: x[..., j],
            "middle": lambda x, i, j: x[:, :, j],
            "adjacent": lambda x, i, j: x[:, j, j],
            "broadcast": lambda x, i, j: x[i, j],
            "apart": lambda x, i, j: x[i, :, j],
            "apart at the end": lambda x, i, j: x[:, j, :, j],
            "scalar": lambda x, i, j: torch.ops.aten.index(x, [i[0, 0]]),
            "scalar and vector": lambda x, i, j: torch.ops.aten.index(x, [i[0, 0], None, j]),
            "column": lambda x, i, j: x[j[:, None], j],
            "narrow index": lambda x, i, j: x[i.int(), :, j.int()],
            "with newaxis and slice": lambda x, i, j: x[1:, None, j],
            "unsafe": lambda x, i, j: torch.ops.aten._unsafe_index(x, [None, j, None, j]),
        },
        x,
        i,
        j,
    )


def test_index_of_nothing():
    x = floats(4, 3)
    none = torch.zeros(0, dtype=torch.int64)
    check_all({"rows": lambda x, i: x[i], "columns": lambda x, i: x[:, i], "both": lambda x, i: x[i, i]}, x, none)
    check(lambda x, i: x[i], floats(4, 0), ints(3, low=0, high=4))
    check(lambda x, i: torch.ops.aten.index(x, [i]), floats(4), torch.tensor(-1))


def test_index_gradients():
    i, j = ints(2, 3, low=-5, high=5), ints(3, low=-4, high=4)
    x = floats(5, 4, 3, grad=True)
    check_grad(lambda x, i, j: (x[i], x[i, j], x[i, :, :2], x[:, j]), x, i, j)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_put(dtype):
    x, values = ints(5, 4, 3).to(dtype), ints(2, 3, seed=1).to(dtype)
    i, j = distinct(2, 5), distinct(2, 3, 1)

    def put(x, *args):
        return torch.index_put(x, *args)

    fs = {
        "rows": lambda x, v, i, j: put(x, (i, j), v),
        "one value": lambda x, v, i, j: put(x, (i,), v[0, 0]),
        "broadcast": lambda x, v, i, j: put(x, (i,), v[0]),
        "apart": lambda x, v, i, j: torch.ops.aten.index_put(x, [i, None, j], v[:, :1]),
        "unsafe": lambda x, v, i, j: torch.ops.aten._unsafe_index_put(x, [None, i - 4, None], v),
        "negative": lambda x, v, i, j: put(x, (i - 5,), v[0, 0]),
        "nothing": lambda x, v, i, j: put(x, (i[:0],), v[0, 0]),
        "mask": lambda x, v, i, j: put(x, (x[:, :, 0] > 0,), v[0, 0]),
    }
    if dtype != torch.bool:
        fs["accumulate"] = lambda x, v, i, j: put(x, (i * 0, j * 0), v, True)
        fs["accumulate row"] = lambda x, v, i, j: put(x, (i,), v[0], True)
    check_all(fs, x, values, i, j)


def test_assignment_by_mask():
    def f(x, mask, v):
        y, z, w = x.clone(), x.clone(), x.clone()
        y[mask] = 7
        z[:, mask[0]] = v[:, None]
        w[mask] = -w.new_ones(())
        return y, z, w

    check(f, floats(4, 5), bools(4, 5), floats(4, seed=1))


def test_index_put_gradients():
    x, v, i = floats(5, 4, grad=True), floats(3, 4, seed=1, grad=True), distinct(3, 5)
    check_grad(lambda x, v, i: (x.index_put((i,), v), x.index_put((i * 0 + 1,), v, True)), x, v, i)


def test_masked_index():
    x = floats(5, 4)
    i, j = ints(3, 1, low=-2, high=7), ints(3, low=0, high=4)
    mask = (i >= 0) & (i < 5) & bools(3, 3)

    def take(x, mask, i, j):
        return torch.ops.aten._unsafe_masked_index(x, mask, [i, j], -1.5)

    def put(x, mask, i, j):
        return torch.ops.aten._unsafe_masked_index_put_accumulate(x, mask, [i.clamp(-5, 4), j], torch.ones(3, 3))

    check_all({"take": take, "put": put}, x, mask, i, j)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_embedding(dtype):
    weight, i = floats(7, 5, dtype=dtype, grad=True), ints(3, 4, low=0, high=7)
    check_grad(lambda w, i: (F.embedding(i, w), F.embedding(i[0, 0], w), F.embedding(i.int(), w)), weight, i, exact=True)
    check_grad(lambda w, i: F.embedding(i, w, padding_idx=2), weight, i, exact=True)
    check_grad(lambda w, i: F.embedding(i, w, padding_idx=-1, scale_grad_by_freq=True), weight, i, exact=True)
    check_grad(lambda w, i: F.embedding(i, w), weight, ints(0, low=0, high=7))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather(dtype):
    x = ints(4, 5, 3).to(dtype)
    i = ints(2, 5, 3, low=0, high=3)
    check_all(
        {
            "0": lambda x, i: x.gather(0, i),
            "1": lambda x, i: x.gather(1, i),
            "-1": lambda x, i: x.gather(-1, i[:, :4]),
            "one column": lambda x, i: x.gather(-1, i[:, :, :1]),
            "one": lambda x, i: x.gather(1, i[:1, :1, :1]),
            "nothing": lambda x, i: x.gather(1, i[:0]),
            "along": lambda x, i: torch.take_along_dim(x, i[:1], 0),
            "scalar": lambda x, i: x[0, 0, 0].gather(0, i[0, 0, 0] * 0),
            "select": lambda x, i: x.index_select(1, i[0, :, 0]),
            "select one": lambda x, i: x.index_select(-1, i[0, 0, 0]),
            "select none": lambda x, i: x.index_select(0, i[0, :0, 0]),
            "take": lambda x, i: x.take(i * 4 - 8),
        },
        x,
        i,
    )


def test_gather_gradients():
    x, i = floats(4, 5, grad=True), ints(3, 5, low=0, high=4)
    check_grad(lambda x, i: (x.gather(0, i), x.gather(1, i[:, :2]), x.index_select(0, i[0]), x.take(i)), x, i)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter(dtype):
    x, src = ints(4, 6, 3).to(dtype), ints(4, 3, 3, seed=1).to(dtype)
    i = torch.stack([distinct(3, 6, s) for s in range(12)]).reshape(4, 3, 3).transpose(1, 2).contiguous()
    fs = {
        "src": lambda x, s, i: x.scatter(1, i, s),
        "part": lambda x, s, i: x.scatter(1, i[:2, :2], s),
        "value": lambda x, s, i: x.scatter(1, i, 1),
        "nothing": lambda x, s, i: x.scatter(1, i[:0], s),
        "scalar": lambda x, s, i: x[0, 0, 0].scatter(0, i[0, 0, 0] * 0, s[0, 0, 0]),
        "index_copy": lambda x, s, i: x.index_copy(1, i[0, :, 0], s),
        "index_fill": lambda x, s, i: x.index_fill(1, i[0, :, 0] - 6, 1),
        "index_fill tensor": lambda x, s, i: x.index_fill(-1, i[0, :, 0] * 0, s[0, 0, 0]),
        "put": lambda x, s, i: x.put(i[0, 0], s[0, 0]),
        "masked_scatter": lambda x, s, i: x.masked_scatter(s[:, :1] > 0, s.repeat(1, 2, 1)),
    }
    if dtype != torch.bool:
        fs |= {
            "add": lambda x, s, i: x.scatter_add(1, i, s),
            "add to one": lambda x, s, i: x.scatter_add(1, i * 0, s),
            "reduce add": lambda x, s, i: x.scatter(1, i * 0, s, reduce="add"),
            "reduce multiply": lambda x, s, i: x.scatter(1, i, s, reduce="multiply"),
            "value multiply": lambda x, s, i: x.scatter(1, i, 3, reduce="multiply"),
            "index_add": lambda x, s, i: x.index_add(1, i[0, :, 0] * 0 + 1, s),
            "index_add alpha": lambda x, s, i: x.index_add(1, i[0, :, 0], s, alpha=2),
            "put accumulate": lambda x, s, i: x.put(i[0, 0] * 0 - 1, s[0, 0], accumulate=True),
        }
    check_all(fs, x, src, i, **({"rtol": 2e-2, "atol": 5e-2} if dtype == torch.bfloat16 else {}))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_scatter_reduce(dtype, include_self):
    x, src, i = ints(4, 6, low=-4, high=5).to(dtype), ints(4, 5, low=-4, high=5, seed=1).to(dtype), ints(4, 5, low=0, high=3)
    names = ["sum", "prod", "mean", "amax", "amin"]
    check_all({n: lambda x, s, i, n=n: x.scatter_reduce(1, i, s, n, include_self=include_self) for n in names}, x, src, i)
    reduces = {n: lambda x, s, i, n=n: x.index_reduce(1, i[0], s, n, include_self=include_self) for n in names[1:]}
    check_all(reduces, x, src, i)


def test_scatter_gradients():
    x, src = floats(4, 6, grad=True), floats(4, 3, seed=1, grad=True)
    i = torch.stack([distinct(3, 6, s) for s in range(4)])

    def f(x, s, i):
        return x.scatter(1, i, s), x.scatter(1, i, 2.0), x.scatter_add(1, i * 0, s), x.index_add(1, i[0], s)

    check_grad(f, x, src, i)
    check_grad(lambda x, s: x.masked_scatter(x > 0, s.repeat(2, 2)), x, src)


def test_one_hot():
    check_all({"matrix": lambda i: F.one_hot(i, 5), "scalar": lambda i: F.one_hot(i[0, 0], 5)}, ints(3, 4, low=0, high=5))
