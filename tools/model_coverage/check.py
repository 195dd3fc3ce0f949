"""Status of one model in one direction."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from op_coverage.check import first_line, missing_operators, unsupported

from . import run
from .case import Case
from .compare import Named, difference

Step = Callable[[Case, run.Forward], Named]


@dataclass
class Outcome:
    """`passed`; `parts`: agrees with parts run by eager; `random`: runs and draws random numbers, so types and sizes alone are compared;
    `mismatch`, `unsupported` or `error`; `uncaptured`: aot_eager fails, too; `skipped`: eager fails. `whole` is whether the model is
    one graph."""

    status: str
    detail: str = ""
    whole: bool = True


def inference(case: Case) -> Outcome:
    """The model's outputs."""
    case.model.eval()
    return _outcome(case, run.infer)


def training(case: Case) -> Outcome:
    """Loss, gradients and buffers of a step: in training mode without dropout, in evaluation mode where that fails or draws."""
    run.without_dropout(case.model)
    try:
        case.model.train()
        if run.draws(lambda: run.train(case, case.model))[1]:
            case.model.eval()
            case.training_args = None
    except run.NotTrained as error:
        return Outcome("skipped", str(error))
    except Exception:
        case.model.eval()
        case.training_args = None
    return _outcome(case, run.train)


def _outcome(case: Case, step: Step) -> Outcome:
    try:
        expected, drawn = run.draws(lambda: step(case, case.model))
        values = not drawn
    except Exception as error:
        return Outcome("skipped", str(error) if isinstance(error, run.NotTrained) else first_line(error))

    def compiled(whole: bool, **options: Any) -> Named:
        torch._dynamo.reset()
        torch.manual_seed(0)
        return step(case, torch.compile(case.model, dynamic=False, fullgraph=whole, **options))

    def judged(found: Named, status: str, detail: str = "", whole: bool = True) -> Outcome:
        wrong = difference(found, expected, values, lambda: step(*_doubled(case)))
        if wrong is not None:
            return Outcome("mismatch", wrong, whole)
        return Outcome(status if values or status != "passed" else "random", detail, whole)

    def ours(whole: bool) -> Outcome:
        try:
            found = compiled(whole, backend="tpu", options={"fallback": "error"})
        except Exception as error:
            cause = unsupported(error)
            if cause is None and "cannot be compiled" not in str(error):
                raise
            detail = missing_operators(str(cause or error)) or first_line(error)
        else:
            return judged(found, "passed", whole=whole)
        try:
            return judged(compiled(whole, backend="tpu"), "parts", detail, whole)
        except Exception as error:
            return Outcome("error", f"with eager parts: {first_line(error)}", whole)

    reason, whole = "", True
    try:
        return ours(True)
    except Exception as error:
        outcome = Outcome("error", first_line(error))
    try:
        compiled(True, backend="eager")
    except Exception as error:
        reason, whole = first_line(error), False
        try:
            outcome = ours(False)
            outcome.detail = outcome.detail or reason
        except Exception as error:
            outcome = Outcome("error", first_line(error), False)
    if outcome.status == "error":
        try:
            compiled(whole, backend="aot_eager")
        except Exception as error:
            return Outcome("uncaptured", first_line(error), whole)
    return outcome


def _doubled(case: Case) -> tuple[Case, run.Forward]:
    """The case in float64, and its forward."""

    def wide(tree: Any) -> Any:
        return pytree.tree_map(lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t, tree)

    torch.manual_seed(0)
    model = copy.deepcopy(case.model).double()
    return Case(model, wide(case.args), wide(case.kwargs), wide(case.training_args)), model
