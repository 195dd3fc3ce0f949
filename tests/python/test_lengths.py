"""Every size from 1 to 512 against eager, in inference and in training; padded lanes hold NaN (see conftest.py).

A sample of sizes here; all of them with ``pytest -m sweep`` (``make lengths``).
"""

import copy
import random
from typing import Any

import pytest
import torch

import lengths
import torch_clutch
from test_models import gradients, off_by, tensors

SAMPLE = (12, 3, 1, 9, 100, 511)
TRAINING_SAMPLE = (12, 1, 9, 100)
ALL = pytest.param(range(1, lengths.LONGEST + 1), id="all", marks=pytest.mark.sweep)
every_subject = pytest.mark.parametrize("subject", lengths.SUBJECTS)


def shuffled(sizes: Any) -> list[int]:
    """The sizes as a service meets them: in no order, from a fixed seed; 12 comes first."""
    rest = [n for n in sizes if n != 12]
    random.Random(0).shuffle(rest)
    return [12, *rest]


def compiled(subject: lengths.Subject) -> Any:
    return torch.compile(subject.model, backend="tpu", fullgraph=not subject.breaks, options={"fallback": "error"})


def assert_few_programs(sizes: Any, graphs: int) -> None:
    metrics = torch_clutch.metrics()
    # The ladder has 26 steps up to 512; sizes up to 8 are compiled as they are.
    assert metrics["bucket_exact"] <= graphs * len([n for n in sizes if n <= 8])
    assert metrics["buckets"] <= graphs * 26


@pytest.mark.parametrize("sizes", [pytest.param(SAMPLE, id="sample"), ALL])
@every_subject
def test_inference(subject: str, sizes: Any) -> None:
    torch.manual_seed(0)
    case = lengths.SUBJECTS[subject]()
    case.model.eval()
    run = compiled(case)
    with torch.no_grad():
        for n in shuffled(sizes):
            inputs = case.inputs(n)
            assert off_by(tensors(run(**inputs)), tensors(case.model(**inputs))) <= 1, f"at size {n}"
    assert_few_programs(sizes, 2)


@pytest.mark.parametrize("sizes", [pytest.param(TRAINING_SAMPLE, id="sample"), ALL])
@every_subject
def test_training(subject: str, sizes: Any) -> None:
    torch.manual_seed(0)
    case = lengths.SUBJECTS[subject]()
    case.model.eval()  # no dropout: its numbers differ from eager's
    for m in case.model.modules():
        if isinstance(m, torch.nn.BatchNorm1d):
            m.train()
    twin = copy.deepcopy(case.model)
    run = compiled(case)
    for n in shuffled(sizes):
        inputs = case.inputs(n)
        losses = []
        for net, call in ((case.model, run), (twin, twin)):
            net.zero_grad(set_to_none=True)
            loss = case.loss(call(**inputs))
            loss.backward()
            losses.append(loss.detach())
        found, expected = gradients(case.model), gradients(twin)
        assert list(found) == list(expected)
        assert off_by([losses[0], *found.values()], [losses[1], *expected.values()]) <= 1, f"at size {n}"
    assert_few_programs(sizes, 4)
