"""ResNet-50, BERT-base and a 12-layer Llama through ``torch.compile(model, backend="tpu")``, compared with eager.

Random weights, nothing is downloaded. On a machine without a TPU the CPU plugin runs the programs.
"""

import os
import statistics
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from rich.console import Console
from rich.table import Table

import torch_clutch

ROUNDS = 15


def resnet50():
    import torchvision

    return torchvision.models.resnet50(weights=None), (torch.randn(1, 3, 224, 224),)


def bert_base():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(), add_pooling_layer=False), (torch.randint(0, 30522, (1, 128)),)


def llama_12():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=12,
        num_attention_heads=8,
        num_key_value_heads=4,
        use_cache=False,
    )
    return LlamaForCausalLM(config), (torch.randint(0, 8192, (1, 128)),)


MODELS = {"ResNet-50": resnet50, "BERT-base": bert_base, "Llama, 12 layers": llama_12}


def leaf(output) -> torch.Tensor:
    """The main tensor of a model's output."""
    return output if isinstance(output, torch.Tensor) else output[0]


def seconds(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(make):
    torch.manual_seed(0)
    model, inputs = make()
    model.eval()
    compiled = torch.compile(model, backend="tpu")
    with torch.inference_mode(False), torch.no_grad():
        expected = leaf(model(*inputs))
        torch_clutch.reset_metrics()
        first = seconds(lambda: compiled(*inputs))
        metrics = torch_clutch.metrics()
        difference = (leaf(compiled(*inputs)) - expected).abs().max().item()
        eager, ours = [], []
        for _ in range(ROUNDS):
            eager.append(seconds(lambda: model(*inputs)))
            ours.append(seconds(lambda: compiled(*inputs)))
    return {
        "capture": metrics["walk_seconds"] + metrics["lower_seconds"],
        "passes": metrics["passes_seconds"],
        "emit": metrics["emit_seconds"],
        "compile": metrics["compile_seconds"],
        "compiles": metrics["compiles"],
        "first": first,
        "steady": statistics.median(ours),
        "eager": statistics.median(eager),
        "difference": difference,
        "scale": expected.abs().max().item(),
    }


ROWS = {
    "capture": lambda r: milliseconds(r["capture"]),
    "passes": lambda r: milliseconds(r["passes"]),
    "emit": lambda r: milliseconds(r["emit"]),
    "XLA compile": lambda r: milliseconds(r["compile"]) if r["compiles"] else "from the cache",
    "first call": lambda r: f"{r['first']:.2f} s",
    "steady latency": lambda r: milliseconds(r["steady"]),
    "eager": lambda r: milliseconds(r["eager"]),
    "steady / eager": lambda r: f"{r['steady'] / r['eager']:.2f}",
    "largest difference": lambda r: f"{r['difference']:.1e}{'' if agrees(r) else ' (too much)'}",
}


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def agrees(r) -> bool:
    return r["difference"] <= 1e-4 * r["scale"] + 1e-5


def main() -> int:
    console = Console()
    results = {}
    for name, make in MODELS.items():
        with console.status(f"{name}: compiling and running"):
            results[name] = measure(make)
    table = Table("", title="torch.compile(model, backend='tpu')")
    for name in results:
        table.add_column(name, justify="right")
    for row, text in ROWS.items():
        table.add_row(row, *(text(r) for r in results.values()))
    console.print(table)
    console.print(
        "capture: our walk of PyTorch's graph and its lowering. first call: all of Dynamo, AOTAutograd, Clutch, XLA and the run. "
        f"steady latency and eager: medians of {ROUNDS} calls, taken in turn. `clutch doctor` shows plugins and devices."
    )
    return 0 if all(agrees(r) for r in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
