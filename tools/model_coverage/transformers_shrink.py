"""Configurations of transformers made small."""

import dataclasses
from typing import Any

WIDTHS = [
    "d_model",
    "dim",
    "embed_dim",
    "embedding_size",
    "encoder_hidden_size",
    "decoder_hidden_size",
    "hidden_dim",
    "hidden_size",
    "n_embd",
    "projection_dim",
    "vision_feature_size",
    "word_embed_dim",
]
LAYERS = [
    "decoder_layers",
    "depth",
    "encoder_layers",
    "layers",
    "n_layer",
    "n_layers",
    "num_blocks",
    "num_decoder_layers",
    "num_encoder_layers",
    "num_hidden_layers",
    "num_layers",
]
HEADS = ["attention_heads", "decoder_attention_heads", "encoder_attention_heads", "n_head", "n_heads", "num_attention_heads", "num_heads"]
HEAD_WIDTHS = ["attention_head_size", "d_kv", "head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"]
INNER = ["d_ff", "decoder_ffn_dim", "encoder_ffn_dim", "ffn_dim", "ffn_hidden_size", "intermediate_size", "mlp_dim", "n_inner"]
# Sizes that cut work and memory without belonging to the widths.
COUNTS = {
    "first_k_dense_replace": 1,
    "max_position_embeddings": 64,
    "max_source_positions": 16,
    "max_target_positions": 64,
    "moe_intermediate_size": 16,
    "n_ctx": 64,
    "n_group": 1,
    "n_positions": 64,
    "n_routed_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_local_experts": 4,
    "num_mel_bins": 8,
    "num_queries": 6,
    "shared_expert_intermediate_size": 16,
    "sliding_window": 16,
    "topk_group": 1,
    "type_vocab_size": 2,
    "vocab_size": 128,
}
TOKENS = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "sep_token_id": 2,
    "mask_token_id": 3,
    "image_token_id": 5,
    "image_token_index": 5,
    "video_token_id": 6,
    "audio_token_id": 7,
    "audio_token_index": 7,
}


@dataclasses.dataclass(frozen=True)
class Variant:
    """How a configuration is made small; `None` keeps the configuration's own sizes."""

    width: int | None = 32
    heads: int = 4
    layers: int = 2
    image: tuple[int, int] | None = (32, 8)
    attention: str = "sdpa"


VARIANTS = (
    Variant(),
    Variant(width=None),
    Variant(width=64),
    Variant(image=None),
    Variant(width=None, image=None),
    Variant(image=(64, 16)),
    Variant(layers=4),
    Variant(width=None, layers=4, image=None, attention="eager"),
)


def _sizes(variant: Variant) -> dict[str, int]:
    sizes = dict(COUNTS) | dict.fromkeys(LAYERS, variant.layers)
    if variant.width is not None:
        sizes |= dict.fromkeys(WIDTHS, variant.width) | dict.fromkeys(HEADS, variant.heads)
        sizes |= dict.fromkeys(HEAD_WIDTHS, variant.width // variant.heads) | dict.fromkeys(INNER, 2 * variant.width)
        sizes |= {"num_key_value_heads": variant.heads // 2, "kv_lora_rank": 16, "q_lora_rank": 16, "state_size": 4, "mamba_d_state": 4}
    if variant.image is not None:
        sizes |= {"image_size": variant.image[0], "patch_size": variant.image[1]}
    return sizes


def shrink(config: Any, variant: Variant, depth: int = 0) -> Any:
    """Makes the configuration and those inside it small, in place. Sizes only become smaller."""
    from transformers import PretrainedConfig

    for value in list(vars(config).values()):
        if isinstance(value, PretrainedConfig) and depth < 4:
            shrink(value, variant, depth + 1)
    fields, aliases = config.__dict__, getattr(type(config), "attribute_map", None) or {}
    for name, size in (_sizes(variant) | TOKENS).items():
        if name not in aliases and type(fields.get(name)) is int and (name in TOKENS or fields[name] > size):
            setattr(config, name, size)
    if variant.width is not None:
        _agree(fields)
    _per_layer(config)
    return config


def _agree(fields: dict[str, Any]) -> None:
    """Sizes that follow from others: heads of latent attention, rotary parts."""
    if type(fields.get("qk_rope_head_dim")) is int and type(fields.get("num_key_value_heads")) is int:
        fields["num_key_value_heads"] = fields["num_attention_heads"]
        fields["head_dim"] = fields["qk_rope_head_dim"]
        if "qk_head_dim" in fields:
            fields["qk_head_dim"] = fields["qk_nope_head_dim"] + fields["qk_rope_head_dim"]
    if type(fields.get("rotary_dim")) is int:
        fields["rotary_dim"] = min(fields["rotary_dim"], 8)
    for name in ("rope_parameters", "rope_scaling"):
        rope = fields.get(name)
        if isinstance(rope, dict) and isinstance(rope.get("mrope_section"), list):
            width = fields.get("head_dim") or fields["hidden_size"] // fields["num_attention_heads"]
            width = int(width * (rope.get("partial_rotary_factor") or 1))
            rope["mrope_section"] = [width // 2 - 2 * (width // 8), width // 8, width // 8]


def _per_layer(config: Any) -> None:
    """Lists with an entry for each layer, cut to the layers left: the first and the last kind in turn."""
    layers = config.__dict__.get("num_hidden_layers") or config.__dict__.get("num_layers")
    if type(layers) is not int:
        return
    for name, value in list(vars(config).items()):
        if not isinstance(value, list) or len(value) <= layers or not any(part in name for part in ("layer", "pattern", "types")):
            continue
        if all(isinstance(x, str) for x in value):
            setattr(config, name, ([value[0], value[-1]] * layers)[:layers])
        elif all(isinstance(x, int) for x in value):
            setattr(config, name, value[:layers])
