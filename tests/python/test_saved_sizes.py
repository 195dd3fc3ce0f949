"""Saved programs with dynamic sizes: all buckets in one file."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch.export import Dim

import torch_clutch


class Reader(torch.nn.Module):
    """Attention with a mask over sequences; also gives a number computed from the length."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(64, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.last = torch.nn.Linear(16, 8)

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + torch.arange(ids.shape[1])[None, :, None] * 0.1)
        scores = (x @ x.transpose(1, 2)).masked_fill(mask[:, None] == 0, -1e9)
        return self.last(torch.softmax(scores, -1) @ x).mean(1), x.shape[1] * 2


def arguments(batch, length):
    torch.manual_seed(batch * 1000 + length)
    return torch.randint(64, (batch, length)), (torch.rand(batch, length) > 0.2).float()


def exported(model, batch, length):
    axes = {axis: dim for axis, dim in enumerate((batch, length)) if dim is not None}
    example = arguments(1 if batch is None else 2, 12)
    with torch.no_grad():
        return torch.export.export(model, example, dynamic_shapes={"ids": axes, "mask": axes})


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Reader().eval()


@pytest.fixture
def saved(model, tmp_path):
    """Saved for batches up to 3 and lengths from 2 to 40."""
    path = tmp_path / "reader.clutch"
    torch_clutch.save(exported(model, Dim("batch", min=1, max=3), Dim("length", min=2, max=40)), path, options={"buckets": "pow2"})
    return path


def test_every_size_is_served_from_the_file(model, saved, monkeypatch):
    monkeypatch.setenv("CLUTCH_POISON_PADDING", "1")
    monkeypatch.setenv("CLUTCH_CACHE", "off")
    program = torch_clutch.load(saved)
    torch_clutch.reset_metrics()
    for batch in (1, 2, 3):
        for length in (2, 3, 7, 8, 9, 16, 17, 31, 32, 33, 40):
            x = arguments(batch, length)
            result, number = program(*x)
            torch.testing.assert_close(result, model(*x)[0].detach(), rtol=1e-4, atol=1e-5)
            assert number == 2 * length
    metrics = torch_clutch.metrics()
    assert metrics["compiles"] == metrics["emits"] == metrics["passes_run"] == 0
    # Lengths 2 to 8 as they are, then 16, 32 and the declared maximum.
    assert len(program.header["sizes"]) == 3 * (7 + 3)


def test_a_fresh_process_needs_neither_dynamo_nor_a_compiler(model, saved, tmp_path):
    cases = [(1, 5), (3, 40), (2, 21)]
    torch.save([(arguments(*c), model(*arguments(*c))[0].detach()) for c in cases], tmp_path / "cases.pt")
    code = """
    import json, sys, torch
    before = set(sys.modules)
    import torch_clutch
    program = torch_clutch.load(sys.argv[1])
    for x, y in torch.load(sys.argv[2]):
        torch.testing.assert_close(program(*x)[0], y, rtol=1e-4, atol=1e-5)
    new = {name for name in set(sys.modules) - before if name.startswith(("torch._dynamo", "torch._inductor", "torch.export"))}
    print(json.dumps({"new": sorted(new), "compiles": torch_clutch.metrics()["compiles"]}))
    """
    env = {**os.environ, "CLUTCH_CACHE": "off"}
    command = [sys.executable, "-c", textwrap.dedent(code), str(saved), str(tmp_path / "cases.pt")]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert json.loads(done.stdout) == {"new": [], "compiles": 0}


@pytest.mark.parametrize(
    ("ids", "mask", "words"),
    [
        ((2, 41), (2, 41), r"axis 1 of args\[0\] is 41; the program was saved for sizes 2 to 40"),
        ((2, 1), (2, 1), "is 1; the program was saved for sizes 2 to 40"),
        ((0, 8), (0, 8), r"axis 0 of args\[0\] is 0; the program was saved for sizes 1 to 3"),
        ((2, 8), (2, 9), r"axis 1 of args\[1\] is 9, but axis 1 of args\[0\] is 8"),
        ((8,), (8,), r"int64 of shape \(s\d+, s\d+\), got int64 of shape \(8,\)"),
    ],
)
def test_sizes_it_was_not_saved_for(saved, ids, mask, words):
    with pytest.raises(ValueError, match=words):
        torch_clutch.load(saved)(torch.zeros(ids, dtype=torch.long), torch.ones(mask))


def test_listed_sizes_bound_an_open_range(model, tmp_path):
    path = tmp_path / "m.clutch"
    program = exported(model, None, Dim.DYNAMIC)
    with pytest.raises(torch_clutch.UnsupportedError, match=r"axis 1 of ids has no largest size.*max=N.*buckets"):
        torch_clutch.save(program, path)
    torch_clutch.save(program, path, options={"buckets": {"ids:1": [16, 24]}})
    loaded = torch_clutch.load(path)
    assert loaded.header["rungs"] == [[16, 24]]
    for length in (2, 16, 17, 24):
        x = arguments(1, length)
        torch.testing.assert_close(loaded(*x)[0], model(*x)[0].detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="saved for sizes 2 to 24"):
        loaded(*arguments(1, 25))


def test_too_many_programs_is_an_error_before_any_is_compiled(model, tmp_path):
    program = exported(model, Dim("batch", max=512), Dim("length", max=512))
    torch_clutch.reset_metrics()
    with pytest.raises(torch_clutch.SavedModelError, match=r"\d+ x \d+ programs would have to be compiled, more than 256"):
        torch_clutch.save(program, tmp_path / "m.clutch", options={"buckets": "exact"})
    assert torch_clutch.metrics()["compiles"] == 0
    assert list(tmp_path.iterdir()) == []


def test_another_version_compiles_anew(model, saved, tmp_path):
    """A program whose digest of the captured program differs is never run."""
    file = torch_clutch.load(saved)
    parts = [f"program:{n}" for n in range(len(file.header["sizes"]))]
    raw = saved.read_bytes()
    # The digest stands behind the magic number of each part.
    changed = bytearray(raw)
    for name in parts:
        offset, _, _ = file.header["sections"][name]
        changed[offset + 8] ^= 1
    header = {k: v for k, v in file.header.items() if k != "sections"}
    from torch_clutch._saved_file import write

    sections = [(n, bytes(changed[o : o + length])) for n, (o, length, _) in file.header["sections"].items()]
    other = tmp_path / "other.clutch"
    write(str(other), header, sections)
    torch_clutch.reset_metrics()
    program = torch_clutch.load(other)
    x = arguments(2, 30)
    torch.testing.assert_close(program(*x)[0], model(*x)[0].detach(), rtol=1e-4, atol=1e-5)
    assert program.recompiled_for == "clutch"


def test_buckets_share_the_weights_that_a_program_laid_out(tmp_path):
    """Layouts of weights are kept once for all buckets that want the same."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).eval()
    compiled = torch.compile(model, backend="tpu", dynamic=True, options={"buckets": [16, 32, 48]})
    torch_clutch.reset_metrics()
    with torch.no_grad():
        for rows in (12, 30, 40, 16, 32):
            x = torch.randn(rows, 64)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    metrics = torch_clutch.metrics()
    assert metrics["buckets"] == 3
    assert metrics["weight_executions"] == 1 and metrics["weight_bytes"] <= sum(4 * p.numel() for p in model.parameters())
    with torch.no_grad():
        model[0].weight.mul_(2)
        for rows in (12, 30, 40):
            x = torch.randn(rows, 64)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert torch_clutch.metrics()["weight_executions"] == 2
