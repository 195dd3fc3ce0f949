"""Operators whose result sizes depend on data: they run in eager parts, and what follows is compiled."""

import pytest
import torch

import torch_clutch

CASES = {
    "nonzero": lambda x: x.nonzero() * 2,
    "masked_select": lambda x: x.masked_select(x > 0).sum(),
    "boolean index": lambda x: x[x > 0] + 1,
    "unique": lambda x: x.round().unique() * 3,
    "argwhere": lambda x: torch.argwhere(x > 0) + 1,
}


@pytest.mark.parametrize("case", CASES)
def test_results_follow_the_data(case: str) -> None:
    f = CASES[case]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        run = torch.compile(f, backend="tpu", fullgraph=True)
        for seed in range(4):
            x = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))
            torch.testing.assert_close(run(x), f(x))
    assert torch_clutch.metrics()["eager_parts"] >= 1


def test_they_are_named_when_eager_parts_are_off() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = torch.compile(lambda x: x.nonzero(), backend="tpu", options={"fallback": "error"})
        with pytest.raises(torch_clutch.UnsupportedError, match=r"aten\.nonzero\.default.*depends on data"):
            run(torch.ones(3))


def test_scalars_read_from_tensors() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        run = torch.compile(lambda x, n: x * n.item() + 1, backend="tpu", fullgraph=True)
        for n in (3, 5):
            x, count = torch.randn(4), torch.tensor(n)
            torch.testing.assert_close(run(x, count), x * n + 1)
