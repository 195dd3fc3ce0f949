"""Repeated layers as one loop: equal to the unrolled program and to eager, and the weights may change."""

import pytest
import torch
import transformers

from torch_clutch import inspection

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
SMALL = {"vocab_size": 64, "max_position_embeddings": 64}


def llama(layers):
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**SMALL, **sizes, num_hidden_layers=layers, use_cache=False)
    return transformers.LlamaForCausalLM(config)


def gpt2(layers):
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_head=4, n_layer=layers, use_cache=False)
    )


def bert(layers):
    config = transformers.BertConfig(**SMALL, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_hidden_layers=layers)
    return transformers.BertModel(config, add_pooling_layer=False)


def compiled(model, roll):
    torch._dynamo.reset()
    return torch.compile(model, backend="tpu", fullgraph=True, dynamic=False, options={"roll": roll, "fallback": "error"})


def products(records):
    (record,) = records
    return record.statistics["hlo_text"].count(" dot(")


@pytest.mark.parametrize("layers", [4, 8])
@pytest.mark.parametrize("make", [llama, gpt2, bert])
def test_rolled_layers_equal_unrolled_ones(make, layers):
    torch.manual_seed(0)
    model, ids = make(layers).eval(), torch.randint(0, 64, (2, 16))
    with torch.no_grad():
        expected = model(ids)[0]
        with inspection.recording() as plain:
            unrolled = compiled(model, "off")(ids)[0]
        run = compiled(model, "on")
        with inspection.recording() as records:
            found = run(ids)[0]
        assert products(plain) >= 6 * layers
        assert products(records) <= 2 * products(plain) / layers
        torch.testing.assert_close(found, unrolled, **TOLERANCE)
        torch.testing.assert_close(found, expected, **TOLERANCE)
        for parameter in model.parameters():
            parameter.mul_(1.25)
        torch.testing.assert_close(run(ids)[0], model(ids)[0], **TOLERANCE)
