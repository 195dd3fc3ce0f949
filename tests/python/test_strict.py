"""Strict mode: what is ready runs, what would compile anew raises with the argument and axis."""

import pytest
import torch

import torch_clutch


def test_a_new_bucket_names_the_argument_the_axis_and_what_is_ready():
    f = torch.compile(lambda x: (x * 2).sum(1), backend="tpu", dynamic=True, options={"buckets": [32, 64, 128]})
    for length in (20, 50):
        f(torch.ones(length, 40))
    with torch_clutch.strict():
        assert torch.equal(f(torch.ones(60, 40)), torch.full((60,), 80.0))
        before = torch_clutch.metrics()["compiles"]
        with pytest.raises(
            torch_clutch.StrictModeError, match=r"L\['x'\].size\(\)\[0\] is 100 \(bucket 128\), compiled so far: \[32, 64\]"
        ):
            f(torch.ones(100, 40))
        assert torch_clutch.metrics()["compiles"] == before
    assert torch.equal(f(torch.ones(100, 40)), torch.full((100,), 80.0))


def test_a_new_static_shape_names_the_argument_and_both_sizes():
    f = torch.compile(lambda x, y: x + y, backend="tpu", dynamic=False)
    f(torch.ones(4, 3), torch.ones(3))
    with torch_clutch.strict():
        f(torch.ones(4, 3), torch.ones(3))
        with pytest.raises(torch_clutch.StrictModeError, match=r"L\['x'\] is float32\[5, 3\], compiled so far: float32\[4, 3\]"):
            f(torch.ones(5, 3), torch.ones(3))
    assert torch.equal(f(torch.ones(5, 3), torch.ones(3)), torch.full((5, 3), 2.0))


def test_other_code_with_nearer_sizes_is_not_named():
    f = torch.compile(lambda x, y: x + y, backend="tpu", dynamic=False)
    g = torch.compile(lambda x, y: x - y, backend="tpu", dynamic=False)
    f(torch.ones(4, 3), torch.ones(3))
    f(torch.ones(6, 3), torch.ones(3))
    g(torch.ones(7, 2), torch.ones(3, 1, 1))
    g(torch.ones(7, 2), torch.ones(2))
    with (
        torch_clutch.strict(),
        pytest.raises(
            torch_clutch.StrictModeError,
            match=r"L\['x'\] is float32\[7, 3\], compiled so far: float32\[4, 3\] or float32\[6, 3\]\n",
        ),
    ):
        f(torch.ones(7, 3), torch.ones(3))


def test_a_first_graph_raises_and_works_afterwards():
    f = torch.compile(lambda only_here: only_here.exp(), backend="tpu")
    with (
        torch_clutch.strict(),
        pytest.raises(torch_clutch.StrictModeError, match=r"no graph of this code with these arguments .*only_here"),
    ):
        f(torch.ones(3))
    torch.testing.assert_close(f(torch.ones(3)), torch.ones(3).exp())


def test_training_in_strict_mode_after_a_step():
    model = torch.nn.Linear(4, 2)
    f = torch.compile(model, backend="tpu")
    f(torch.ones(3, 4)).sum().backward()
    with torch_clutch.strict():
        f(torch.ones(3, 4)).sum().backward()


def test_what_the_cache_holds_is_no_compilation():
    def fresh():
        torch._dynamo.reset()
        return torch.compile(lambda x: x.cos() - 17.25, backend="tpu")

    fresh()(torch.ones(6))
    torch_clutch.reset_metrics()
    with torch_clutch.strict():
        fresh()(torch.ones(6))
    assert torch_clutch.metrics()["executable_hits"] == 1
    assert torch_clutch.metrics()["compiles"] == 0


def test_strict_ends_with_its_block_and_nests():
    with pytest.raises(ZeroDivisionError), torch_clutch.strict(), torch_clutch.strict():
        _ = 1 // 0
    torch.compile(lambda x: x.sin() * 3.5, backend="tpu")(torch.ones(5))
