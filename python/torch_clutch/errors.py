"""Exceptions of Clutch. Each says what to do next. Importing this module imports neither PyTorch nor Dynamo."""

import functools


class ClutchError(RuntimeError):
    """Base of all exceptions of Clutch."""


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


class SizeError(ClutchError, ValueError):
    """The sizes of the arguments of a call contradict one another or what was captured."""


class UnsupportedError(ClutchError, NotImplementedError):
    """The graph holds operators or tensors that cannot be compiled.

    ``nodes`` lists (FX node, operator, reason) where the error is about operators.
    """

    nodes: list[tuple[str, str, str]] = []  # noqa: RUF012


class StrictModeError(ClutchError):
    """A new compilation was needed inside ``torch_clutch.strict()``."""


class InternalError(ClutchError):
    """A fault of Clutch itself."""


class CacheError(ClutchError):
    """The compile cache or a cache bundle cannot be used."""


class SavedModelError(ClutchError):
    """A saved program is damaged, of another format version, or does not fit this machine or these arguments."""


@functools.cache
def _dynamo_class(kind: type[ClutchError]) -> type[ClutchError]:
    """A subclass of ``kind`` that is also Dynamo's ``ShortenTraceback``, which ``torch.compile`` passes on as it is."""
    from torch._dynamo.exc import ShortenTraceback

    def construct(self: ClutchError, message: str) -> None:
        ShortenTraceback.__init__(self, message, first_useful_frame=None)

    names = {
        "__init__": construct,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    return type(kind.__name__, (kind, ShortenTraceback), names)


def for_dynamo(error: ClutchError) -> ClutchError:
    """The same error as Dynamo wants it from a backend; it is an instance of the error's own class."""
    made = _dynamo_class(type(error))(str(error))
    made.__dict__.update(error.__dict__)
    return made.with_traceback(error.__traceback__)
