"""Faults of the plugin that meet the cache: every one is a counted miss, warned of once, and the program runs."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

USE = """
import json, torch, torch_clutch
for n in (3, 4, 5):
    torch._dynamo.reset()
    assert torch.compile(lambda x: x + 1, backend="tpu", dynamic=False)(torch.ones(n)).shape == (n,)
m = torch_clutch.metrics()
print(json.dumps({k: m[k] for k in ("compiles", "executable_hits", "graph_hits", "load_failures", "serialize_failures")}))
"""


@pytest.fixture
def use(fake, tmp_path):
    """Compiles three programs with the fake plugin in a fresh process: metrics, and the warnings on its standard error."""

    def run(**environment: str) -> tuple[dict, list[str]]:
        env = {**os.environ, "CLUTCH_PJRT_PLUGIN": fake, "CLUTCH_CACHE_DIR": str(tmp_path / "cache"), **environment}
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(USE)], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1]), [line for line in done.stderr.splitlines() if "executable" in line]

    return run


def test_the_fake_plugin_is_cached(use):
    first, warnings = use()
    assert (first["compiles"], first["executable_hits"], warnings) == (3, 0, [])
    second, warnings = use()
    assert (second["compiles"], second["graph_hits"], second["executable_hits"], warnings) == (0, 3, 3, [])


@pytest.mark.parametrize("code", ["UNIMPLEMENTED", "INTERNAL"])
def test_executables_that_do_not_load_are_compiled_again(use, code):
    use()
    found, warnings = use(CLUTCH_FAKE_PJRT_FAIL=f"PJRT_Executable_DeserializeAndLoad={code}:words of the plugin")
    assert (found["compiles"], found["executable_hits"]) == (3, 0)
    assert found["load_failures"] >= 3
    assert len(warnings) == 1 and "does not load" in warnings[0] and "words of the plugin" in warnings[0]
    # Nothing is lost for a process whose plugin loads them.
    after, warnings = use()
    assert (after["compiles"], after["executable_hits"], warnings) == (0, 3, [])


def test_executables_that_cannot_be_serialised_are_not_cached(use):
    for _ in range(2):
        found, warnings = use(CLUTCH_FAKE_PJRT_FAIL="PJRT_Executable_Serialize=UNIMPLEMENTED:words of the plugin")
        assert (found["compiles"], found["graph_hits"], found["serialize_failures"]) == (3, 0, 3)
        assert len(warnings) == 1 and "cannot serialise" in warnings[0]


def test_another_plugin_version_is_a_miss(use):
    use()
    found, warnings = use(CLUTCH_FAKE_PJRT_PLATFORM_VERSION="fake 2")
    assert (found["compiles"], found["graph_hits"], found["executable_hits"], warnings) == (3, 0, 0, [])
    assert use(CLUTCH_FAKE_PJRT_PLATFORM_VERSION="fake 2")[0]["compiles"] == 0
    assert use()[0]["compiles"] == 0
