"""``clutch warmup``: a job that was warmed up compiles nothing."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import torch

import torch_clutch
from torch_clutch.warmup import Model

JOB = """
import torch
from torch_clutch.warmup import Model


def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))


def clutch_warmup():
    yield Model("mlp", build(), args=lambda n: (torch.zeros(n, 16),), buckets=[2, 4])
    yield Model("train", build(), args=(torch.zeros(8, 16),), training=True)
"""

USE = """
import json, sys
import torch, torch_clutch
from job import build

model = build()
f = torch.compile(model, backend="tpu", fullgraph=True)
with torch.no_grad():
    for n in {sizes}:
        x = torch.randn(n, 16)
        torch.testing.assert_close(f(x), model(x))
if {train}:
    torch._dynamo.reset()
    x = torch.randn(8, 16)
    f(x).square().sum().backward()
    ours = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    for a, b in zip(ours, model.parameters()):
        torch.testing.assert_close(a, b.grad)
print(json.dumps(torch_clutch.metrics()))
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path


def environment(place, **extra):
    return {**os.environ, "CLUTCH_CACHE_DIR": str(place / "cache"), "COLUMNS": "200", **extra}


def clutch(place, *arguments, code=0, **extra):
    done = subprocess.run(
        [sys.executable, "-c", "from torch_clutch.cli import main; main()", "warmup", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(place, **extra),
        cwd=place,
        check=False,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "--json" not in arguments or done.stdout
    return json.loads(done.stdout) if "--json" in arguments else done.stdout + done.stderr


def use(place, sizes=(2, 4), train=True, **extra):
    (place / "use.py").write_text(USE.format(sizes=list(sizes), train=train))
    command = [sys.executable, "use.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(place, **extra), cwd=place, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_warmed_up_job_compiles_nothing(place):
    rows = clutch(place, "job.py", "--target", "cpu", "-j", "2", "--json")
    assert {(r["model"], r["bucket"], r["graph"].split()[0]) for r in rows} == {
        ("mlp", "2", "inference"),
        ("mlp", "4", "inference"),
        ("train", "", "forward"),
        ("train", "", "backward"),
    }
    assert not any(r["error"] or r["cached"] for r in rows)
    for sizes in ((2, 4), (4, 2)):
        warm = use(place, sizes, PYTHONHASHSEED="3")
        assert warm["graph_misses"] == 0 and warm["graph_hits"] == 4
        assert [warm[k] for k in ("passes_run", "emits", "compiles")] == [0, 0, 0]
    table = clutch(place, "job.py", "--target", "cpu")
    assert "0 graphs compiled, 6 were in the cache, 0 failed" in table and "mlp inference" in table


def test_targets_that_are_not_here(place):
    rows = clutch(place, "job.py", "--target", "v5e:2x2", "--target", "v6e:1x1", "--json")
    assert {r["target"] for r in rows} == {"v5e:2x2", "v6e:1x1"} and len(rows) == 12
    for r in rows:
        assert r["error"] is None and r["fits"]
        assert float(r["main"]["flops"]) > 1000 and float(r["main"]["serialized_bytes"]) > 1000
        assert 0 < r["memory_bytes"] < r["memory_limit"] and r["memory_limit"] > 8 << 30
    # torch.compile for a topology looks for the same keys.
    code = """
    import json, torch, torch_clutch
    from job import build
    f = torch.compile(build(), backend="tpu", options={"target": "v5e:2x2"})
    with torch.no_grad():
        try:
            f(torch.zeros(2, 16))
        except torch_clutch.DeviceError:
            print(json.dumps(torch_clutch.metrics()))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(place), cwd=place, check=True)
    found = json.loads(done.stdout)
    assert found["graph_hits"] == 1 and found["compiles"] == 0


def test_a_graph_that_does_not_fit_is_flagged():
    from torch_clutch._warmup_pool import Row
    from torch_clutch.cli.warmup import _fits, _memory

    sizes = {
        "argument_bytes": "3000",
        "output_bytes": "500",
        "temp_bytes": "600",
        "code_bytes": "100",
        "alias_bytes": "200",
    }
    row = Row("m", "", "inference", "v5e:1x1", main=sizes)
    assert row.memory() == 4000
    assert _fits(row, {"v5e:1x1": 4000}) and not _fits(row, {"v5e:1x1": 3999}) and _fits(row, {"v5e:1x1": None})
    assert "does not fit" in _memory(row, {"v5e:1x1": 3999}) and "(100%)" in _memory(row, {"v5e:1x1": 4000})


def test_nothing_is_executed(place):
    (place / "job.py").write_text(
        textwrap.dedent(
            """
            import torch
            from torch_clutch.warmup import Model

            norm = torch.nn.BatchNorm1d(4)

            def clutch_warmup():
                yield Model("norm", norm, args=(torch.randn(8, 4),), training=True)
                assert not norm.running_mean.any() and norm.num_batches_tracked == 0, "a program was executed"
                yield Model("next", torch.nn.Linear(4, 4), args=(torch.ones(1, 4),))
            """
        )
    )
    rows = clutch(place, "job.py", "--target", "cpu", "-j", "1", "--json")
    assert [(r["model"], r["graph"]) for r in rows] == [
        ("next", "inference"),
        ("norm", "backward"),
        ("norm", "forward"),
    ]


def test_unknown_targets_fail_before_any_work(place):
    (place / "job.py").write_text("raise SystemExit('the job was imported')")
    text = clutch(place, "job.py", "--target", "cpu", "--target", "v9:1x1", code=1)
    assert "v9:1x1" in text and "v5e:1x1" in text and "imported" not in text
    text = clutch(place, "job.py", "--target", "v5e:7x3", code=1)
    assert "v5e:7x3" in text and "accepted" in text and "imported" not in text


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("x = 1", ["no function clutch_warmup()", "--record"]),
        ("def clutch_warmup():\n    yield 3", ["yielded int", "torch_clutch.warmup.Model"]),
        ("def clutch_warmup():\n    return []", ["yields no models"]),
        ("import nothing_of_this_name", ["nothing_of_this_name", "ModuleNotFoundError"]),
        ("def clutch_warmup(:", ["SyntaxError"]),
        ("import os; os.abort()", ["SIGABRT"]),
    ],
)
def test_a_job_that_cannot_be_used(place, job, words):
    (place / "job.py").write_text(job)
    text = clutch(place, "job.py", "--target", "cpu", code=1)
    assert all(word in text for word in words) and not text.startswith("Traceback")


def test_a_model_that_fails_is_reported_and_the_rest_goes_on(place):
    (place / "job.py").write_text(JOB + "    yield Model('broken', build(), args=(torch.zeros(8, 3),))\n")
    rows = clutch(place, "job.py", "--target", "cpu", "--json", code=1)
    broken = [r for r in rows if r["model"] == "broken"]
    assert len(broken) == 1 and "capture failed" in broken[0]["error"]
    assert sum(r["error"] is None for r in rows) == 6


# Stands for a plugin that aborts on one graph: the one with 4 rows.
ABORTING = """
import torch_clutch._warmup_worker as worker

def compile_program(request, settings, original=worker.compile_program):
    if (4).to_bytes(8, "little") + b"\\0" + (16).to_bytes(8, "little") in request.program and not request.symbols:
        import os, sys
        print("the plugin says something and aborts", file=sys.stderr, flush=True)
        os.abort()
    return original(request, settings)

worker.OPERATIONS["compile"] = compile_program
import sys
if __name__ == "__main__":
    worker.main(int(sys.argv[1]))
"""


def test_a_plugin_that_aborts_is_reported_for_its_graph_and_the_rest_goes_on(place, monkeypatch):
    from torch_clutch import _warmup_pool

    script = place / "aborting.py"
    script.write_text(ABORTING)
    monkeypatch.setenv("CLUTCH_CACHE_DIR", str(place / "cache"))
    start = subprocess.Popen
    monkeypatch.setattr(_warmup_pool.subprocess, "Popen", lambda command, **kw: start([command[0], str(script), *command[3:]], **kw))
    path = str(place / "job.py")
    captures = [_warmup_pool.CaptureTask("mlp", str(b), ("capture", path, 0, b)) for b in (0, 1)]
    pool, rows = _warmup_pool.Pool(2, ["cpu"], captures), []
    pool.start()
    while (event := pool.events.get())[0] != "end":
        rows += [event[1]] if event[0] == "row" else []
    pool.stop()
    failed = [r for r in rows if r.error]
    assert len(rows) == 4 and len(failed) == 1
    assert failed[0].bucket == "1" and "SIGABRT" in failed[0].error and "says something" in failed[0].error
    monkeypatch.undo()
    assert use(place, sizes=(2,), train=False)["compiles"] == 0


def test_interrupted_keeps_what_is_finished_and_continues(place):
    # Stops by itself once the first entries are there.
    (place / "job.py").write_text(
        JOB
        + textwrap.dedent(
            """
            def slow():
                import os, pathlib, signal, time
                here = pathlib.Path(os.environ["CLUTCH_CACHE_DIR"])
                while not list(here.rglob("*.graph")):
                    time.sleep(0.05)
                os.kill(int(os.environ["CLUTCH_TEST_PARENT"]), signal.SIGINT)
                time.sleep(600)

            first = clutch_warmup

            def clutch_warmup():
                import os
                model = next(iter(first()))
                yield model
                stop = "CLUTCH_TEST_PARENT" in os.environ
                yield Model("slow", model.model, args=lambda: slow() if stop else (torch.zeros(3, 16),))
            """
        )
    )
    # A parent that ignores the signal, as `nohup` makes it, would hand that down.
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "os.environ['CLUTCH_TEST_PARENT'] = str(os.getpid()); from torch_clutch.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "warmup", "job.py", "--target", "cpu", "-j", "2"],
        capture_output=True,
        text=True,
        env=environment(place),
        cwd=place,
        check=False,
    )
    assert done.returncode == 130, done.stdout + done.stderr
    assert "interrupted" in done.stderr and "mlp" in done.stdout and "Traceback" not in done.stderr
    rows = clutch(place, "job.py", "--target", "cpu", "--json")
    assert any(r["cached"] for r in rows) and not any(r["error"] for r in rows)


def test_a_plain_script_is_recorded(place):
    script = """
    import sys
    import torch
    from job import build

    assert sys.argv[1:] == ["--rows", "2"]
    model = build()
    f = torch.compile(model, backend="tpu", dynamic=True)
    with torch.no_grad():
        for n in (2, 5):
            x = torch.randn(n, 16)
            torch.testing.assert_close(f(x), model(x))
    print("the script ran")
    """
    (place / "serve.py").write_text(textwrap.dedent(script))
    rows = clutch(place, "--record", "--target", "v5e:2x2", "--target", "cpu", "--json", "serve.py", "--rows", "2")
    assert len(rows) == 4 and not any(r["error"] for r in rows)
    assert {r["target"]: r["cached"] for r in rows} == {"cpu": True, "v5e:2x2": False}
    assert {r["graph"] for r in rows} == {"inference of symbolic sizes [2]", "inference of symbolic sizes [5]"}


def test_a_recorded_script_that_fails_is_reported_after_what_it_compiled(place):
    (place / "serve.py").write_text(
        "import torch; torch.compile(lambda x: x * 2, backend='tpu')(torch.ones(3)); raise ValueError('no data')"
    )
    rows = clutch(place, "--record", "serve.py", "--target", "v5e:1x1", "--json", code=1)
    assert [bool(r["error"]) for r in rows] == [True, False] and "no data" in rows[0]["error"]


def test_a_cache_that_cannot_be_used_is_an_error_before_any_work(place):
    (place / "cache").mkdir(mode=0o777)
    (place / "cache").chmod(0o777)
    text = clutch(place, "job.py", "--target", "cpu", code=1)
    assert "chmod go-w" in text
    assert "the cache is off" in clutch(place, "job.py", "--target", "cpu", code=1, CLUTCH_CACHE="off")


def test_models_are_checked():
    for wrong in ({"model": 3}, {"buckets": [1]}, {"options": {"target": "cpu"}}):
        with pytest.raises(torch_clutch.OptionError, match="warm-up model 'm'"):
            Model(**{"name": "m", "model": torch.relu, **wrong})
    model = Model("m", torch.relu, args=lambda n, m=1: (torch.zeros(n, m),), buckets=[2, (3, 4), {"n": 5}])
    assert model.labels() == ["2", "3x4", "n=5"]
    assert [tuple(model.inputs(i)[0][0].shape) for i in range(3)] == [(2, 1), (3, 4), (5, 1)]


def test_interrupt_constant():
    from torch_clutch.cli.warmup import INTERRUPTED

    assert INTERRUPTED == 128 + signal.SIGINT


def test_ladders_of_single_sizes_are_warmed_up(place):
    (place / "job.py").write_text(JOB.replace("buckets=[2, 4]", "buckets=[20, 40]"))
    ladder = {"CLUTCH_BUCKETS": "args[0]:0=48;*=exact"}
    clutch(place, "job.py", "--target", "cpu", **ladder)
    warm = use(place, (20, 33, 40), train=False, **ladder)
    assert [warm[k] for k in ("buckets", "graph_misses", "compiles")] == [1, 0, 0]
