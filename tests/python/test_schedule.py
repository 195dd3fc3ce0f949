"""Cycles read from libtpu's dumps: loops count by their turns, kernels by the module's schedule."""

import importlib.util
import json
import subprocess
import sys

import pytest

from torch_clutch.schedule import bundles, read

LOOP = """
 0x0   :  { body }
 0x1 LB: > { body }
 0x2   : >> { inner }
 0x3   : >> { scmp.ge.s32.totalorder %s1, 3 /* loop exit test */ }
 0x4   : > { scmp.ge.s32.totalorder %s2, 5 /* loop exit test */ }
 0x5   :  { end }
"""

MODULE = """HloModule m, is_scheduled=true

%body (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %inside = f32[8]{0:S(1)} add(%p, %p)
}

ENTRY %main (a: f32[1000]) -> f32[1000] {
  %a = f32[1000]{0} parameter(0)
  %start = (f32[1000]{0:S(1)}, f32[1000]{0}, u32[]{:S(2)}) copy-start(%a)
  %first = f32[8]{0:S(1)} fusion(%a), kind=kCustom, calls=%body
  %second = f32[8]{0:S(1)} fusion(%a), kind=kCustom, calls=%body, metadata={op_name="other"}
  %done = f32[1000]{0:S(1)} copy-done(%start)
  ROOT %other = f32[8]{0:S(1)} negate(%done)
}
"""


def test_loops_count_by_their_exit_tests():
    assert bundles(LOOP) == 1 + 5 * (1 + 3 * 2 + 1) + 1


def test_a_pipelined_loop_skips_its_body_twice():
    assert bundles(LOOP.replace("{ inner }", "{ inner } /* iteration index, stage */")) == 1 + 5 * (1 + 1 * 2 + 1) + 1


@pytest.fixture
def dumps(tmp_path):
    (tmp_path / "100-TLP-hlo.txt").write_text(MODULE)
    (tmp_path / "100-TLP-01-final_bundles.txt").write_text(" 0x0 : { top }\n")
    (tmp_path / "101-first-02-final_bundles.txt").write_text(" 0x0 : { a }\n 0x1 : { b }\n")
    return tmp_path


def test_instructions_that_are_alike_share_a_kernel(dumps):
    (estimate,) = read(str(dumps), "v5e")
    # 4000 bytes copied at 491 a cycle hide both kernels; the last has no schedule.
    assert (estimate.cycles, estimate.kernels, estimate.unknown, estimate.endless) == (8 + 1, 3, 1, 0)


def test_kernels_after_the_next_program_are_its_own(dumps):
    (dumps / "200-TLP-hlo.txt").write_text(MODULE)
    (dumps / "200-TLP-01-final_bundles.txt").write_text(" 0x0 : { top }\n")
    (dumps / "201-other-02-final_bundles.txt").write_text(" 0x0 : { a }\n" * 40)
    first, second = read(str(dumps), "v5e")
    assert (first.cycles, first.unknown) == (9, 1)
    assert (second.cycles, second.unknown) == (8 + 40 + 1, 2)


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")
def test_estimate_compares_rewriting_on_and_off(tmp_path):
    job = tmp_path / "job.py"
    job.write_text(
        "import torch\nfrom torch_clutch.warmup import Model\n\n\ndef clutch_warmup():\n"
        "    yield Model('small', torch.nn.Linear(8, 8).eval(), args=(torch.zeros(4, 8),))\n"
    )
    command = [sys.executable, "-c", "from torch_clutch.cli import main; main()", "estimate", str(job), "--target", "v5e:1x1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["on"]["cycles"] > 0 and row["on"]["unknown"] == 0
    assert row["ratio"] == row["on"]["cycles"] / row["off"]["cycles"]
