"""Helpers that the extension module calls."""

import torch
from torch.autograd.graph import increment_version

__all__ = ["draw_seed", "increment_version"]


def draw_seed() -> int:
    """One seed from PyTorch's default generator: follows ``torch.manual_seed``, differs on each call."""
    return torch.empty((), dtype=torch.int64).random_().item()
