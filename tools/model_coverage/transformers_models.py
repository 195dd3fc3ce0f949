"""Small instances of transformers' architectures by model type."""

import copy
import inspect
from typing import Any

import torch

from .case import MOST_PARAMETERS, Case, NotBuilt
from .transformers_shrink import VARIANTS, Variant, shrink

BATCH, TOKENS, DECODER_TOKENS = 2, 12, 6


def build(name: str) -> Case:
    """The first variant that eager runs."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    kinds = {kind.model_type: kind for kind in MODEL_MAPPING}
    if name not in kinds:
        raise NotBuilt(f"transformers has no model type {name}")
    first = None
    for variant in VARIANTS:
        try:
            case = _instance(kinds[name], MODEL_MAPPING[kinds[name]], variant)
            with torch.no_grad():
                case.model(**case.kwargs)
            return case
        except Exception as error:
            first = first or error
    raise NotBuilt(str(first)) from first


def _instance(kind: Any, classes: Any, variant: Variant) -> Case:
    model_class = classes[0] if isinstance(classes, list | tuple) else classes
    torch.manual_seed(0)
    config = shrink(kind(), variant)
    config._attn_implementation = variant.attention if getattr(model_class, "_supports_sdpa", False) else "eager"
    with torch.device("meta"):
        count = sum(p.numel() for p in model_class._from_config(copy.deepcopy(config)).parameters())
    if count > MOST_PARAMETERS:
        raise NotBuilt(f"{count} parameters")
    model = model_class._from_config(config).eval()
    return Case(model, kwargs=_inputs(model, config))


def _inputs(model: Any, config: Any) -> dict[str, Any]:
    """Inputs by the names that `forward` takes."""
    takes = inspect.signature(model.forward).parameters
    inner = [config, *(c for c in vars(config).values() if hasattr(c, "to_dict"))]

    def size(name: str, default: int) -> int:
        return next((c.__dict__[name] for c in inner if type(c.__dict__.get(name)) is int), default)

    def tokens(count: int) -> torch.Tensor:
        return torch.randint(8, max(size("vocab_size", 128), 9), (BATCH, count))

    found: dict[str, Any] = {}
    both = getattr(config, "vision_config", None) is not None and {"projection_dim", "logit_scale_init_value"} & set(vars(config))
    if "pixel_values" in takes and (model.main_input_name == "pixel_values" or "input_ids" not in takes or both):
        side = size("image_size", 32)
        found["pixel_values"] = torch.randn(BATCH, size("num_channels", 3), side, side)
    if "input_ids" in takes:
        found["input_ids"] = tokens(TOKENS)
    if "input_values" in takes and "input_ids" not in takes:
        found["input_values"] = torch.randn(BATCH, 4000)
    if "input_features" in takes and "input_ids" not in takes:
        found["input_features"] = torch.randn(BATCH, size("num_mel_bins", 80), 2 * size("max_source_positions", 50))
    if "decoder_input_ids" in takes:
        found["decoder_input_ids"] = tokens(DECODER_TOKENS)
    if "bbox" in takes:
        found["bbox"] = torch.tensor([1, 2, 20, 30]).expand(BATCH, TOKENS, 4).contiguous()
    if "visual_feats" in takes:
        found |= {"visual_feats": torch.randn(BATCH, 4, 2048), "visual_pos": torch.rand(BATCH, 4, 4)}
    if "past_values" in takes:
        found["past_values"] = torch.randn(BATCH, size("context_length", 64), size("num_input_channels", 1))
    if "use_cache" in takes:
        found["use_cache"] = False
    return found
