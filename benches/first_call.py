"""First call of a compiled model, cold and warm, beside a backend that does nothing and beside Inductor's CPU default.

Each figure is the median over fresh processes; the alternatives take turns. The clock starts when PyTorch is imported and the model is
made and has run once in eager, and stops when the first call returns. Run it with nothing else on the machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "examples")]

BACKENDS = ("do-nothing", "inductor cold", "inductor warm", "clutch cold", "clutch warm")
MODELS = ("ResNet-50", "BERT-base", "Llama, 12 layers")


def child(backend: str, model: str) -> None:
    """Prints the figures of one process as JSON."""
    import torch

    import quickstart

    torch.manual_seed(0)
    module, inputs = quickstart.MODELS[model]()
    module.eval()
    with torch.no_grad():
        leaves = torch.utils._pytree.tree_leaves(module(*inputs))
        start = time.perf_counter()
        if backend == "do-nothing":
            from do_nothing import do_nothing

            run = torch.compile(module, backend=do_nothing([t for t in leaves if isinstance(t, torch.Tensor)]), dynamic=False)
        else:
            run = torch.compile(module, backend="tpu" if backend.startswith("clutch") else "inductor", dynamic=False)
        run(*inputs)
        figures = {"first": time.perf_counter() - start}
        if backend.startswith("clutch"):
            import torch_clutch

            m = torch_clutch.metrics()
            figures |= {"plugin": m["plugin_seconds"] + m["load_seconds"], "compile": m["compile_seconds"]}
            figures |= {"weights": m["weight_seconds"], "compiles": m["compiles"]}
        start = time.perf_counter()
        run(*inputs)
        figures["second"] = time.perf_counter() - start
    print(json.dumps(figures))


def in_a_process(backend: str, model: str, cache: str) -> dict:
    environment = {**os.environ, "CLUTCH_CACHE_DIR": f"{cache}/clutch", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"}
    command = [sys.executable, __file__, "--child", backend, "--model", model]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{backend}, {model}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(model: str, processes: int) -> dict[str, dict[str, float]]:
    """Medians of every figure, by backend."""
    rounds: dict[str, list[dict]] = {backend: [] for backend in BACKENDS}
    for _ in range(processes):
        with tempfile.TemporaryDirectory(prefix="clutch-first-call-") as cache:
            for backend in BACKENDS:
                figures = in_a_process(backend, model, cache)
                assert backend != "clutch warm" or figures["compiles"] == 0
                rounds[backend].append(figures)
    return {b: {name: statistics.median(r[name] for r in runs) for name in runs[0]} for b, runs in rounds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=5, help="fresh processes for each figure (default: 5)")
    parser.add_argument("--model", choices=MODELS, action="append", help="this model only; may be repeated")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--child", choices=BACKENDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.model[0])
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    columns = ("model", "do-nothing", "Inductor cold", "Inductor warm", "Clutch cold", "Clutch warm", "its plugin", "its run", "ratio")
    table = Table(*columns, title="first call, inference, float32")
    results = {}
    for model in arguments.model or MODELS:
        with console.status(f"{model}: {arguments.processes} rounds of {len(BACKENDS)} processes"):
            results[model] = figures = measure(model, arguments.processes)
        warm = figures["clutch warm"]
        run = warm["second"] + warm["weights"]
        ratio = (warm["first"] - warm["plugin"] - run) / figures["do-nothing"]["first"]
        seconds = [figures[b]["first"] for b in BACKENDS] + [warm["plugin"], run]
        table.add_row(model, *(f"{s:.2f} s" for s in seconds), f"{ratio:.2f}")
    console.print(table)
    console.print(
        "its plugin: loading the plugin, making its client, loading executables. its run: the weight program and the model itself. "
        "ratio: Clutch warm without these two, to do-nothing."
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
