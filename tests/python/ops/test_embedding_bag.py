"""Bags of embedding rows, renormalisation and positions of nonzero elements against eager."""

import pytest
import torch
import torch.nn.functional as F

from op_checks import bools, check, check_all, check_grad, floats, ints

OFFSETS = [0, 3, 3, 7]
COUNT = int(bools(4, 5).sum())


@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str, padding: int | None) -> None:
    weight, i = floats(6, 4, grad=True), ints(10, low=0, high=6)

    def f(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(i, w, o, mode=mode, padding_idx=padding)

    check_grad(f, weight, i, torch.tensor(OFFSETS), rtol=1e-5, atol=1e-6)
    check_grad(f, weight, i.int(), torch.tensor(OFFSETS, dtype=torch.int32), rtol=1e-5, atol=1e-6)
    check(f, weight.detach(), i[:0], torch.tensor([0, 0]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_rows_as_bags(mode: str) -> None:
    check_grad(lambda w, i: F.embedding_bag(i, w, mode=mode), floats(6, 4, grad=True), ints(3, 5, low=0, high=6), rtol=1e-5, atol=1e-6)


def test_last_offset_and_weights() -> None:
    weight, i, o = floats(6, 4, grad=True), ints(10, low=0, high=6), torch.tensor([*OFFSETS, 10])
    check_grad(lambda w, i, o: F.embedding_bag(i, w, o, mode="mean", include_last_offset=True), weight, i, o, rtol=1e-5, atol=1e-6)
    scale = floats(10, seed=1, grad=True)

    def weighted(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(i, w, o[:-1], mode="sum", per_sample_weights=s)

    check_grad(weighted, weight, i, o, scale, rtol=1e-5, atol=1e-6)
    check_grad(lambda w, i, o: F.embedding_bag(i, w, o[:-1], mode="sum", scale_grad_by_freq=True), weight, i, o, rtol=1e-5, atol=1e-6)


def test_bfloat16() -> None:
    weight, i = floats(6, 4, dtype=torch.bfloat16, grad=True), ints(10, low=0, high=6)
    check_grad(lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"), weight, i, torch.tensor(OFFSETS), rtol=1.6e-2, atol=1e-2)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_renormalisation(p: float) -> None:
    weight, i = 2 * floats(6, 4), torch.tensor([0, 2, 2, 5])
    check(lambda w, i: F.embedding(i, w.clone(), max_norm=1.5, norm_type=p), weight, i, rtol=1e-5, atol=1e-6)


def test_nonzero_with_a_given_size() -> None:
    check_all(
        {
            "exact": lambda x: torch.nonzero_static(x, size=COUNT),
            "cut": lambda x: torch.nonzero_static(x, size=3),
            "filled": lambda x: torch.nonzero_static(x, size=30, fill_value=-7),
            "none": lambda x: torch.nonzero_static(x, size=0),
            "row": lambda x: torch.nonzero_static(x[0], size=5),
            "nothing": lambda x: torch.nonzero_static(x[:0], size=2),
        },
        bools(4, 5),
    )
    check(lambda x: torch.nonzero_static(x, size=4), torch.tensor([0.0, -0.0, 1.5, float("nan"), -2.0]))
