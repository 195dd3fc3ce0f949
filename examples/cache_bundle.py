"""Moves compiled programs between machines as one file: warm one cache, export it, import it into another, and run.

    python examples/cache_bundle.py

The same with the command line: `clutch cache export programs.bundle`, then `clutch cache import programs.bundle` on the other machine.
Here both "machines" are folders.
"""

import os
import subprocess
import sys
import tempfile

JOB = """
import torch, torch_clutch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)).eval()
with torch.no_grad():
    torch.compile(model, backend="tpu")(torch.randn(4, 64))
m = torch_clutch.metrics()
print(f"  {m['graph_hits']} graphs from the cache, {m['compiles']} programs compiled")
"""


def run(machine: str, *command: str) -> None:
    """Runs a command with this machine's cache."""
    subprocess.run([sys.executable, *command], env={**os.environ, "CLUTCH_CACHE_DIR": machine}, check=True)


def clutch(machine: str, *arguments: str) -> None:
    """Runs the command `clutch` with this machine's cache."""
    run(machine, "-c", "from torch_clutch.cli import main; main()", *arguments)


def main() -> None:
    """The whole way of a program from one machine to the other."""
    with tempfile.TemporaryDirectory() as folder:
        first, second, bundle = (os.path.join(folder, name) for name in ("first", "second", "programs.bundle"))
        print("the first machine compiles:", flush=True)
        run(first, "-c", JOB)
        clutch(first, "cache", "export", bundle)
        clutch(second, "cache", "import", bundle)
        print("the second machine:", flush=True)
        run(second, "-c", JOB)
        clutch(second, "cache", "stats")


if __name__ == "__main__":
    main()
