"""Compilations in the background: calls are served by eager or a larger bucket until they are done."""

import copy
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import torch_clutch
from torch_clutch import _clutch


def count(name: str) -> int:
    return torch_clutch.metrics()[name]


@pytest.fixture
def held() -> Iterator[None]:
    """Compilations in the background wait until the test lets them go."""
    _clutch.pause_compiles()
    yield
    _clutch.resume_compiles()
    torch_clutch.wait_for_compiles()


def finish() -> None:
    _clutch.resume_compiles()
    torch_clutch.wait_for_compiles()
    _clutch.pause_compiles()


def compiled(f: Callable, **options) -> Callable:
    return torch.compile(f, backend="tpu", fullgraph=True, options={"async_compile": True, **options})


def test_eager_serves_until_the_program_is_ready(held):
    f = compiled(lambda x: (x * 2.5).sin(), cache=False)
    x = torch.randn(7)
    for _ in range(3):
        torch.testing.assert_close(f(x), (x * 2.5).sin())
    assert (count("eager_calls"), count("executions"), count("async_compiles")) == (3, 0, 1)
    finish()
    torch.testing.assert_close(f(x), (x * 2.5).sin())
    assert (count("eager_calls"), count("executions"), count("compiles")) == (3, 1, 1)


def test_a_larger_bucket_serves_while_the_smaller_one_is_compiled(held):
    f = torch.compile(lambda x: x.softmax(0), backend="tpu", dynamic=True, options={"async_compile": True, "cache": False})

    def agrees(n: int) -> None:
        x = torch.randn(n, 3)
        torch.testing.assert_close(f(x), x.softmax(0))

    agrees(100)
    finish()
    agrees(97)
    assert (count("eager_calls"), count("buckets"), count("executions")) == (1, 1, 1)
    agrees(33)
    agrees(34)
    agrees(33)
    assert (count("eager_calls"), count("buckets"), count("executions")) == (1, 1, 4)
    padded = count("pad_elements")
    finish()
    agrees(33)
    assert (count("eager_calls"), count("buckets"), count("bucket_exact")) == (1, 2, 0)
    assert count("pad_elements") - padded <= 3 * 8
    agrees(300)
    assert count("eager_calls") == 2


def test_training_in_eager_and_then_compiled(held):
    model = nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.BatchNorm1d(8), nn.Linear(8, 1))
    twin = copy.deepcopy(model)
    run = compiled(model, cache=False)
    for step in range(4):
        x = torch.randn(6, 5)
        for net, call in ((model, run), (twin, twin)):
            net.zero_grad(set_to_none=True)
            call(x).square().mean().backward()
        for (name, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")
        for p, q in zip(model.buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(p, q)
        if step == 1:
            assert count("executions") == 0
            finish()
    assert count("executions") == 4
    assert count("eager_calls") == 4


def test_inputs_that_are_written_to_and_results_that_share_memory(held):
    def step(x, y):
        x.add_(y)
        return x[1:], x.sum(), y

    run = compiled(step, cache=False)
    for _ in range(2):
        x, y = torch.randn(4, 3), torch.randn(4, 3)
        expected = x + y
        part, total, same = run(x, y)
        torch.testing.assert_close(x, expected)
        torch.testing.assert_close(total, expected.sum())
        assert part.data_ptr() == x[1:].data_ptr()
        assert same is y
        finish()
    assert (count("eager_calls"), count("executions")) == (1, 1)


def test_what_the_cache_holds_is_not_compiled_in_the_background(held):
    def fresh() -> Callable:
        torch._dynamo.reset()
        return compiled(lambda x: x.cos() * 1.75)

    fresh()(torch.ones(6))
    finish()
    torch_clutch.reset_metrics()
    fresh()(torch.ones(6))
    assert (count("eager_calls"), count("async_compiles"), count("graph_hits"), count("executions")) == (0, 0, 1, 1)


def test_strict_mode_forbids_them(held):
    f = compiled(lambda x: x.tan() * 0.75, cache=False)
    with torch_clutch.strict(), pytest.raises(torch_clutch.StrictModeError):
        f(torch.ones(6))
    f(torch.ones(6))
    with torch_clutch.strict(), pytest.raises(torch_clutch.StrictModeError):
        f(torch.ones(6))
    finish()
    with torch_clutch.strict():
        f(torch.ones(6))
    assert count("executions") == 1


def test_unsupported_operators_are_named_at_once(held):
    f = compiled(lambda x: torch.linalg.eigvals(x), fallback="error")
    with pytest.raises(torch_clutch.UnsupportedError, match="eigvals"):
        f(torch.ones(3, 3))


def test_a_failed_compilation_leaves_eager(fake, monkeypatch, capfd):
    monkeypatch.setenv("CLUTCH_FAKE_PJRT_FAIL", "PJRT_Client_Compile=INTERNAL:no compiler today")
    f = compiled(lambda x: x + 1, cache=False, pjrt_plugin=fake)
    for _ in range(3):
        assert torch.equal(f(torch.ones(3)), torch.full((3,), 2.0))
        torch_clutch.wait_for_compiles()
    assert (count("eager_calls"), count("executions"), count("async_compiles")) == (3, 0, 1)
    said = capfd.readouterr().err
    assert said.count("a compilation in the background failed") == 1
    assert "no compiler today" in said


def test_a_process_that_ends_waits_for_its_compilations(tmp_path):
    script = textwrap.dedent("""
        import torch
        f = torch.compile(lambda x: x.sort(-1).values @ x.mT, backend="tpu", options={"async_compile": True})
        f(torch.randn(40, 30))
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
