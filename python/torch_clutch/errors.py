"""Exceptions of Clutch. Each says what to do next.

They derive from Dynamo's ``ShortenTraceback`` so that ``torch.compile`` passes them on with their own type.
"""

from torch._dynamo.exc import ShortenTraceback


class ClutchError(ShortenTraceback):
    """Base of all exceptions of Clutch."""

    def __init__(self, message: str) -> None:
        super().__init__(message, first_useful_frame=None)


class OptionError(ClutchError, ValueError):
    """An option is unknown or has a value that it cannot have."""


class TargetError(OptionError):
    """The target name means nothing, or the plugin does not know the topology."""


class PluginError(ClutchError):
    """A PJRT plugin is missing, broken, too old, or refused a program."""


class DeviceMemoryError(PluginError, MemoryError):
    """The device's memory ran out."""


class DeviceError(ClutchError):
    """The device that a program needs is not here, or a tensor is on the wrong one."""


class UnsupportedError(ClutchError, NotImplementedError):
    """The graph holds operators or tensors that cannot be compiled.

    ``nodes`` lists (FX node, operator, reason) where the error is about operators.
    """

    nodes: list[tuple[str, str, str]] = []  # noqa: RUF012


class StrictModeError(ClutchError):
    """A new compilation was needed inside ``torch_clutch.strict()``."""


class InternalError(ClutchError):
    """A fault of Clutch itself."""
