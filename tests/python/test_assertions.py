"""Assertions on the contents of tensors: raised like in eager, with nothing written."""

import pytest
import torch
import torch.nn.functional as F

import torch_clutch


def compiled(f, **kwargs):
    return torch.compile(f, backend="tpu", fullgraph=True, **kwargs)


@pytest.mark.parametrize("labels", [[0, 5, 1], [-1, 0, 0]])
def test_one_hot_refuses_labels_out_of_range(labels):
    f = compiled(lambda i: F.one_hot(i, 5))
    valid = torch.tensor([0, 1, 4])
    assert torch.equal(f(valid), F.one_hot(valid, 5))
    with pytest.raises(RuntimeError, match="Class values must be"):
        f(torch.tensor(labels))
    assert torch.equal(f(valid), F.one_hot(valid, 5))


def test_a_saved_program_refuses_labels_out_of_range(tmp_path):
    class Labels(torch.nn.Module):
        def forward(self, i):
            return F.one_hot(i, 5).float().sum(0)

    valid, path = torch.tensor([0, 1, 4]), tmp_path / "labels.clutch"
    torch_clutch.save(torch.export.export(Labels(), (valid,)), path)
    loaded = torch_clutch.load(path)
    assert torch.equal(loaded(valid), Labels()(valid))
    with pytest.raises(RuntimeError, match="Class values must be smaller"):
        loaded(torch.tensor([0, 1, 5]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_failed_assertion_writes_to_no_input(dynamic):
    def step(x):
        torch._assert_async((x > 0).all(), "x must be positive")
        x.add_(1)
        return x * 2

    f = compiled(step, dynamic=dynamic)
    for length in (33, 50):
        good = torch.ones(length)
        assert torch.equal(f(good), torch.full((length,), 4.0))
        assert torch.equal(good, torch.full((length,), 2.0))
        bad = torch.ones(length)
        bad[-1] = -1
        before = bad.clone()
        with pytest.raises(RuntimeError, match="x must be positive"):
            f(bad)
        assert torch.equal(bad, before)
    assert torch_clutch.metrics()["donations"] == 0
