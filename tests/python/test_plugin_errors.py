"""Faults of plugins become typed errors that say what to do, and leave the model usable in eager.

The fake plugin of the repository returns any error from any function; it is built with cargo.
"""

import os
import re
import subprocess
import sys

import pytest
import torch

import torch_clutch


def add_one(plugin: str, **options):
    torch._dynamo.reset()
    f = torch.compile(lambda x: x + 1, backend="tpu", options={"pjrt_plugin": plugin, "cache": False, **options})
    return f(torch.ones(3))


@pytest.mark.parametrize(
    "function,code,kind",
    [
        ("PJRT_Client_Compile", "INVALID_ARGUMENT", torch_clutch.PluginError),
        ("PJRT_Client_Compile", "RESOURCE_EXHAUSTED", torch_clutch.DeviceMemoryError),
        ("PJRT_Client_Compile", "INTERNAL", torch_clutch.PluginError),
        ("PJRT_Client_BufferFromHostBuffer", "RESOURCE_EXHAUSTED", torch_clutch.DeviceMemoryError),
        ("PJRT_LoadedExecutable_Execute", "RESOURCE_EXHAUSTED", torch_clutch.DeviceMemoryError),
        ("PJRT_LoadedExecutable_Execute", "UNAVAILABLE", torch_clutch.PluginError),
        ("PJRT_LoadedExecutable_Execute#event", "INTERNAL", torch_clutch.PluginError),
        ("PJRT_Buffer_ToHostBuffer", "DATA_LOSS", torch_clutch.PluginError),
    ],
)
def test_a_fault_is_a_typed_error_and_passes(fake, monkeypatch, function, code, kind):
    monkeypatch.setenv("CLUTCH_FAKE_PJRT_FAIL", f"{function}={code}:the words of the plugin")
    model = torch.nn.Linear(3, 2)
    run = torch.compile(model, backend="tpu", options={"pjrt_plugin": fake, "cache": False})
    with torch.no_grad():
        with pytest.raises(kind, match="the words of the plugin") as caught:
            run(torch.ones(1, 3))
        assert code in str(caught.value)
        if kind is torch_clutch.DeviceMemoryError:
            assert isinstance(caught.value, MemoryError)
            assert "smaller batches" in str(caught.value)
        model(torch.ones(1, 3))
        monkeypatch.delenv("CLUTCH_FAKE_PJRT_FAIL")
        assert run(torch.ones(1, 3)).shape == (1, 2)


def in_a_process(plugin: str, **environment: str) -> str:
    """What a process that compiles for `plugin` says of its error (one plugin is loaded once a process)."""
    code = (
        "import torch, torch_clutch\n"
        "try:\n"
        "    torch.compile(lambda x: x + 1, backend='tpu', fullgraph=True)(torch.ones(3))\n"
        "except torch_clutch.ClutchError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    env = {**os.environ, "CLUTCH_PJRT_PLUGIN": plugin, "CLUTCH_CACHE": "0", **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_missing_plugin_says_where_it_was_sought(tmp_path):
    with pytest.raises(torch_clutch.PluginError, match="nowhere"):
        add_one(str(tmp_path / "nowhere.so"))


def test_a_file_that_is_no_library(tmp_path):
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"this is no library")
    with pytest.raises(torch_clutch.PluginError, match=r"broken\.so"):
        add_one(str(broken))


def test_a_library_that_is_no_plugin():
    import _ctypes

    with pytest.raises(torch_clutch.PluginError, match="GetPjrtApi"):
        add_one(_ctypes.__file__)


def test_an_api_version_of_another_age(fake):
    said = in_a_process(fake, CLUTCH_FAKE_PJRT_API_VERSION="1.0")
    assert said.startswith("PluginError")
    assert "1.0" in said


def test_a_client_that_cannot_be_made(fake):
    said = in_a_process(fake, CLUTCH_FAKE_PJRT_FAIL="PJRT_Client_Create=FAILED_PRECONDITION:the device is in use")
    assert said.startswith("PluginError")
    assert "the device is in use" in said


def test_logs_are_structured_and_asked_for(fake):
    code = "import torch; torch.compile(lambda x: x * 2, backend='tpu')(torch.ones(3))"

    def said(**environment: str) -> str:
        env = {**os.environ, "CLUTCH_PJRT_PLUGIN": fake, "CLUTCH_CACHE": "0", **environment}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stderr

    assert "a graph was compiled" not in said()
    assert re.search(r"INFO clutch::driver: a graph was compiled .*instructions=\d+", said(CLUTCH_LOG="info"))
    assert '"message":"a graph was compiled"' in said(CLUTCH_LOG="clutch=info", CLUTCH_LOG_FORMAT="json")
    assert "CLUTCH_LOG=cl=utch=x is not understood" in said(CLUTCH_LOG="cl=utch=x")
