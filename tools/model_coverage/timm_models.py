"""One model of each timm family: the smallest by parameters, at the smallest side that eager runs."""

import torch

from .case import Case, NotBuilt

SIDES = (64, 96, 128, 160, 192, 224, 256, 384)


def build(name: str) -> Case:
    """The model with one of `SIDES`; as an argument of the model where it takes one."""
    import timm

    first = None
    for side in SIDES:
        for options in ({"img_size": side}, {}):
            try:
                torch.manual_seed(0)
                model = timm.create_model(name, num_classes=10, **options).eval()
                case = Case(model, (torch.randn(2, 3, side, side),))
                with torch.no_grad():
                    model(*case.args)
                return case
            except Exception as error:
                first = first or error
    raise NotBuilt(str(first)) from first
