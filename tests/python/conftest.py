"""Shared set-up: an empty cache of the run's own, fresh compilations for each test."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

_cache = tempfile.TemporaryDirectory(prefix="clutch-test-cache-")
os.environ["CLUTCH_CACHE_DIR"] = _cache.name
# Padded lanes hold NaN in every test: one that leaks is seen.
os.environ["CLUTCH_POISON_PADDING"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

import torch_clutch


@pytest.fixture(autouse=True)
def fresh():
    """Each test starts with nothing compiled and counters at zero."""
    torch._dynamo.reset()
    torch_clutch.reset_metrics()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="session")
def fake() -> str:
    """Path of the fake plugin."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not here to build the fake plugin")
    build = ["cargo", "build", "--quiet", "--locked", "-p", "clutch-fake-pjrt", "--message-format", "json"]
    out = subprocess.run(build, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True).stdout
    return re.findall(r'"([^"]*libclutch_fake_pjrt\.so)"', out)[-1]
