"""torchvision's models with random weights and small inputs."""

from typing import Any

import torch

from .case import Case, NotBuilt

SIDES = (64, 96, 128, 224, 299)
DETECTION = ("rcnn_", "retinanet_", "fcos_", "ssd")


def names() -> list[str]:
    """All models that torchvision registers, sorted."""
    from torchvision import models

    return models.list_models()


def build(name: str) -> Case:
    """The model with inputs of the smallest side that eager runs."""
    first = None
    for side in SIDES:
        for options in _options(name, side):
            try:
                torch.manual_seed(0)
                case = _case(name, side, options)
                with torch.no_grad():
                    case.model(*case.args)
                return case
            except Exception as error:
                first = first or error
    raise NotBuilt(str(first)) from first


def _options(name: str, side: int) -> list[dict[str, Any]]:
    if name.startswith("vit_"):
        return [{"image_size": side, "num_classes": 10}]
    if any(kind in name for kind in DETECTION):
        return [{"weights_backbone": None, "num_classes": 5, "min_size": 96, "max_size": 128}, {"weights_backbone": None, "num_classes": 5}]
    if name.startswith(("deeplab", "fcn", "lraspp")):
        return [{"weights_backbone": None, "num_classes": 5}]
    if name.startswith("quantized_"):
        return [{"quantize": False, "num_classes": 10}]
    if name in ("googlenet", "inception_v3"):
        return [{"init_weights": False, "num_classes": 10}]
    return [{}] if name.startswith("raft") else [{"num_classes": 10}]


def _case(name: str, side: int, options: dict[str, Any]) -> Case:
    from torchvision import models

    model = models.get_model(name, weights=None, **options).eval()
    if any(kind in name for kind in DETECTION):
        images = [torch.rand(3, side, side) for _ in range(2)]
        return Case(model, (images,), training_args=(images, [_target(side, "keypoint" in name) for _ in images]))
    if name.startswith("raft"):
        return Case(model, (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)))
    if name.startswith("mvit_"):
        return Case(model, (torch.randn(1, 3, 16, 224, 224),))
    if name in ("mc3_18", "r2plus1d_18", "r3d_18", "s3d") or name.startswith("swin3d"):
        return Case(model, (torch.randn(2, 3, 16, side, side),))
    return Case(model, (torch.randn(2, 3, side, side),))


def _target(side: int, keypoints: bool) -> dict[str, torch.Tensor]:
    low, high = side // 8, side // 2
    boxes = torch.tensor([[low, low, high, high], [high, low, side - 4, side - 8]], dtype=torch.float32)
    masks = torch.zeros(2, side, side, dtype=torch.uint8)
    masks[0, low:high, low:high] = 1
    masks[1, low : side - 8, high : side - 4] = 1
    target = {"boxes": boxes, "labels": torch.tensor([1, 1 if keypoints else 2]), "masks": masks}
    if keypoints:
        target["keypoints"] = torch.cat([boxes[:, None, :2].expand(2, 17, 2) + 3, torch.ones(2, 17, 1)], dim=-1)
    return target
