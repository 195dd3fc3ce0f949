"""Clutch: ``torch.compile(model, backend="tpu")`` for TPUs and any other PJRT device.

Importing the package changes nothing for other backends or devices.
"""

from ._clutch import __version__, metrics, reset_metrics
from .backend import last_compiled as _last_compiled
from .errors import (
    ClutchError,
    DeviceError,
    DeviceMemoryError,
    InternalError,
    OptionError,
    PluginError,
    StrictModeError,
    TargetError,
    UnsupportedError,
)
from .options import Options

__all__ = [
    "ClutchError",
    "DeviceError",
    "DeviceMemoryError",
    "InternalError",
    "OptionError",
    "Options",
    "PluginError",
    "StrictModeError",
    "TargetError",
    "UnsupportedError",
    "__version__",
    "explain_last_compile",
    "last_executable",
    "metrics",
    "reset_metrics",
]


def last_executable() -> dict:
    """Costs, memory, fingerprint, sizes and compile times of the executable compiled last in this thread.

    Raises LookupError when nothing was compiled yet.
    """
    compiled = _last_compiled()
    if compiled is None:
        raise LookupError("nothing was compiled in this thread yet; call a torch.compile(..., backend='tpu') function first")
    return compiled.statistics()


def explain_last_compile() -> str:
    """What differed from the nearest known cache entry when this thread compiled last.

    Raises LookupError when nothing was compiled yet.
    """
    compiled = _last_compiled()
    if compiled is None:
        raise LookupError("nothing was compiled in this thread yet; call a torch.compile(..., backend='tpu') function first")
    return compiled.explain() or "the cache is off"
