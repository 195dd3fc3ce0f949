"""Sizes that contradict one another, which PyTorch's guards stop before a call; buffers that serve several sizes."""

import pytest
import torch

import torch_clutch
from torch_clutch import _clutch


def test_contradictory_sizes_name_the_argument_and_the_formula(monkeypatch):
    graphs = []
    compile_graph = _clutch.compile

    def keep(gm, static_inputs, settings):
        graphs.append(compile_graph(gm, static_inputs, settings))
        return graphs[-1]

    monkeypatch.setattr(_clutch, "compile", keep)
    f = torch.compile(lambda x, y: x + y[1:], backend="tpu", dynamic=True)
    f(torch.ones(33), torch.ones(34))
    (graph,) = graphs
    (result,) = graph([torch.ones(41), 40, torch.ones(40)])
    assert torch.equal(result, torch.full((40,), 2.0))
    with pytest.raises(torch_clutch.SizeError, match=r"axis 0 of argument 2 is 40, but the program was captured with .* = 43"):
        graph([torch.ones(44), 43, torch.ones(40)])
    (result,) = graph([torch.ones(21), 20, torch.ones(20)])
    assert torch.equal(result, torch.full((20,), 2.0))


def test_one_buffer_serves_shorter_and_longer_calls_of_a_bucket():
    f = torch.compile(lambda x: x.cumsum(0) + x.mean(), backend="tpu", dynamic=True, options={"buckets": [64]})
    for length in (33, 60, 20, 64, 41, 64, 12, 60):
        x = torch.randn(length, 3)
        torch.testing.assert_close(f(x), x.cumsum(0) + x.mean())
        torch.testing.assert_close(f(x.t().contiguous().t()), x.cumsum(0) + x.mean())
