"""A sample of PyTorch's operator database against the committed table (`make coverage` runs it all and writes the table)."""

import os
import random
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from op_coverage.drive import Result, Task, run
from op_coverage.table import OUTSIDE, Table, load

SEED = 6
# One entry in so many runs its gradients, too.
BACKWARD_SHARE = 4

TABLE = load(ROOT / "tests/python/data/op-coverage.tsv")


def _chosen(table: Table) -> list[Task]:
    """For each entry one sample that passes in float32, and in the first type it has where it has no float32."""
    tasks, seen = [], set()
    for op, dtype, backward in table.cells:
        key = (op, dtype, backward)
        draw = random.Random(f"{SEED} {op} {backward}")
        if (op, backward) in seen or (backward and draw.randrange(BACKWARD_SHARE)):
            continue
        passing = [n for n in table.numbers(key) if n not in table.cells[key].others]
        if passing:
            seen.add((op, backward))
            tasks.append(Task(op, dtype, backward, numbers=(draw.choice(passing),)))
    return tasks


def test_no_entry_is_worse_than_the_table() -> None:
    tasks, results = _chosen(TABLE), []
    run(tasks, os.cpu_count() or 1, 120, results.append)
    assert len(results) == len(tasks)
    wrong = [
        f"{r.op} {r.dtype}{' backward' if r.backward else ''}, sample {s['number']}: {s['status']} {s['detail']}"
        for r in results
        for s in r.samples
        if s["status"] != "passed"
    ]
    assert not wrong, "\n".join(sorted(wrong))


def test_most_entries_have_a_passing_sample() -> None:
    every = {op for op, _, _ in TABLE.cells}
    assert len({t.op for t in _chosen(TABLE) if not t.backward}) > 0.9 * len(every)


def test_table_reads_what_it_writes() -> None:
    samples = [{"number": n, "status": s, "detail": ""} for n, s in enumerate(["passed", "mismatch", "mismatch", OUTSIDE[0], "passed"])]
    table = Table.of([Result("a", "float32", False, 5, samples), Result("a", "bool", False, 0, [])], 0)
    text = table.write()
    assert "5 mismatch=1-2 data-dependent=3" in text
    assert Table.read(text) == table
    with pytest.raises(ValueError):
        Table.read("entry\tfloat99\n")
