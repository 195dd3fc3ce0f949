"""Where memory goes: inputs written in place, weights used in place, nothing that grows."""

import gc
import resource

import pytest
import torch
from torch import nn

import torch_clutch


def count(name: str) -> int:
    return torch_clutch.metrics()[name]


def resident() -> int:
    """Resident memory of the process in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("donate", [True, False])
def test_an_input_is_written_in_its_own_memory(donate):
    def scale(x, y):
        x.mul_(y)
        return x.sum()

    x, y = torch.randn(64, 64), torch.randn(64, 64)
    expected, address = x * y, x.data_ptr()
    total = torch.compile(scale, backend="tpu", options={"donate": donate})(x, y)
    torch.testing.assert_close(x, expected)
    torch.testing.assert_close(total, expected.sum())
    assert x.data_ptr() == address
    assert count("donations") == (1 if donate else 0)


def test_strided_and_unaligned_inputs_are_written_too():
    def step(x, y, z):
        x.add_(1)
        y.add_(x[:4, :4])
        z.sub_(1)

    base, shifted, plain = torch.zeros(8, 16), torch.zeros(17), torch.zeros(4, 4)
    run = torch.compile(step, backend="tpu")
    for i in range(1, 4):
        run(base[:, ::2], plain, shifted[1:])
        assert torch.equal(base[:, ::2], torch.full((8, 8), float(i)))
        assert torch.equal(base[:, 1::2], torch.zeros(8, 8))
        assert torch.equal(plain, torch.full((4, 4), i * (i + 1) / 2))
        assert shifted[0] == 0
        assert torch.equal(shifted[1:], torch.full((16,), -float(i)))


def test_a_compiled_optimizer_writes_its_state_in_place():
    model = nn.Linear(32, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3))
    model(torch.randn(4, 32)).sum().backward()
    step = torch.compile(optimizer.step, backend="tpu")
    for _ in range(3):
        step()
    before = torch_clutch.metrics()
    step()
    after = torch_clutch.metrics()
    # Weight, bias and two moments of each; the step counters are smaller than a cache line and may lie anywhere.
    assert after["donations"] - before["donations"] >= 6
    assert after["weight_bytes"] == 0


def test_weights_are_used_in_place_or_counted():
    x = torch.randn(2, 64)
    with torch.no_grad():
        plain = torch.compile(lambda x, w: x * w, backend="tpu")
        plain(x, torch.randn(64))
        assert count("weight_bytes") == 0
        model = nn.Linear(64, 64)
        torch.compile(model, backend="tpu")(x)
    assert count("weight_bytes") in (0, 64 * 64 * 4)


def test_ten_thousand_calls_do_not_grow():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 512))
    run = torch.compile(model.eval(), backend="tpu")
    x = torch.randn(32, 64)

    def calls(n: int) -> int:
        with torch.no_grad():
            for _ in range(n):
                run(x)
        gc.collect()
        return resident()

    before = calls(2000)
    # One kept output a call would be 640 MB.
    assert calls(10_000) - before < 8 << 20


def test_training_steps_do_not_grow():
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    run, step = torch.compile(model, backend="tpu"), torch.compile(optimizer.step, backend="tpu")
    x = torch.randn(128, 64)

    def steps(n: int) -> int:
        for _ in range(n):
            run(x).square().mean().backward()
            step()
            optimizer.zero_grad()
        gc.collect()
        return resident()

    before = steps(200)
    # Each step makes 128 x 256 activations several times: 2000 kept ones would be 260 MB each.
    assert steps(2000) - before < 16 << 20
