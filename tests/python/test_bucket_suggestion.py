"""Recorded sizes, and the ladder that is made of them."""

import itertools
import json
import os
import random
import subprocess
import sys

import pytest

import torch_clutch
from torch_clutch import _clutch, recording
from torch_clutch.suggestion import suggest, waste

JOB = """
import torch
def attend(query, memory):
    return torch.softmax(query @ memory.transpose(0, 1), dim=1) @ memory
f = torch.compile(attend, backend="tpu", dynamic=True)
for rows, columns in ((10, 33), (20, 33), (20, 40), (50, 33)):
    f(torch.randn(rows, 8), torch.randn(columns, 8))
"""


def clutch(*arguments, code=0):
    command = [sys.executable, "-c", "from torch_clutch.cli import main; main()", "buckets", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "120"}, check=False)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def work(calls, ladder, exponent):
    return sum(min(b for b in ladder if b >= size) ** exponent * count for size, count in calls.items())


@pytest.mark.parametrize("seed", range(20))
def test_no_ladder_of_as_many_buckets_does_less_work(seed):
    draw = random.Random(seed)
    calls = {draw.randint(9, 80): draw.randint(1, 20) for _ in range(draw.randint(1, 9))}
    align, exponent = draw.choice([(1, 1.0), (8, 1.0), (4, 2.0)])
    rungs = sorted({-(-size // align) * align for size in calls})
    for compiles in (1, 2, 3, 5):
        ladder = suggest(calls, compiles, align=align, exponent=exponent)
        assert ladder == sorted(set(ladder)) and len(ladder) <= compiles
        candidates = (c for n in range(1, compiles + 1) for c in itertools.combinations(rungs, n) if c[-1] == rungs[-1])
        assert work(calls, ladder, exponent) == min(work(calls, c, exponent) for c in candidates)


def test_as_many_buckets_as_powers_of_two_waste_less():
    draw = random.Random(0)
    calls: dict[int, int] = {}
    for _ in range(5000):
        size = min(2048, max(9, int(draw.lognormvariate(5, 0.8))))
        calls[size] = calls.get(size, 0) + 1
    powers = {size: _clutch.ladder_bucket("pow2", size) for size in calls}
    ladder = suggest(calls, len(set(powers.values())))
    ours = {size: min(b for b in ladder if b >= size) for size in calls}
    assert waste(calls, ours) < waste(calls, powers)


def test_sizes_up_to_the_smallest_bucket_and_nothing_at_all():
    assert suggest({3: 10, 8: 4}, 4) == []
    assert suggest({}, 4) == []
    assert suggest({3: 10, 30: 1}, 4) == [32]


def test_a_job_is_recorded_and_its_ladder_suggested(tmp_path):
    file = tmp_path / "sizes.jsonl"
    environment = {**os.environ, "CLUTCH_RECORD_SIZES": str(file)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", JOB], env=environment, check=True)
    found = recording.read(str(file))
    assert found["query:0"] == {10: 2, 20: 4, 50: 2}
    assert found["memory:0"] == {33: 6, 40: 2}
    text = clutch("suggest", file, "--compiles", "2", "--size", "query:0")
    assert "{'query:0': [24, 56], '*': 'auto'}" in text and "suggested" in text and "pow2" in text


def test_bad_files_and_sizes_are_told(tmp_path):
    file = tmp_path / "sizes.jsonl"
    file.write_text("not a record\n")
    assert "sizes.jsonl:1 is no record of sizes" in clutch("suggest", file, code=1)
    file.write_text("")
    assert "has no sizes" in clutch("suggest", file, code=1)
    file.write_text(json.dumps({"size": "x:0", "value": 12, "calls": 3}) + "\n")
    assert "has no size 'y:0'; it has x:0" in clutch("suggest", file, "--size", "y:0", code=1)
    assert "does not exist" in clutch("suggest", tmp_path / "none", code=2)


def test_a_file_that_cannot_be_written_is_logged(tmp_path, caplog):
    taker = recording.Recorder(str(tmp_path))
    taker.add([("x:0", 5)])
    taker.flush()
    assert "sizes cannot be recorded" in caplog.text
    assert torch_clutch.metrics()["compiles"] == 0
