"""A model with inputs."""

from dataclasses import dataclass, field
from typing import Any

from torch import nn

# A builder tries its variants until eager runs one; a model with more parameters is left out.
MOST_PARAMETERS = 60_000_000


@dataclass
class Case:
    """A model with random weights, its inputs, and those of a training step where they differ."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    training_args: tuple[Any, ...] | None = None


class NotBuilt(Exception):
    """No variant of the model runs in eager."""
