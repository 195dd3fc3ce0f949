"""What a job's ``clutch_warmup()`` yields for ``clutch warmup``.

::

    from torch_clutch.warmup import Model


    def clutch_warmup():
        model = build_model().eval()
        yield Model("classifier", model, args=lambda n: (torch.zeros(8, n, dtype=torch.long),), buckets=[128, 512])

Nothing is executed: graphs are captured from the example inputs and compiled for each target that the command names.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import OptionError


@dataclasses.dataclass
class Model:
    """A model or function with example inputs.

    The inputs' sizes, dtypes and strides matter, their values do not, except where the model's own Python code
    branches on them. ``args`` and ``kwargs`` are the inputs, or functions of a bucket that make them. ``buckets`` lists
    the buckets: each value is passed to those functions, a tuple as several arguments and a dict as keyword arguments.
    ``dynamic`` and ``options`` are those of the job's own ``torch.compile`` call. With ``training``, the model runs
    with gradients and the backward pass is compiled too; without, it runs under ``torch.no_grad()``. Keys match the job's
    when those agree.
    """

    name: str
    model: Callable[..., Any]
    args: Sequence[Any] | Callable[..., Sequence[Any]] = ()
    kwargs: Mapping[str, Any] | Callable[..., Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    dynamic: bool | None = None
    buckets: Sequence[Any] = ()
    training: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.buckets = list(self.buckets)
        if not callable(self.model):
            raise OptionError(f"warm-up model {self.name!r}: `model` must be a module or a function")
        if self.buckets and not (callable(self.args) or callable(self.kwargs)):
            raise OptionError(
                f"warm-up model {self.name!r} has buckets, so `args` or `kwargs` must be a function that makes "
                "inputs of a bucket, as in args=lambda length: (torch.zeros(1, length),)"
            )
        if "target" in self.options:
            raise OptionError(f"warm-up model {self.name!r}: targets are chosen with `clutch warmup --target`, not in `options`")

    def labels(self) -> list[str]:
        """One label for each bucket; a model without buckets has one, which is empty."""
        return [_label(b) for b in self.buckets] or [""]

    def inputs(self, index: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword inputs of the bucket with this number."""
        place: tuple[Any, ...] = ()
        named: Mapping[str, Any] = {}
        if self.buckets:
            bucket = self.buckets[index]
            if isinstance(bucket, Mapping):
                named = bucket
            else:
                place = bucket if isinstance(bucket, tuple) else (bucket,)
        args = self.args(*place, **named) if callable(self.args) else self.args
        kwargs = self.kwargs(*place, **named) if callable(self.kwargs) else self.kwargs
        if not isinstance(args, tuple | list) or not isinstance(kwargs, Mapping):
            raise OptionError(f"warm-up model {self.name!r}: `args` must give a tuple and `kwargs` a dict")
        return tuple(args), dict(kwargs)


def _label(bucket: Any) -> str:
    if isinstance(bucket, Mapping):
        return ", ".join(f"{name}={value}" for name, value in bucket.items())
    return "x".join(map(str, bucket)) if isinstance(bucket, tuple) else str(bucket)
