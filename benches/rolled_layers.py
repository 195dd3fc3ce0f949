"""Seconds to compile a Llama ahead of time and the size of its code, with layers rolled and unrolled.

Weights have memory that is never touched; nothing is executed and no device is needed.
"""

import argparse
import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

from torch_clutch import _clutch, capturing
from torch_clutch.backend import tpu


def request(layers: int, length: int, hidden: int, inner: int):
    """What compiling the model's forward pass needs."""
    config = transformers.LlamaConfig(
        vocab_size=1024,
        hidden_size=hidden,
        intermediate_size=inner,
        num_attention_heads=hidden // 128,
        num_key_value_heads=hidden // 128,
        num_hidden_layers=layers,
        max_position_embeddings=length,
        use_cache=False,
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model = model.to_empty(device="cpu").eval()
    torch._dynamo.reset()
    taken = capturing.Capture()
    with capturing.using(taken), torch.no_grad():
        torch.compile(model, backend=tpu, fullgraph=True, dynamic=False)(torch.zeros(1, length, dtype=torch.long))
    return taken.requests[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="+", default=[8, 32, 64])
    parser.add_argument("--roll", nargs="+", default=["off", "on", "auto"])
    parser.add_argument("--target", default="v5e:1x1")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--inner", type=int, default=5632)
    chosen = parser.parse_args()
    print("layers  roll  seconds     main  weights   code bytes")
    for layers in chosen.layers:
        made = request(layers, chosen.length, chosen.hidden, chosen.inner)
        for roll in chosen.roll:
            with tempfile.TemporaryDirectory() as cache:
                settings = {**made.settings, "target": chosen.target, "roll": roll, "cache_dir": cache}
                info = _clutch.compile_captured(made.program, made.symbols, made.largest, settings)
            main_program = info["main"]
            seconds, code = float(main_program["compile_seconds"]), int(main_program["code_bytes"])
            weights = float((info["weights"] or {"compile_seconds": 0})["compile_seconds"])
            print(f"{layers:6}  {roll:4}  {info['seconds']:7.2f}  {seconds:7.2f}  {weights:7.2f}  {code:11}", flush=True)


if __name__ == "__main__":
    main()
