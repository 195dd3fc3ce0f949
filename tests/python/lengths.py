"""Models whose inputs have any size from 1 to 512: what `test_lengths.py` sweeps."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

LONGEST = 512
Inputs = dict[str, Any]


@dataclasses.dataclass
class Subject:
    """A model, its inputs of size `n`, and a scalar loss of its output where it is trained."""

    model: nn.Module
    inputs: Callable[[int], Inputs]
    loss: Callable[[Any], torch.Tensor] | None
    # Dynamo runs some of it in Python.
    breaks: bool = False


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(3, 128, shape)


def mean_square(out: Any) -> torch.Tensor:
    return (out if isinstance(out, torch.Tensor) else out[0]).float().square().mean()


def bert() -> Subject:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(vocab_size=128, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64)

    def inputs(n: int) -> Inputs:
        ids = tokens(2, n)
        mask = torch.ones(2, n, dtype=torch.long)
        mask[1, n // 2 + 1 :] = 0
        return {"input_ids": ids, "attention_mask": mask, "labels": tokens(2, n)}

    return Subject(BertForMaskedLM(config), inputs, lambda out: out.loss)


def _llama(*, use_cache: bool) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=128,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=LONGEST + 8,
            use_cache=use_cache,
        )
    )


def llama() -> Subject:
    return Subject(_llama(use_cache=False), lambda n: {"input_ids": tokens(2, n), "labels": tokens(2, n)}, lambda out: out.loss)


class Decoding(nn.Module):
    """One decoding step after a cache that holds `n` positions: keys and values in, logits and the longer cache out."""

    def __init__(self) -> None:
        super().__init__()
        self.llama = _llama(use_cache=True)

    def forward(self, token: torch.Tensor, past: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        from transformers import DynamicCache

        cache = DynamicCache()
        for i in range(len(past) // 2):
            cache.update(past[2 * i], past[2 * i + 1], i)
        out = self.llama(input_ids=token, past_key_values=cache)
        return out.logits, [t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]


def llama_with_cache() -> Subject:
    def inputs(n: int) -> Inputs:
        return {"token": tokens(2, 1), "past": [torch.randn(2, 2, n, 8) for _ in range(2)]}

    return Subject(Decoding(), inputs, lambda out: mean_square(out))


def t5() -> Subject:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, use_cache=False, decoder_start_token_id=0)
    return Subject(
        T5ForConditionalGeneration(config),
        lambda n: {"input_ids": tokens(2, n), "labels": tokens(2, n // 2 + 1)},
        lambda out: out.loss,
    )


def vit() -> Subject:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=8, num_labels=10
    )
    return Subject(
        ViTForImageClassification(config),
        lambda n: {"pixel_values": torch.randn(n, 3, 16, 16), "labels": torch.randint(0, 10, (n,))},
        lambda out: out.loss,
    )


class WhisperFrames(nn.Module):
    """Whisper's encoder on any number of frames: Transformers' own forward insists on the longest."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import WhisperConfig
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        self.encoder = WhisperEncoder(
            WhisperConfig(
                num_mel_bins=8,
                d_model=32,
                encoder_layers=1,
                encoder_attention_heads=4,
                encoder_ffn_dim=64,
                max_source_positions=LONGEST,
            )
        )

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        encoder = self.encoder
        x = F.gelu(encoder.conv2(F.gelu(encoder.conv1(frames)))).permute(0, 2, 1)
        x = x + encoder.embed_positions.weight[: x.shape[1]]
        for layer in encoder.layers:
            out = layer(x, None)
            x = out if isinstance(out, torch.Tensor) else out[0]
        return encoder.layer_norm(x)


def whisper() -> Subject:
    return Subject(WhisperFrames(), lambda n: {"frames": torch.randn(2, 8, n)}, mean_square)


class Convolutional(nn.Module):
    """Strided and dilated convolutions, batch norm, pooling, and a mean over what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(4, 8, 5, padding=2),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.Conv1d(8, 8, 3, padding=2, dilation=2, groups=2),
            nn.GELU(),
            nn.Conv1d(8, 16, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.last = nn.Conv1d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # `max_pool1d` itself specialises the length in PyTorch.
        pooled = F.max_pool2d(self.features(x).unsqueeze(2), (1, 3), 1, (0, 1)).squeeze(2)
        return self.head(self.last(pooled).mean(-1))


def convolutional() -> Subject:
    return Subject(Convolutional(), lambda n: {"x": torch.randn(3, 4, n)}, mean_square)


class Recurrent(nn.Module):
    """An LSTM, which Dynamo leaves to eager, between compiled parts; and a gated linear recurrence as cumulative sums."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(6, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.gate = nn.Linear(16, 16)
        self.leave = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, _ = self.lstm(torch.tanh(self.enter(x)))
        decay = F.logsigmoid(self.gate(h) + 4.0).cumsum(1)
        running = torch.exp(decay) * torch.cumsum(h * torch.exp(-decay.clamp(min=-20.0)), 1)
        return self.leave(F.layer_norm(running, (16,)))


def recurrent() -> Subject:
    return Subject(Recurrent(), lambda n: {"x": torch.randn(2, n, 6)}, mean_square, breaks=True)


SUBJECTS = {f.__name__: f for f in (bert, llama, llama_with_cache, t5, vit, whisper, convolutional, recurrent)}
