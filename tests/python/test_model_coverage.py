"""A sample of the models against the committed table (`make models` runs them all and writes the table)."""

import os
import random
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from model_coverage.compare import difference
from model_coverage.drive import STAGES, Result, Task, run
from model_coverage.models import SOURCES, names
from model_coverage.table import AGREES, OUTSIDE, Table, cell, load

SEED = 6
# Models of each source: small ones, so that the sample takes a minute and a half of one core.
SHARES = {"transformers": 4, "timm": 1}
# One in so many is trained, too.
TRAINING_SHARE = 4
MOST_PARAMETERS = 600_000

TABLE = load(ROOT / "tests/python/data/model-coverage.tsv")


def _chosen(table: Table) -> list[Task]:
    """Models drawn from those small enough that agree with eager in both stages."""
    tasks = []
    for source, share in SHARES.items():
        small = [
            name
            for (s, name), row in table.rows.items()
            if s == source
            and row.parameters <= MOST_PARAMETERS
            and all(row.cells.get(stage, "").partition(" ")[0] in AGREES for stage in STAGES)
        ]
        draw = random.Random(f"{SEED} {source}")
        chosen = sorted(draw.sample(small, min(share, len(small))))
        tasks += [Task(source, name, STAGES if i % TRAINING_SHARE == 0 else ("inference",)) for i, name in enumerate(chosen)]
    return tasks


def test_no_model_is_worse_than_the_table() -> None:
    tasks, results = _chosen(TABLE), []
    assert len(tasks) == sum(SHARES.values())
    run(tasks, min(2, os.cpu_count() or 1), 300, results.append)
    assert len(results) == len(tasks)
    wrong = [
        f"{r.source} {r.name} {stage}: {cell(outcome)} instead of {TABLE.rows[r.key].cells[stage]}: {outcome['detail']}"
        for r in results
        for stage, outcome in r.stages.items()
        if cell(outcome) not in (TABLE.rows[r.key].cells[stage], "passed")
    ]
    assert not wrong, "\n".join(sorted(wrong))


def test_most_models_of_the_table_agree() -> None:
    every = [(source, name) for source in SOURCES for name in names(source)]
    assert list(TABLE.rows) == [key for key in every if key in TABLE.rows]
    statuses = [row.cells["inference"].partition(" ")[0] for row in TABLE.rows.values() if "inference" in row.cells]
    counted = [status for status in statuses if status not in OUTSIDE]
    assert sum(status in AGREES for status in counted) >= 0.97 * len(counted)


def test_table_reads_what_it_writes() -> None:
    outcomes = {
        "inference": {"status": "parts", "detail": "", "whole": False},
        "training": {"status": "skipped", "detail": "", "whole": True},
    }
    table = Table.of([Result("timm", "a", 5, outcomes), Result("transformers", "b", 7, {"inference": outcomes["inference"]})])
    text = table.write()
    assert "timm\ta\t5\tparts breaks\tskipped\n" in text
    assert Table.read(text) == table
    with pytest.raises(ValueError):
        Table.read("entry\tfloat99\n")


def test_a_difference_counts_unless_eager_is_as_far_from_float64() -> None:
    true = torch.tensor([1.0, 2.0])
    near, far = true + 1e-3, true - 1.5e-3
    assert difference({"y": true + 1e-5}, {"y": true}, True, dict) is None
    assert difference({"y": near}, {"y": true}, True, lambda: {"y": true}) is not None
    assert difference({"y": far}, {"y": near}, True, lambda: {"y": true}) is None
    assert difference({"y": true + 3e-3}, {"y": near}, True, lambda: {"y": true}) is not None
    assert difference({"y": near}, {"y": true}, False, dict) is None
    assert difference({"y": near}, {}, False, dict) is not None
    assert difference({"y": torch.tensor([1])}, {"y": torch.tensor([2])}, True, dict) is not None
    assert difference({"y": torch.tensor([1.0, torch.nan])}, {"y": true}, True, lambda: {"y": true}) is not None
