"""``torch_clutch.save`` and ``torch_clutch.load``: one file that runs without Dynamo."""

import json
import os
import subprocess
import sys
import textwrap
from collections import OrderedDict

import pytest
import torch

import torch_clutch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 4)
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x, *, mask=None, more=()):
        y = self.second(torch.nn.functional.gelu(self.first(x))) + self.shift
        if mask is not None:
            y = y * mask
        for m in more:
            y = y + m
        return y


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x):
        self.count.add_(x.sum(0))
        return x * 2, {"count": self.count + 0, "n": None}


def exported(model, *args, **kwargs):
    with torch.no_grad():
        return torch.export.export(model, args, kwargs)


@pytest.fixture
def model():
    return Model().eval()


@pytest.fixture
def saved(model, tmp_path):
    """A saved program of the model for two rows, and its path."""
    path = tmp_path / "model.clutch"
    torch_clutch.save(exported(model, torch.zeros(2, 16)), path)
    return path


def test_a_saved_program_gives_what_the_model_gives(model, saved):
    program = torch_clutch.load(saved)
    torch_clutch.reset_metrics()
    for _ in range(3):
        x = torch.randn(2, 16)
        torch.testing.assert_close(program(x), model(x).detach())
    assert torch_clutch.metrics()["compiles"] == 0 and program.recompiled_for is None
    assert set(program.weights) == set(model.state_dict())


def test_it_starts_without_dynamo_and_inductor(model, saved, tmp_path):
    torch.save((torch.ones(2, 16), model(torch.ones(2, 16)).detach()), tmp_path / "expected.pt")
    code = """
    import json, sys, torch
    before = set(sys.modules)
    import torch_clutch
    program = torch_clutch.load(sys.argv[1])
    x, y = torch.load(sys.argv[2])
    torch.testing.assert_close(program(x), y)
    new = {name for name in set(sys.modules) - before if name.startswith(("torch._dynamo", "torch._inductor", "torch._functorch"))}
    metrics = torch_clutch.metrics()
    print(json.dumps({"new": sorted(new), **{k: metrics[k] for k in ("compiles", "passes_run", "emits", "captures")}}))
    """
    env = {**os.environ, "CLUTCH_CACHE": "off"}
    command = [sys.executable, "-c", textwrap.dedent(code), str(saved), str(tmp_path / "expected.pt")]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    found = json.loads(done.stdout)
    assert found == {"new": [], "compiles": 0, "passes_run": 0, "emits": 0, "captures": 0}


def test_a_module_is_exported_with_its_example_inputs(model, tmp_path):
    compiled, path = torch.compile(model, backend="tpu"), tmp_path / "m.clutch"
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0])
    torch_clutch.save(compiled, path, args=(torch.zeros(3, 16),), kwargs={"mask": mask, "more": (mask + 1, mask + 2)})
    program = torch_clutch.load(path)
    x, ones = torch.randn(3, 16), torch.ones(4)
    torch.testing.assert_close(program(x, more=[ones, mask], mask=mask), model(x, mask=mask, more=(ones, mask)).detach())


def test_buffers_and_inputs_are_written_and_results_keep_their_form(tmp_path):
    path = tmp_path / "c.clutch"
    torch_clutch.save(exported(Counter(), torch.ones(3, 2)), path)
    program, eager = torch_clutch.load(path), Counter()
    for _ in range(2):
        x = torch.randn(3, 2)
        ours, expected = program(x), eager(x)
        assert isinstance(ours, tuple) and ours[1]["n"] is None
        torch.testing.assert_close(ours[0], expected[0])
        torch.testing.assert_close(ours[1]["count"], expected[1]["count"])
    torch.testing.assert_close(program.weights["count"], eager.count)
    # The file's own weights are as they were.
    assert not torch_clutch.load(path).weights["count"].any()


def test_dict_like_results_become_dicts(tmp_path):
    class Head(torch.nn.Module):
        def forward(self, x):
            return OrderedDict(logits=x + 1, hidden=(x, [x * 2]))

    torch_clutch.save(exported(Head(), torch.ones(2)), tmp_path / "h.clutch")
    result = torch_clutch.load(tmp_path / "h.clutch")(torch.ones(2))
    assert list(result) == ["logits", "hidden"] and isinstance(result["hidden"][1], list)
    assert torch.equal(result["hidden"][1][0], torch.full((2,), 2.0))


def test_weights_apart(model, tmp_path):
    path = tmp_path / "m.clutch"
    torch_clutch.save(exported(model, torch.zeros(2, 16)), path, weights="apart")
    apart = tmp_path / "m.clutch.weights"
    assert apart.stat().st_size > sum(p.numel() * 4 for p in model.parameters())
    x = torch.randn(2, 16)
    torch.testing.assert_close(torch_clutch.load(path)(x), model(x).detach())
    # Other weights of the same form, as a state dict or a file.
    other = Model().eval()
    torch.testing.assert_close(torch_clutch.load(path, weights=other.state_dict())(x), other(x).detach())
    moved = apart.rename(tmp_path / "elsewhere.weights")
    torch.testing.assert_close(torch_clutch.load(path, weights=moved)(x), model(x).detach())
    with pytest.raises(torch_clutch.SavedModelError, match="pass weights="):
        torch_clutch.load(path)
    with pytest.raises(torch_clutch.SavedModelError, match="holds weights"):
        torch_clutch.load(moved)
    with pytest.raises(torch_clutch.SavedModelError, match=r"lack .second\.bias"):
        torch_clutch.load(path, weights={k: v for k, v in model.state_dict().items() if k != "second.bias"})
    with pytest.raises(torch_clutch.SavedModelError, match=r"first.weight.*float32.*float64"):
        torch_clutch.load(path, weights={k: v.double() for k, v in model.state_dict().items()})


def test_random_numbers_follow_the_generator(tmp_path):
    class Noise(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5, training=True)

    torch_clutch.save(exported(Noise(), torch.ones(256)), tmp_path / "n.clutch")
    program, x = torch_clutch.load(tmp_path / "n.clutch"), torch.ones(256)
    torch.manual_seed(1)
    first, second = program(x), program(x)
    torch.manual_seed(1)
    assert torch.equal(program(x), first) and not torch.equal(first, second)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "words"),
    [
        ((torch.zeros(3, 16),), {}, ValueError, r"args\[0\] must be float32 of shape \(2, 16\), got float32 of shape \(3, 16\)"),
        ((torch.zeros(2, 16).double(),), {}, ValueError, "got float64"),
        ((), {}, TypeError, "args must be 1 values, got 0"),
        ((3,), {}, TypeError, r"args\[0\] must be a tensor, got int"),
        ((torch.zeros(2, 16),), {"mask": torch.ones(4)}, TypeError, "kwargs must have exactly nothing, got mask"),
    ],
)
def test_wrong_arguments(saved, args, kwargs, error, words):
    with pytest.raises(error, match=words):
        torch_clutch.load(saved)(*args, **kwargs)


def test_damaged_files_are_never_loaded(saved, tmp_path):
    content = saved.read_bytes()
    victim = tmp_path / "victim.clutch"
    for at in [*range(0, 64, 7), 64, len(content) // 3, len(content) // 2, len(content) - 2000, len(content) - 1]:
        victim.write_bytes(content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :])
        if at in (14,):
            continue
        try:
            program = torch_clutch.load(victim)
        except torch_clutch.SavedModelError as error:
            assert str(victim) in str(error)
        else:
            # Padding between sections is all that may change unseen.
            assert torch.equal(program.weights["shift"], torch.arange(4.0))
            assert torch.equal(program(torch.ones(2, 16)), torch_clutch.load(saved)(torch.ones(2, 16)))
    for end in (0, 10, 63, 100, len(content) // 2, len(content) - 1):
        victim.write_bytes(content[:end])
        with pytest.raises(torch_clutch.SavedModelError):
            torch_clutch.load(victim)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04" + bytes(100), "is not a saved program"),
        (b"CLUTCHS\n" + (9).to_bytes(4, "little") + bytes(100), "format version 9"),
        (None, "cannot read"),
    ],
)
def test_foreign_files(tmp_path, content, words):
    path = tmp_path / "foreign.clutch"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(torch_clutch.SavedModelError, match=words):
        torch_clutch.load(path)


def test_what_cannot_be_saved(model, tmp_path):
    path = tmp_path / "m.clutch"
    with pytest.raises(torch_clutch.SavedModelError, match="example inputs"):
        torch_clutch.save(model, path)
    with pytest.raises(torch_clutch.SavedModelError, match="ExportedProgram"):
        torch_clutch.save(lambda x: x, path, args=(torch.ones(2),))
    with pytest.raises(torch_clutch.SavedModelError, match="accepted: 'inside', 'apart'"):
        torch_clutch.save(exported(model, torch.zeros(2, 16)), path, weights="outside")
    with pytest.raises(torch_clutch.SavedModelError, match="cannot write"):
        torch_clutch.save(exported(model, torch.zeros(2, 16)), tmp_path / "no" / "folder.clutch")
    assert list(tmp_path.iterdir()) == []


def test_another_kind_of_device_is_a_typed_error(model, tmp_path):
    path = tmp_path / "tpu.clutch"
    torch_clutch.save(exported(model, torch.zeros(2, 16)), path, options={"target": "v5e:1x1"})
    with pytest.raises(torch_clutch.TargetError, match="TPU"):
        torch_clutch.load(path)
    program = torch_clutch.load(path, options={"target": "v5e:1x1"})
    with pytest.raises(torch_clutch.DeviceError, match="not here"):
        program(torch.zeros(2, 16))


def test_another_plugin_compiles_anew(model, saved, tmp_path):
    """A copy of the plugin with a byte added to its file counts as another build."""
    info = torch_clutch._clutch.device_info(torch_clutch.Options().for_rust(inference=True))
    plugin = tmp_path / "libother.so"
    with open(info["plugin"], "rb") as source:
        plugin.write_bytes(source.read() + b"\0")
    code = """
    import sys, torch, torch_clutch
    program = torch_clutch.load(sys.argv[1], options={"pjrt_plugin": sys.argv[2]})
    assert program.recompiled_for == "plugin_file", program.recompiled_for
    assert torch_clutch.metrics()["compiles"] == 2 and torch_clutch.metrics()["passes_run"] == 0
    torch.save(program(torch.ones(2, 16)), sys.argv[3])
    """
    env = {**os.environ, "CLUTCH_CACHE": "off"}
    command = [sys.executable, "-c", textwrap.dedent(code), str(saved), str(plugin), str(tmp_path / "out.pt")]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert "plugin_file" in done.stderr and "save it again" in done.stderr
    torch.testing.assert_close(torch.load(tmp_path / "out.pt"), model(torch.ones(2, 16)).detach())
