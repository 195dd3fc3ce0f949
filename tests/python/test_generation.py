"""`generate` with a static cache compiled by Clutch: greedy tokens equal to eager's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

import torch_clutch

DECODER = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
GROUPED = DECODER | {"intermediate_size": 64, "num_key_value_heads": 2}
T5 = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
BART = {
    "vocab_size": 97,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
BART |= {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64, "decoder_start_token_id": 2}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", GROUPED),
    "mistral": ("MistralForCausalLM", GROUPED | {"sliding_window": 8}),
    "qwen3": ("Qwen3ForCausalLM", GROUPED | {"head_dim": 8}),
    "gemma": ("GemmaForCausalLM", GROUPED | {"head_dim": 8}),
    "gemma3": ("Gemma3ForCausalLM", GROUPED | {"head_dim": 8, "sliding_window": 8}),
    "phi3": ("Phi3ForCausalLM", GROUPED | {"pad_token_id": 0}),
    "mixtral": ("MixtralForCausalLM", GROUPED | {"num_local_experts": 4}),
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 97, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}),
    "gpt_neox": ("GPTNeoXForCausalLM", DECODER | {"intermediate_size": 64}),
    "t5": ("T5ForConditionalGeneration", T5),
    "bart": ("BartForConditionalGeneration", BART),
}
# Dynamo captures these anew for each length of the cache, with any backend.
SLIDING = ("mistral", "gemma3")
NEW_TOKENS = 5


def _model(family: str) -> Any:
    torch.manual_seed(0)
    name, sizes = FAMILIES[family]
    model_class = getattr(transformers, name)
    # No token ends a text early; weights are wide apart, so that no two tokens are nearly as likely.
    config = model_class.config_class(**sizes, initializer_range=0.2)
    model = model_class(config).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def _compiled(model: Any) -> Callable[..., Any]:
    return torch.compile(model.forward, backend="tpu", fullgraph=True, dynamic=False, options={"fallback": "error"})


def _tokens(model: Any, ids: torch.Tensor, **options: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.generate(
            ids,
            do_sample=False,
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            cache_implementation="static",
            disable_compile=True,
            **options,
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens_are_those_of_eager(family: str) -> None:
    model = _model(family)
    ids = torch.randint(3, 97, (2, 5))
    expected = _tokens(model, ids)
    model.forward = _compiled(model)
    found = _tokens(model, ids)
    assert torch.equal(found, expected)
    metrics = torch_clutch.metrics()
    assert metrics["eager_parts"] == 0
    assert metrics["executions"] >= NEW_TOKENS
    # One program for the prompt and one for all further tokens, and one that copies or encodes at most.
    assert metrics["captures"] <= (NEW_TOKENS if family in SLIDING else 3)


def test_prompts_padded_on_the_left() -> None:
    model = _model("llama")
    ids = torch.randint(3, 97, (2, 5))
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    expected = _tokens(model, ids, attention_mask=mask)
    model.forward = _compiled(model)
    assert torch.equal(_tokens(model, ids, attention_mask=mask), expected)


def test_a_second_prompt_compiles_nothing() -> None:
    model = _model("qwen3")
    first, second = torch.randint(3, 97, (2, 2, 5))
    expected = [_tokens(model, ids) for ids in (first, second)]
    model.forward = _compiled(model)
    assert torch.equal(_tokens(model, first), expected[0])
    compiles = torch_clutch.metrics()["captures"]
    assert torch.equal(_tokens(model, second), expected[1])
    assert torch_clutch.metrics()["captures"] == compiles
