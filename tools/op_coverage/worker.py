"""A worker: reads requests from standard input, one JSON object a line, and answers each sample with one line.

A request is `{"op", "dtype", "backward", "most", "numbers", "after"}`: the entry, the type and the direction; up to `most`
samples spread over all, or those of `numbers`; none up to `after`. An answer is `{"start": N}` before sample N and
`{"number": N, "status", "detail"}` after it; `{"end": COUNT}` closes a request.
"""

import json
import os
import sys
import warnings
from typing import Any


def serve() -> None:
    """Answers requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    import torch

    import torch_clutch  # noqa: F401  (registers the backend)

    from .check import check, first_line
    from .compare import tolerances
    from .samples import Sample, database, spread

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    entries = database()
    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        op, dtype, backward = entries[request["op"]], getattr(torch, request["dtype"]), request["backward"]
        torch.manual_seed(0)
        try:
            inputs = list(op.sample_inputs("cpu", dtype, requires_grad=backward))
        except Exception as error:
            say({"number": 0, "status": "skipped", "detail": f"no samples: {first_line(error)}"})
            say({"end": 0})
            continue
        tol = tolerances(op, dtype)
        numbers = spread(len(inputs), request["most"])
        if request["numbers"] is not None:
            numbers = [n for n in request["numbers"] if n < len(inputs)]
        for number in numbers:
            if number <= request["after"]:
                continue
            say({"start": number})
            status, detail = check(Sample(op, inputs[number], backward), tol)
            say({"number": number, "status": status, "detail": detail})
        say({"end": len(inputs)})


if __name__ == "__main__":
    serve()
