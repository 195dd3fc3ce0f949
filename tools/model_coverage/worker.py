"""A worker: reads requests from standard input, one JSON object a line, and answers in lines.

A request is `{"source", "name", "stages"}`. An answer is `{"start": STAGE}` before a stage and `{"stage": STAGE, "status", "detail",
"whole"}` after it; `{"end": PARAMETERS}` closes a request.
"""

import gc
import json
import os
import sys
import warnings
from dataclasses import asdict
from typing import Any


def serve() -> None:
    """Answers requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    import torch_clutch  # noqa: F401  (registers the backend)

    from .case import NotBuilt
    from .check import inference, training
    from .models import build

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    stages = {"inference": inference, "training": training}
    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        torch._dynamo.reset()
        gc.collect()
        try:
            case = build(request["source"], request["name"])
        except NotBuilt as error:
            detail = " ".join(str(error).split())[:300]
            for stage in request["stages"]:
                say({"stage": stage, "status": "skipped", "detail": detail, "whole": True})
            say({"end": 0})
            continue
        for stage in request["stages"]:
            say({"start": stage})
            say({"stage": stage} | asdict(stages[stage](case)))
        say({"end": sum(p.numel() for p in case.model.parameters())})
        del case


if __name__ == "__main__":
    serve()
