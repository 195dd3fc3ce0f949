"""Random small programs over dynamic sizes, in random buckets, against eager at the exact size. Padded lanes hold NaN."""

import os
import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import torch_clutch

PROGRAMS = int(os.environ.get("CLUTCH_TEST_PROGRAMS", "24"))
STEPS = 6
BATCH = 2

Op = Callable[[torch.Tensor], torch.Tensor]

# Each takes a tensor of sizes (2, n, m), both dynamic, and gives one of three axes whose first is 2.
SHAPE_KEEPING: dict[str, Op] = {
    "exp": lambda x: (x.clamp(-3, 3)).exp(),
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
    "scale": lambda x: x * 0.5 + 1,
    "reciprocal": lambda x: 1 / (x.abs() + 1),
    "softmax 1": lambda x: x.softmax(1),
    "softmax 2": lambda x: x.softmax(2),
    "log softmax": lambda x: x.log_softmax(2),
    "centre 1": lambda x: x - x.mean(1, keepdim=True),
    "centre 2": lambda x: x - x.mean(2, keepdim=True),
    "normalise": lambda x: (x - x.mean((1, 2), keepdim=True)) / (x.var((1, 2), keepdim=True) + 1).sqrt(),
    "maximum": lambda x: x - x.amax(1, keepdim=True),
    "minimum": lambda x: x.amin(2, keepdim=True) + x,
    "cumsum": lambda x: x.cumsum(1) / (x.shape[1] + 1),
    "cummax": lambda x: x.cummax(2).values,
    "flip 1": lambda x: x.flip(1),
    "flip 2": lambda x: x.flip(2),
    "roll": lambda x: torch.roll(x, (1, -1), (1, 2)),
    "sort": lambda x: x.sort(1).values,
    "sort down": lambda x: x.sort(2, descending=True).values,
    "triangle": torch.tril,
    "upper": lambda x: torch.triu(x, 1),
    "positions": lambda x: x + torch.arange(x.shape[1])[None, :, None] / x.shape[1],
    "mask": lambda x: x.masked_fill(torch.arange(x.shape[2]) % 2 == 0, 0.0),
    "where": lambda x: torch.where(x > 0, x, x.mean()),
    "through a merged axis": lambda x: x.reshape(-1, x.shape[2]).tanh().view(x.shape),
    "merged softmax": lambda x: x.reshape(x.shape[0], -1).softmax(1).view(x.shape) * x.shape[1],
    "merged sum": lambda x: x - x.reshape(-1, x.shape[2]).sum(0) / (x.shape[1] * 2),
    "gram": lambda x: x @ (x.mT @ x) / (x.shape[1] * x.shape[2]),
    "attention": lambda x: F.scaled_dot_product_attention(x[:, :, :4], x[:, :, :4], x),
    "causal attention": lambda x: (
        F.scaled_dot_product_attention(x[:, :, :4], x[:, :, :4], x[:, :, :4], is_causal=True).sum(2, keepdim=True) + x
    ),
    "gather": lambda x: x.gather(1, x.argsort(1)),
    "scatter": lambda x: torch.zeros_like(x).scatter_add(2, torch.arange(x.shape[2]).flip(0).expand(x.shape), x),
    "index": lambda x: x[:, torch.arange(x.shape[1] - 1, -1, -1)],
    "write": lambda x: x.slice_scatter(x[:, :-1] * 2, 1, 1),
    "write before": lambda x: x.slice_scatter(x[:, 1:] * 2, 1, 0, x.shape[1] - 1),
    "convolution": lambda x: F.conv1d(x, torch.full((1, 1, 3), 0.3).expand(1, 1, 3), padding=1) if x.shape[1] == 1 else x,
    "smooth": lambda x: F.avg_pool1d(x, 3, 1, 1),
    "argmax": lambda x: x + x.gather(2, x.argmax(2, keepdim=True)),
    "merged argmax": lambda x: x + x.reshape(x.shape[0], -1).gather(1, x.reshape(x.shape[0], -1).argmax(1, keepdim=True))[:, :, None],
    "top": lambda x: x - x.topk(2, dim=1).values.sum(1, keepdim=True),
}
SHAPE_CHANGING: dict[str, Op] = {
    "transpose": lambda x: x.mT,
    "drop the first": lambda x: x[:, 1:],
    "drop the last": lambda x: x[:, :, :-1],
    "every second": lambda x: x[:, ::2],
    "half": lambda x: x[:, : x.shape[1] // 2 + 3],
    "concatenate": lambda x: torch.cat([x, x.tanh()], 1),
    "concatenate three": lambda x: torch.cat([x[:, :, :2], x, x[:, :, 1:]], 2),
    "pad": lambda x: F.pad(x, (1, 2)),
    "pad rows": lambda x: F.pad(x, (0, 0, 2, 0), value=1.0),
    "stack and merge": lambda x: torch.stack([x, -x], 2).reshape(x.shape[0], -1, x.shape[2]),
    "repeat": lambda x: x.repeat(1, 2, 1),
}


def program(seed: int) -> tuple[list[str], Op]:
    """A chain of random operations that ends in results of several kinds."""
    rng = random.Random(seed)
    names, changes = [], 0
    for _ in range(STEPS):
        if changes < 2 and rng.random() < 0.3:
            names.append(rng.choice(list(SHAPE_CHANGING)))
            changes += 1
        else:
            names.append(rng.choice(list(SHAPE_KEEPING)))
    ops = [(SHAPE_KEEPING | SHAPE_CHANGING)[n] for n in names]

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for op in ops:
            x = op(x)
        return x, x.sum(1), x.mean(), x.reshape(x.shape[0], -1).amax(1)

    return names, run


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(seed: int) -> None:
    names, f = program(seed)
    rng = random.Random(1000 + seed)
    ladder = rng.choice(["auto", "auto", "pow2", [12, 20, 33, 48]])
    run = torch.compile(f, backend="tpu", dynamic=True, options={"buckets": ladder})
    for i in range(4):
        n, m = rng.randint(9, 30), rng.randint(9, 30)
        x = torch.randn(BATCH, n, m, generator=torch.Generator().manual_seed(seed * 10 + i))
        for found, expected, exact in zip(run(x), f(x), f(x.double()), strict=True):
            # Sums that cancel are far from float64 in eager too: then ours must not be further.
            if (found - exact).abs().max() <= (expected - exact).abs().max():
                continue
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4, msg=lambda m, n=n: f"{names} at {n}, {ladder}: {m}")


def test_most_programs_run_in_buckets() -> None:
    exact = 0
    for seed in range(8):
        torch._dynamo.reset()
        torch_clutch.reset_metrics()
        run = torch.compile(program(seed)[1], backend="tpu", dynamic=True)
        run(torch.randn(BATCH, 21, 26))
        exact += torch_clutch.metrics()["bucket_exact"] > 0
    assert exact <= 2
