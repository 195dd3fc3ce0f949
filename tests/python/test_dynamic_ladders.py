"""Ladders of single sizes, and sizes beyond the last bucket."""

import pytest
import torch

import torch_clutch
from torch_clutch.options import Options


def attend(query, memory):
    return torch.softmax(query @ memory.transpose(0, 1), dim=1) @ memory


def both(compiled, rows, columns):
    query, memory = torch.randn(rows, 8), torch.randn(columns, 8)
    torch.testing.assert_close(compiled(query, memory), attend(query, memory), rtol=1e-4, atol=1e-5)


def test_each_size_follows_its_own_ladder():
    f = torch.compile(attend, backend="tpu", dynamic=True, options={"buckets": {"query:0": [16, 64], "memory:0": "pow2"}})
    for rows, columns in ((10, 33), (16, 40), (12, 64), (50, 34)):
        both(f, rows, columns)
    assert torch_clutch.metrics()["buckets"] == 2
    assert torch_clutch.metrics()["bucket_exact"] == 0
    both(f, 65, 20)
    assert torch_clutch.metrics()["bucket_exact"] == 1, "beyond the list of one symbol"


def test_a_star_is_for_all_other_sizes():
    f = torch.compile(attend, backend="tpu", dynamic=True, options={"buckets": {"query:0": "exact", "*": [64]}})
    both(f, 11, 20)
    both(f, 11, 30)
    assert torch_clutch.metrics()["buckets"] == 1
    both(f, 12, 30)
    assert torch_clutch.metrics()["buckets"] == 2


def test_backward_graphs_follow_the_ladders_too():
    f = torch.compile(lambda x: (x.sigmoid() * x).sum(), backend="tpu", dynamic=True, options={"buckets": {"x:0": [64], "*": "exact"}})
    for length in (20, 33, 50):
        x = torch.randn(length, requires_grad=True)
        f(x).backward()
        s = x.detach().sigmoid()
        torch.testing.assert_close(x.grad, s + x.detach() * s * (1 - s))
    assert torch_clutch.metrics()["buckets"] == 2
    assert torch_clutch.metrics()["bucket_exact"] == 0


def test_beyond_the_last_bucket_is_an_error_when_wanted():
    f = torch.compile(attend, backend="tpu", dynamic=True, options={"buckets": {"query:0": [16, 32]}, "beyond": "error"})
    both(f, 20, 9)
    with pytest.raises(torch_clutch.SizeError, match=r"L\['query'\].*is 40, beyond its largest bucket 32"):
        both(f, 40, 9)
    both(f, 32, 9)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({}, "at least one size"),
        ({"x:0": []}, "the ladder of 'x:0': a ladder needs at least one size"),
        ({"x:0": [64, 32]}, "the ladder of 'x:0': the sizes of a ladder must increase"),
        ({"x:0": [1, 32]}, "the ladder of 'x:0': 1 cannot be a bucket"),
        ({"x:first": "auto"}, "'x:first' is no size"),
        ({"x": "large"}, "the ladder of 'x'"),
        ([], "a ladder needs at least one size"),
        ([0], "0 cannot be a bucket"),
        ("x:0=pow3", "the ladder of 'x:0'"),
    ],
)
def test_bad_ladders_name_the_size_and_the_reason(value, reason):
    with pytest.raises(torch_clutch.OptionError, match=reason):
        Options.read({"buckets": value})


def test_the_environment_takes_the_same_ladders():
    given = Options.read({"buckets": {"x:1": [64, 128], "*": "pow2"}})
    assert Options.read({}, {"CLUTCH_BUCKETS": "x:1=64,128; *=pow2"}).buckets == given.buckets
    assert given.ladders() == {"x:1": "64,128", "*": "pow2"}
