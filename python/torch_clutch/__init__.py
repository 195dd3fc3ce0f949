"""Clutch: ``torch.compile(model, backend="tpu")`` for TPUs and any other PJRT device.

Importing the package changes nothing for other backends or devices.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._clutch import __version__, metrics, reset_metrics, wait_for_compiles
from .errors import (
    CacheError,
    ClutchError,
    DeviceError,
    DeviceMemoryError,
    InternalError,
    OptionError,
    PluginError,
    SavedModelError,
    SizeError,
    StrictModeError,
    TargetError,
    UnsupportedError,
)
from .options import Options

if TYPE_CHECKING:
    from .saved import load, save
    from .strictness import strict

__all__ = [
    "CacheError",
    "ClutchError",
    "DeviceError",
    "DeviceMemoryError",
    "InternalError",
    "OptionError",
    "Options",
    "PluginError",
    "SavedModelError",
    "SizeError",
    "StrictModeError",
    "TargetError",
    "UnsupportedError",
    "__version__",
    "explain_last_compile",
    "last_executable",
    "load",
    "metrics",
    "reset_metrics",
    "save",
    "strict",
    "wait_for_compiles",
]

_LAZY = {"save": "saved", "load": "saved", "strict": "strictness"}
_SUBMODULES = frozenset({"backend", "inspection", "partition", "saved", "strictness", "warmup"})


def __getattr__(name: str) -> Any:
    """Parts that need PyTorch's compiler, or are rarely used, are imported at first use."""
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _last() -> Any:
    from .backend import last_compiled

    compiled = last_compiled()
    if compiled is None:
        raise LookupError("nothing was compiled in this thread yet; call a torch.compile(..., backend='tpu') function first")
    return compiled


def last_executable() -> dict:
    """Costs, memory, fingerprint, sizes and compile times of the executable compiled last in this thread.

    Raises LookupError when nothing was compiled yet.
    """
    return _last().statistics()


def explain_last_compile() -> str:
    """What differed from the nearest known cache entry when this thread compiled last.

    Raises LookupError when nothing was compiled yet.
    """
    return _last().explain() or "the cache is off"
