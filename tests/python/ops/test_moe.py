"""Products by group of rows against eager."""

import pytest
import torch

from op_checks import check, check_grad, floats

integrations = pytest.importorskip("transformers.integrations.moe")

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
ENDS = {
    "even": (32, [8, 16, 24, 32]),
    "uneven": (41, [3, 20, 20, 41]),
    "first and last empty": (10, [0, 4, 10, 10]),
    "one takes all": (300, [0, 300, 300, 300]),
    "rows past the last group": (20, [2, 5, 9, 11]),
    "all empty": (6, [0, 0, 0, 0]),
    "long groups": (600, [130, 131, 400, 600]),
    "single row": (1, [0, 1, 1, 1]),
}


def grouped(x, w, ends):
    return torch.ops.transformers.grouped_mm_fallback(x, w, ends)


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_rows_by_group(name, dtype):
    rows, ends = ENDS[name]
    x, w = floats(rows, 5, grad=True), floats(4, 5, 6, seed=1, grad=True)
    check_grad(grouped, x, w, torch.tensor(ends, dtype=dtype), **CLOSE)


def test_ends_are_data():
    x, w = floats(24, 5), floats(4, 5, 6, seed=1)
    torch._dynamo.reset()
    f = torch.compile(grouped, backend="tpu", fullgraph=True, dynamic=False, options={"fallback": "error"})
    for ends in ([6, 12, 18, 24], [0, 1, 2, 24], [24, 24, 24, 24]):
        ends = torch.tensor(ends)
        torch.testing.assert_close(f(x, w, ends), grouped(x, w, ends), **CLOSE)


def test_half_precision():
    x, w = floats(40, 16, dtype=torch.bfloat16, grad=True), floats(3, 16, 8, dtype=torch.bfloat16, seed=1, grad=True)
    check_grad(grouped, x, w, torch.tensor([7, 30, 40]), rtol=3e-2, atol=1e-1)


def test_no_rows():
    check(grouped, floats(0, 5), floats(4, 5, 6), torch.zeros(4, dtype=torch.int64))


def test_grouped_mm():
    ends = torch.tensor([16, 16, 48], dtype=torch.int32)
    rows, columns = floats(48, 16, dtype=torch.bfloat16), floats(48, 32, dtype=torch.bfloat16, seed=1)
    matrices = floats(3, 16, 32, dtype=torch.bfloat16, seed=2)
    half = {"rtol": 3e-2, "atol": 1e-1}
    check(lambda x, w, e: torch._grouped_mm(x, w, e), rows, matrices, ends, **half)
    check(lambda x, y, e: torch._grouped_mm(x.t(), y, e), rows, columns, ends, **half)
    check(lambda w, x, e: torch._grouped_mm(w.transpose(1, 2), x.t(), e), matrices, rows, ends, **half)
    check(lambda w: torch._grouped_mm(w, w.transpose(1, 2)), matrices, **half)
