"""Graphs whose schedules `make bench-rewrites` compares with rewriting on and off; a job file of `clutch estimate`."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "examples")]

import torch
import transformers
from torch import nn

import quickstart
from torch_clutch.warmup import Model

WORDS, LENGTH = 1000, 128


class Attention(nn.Module):
    """Self-attention from parts, with a residual and a layer norm."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm = nn.LayerNorm(width)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        return self.norm(x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2)))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))


def bert() -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, use_cache=False
    )
    return transformers.BertModel(config, add_pooling_layer=False)


class Logits(nn.Module):
    """A small Llama with grouped key and value heads, of which only the logits are given."""

    def __init__(self) -> None:
        super().__init__()
        self.model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=WORDS,
                hidden_size=256,
                num_hidden_layers=4,
                num_attention_heads=4,
                num_key_value_heads=2,
                intermediate_size=688,
                use_cache=False,
            )
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, use_cache=False).logits


def tokens(batch: int) -> tuple[torch.Tensor]:
    return (torch.zeros(batch, LENGTH, dtype=torch.long),)


def clutch_warmup() -> Iterator[Model]:
    torch.manual_seed(0)
    yield Model("mlp", mlp().eval(), args=(torch.zeros(8, 256),))
    yield Model("attention", nn.Sequential(Attention(), Attention()).eval(), args=(torch.zeros(1, LENGTH, 256),))
    yield Model("llama", Logits().eval(), args=tokens(1))
    yield Model("llama-8", Logits().eval(), args=tokens(8))
    yield Model("bert", bert().eval(), args=tokens(1))
    yield Model("mlp-training", mlp(), args=(torch.zeros(8, 256),), training=True)
    yield Model("llama-training", Logits(), args=tokens(1), training=True)
    for name, make in (("resnet50", quickstart.resnet50), ("bert-base", quickstart.bert_base)):
        model, inputs = make()
        yield Model(name, model.eval(), args=inputs)
