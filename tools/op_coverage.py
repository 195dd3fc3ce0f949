#!/usr/bin/env python3
"""Runs PyTorch's operator database through Clutch and compares each result with eager.

Every sample of every operator is compiled whole (``fullgraph=True``) with ``backend="aot_eager"``, which shows whether
PyTorch can capture it at all, then with ``backend="tpu"`` and no fallback. Workers are processes: one that crashes or
hangs counts against its operator only. Results are JSON lines, one an operator; a table closes the run.
"""

import argparse
import collections
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

STATUSES = ["passed", "mismatch", "unsupported", "error", "crashed", "timeout", "uncaptured", "skipped"]
WORST_FIRST = ["crashed", "timeout", "error", "mismatch", "unsupported", "uncaptured", "passed", "skipped"]
# Contents are undefined by contract: sizes and types are compared, values are not.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_"}


def tolerances(op: Any, dtype: Any) -> dict[str, float | None]:
    """The operator's own tolerances on CPU for the type; none where it has PyTorch's default."""
    from torch.testing._internal.common_device_type import toleranceOverride

    found: dict[str, float | None] = {"rtol": None, "atol": None}
    for info in op.decorators:
        if getattr(info, "device_type", None) not in (None, "cpu"):
            continue
        for decorator in getattr(info, "decorators", ()):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                tol = decorator.d[dtype]
                found = {"rtol": max(tol.rtol, found["rtol"] or 0), "atol": max(tol.atol, found["atol"] or 0)}
    return found


class Sample:
    """One call of an operator: its tensors apart, so that a compiled function takes them as arguments."""

    def __init__(self, op: Any, sample: Any, backward: bool) -> None:
        import torch
        from torch.utils import _pytree as pytree

        self.op, self.backward = op, backward
        leaves, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self.tensors = [leaves[i] for i in self.places]
        self.rest = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self.finish = sample.output_process_fn_grad
        self.shape = repr([tuple(t.shape) for t in self.tensors])

    def inputs(self) -> list[Any]:
        """Fresh copies of the tensors, with their strides."""
        import torch

        def fresh(t: Any) -> Any:
            return t.detach().clone(memory_format=torch.preserve_format).requires_grad_(t.requires_grad)

        return [fresh(t) for t in self.tensors]

    def function(self) -> Callable[..., Any]:
        """The operator as a function of the tensors alone."""
        from torch.utils import _pytree as pytree

        call, places, rest, spec = self.op.get_op(), self.places, self.rest, self.spec

        def f(*tensors: Any) -> Any:
            leaves = list(rest)
            for place, tensor in zip(places, tensors, strict=True):
                leaves[place] = tensor
            first, args, kwargs = pytree.tree_unflatten(leaves, spec)
            return call(first, *args, **kwargs)

        return f

    def exact(self) -> "Sample":
        """The sample with floats widened to float64."""
        import copy

        import torch

        wide = copy.copy(self)
        narrow = {torch.float32, torch.bfloat16, torch.float16}
        grads = [t.requires_grad for t in self.tensors]
        wide.tensors = [t.detach().double() if t.dtype in narrow else t.detach() for t in self.tensors]
        wide.tensors = [t.requires_grad_(g) for t, g in zip(wide.tensors, grads, strict=True)]
        wide.rest = [torch.float64 if isinstance(x, torch.dtype) and x in narrow else x for x in self.rest]
        return wide

    def run(self, f: Callable[..., Any]) -> list[Any]:
        """Results of `f`; with gradients of a fixed weighting of them when asked for."""
        import torch
        from torch.utils import _pytree as pytree

        torch.manual_seed(0)
        xs = self.inputs()
        results = f(*xs)
        flat = [x for x in pytree.tree_leaves(results) if x is not None]
        if not self.backward:
            return flat
        finished = pytree.tree_leaves(self.finish(results))
        roots = [y for y in finished if isinstance(y, torch.Tensor) and y.requires_grad]
        wanted = [x for x in xs if x.requires_grad]
        weights = [torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape).to(y.dtype) for y in roots]
        grads = torch.autograd.grad(roots, wanted, weights, allow_unused=True) if roots and wanted else []
        return flat + [g for g in grads if g is not None]


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"[:400]


def missing_operators(text: str) -> list[str]:
    """What an `UnsupportedError` names: `operator: reason` without the places in the user's code."""
    found = re.findall(r"^ {2}(\S+) \(node \S+\)(?: at .*)?: ([^:\n]+)$", text, flags=re.MULTILINE)
    return sorted({f"{op}: {reason.strip()}" for op, reason in found})


def compare(found: list[Any], expected: list[Any], values: bool, tol: dict[str, float | None]) -> str | None:
    """What differs between the results, or None."""
    import torch

    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if not isinstance(b, torch.Tensor):
            if values and a != b and not (a != a and b != b):
                return f"result {i}: {a!r} instead of {b!r}"
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        if values:
            try:
                torch.testing.assert_close(a.detach(), b.detach(), equal_nan=True, **tol)
            except AssertionError as error:
                return f"result {i}: {' '.join(str(error).split())}"[:300]
    return None


def check(sample: Sample, tol: dict[str, float | None]) -> tuple[str, Any]:
    """Status of one sample with its details."""
    import torch

    from torch_clutch.errors import UnsupportedError

    f = sample.function()
    try:
        expected = sample.run(f)
        again = sample.run(f)
    except Exception as error:
        return "skipped", first_line(error)
    repeatable = compare(again, expected, True, {"rtol": 0, "atol": 0}) is None
    torch.manual_seed(1)
    values = sample.op.name not in UNDEFINED and repeatable and not draws(sample, f)
    torch._dynamo.reset()
    try:
        sample.run(torch.compile(f, backend="aot_eager", fullgraph=True, dynamic=False))
    except Exception as error:
        return "uncaptured", first_line(error)
    torch._dynamo.reset()
    options = {"fallback": "error"}
    try:
        found = sample.run(torch.compile(f, backend="tpu", fullgraph=True, dynamic=False, options=options))
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, UnsupportedError):
            cause = cause.__cause__ or getattr(cause, "inner_exception", None)
        if cause is not None or "cannot be compiled" in str(error):
            return "unsupported", missing_operators(str(cause or error)) or first_line(error)
        return "error", first_line(error)
    wrong = compare(found, expected, values, tol)
    if wrong and values and as_accurate(sample, found, expected, tol):
        wrong = None
    return ("mismatch", wrong) if wrong else ("passed", None)


def as_accurate(sample: Sample, found: list[Any], expected: list[Any], tol: dict[str, float | None]) -> bool:
    """Whether each result out of tolerance is as near to that in float64 as eager's is, up to a factor of two."""
    import torch

    try:
        wide = sample.exact()
        best = wide.run(wide.function())
    except Exception:
        return False
    for a, b, c in zip(found, expected, best, strict=True):
        if compare([a], [b], True, tol) is None:
            continue
        if not isinstance(c, torch.Tensor) or a.shape != c.shape or c.dtype not in (torch.float64, torch.complex128):
            return False
        a, b, c = (torch.view_as_real(t.detach().to(c.dtype)) if c.is_complex() else t.detach().double() for t in (a, b, c))
        ordinary = c.isfinite()
        if not torch.equal(a.isfinite(), ordinary) or not torch.equal(a[~ordinary].nan_to_num(), c[~ordinary].nan_to_num()):
            return False
        mine, theirs = (a - c)[ordinary].abs(), (b - c)[ordinary].abs()
        if mine.numel() and not (mine.max() <= 2 * theirs.max() and mine.mean() <= 2 * theirs.mean()):
            return False
    return True


def draws(sample: Sample, f: Callable[..., Any]) -> bool:
    """Whether the operator draws random numbers: it moves the generator."""
    import torch

    torch.manual_seed(0)
    before = torch.get_rng_state()
    f(*sample.inputs())
    return not torch.equal(before, torch.get_rng_state())


def spread(items: list[Any], count: int) -> list[tuple[int, Any]]:
    """Up to `count` items with their numbers, the first, the last and some between."""
    if len(items) <= count:
        return list(enumerate(items))
    step = (len(items) - 1) / max(count - 1, 1)
    return [(i, items[i]) for i in sorted({round(k * step) for k in range(count)})]


def run_operator(op: Any, dtype: Any, samples: int, backward: bool) -> dict[str, Any]:
    """Results of all chosen samples of one operator."""
    outcomes = []
    try:
        inputs = list(op.sample_inputs("cpu", dtype, requires_grad=backward))
    except Exception as error:
        return {"samples": [{"status": "skipped", "detail": f"no samples: {first_line(error)}"}]}
    tol = tolerances(op, dtype)
    for number, item in spread(inputs, samples):
        sample = Sample(op, item, backward)
        status, detail = check(sample, tol)
        outcomes.append({"number": number, "shapes": sample.shape, "status": status, "detail": detail})
    return {"samples": outcomes}


def worker(arguments: argparse.Namespace) -> None:
    """Reads numbers of operators, one a line; writes one JSON line for each to the original standard output."""
    import warnings

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    import torch
    from torch.testing._internal import common_methods_invocations

    import torch_clutch  # noqa: F401

    # Samples seed the generator themselves; the database's wrapper around random operators cannot be captured.
    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    op_db = common_methods_invocations.op_db
    torch.set_num_threads(1)
    dtype = getattr(torch, arguments.dtype)
    for line in sys.stdin:
        op = op_db[int(line)]
        answer = run_operator(op, dtype, arguments.samples, arguments.backward)
        print(json.dumps(answer), file=answers, flush=True)


class Worker:
    """A worker process with a limit on the time of each answer."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def ask(self, number: int, seconds: float) -> dict[str, Any] | str:
        """The answer, or what became of the worker: `crashed` or `timeout`."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{number}\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            self.process.kill()
            return "timeout"
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        self.process.wait()
        return "crashed"


def run_all(arguments: argparse.Namespace, argv: list[str], out: TextIO) -> list[dict[str, Any]]:
    """All chosen operators, over the workers."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    dtype = getattr(torch, arguments.dtype)
    chosen: queue.Queue[tuple[int, str]] = queue.Queue()
    for i, op in enumerate(op_db):
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        supported = op.supported_backward_dtypes("cpu") if arguments.backward else op.supported_dtypes("cpu")
        differentiable = not arguments.backward or op.supports_autograd
        if re.search(arguments.ops, name) and dtype in supported and differentiable:
            chosen.put((i, name))
    results, lock, total = [], threading.Lock(), chosen.qsize()

    def drive() -> None:
        process = None
        while True:
            try:
                number, name = chosen.get_nowait()
            except queue.Empty:
                break
            process = process or Worker(argv)
            answer = process.ask(number, arguments.timeout)
            if isinstance(answer, str):
                process, answer = None, {"samples": [{"status": answer, "detail": None}]}
            statuses = {s["status"] for s in answer["samples"]} or {"skipped"}
            status = next(s for s in WORST_FIRST if s in statuses)
            with lock:
                results.append({"op": name, "dtype": arguments.dtype, "status": status, **answer})
                print(json.dumps(results[-1]), file=out, flush=True)
                if status != "passed" or arguments.verbose:
                    print(f"[{len(results)}/{total}] {name}: {status}", file=sys.stderr, flush=True)
        if process is not None:
            process.process.kill()

    threads = [threading.Thread(target=drive) for _ in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def reasons(results: list[dict[str, Any]], status: str) -> Iterator[tuple[str, str]]:
    """(reason, operator) for each sample of the status."""
    for result in results:
        for sample in result["samples"]:
            if sample["status"] == status:
                details = sample["detail"] if isinstance(sample["detail"], list) else [sample["detail"]]
                yield from ((str(detail), result["op"]) for detail in details)


def summary(results: list[dict[str, Any]]) -> str:
    """The closing table and the operators behind each count that is not `passed`."""
    lines = [f"{'status':<12}{'operators':>10}{'samples':>10}"]
    operators = collections.Counter(r["status"] for r in results)
    samples = collections.Counter(s["status"] for r in results for s in r["samples"])
    lines += [f"{s:<12}{operators[s]:>10}{samples[s]:>10}" for s in STATUSES]
    missing = collections.defaultdict(set)
    for reason, op in reasons(results, "unsupported"):
        missing[reason].add(op)
    if missing:
        lines.append("\nwithout lowering, by how many operators need it:")
        ordered = sorted(missing.items(), key=lambda item: (-len(item[1]), item[0]))
        lines += [f"{len(ops):>4}  {reason}  ({', '.join(sorted(ops)[:4])})" for reason, ops in ordered]
    for status in ("mismatch", "error", "crashed", "timeout"):
        entries = sorted({(op, reason) for reason, op in reasons(results, status)})
        lines += [f"\n{status}:"] if entries else []
        lines += [f"  {op}: {reason}" for op, reason in entries]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default="", metavar="REGEX", help="operators whose name matches (default: all)")
    parser.add_argument("--dtype", default="float32", help="element type of the samples")
    parser.add_argument("--samples", type=int, default=3, help="samples of each operator at most")
    parser.add_argument("--backward", action="store_true", help="compare gradients too")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="limit for one operator")
    parser.add_argument("--output", metavar="FILE", help="where the JSON lines go (default: nowhere)")
    parser.add_argument("--verbose", action="store_true", help="name operators that pass, too")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments)
        return 0
    argv = ["--dtype", arguments.dtype, "--samples", str(arguments.samples)]
    argv += ["--backward"] if arguments.backward else []
    with open(arguments.output or os.devnull, "w") as out:
        results = run_all(arguments, argv, out)
    print(summary(results))
    bad = {"mismatch", "unsupported", "error", "crashed", "timeout"}
    return 1 if any(r["status"] in bad for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
