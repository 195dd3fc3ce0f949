"""What the cache's keys depend on, and many processes at one cache. Programs are compiled as `clutch warmup` does, without PyTorch."""

import os
import pickle
import subprocess
import sys

import pytest
import torch

import torch_clutch
from torch_clutch import _clutch, capturing
from torch_clutch.backend import tpu


def request(function, *args, grad=False, dynamic=False, **options):
    """What compiling the function for these arguments needs; its first graph."""
    torch._dynamo.reset()
    taken = capturing.Capture()
    with capturing.using(taken), torch.set_grad_enabled(grad):
        torch.compile(function, backend=tpu, fullgraph=True, dynamic=dynamic, options=options or None)(*args)
    return taken.requests[0]


def key(made, **settings):
    return _clutch.compile_captured(made.program, made.symbols, made.largest, {**made.settings, **settings})["key"]


def base(x, w):
    return torch.tanh(x @ w) * 2.0 + 1


X, W = torch.zeros(4, 8), torch.zeros(8, 3)
WEIGHT = torch.nn.Parameter(W)


def test_names_files_and_lines_do_not_matter():
    namespace = {"torch": torch}
    source = "\n" * 40 + "def other(left, right):\n    product = left @ right\n    y = torch.tanh(product)\n    return y * 2.0 + 1\n"
    exec(compile(source, "/somewhere/else.py", "exec"), namespace)
    first, second = request(base, X, W), request(namespace["other"], torch.ones(4, 8), torch.ones(8, 3))
    assert first.program == second.program and key(first) == key(second)


def test_symbol_names_do_not_matter():
    one = request(base, X, W, dynamic=True)
    both = torch.compile(lambda x, w, y: base(x, w) if y is None else base(y, w), backend=tpu, dynamic=True)
    taken = capturing.Capture()
    torch._dynamo.reset()
    with capturing.using(taken), torch.no_grad():
        both(torch.zeros(7, 9), torch.zeros(9, 5), None)
        both(X, W, None)
    assert one.symbols == [4, 8, 3]
    assert one.program == taken.requests[0].program


PROGRAMS = {
    "a size": lambda: request(base, torch.zeros(5, 8), W),
    "a dtype": lambda: request(base, X.double(), W.double()),
    "a stride": lambda: request(base, torch.zeros(8, 4).t(), W),
    "a number": lambda: request(lambda x, w: torch.tanh(x @ w) * 3.0 + 1, X, W),
    "an integer for a float": lambda: request(lambda x, w: torch.tanh(x @ w) * 2.0 + 1.5, X, W),
    "an operator": lambda: request(lambda x, w: torch.sinh(x @ w) * 2.0 + 1, X, W),
    "one more result": lambda: request(lambda x, w: (torch.tanh(x @ w) * 2.0 + 1, x + 1), X, W),
    "an input that is written": lambda: request(lambda x, w: base(x.add_(0), w), X.clone(), W),
    "random numbers": lambda: request(lambda x, w: base(x, w) + torch.rand(()), X, W),
    "symbolic sizes": lambda: request(base, X, W, dynamic=True),
    "gradients": lambda: request(base, X, torch.zeros(8, 3, requires_grad=True), grad=True),
    "a weight": lambda: request(lambda x: base(x, WEIGHT), X),
}

SETTINGS = {
    "precision": {"precision": "medium"},
    "fold_budget": {"fold_budget_bytes": 17},
    "rewriting off": {"rewrite": "off"},
    "exact rewriting": {"rewrite": "exact"},
    "rolled layers": {"roll": "on"},
    "rolled where it pays": {"roll": "auto"},
    "inference": {"inference": False},
    "PyTorch": {"torch_version": "2.14.0"},
    "donation": {"donate": False},
    "target": {"target": "v5e:1x1"},
    "another topology": {"target": "v5e:2x2"},
    "another generation": {"target": "v6e:1x1"},
}


def test_every_change_that_matters_changes_the_key():
    """Compares all pairs: no two of these may share an entry."""
    plain = request(base, X, W)
    keys = {"nothing": key(plain)}
    for name, make in PROGRAMS.items():
        keys[f"program: {name}"] = key(make())
    for name, change in SETTINGS.items():
        assert set(change) <= set(plain.settings), f"{name} is no setting any more"
        keys[f"setting: {name}"] = key(plain, **change)
    by_key = {}
    for name, value in keys.items():
        assert value not in by_key, f"{name} and {by_key[value]} have one key"
        by_key[value] = name


def test_settings_that_do_not_change_code_do_not_matter():
    plain = request(base, X, W)
    same = [{"target": "cpu"}, {"cache_bytes": 1 << 30}, {"site_packages": [*plain.settings["site_packages"], "/nowhere"]}]
    assert {key(plain, **change) for change in same} == {key(plain)}


COMPILE = """
import json, pickle, sys
from torch_clutch import _clutch
made, settings = pickle.load(open(sys.argv[1], "rb"))
sys.stdin.readline()
_clutch.compile_captured(made.program, made.symbols, made.largest, {**made.settings, **settings})
assert "torch" not in sys.modules
print(json.dumps(_clutch.metrics()["compiles"]))
"""


def start(path, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", COMPILE, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.fixture
def stored(tmp_path):
    """A request on disk for a cache of the test's own, and that cache."""
    made = request(lambda x, w: base(x, w).cumsum(0).sort(0).values, torch.zeros(64, 8), torch.zeros(8, 3))
    path = tmp_path / "request"
    path.write_bytes(pickle.dumps((made, {"cache_dir": str(tmp_path / "cache")})))
    return path, tmp_path / "cache"


def test_eight_processes_at_one_program_compile_it_once(stored):
    path, _ = stored
    processes = [start(path, PYTHONHASHSEED=str(n), RANK=str(n), OMP_NUM_THREADS=str(n + 1)) for n in range(8)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    results = [process.communicate() for process in processes]
    assert all(process.returncode == 0 for process in processes), [r[1] for r in results]
    assert sum(int(out) for out, _ in results) == 1


def test_a_process_that_is_killed_leaves_the_cache_usable(stored):
    path, cache = stored
    for delay in (0.0, 0.05, 0.1, 0.2):
        victim = start(path)
        victim.stdin.write("\n")
        victim.stdin.flush()
        try:
            victim.wait(delay)
        except subprocess.TimeoutExpired:
            victim.kill()
        victim.communicate()
    process = start(path)
    out, error = process.communicate("\n")
    assert process.returncode == 0 and int(out) <= 1, error
    from torch_clutch.options import Options

    found = _clutch.cache_verify(Options.read({"cache_dir": str(cache)}).cache_settings(), False, lambda *_: None)
    assert found["bad"] == [] and found["good"] >= 2


def test_a_full_disk_is_an_error_of_warm_up_and_a_miss_of_torch_compile(stored, tmp_path):
    path, _ = stored
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "none", str(small)], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        made, _ = pickle.loads(path.read_bytes())
        with pytest.raises(torch_clutch.CacheError, match="is the disk full"):
            key(made, cache_dir=str(small / "cache"))
        torch._dynamo.reset()
        compiled = torch.compile(base, backend="tpu", options={"cache_dir": str(small / "cache")})
        x, w = torch.randn(4, 8), torch.randn(8, 3)
        torch.testing.assert_close(compiled(x, w), base(x, w))
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_shared_directory_is_read_and_never_written(stored, tmp_path):
    path, cache = stored
    made, settings = pickle.loads(path.read_bytes())
    key(made, **settings)
    before = {p: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file()}
    assert before
    info = _clutch.compile_captured(
        made.program,
        made.symbols,
        made.largest,
        {**made.settings, "cache_dir": str(tmp_path / "own"), "cache_shared": [str(cache)]},
    )
    assert info["cached"]
    assert {p: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file()} == before
    assert len(list((tmp_path / "own").rglob("*.graph"))) == 1
