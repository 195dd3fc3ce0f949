"""Distances between rows, cosine similarity and bilinear forms against eager."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import check, check_grad, floats


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances(p: float) -> None:
    x, y = floats(2, 5, 3, grad=True), floats(4, 3, seed=1, grad=True)
    if p == 0:
        check(lambda x, y: (torch.cdist(x, y, p), torch.pdist(y, p)), x.detach(), y.detach())
        return
    check_grad(lambda x, y: torch.cdist(x, y, p), x, y, rtol=1e-4, atol=1e-5)
    check_grad(lambda y: torch.pdist(y, p), y, rtol=1e-4, atol=1e-5)


def test_equal_rows() -> None:
    x = floats(3, 4)
    x[1] = x[0]
    check_grad(lambda x: (torch.cdist(x, x + 0), torch.pdist(x)), x.requires_grad_(), rtol=1e-4, atol=1e-5)


def test_large() -> None:
    check(lambda x, y: torch.cdist(x, y), floats(40, 8), floats(50, 8, seed=1), rtol=1e-4, atol=1e-4)


def test_empty() -> None:
    check(lambda x, y: (torch.cdist(x, y), torch.cdist(y, x)), torch.empty(0, 3), floats(4, 3))
    check(lambda x, y: torch.cdist(x, y), torch.empty(2, 0), torch.empty(3, 0))
    check(lambda x: (torch.pdist(x[:1]), torch.pdist(x[:0])), floats(2, 3))


def test_similarities() -> None:
    x, y = floats(4, 5, grad=True), floats(4, 5, seed=1, grad=True)
    check_grad(lambda x, y: (F.cosine_similarity(x, y), F.pairwise_distance(x, y), F.normalize(x, dim=0)), x, y, rtol=1e-4, atol=1e-5)


def test_bilinear() -> None:
    x, y, w, b = floats(4, 3, grad=True), floats(4, 5, seed=1, grad=True), floats(2, 3, 5, seed=2, grad=True), floats(2, seed=3, grad=True)
    check_grad(F.bilinear, x, y, w, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_types(dtype: torch.dtype) -> None:
    x, y = floats(5, 3, dtype=dtype), floats(4, 3, dtype=dtype, seed=1)
    if dtype == torch.float64:
        check(torch.cdist, x, y)
    check(lambda x, y: F.cosine_similarity(x[:4], y), x, y)
