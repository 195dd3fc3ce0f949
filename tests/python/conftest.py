"""Shared set-up: an empty cache of the run's own, fresh compilations for each test."""

import os
import tempfile

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
