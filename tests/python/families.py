"""The ten model families of the tests: random weights, tiny and base sizes, nothing downloaded."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from torch import nn

TINY = "tiny"
BASE = "base"


@dataclasses.dataclass
class Case:
    """A model with example inputs and a scalar loss of its output."""

    model: nn.Module
    inputs: dict[str, Any]
    loss: Callable[[Any], torch.Tensor]


def _tokens(vocabulary: int, *shape: int) -> torch.Tensor:
    return torch.randint(3, vocabulary, shape)


def _labelled(model: nn.Module, inputs: dict[str, Any]) -> Case:
    return Case(model, inputs, lambda out: out.loss)


def _mean_square(model: nn.Module, inputs: dict[str, Any]) -> Case:
    return Case(model, inputs, lambda out: (out if isinstance(out, torch.Tensor) else out[0]).float().square().mean())


def resnet50(size: str) -> Case:
    import torchvision

    if size == TINY:
        model = torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=10)
        labels = torch.tensor([1, 7, 3, 5])
        return Case(model, {"x": torch.randn(4, 3, 64, 64)}, lambda out: nn.functional.cross_entropy(out, labels))
    return _mean_square(torchvision.models.resnet50(weights=None), {"x": torch.randn(1, 3, 224, 224)})


def bert(size: str) -> Case:
    from transformers import BertConfig, BertForMaskedLM

    small = {"vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(**(small if size == TINY else {}))
    length = 128 if size == BASE else 12
    ids = _tokens(config.vocab_size, 2, length)
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, length // 2 :] = 0
    return _labelled(BertForMaskedLM(config), {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()})


def gpt2(size: str) -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    small = {"vocab_size": 128, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    config = GPT2Config(use_cache=False, **(small if size == TINY else {}))
    ids = _tokens(config.vocab_size, 2, 64 if size == BASE else 12)

    def next_token_loss(out: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    # Its own loss logs a warning, which Dynamo does not trace.
    return Case(GPT2LMHeadModel(config), {"input_ids": ids}, next_token_loss)


def llama(size: str) -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=8192 if size == BASE else 128,
        hidden_size=512 if size == BASE else 32,
        intermediate_size=1408 if size == BASE else 64,
        num_hidden_layers=12 if size == BASE else 2,
        num_attention_heads=8 if size == BASE else 4,
        num_key_value_heads=4 if size == BASE else 2,
        use_cache=False,
    )
    ids = _tokens(config.vocab_size, 2, 128 if size == BASE else 12)
    return _labelled(LlamaForCausalLM(config), {"input_ids": ids, "labels": ids.clone()})


def qwen3_moe(size: str) -> Case:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    base = size == BASE
    config = Qwen3MoeConfig(
        vocab_size=4096 if base else 128,
        hidden_size=256 if base else 32,
        intermediate_size=512 if base else 64,
        moe_intermediate_size=128 if base else 16,
        num_hidden_layers=4 if base else 2,
        num_attention_heads=8 if base else 4,
        num_key_value_heads=4 if base else 2,
        head_dim=32 if base else 8,
        num_experts=16 if base else 4,
        num_experts_per_tok=4 if base else 2,
        use_cache=False,
    )
    ids = _tokens(config.vocab_size, 2, 64 if base else 12)
    return _labelled(Qwen3MoeForCausalLM(config), {"input_ids": ids, "labels": ids.clone()})


def t5(size: str) -> Case:
    from transformers import T5Config, T5ForConditionalGeneration

    small = {"vocab_size": 128, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = T5Config(use_cache=False, decoder_start_token_id=0, **(small if size == TINY else {}))
    ids, labels = _tokens(config.vocab_size, 2, 12), _tokens(config.vocab_size, 2, 6)
    return _labelled(T5ForConditionalGeneration(config), {"input_ids": ids, "labels": labels})


def vit(size: str) -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "image_size": 32,
        "patch_size": 8,
    }
    config = ViTConfig(num_labels=10, **(small if size == TINY else {}))
    pixels = torch.randn(2, 3, config.image_size, config.image_size)
    return _labelled(ViTForImageClassification(config), {"pixel_values": pixels, "labels": torch.tensor([1, 7])})


def whisper(size: str) -> Case:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    tiny = size == TINY
    config = WhisperConfig(
        vocab_size=128 if tiny else 2048,
        num_mel_bins=8 if tiny else 80,
        d_model=32 if tiny else 384,
        encoder_layers=2 if tiny else 4,
        decoder_layers=2 if tiny else 4,
        encoder_attention_heads=4 if tiny else 6,
        decoder_attention_heads=4 if tiny else 6,
        encoder_ffn_dim=64 if tiny else 1536,
        decoder_ffn_dim=64 if tiny else 1536,
        max_source_positions=16 if tiny else 250,
        max_target_positions=32,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    frames = torch.randn(2, config.num_mel_bins, 2 * config.max_source_positions)
    return _labelled(WhisperForConditionalGeneration(config), {"input_features": frames, "labels": _tokens(config.vocab_size, 2, 6)})


def mamba(size: str) -> Case:
    from transformers import MambaConfig, MambaForCausalLM

    tiny = size == TINY
    config = MambaConfig(
        vocab_size=128 if tiny else 1024,
        hidden_size=32 if tiny else 128,
        state_size=4 if tiny else 16,
        num_hidden_layers=2 if tiny else 4,
        use_cache=False,
    )
    ids = _tokens(config.vocab_size, 2, 8 if tiny else 16)
    return _labelled(MambaForCausalLM(config), {"input_ids": ids, "labels": ids.clone()})


class _Residual(nn.Module):
    def __init__(self, inner: int, outer: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(4, inner), nn.SiLU(), nn.Conv2d(inner, outer, 3, padding=1))
        self.time = nn.Linear(time, outer)
        self.second = nn.Sequential(nn.GroupNorm(4, outer), nn.SiLU(), nn.Dropout(0.0), nn.Conv2d(outer, outer, 3, padding=1))
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.first(x) + self.time(t)[:, :, None, None]
        return self.skip(x) + self.second(h)


class UNet(nn.Module):
    """A denoising U-Net: residual blocks with time embedding, attention at the bottom, skip connections."""

    def __init__(self, width: int, levels: int, time: int = 64) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(levels)]
        self.embed = nn.Sequential(nn.Linear(time, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList()
        self.up = nn.ModuleList()
        for i, w in enumerate(widths):
            after = widths[min(i + 1, levels - 1)]
            self.down.append(nn.ModuleList([_Residual(w, w, time), nn.Conv2d(w, after, 3, stride=2, padding=1)]))
            self.up.insert(0, nn.ModuleList([nn.Upsample(scale_factor=2), _Residual(after + w, w, time)]))
        self.attention = nn.MultiheadAttention(widths[-1], 4, batch_first=True)
        self.leave = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))
        self.frequencies: torch.Tensor
        self.register_buffer("frequencies", torch.exp(torch.linspace(0, -6, time // 2)))

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        angle = t[:, None] * self.frequencies
        time = self.embed(torch.cat([angle.sin(), angle.cos()], dim=-1))
        x = self.enter(x)
        skips = []
        for block, shrink in self.down:
            x = block(x, time)
            skips.append(x)
            x = shrink(x)
        batch, channels, height, width = x.shape
        flat = x.flatten(2).transpose(1, 2)
        x = x + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).reshape(batch, channels, height, width)
        for grow, block in self.up:
            x = block(torch.cat([grow(x), skips.pop()], dim=1), time)
        return self.leave(x)


def unet(size: str) -> Case:
    tiny = size == TINY
    side = 16 if tiny else 64
    model = UNet(8 if tiny else 32, 2 if tiny else 3)
    return _mean_square(model, {"x": torch.randn(2, 3, side, side), "t": torch.tensor([3.0, 400.0])})


FAMILIES = {f.__name__: f for f in (resnet50, bert, gpt2, llama, qwen3_moe, t5, vit, whisper, mamba, unet)}


def make(family: str, size: str = TINY, seed: int = 0) -> Case:
    """A fresh case; equal seeds give equal weights and inputs."""
    torch.manual_seed(seed)
    return FAMILIES[family](size)
