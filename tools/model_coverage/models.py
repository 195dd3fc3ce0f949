"""All models, by source and name."""

from pathlib import Path

from . import timm_models, torchvision_models, transformers_models
from .case import Case

SOURCES = ("transformers", "timm", "torchvision")
_NAMES = Path(__file__).parent / "names"


def names(source: str) -> list[str]:
    """Names of the source's models, in order."""
    if source == "torchvision":
        return torchvision_models.names()
    return (_NAMES / f"{source}.txt").read_text().split()


def build(source: str, name: str) -> Case:
    """The model with inputs; `NotBuilt` where eager runs no variant of it."""
    builders = {"transformers": transformers_models.build, "timm": timm_models.build, "torchvision": torchvision_models.build}
    return builders[source](name)
