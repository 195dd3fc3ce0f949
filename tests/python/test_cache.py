"""The persistent cache as a user sees it."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
import json, os, sys, torch, torch_clutch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
f = torch.compile(model, backend="tpu", fullgraph=True, options={options})
with torch.no_grad():
    x = torch.randn(2, 16)
    result, expected = f(x), model(x)
torch.testing.assert_close(result, expected)
print(json.dumps(torch_clutch.metrics() | {{"why": torch_clutch.explain_last_compile()}}))
"""


def run(folder, cache, name="job.py", options=None, env=None):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(SCRIPT).format(options=options or {}))
    environment = {**os.environ, "CLUTCH_CACHE_DIR": str(cache), **(env or {})}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=environment, cwd=path.parent, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_second_process_compiles_nothing(tmp_path):
    cache = tmp_path / "cache"
    cold = run(tmp_path, cache)
    assert cold["graph_misses"] == 1 and cold["compiles"] >= 1
    # Another file name, folder, line numbers, hash seed, thread count and rank.
    env = {"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1", "RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "8"}
    warm = run(tmp_path, cache, name="elsewhere/other.py", env=env)
    assert warm["graph_hits"] == 1
    assert [warm[k] for k in ("passes_run", "emits", "compiles")] == [0, 0, 0]


def test_a_difference_is_explained(tmp_path):
    cache = tmp_path / "cache"
    run(tmp_path, cache)
    other = run(tmp_path, cache, options={"precision": "medium"})
    assert other["graph_misses"] == 1 and "precision" in other["why"]


def test_the_cache_can_be_turned_off(tmp_path):
    cache = tmp_path / "cache"
    for _ in range(2):
        off = run(tmp_path, cache, options={"cache": False})
        assert off["compiles"] >= 1 and off["graph_hits"] == 0
    assert not cache.exists()


@pytest.mark.parametrize("damage", ["truncated", "garbage", "unusable directory"])
def test_a_damaged_cache_is_a_miss(tmp_path, damage):
    cache = tmp_path / "cache"
    if damage == "unusable directory":
        cache.write_text("a file where the directory should be")
    else:
        run(tmp_path, cache)
        for file in [p for p in cache.rglob("*") if p.is_file()]:
            content = file.read_bytes()
            file.write_bytes(content[: len(content) // 2] if damage == "truncated" else os.urandom(len(content)))
    again = run(tmp_path, cache)
    assert again["graph_hits"] == 0 and again["compiles"] >= 1
