"""``clutch cache``: statistics, listing, verification, pruning, bundles and explanations, as a user runs them."""

import json
import os
import subprocess
import sys

import pytest

WARM = """
import torch, torch_clutch, json
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
with torch.no_grad():
    for options in ({}, {"precision": "medium"}):
        torch._dynamo.reset()
        torch.compile(model, backend="tpu", fullgraph=True, options=options)(torch.randn(2, 16))
print(json.dumps(torch_clutch.metrics()))
"""


def run(cache, code):
    environment = {**os.environ, "CLUTCH_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def clutch(cache, *arguments, code=0, **environment):
    """The output of `clutch cache`; JSON where that was asked for."""
    done = subprocess.run(
        [sys.executable, "-c", "from torch_clutch.cli import main; main()", "cache", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "CLUTCH_CACHE_DIR": str(cache), "COLUMNS": "200", **environment},
        check=False,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done.stdout + done.stderr


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache with two graphs."""
    cache = tmp_path_factory.mktemp("filled") / "cache"
    assert run(cache, WARM)["graph_misses"] == 2
    return cache


@pytest.fixture
def copied(filled, tmp_path):
    """A cache of the test's own, filled through a bundle."""
    cache = tmp_path / "copy"
    clutch(filled, "export", tmp_path / "all.bundle")
    clutch(cache, "import", tmp_path / "all.bundle")
    return cache


def files(cache, kind):
    return sorted(cache.rglob(f"*.{kind}"))


def test_statistics(filled, tmp_path):
    stats = clutch(filled, "stats", "--json")
    assert stats["graph_entries"] == len(files(filled, "graph")) == 2
    assert stats["executable_entries"] == len(files(filled, "exec")) > 0
    assert stats["graph_bytes"] == sum(f.stat().st_size for f in files(filled, "graph"))
    text = clutch(filled, "stats")
    assert "10.0 GiB" in text and str(filled) in text
    nowhere = tmp_path / "nowhere"
    assert "not there yet" in clutch(nowhere, "stats") and not nowhere.exists()


def test_listing(filled):
    listing = clutch(filled, "ls", "--json")
    assert listing["unreadable"] == 0
    assert {e["kind"] for e in listing["entries"]} == {"graph", "exec"}
    graph = next(e for e in listing["entries"] if e["kind"] == "graph")
    assert {"clutch", "torch", "precision", "program", "cpu_features"} <= set(dict(graph["fields"]))
    only = clutch(filled, "ls", "--kind", "exec", "--sort", "size", "--json")["entries"]
    assert [e["file_bytes"] for e in only] == sorted((e["file_bytes"] for e in only), reverse=True)
    assert graph["key"][:12] in clutch(filled, "ls")


def test_explanations_name_the_first_field_that_differs(filled):
    first, second = (e["key"] for e in clutch(filled, "ls", "--kind", "graph", "--json")["entries"])
    nearest = clutch(filled, "explain", first[:10], "--json")
    assert nearest["other"]["key"] == second
    assert [name for name, _, _ in nearest["differences"]] == ["precision"]
    assert clutch(filled, "explain", first, second, "--json")["differences"] == nearest["differences"]
    assert "the first is precision" in clutch(filled, "explain", first)
    assert "no entry's key starts with zz" in clutch(filled, "explain", "zz", code=1)
    assert "give more digits" in clutch(filled, "explain", "", code=1)


def test_a_bundle_makes_another_cache_warm(copied):
    warm = run(copied, WARM)
    assert warm["graph_hits"] == 2 and warm["compiles"] == 0


def test_one_graph_is_exported_with_its_executables(filled, tmp_path):
    key = clutch(filled, "ls", "--kind", "graph", "--json")["entries"][0]["key"]
    info = clutch(filled, "export", tmp_path / "one.bundle", "--key", key[:12], "--json")
    assert info["exported"] >= 2
    other = tmp_path / "other"
    clutch(other, "import", tmp_path / "one.bundle")
    stats = clutch(other, "stats", "--json")
    assert stats["graph_entries"] == 1 and stats["executable_entries"] == info["exported"] - 1
    again = clutch(other, "import", tmp_path / "one.bundle", "--json")
    assert again["imported"] == 0 and again["present"] == info["exported"]


@pytest.mark.parametrize("damage", ["cut", "changed byte", "renamed", "future version", "another file", "empty"])
def test_verify_finds_every_kind_of_bad_entry_and_repairs_it(copied, damage):
    assert "0 bad" in clutch(copied, "verify")
    victim = files(copied, "exec")[0]
    content = victim.read_bytes()
    if damage == "cut":
        victim.write_bytes(content[: len(content) // 2])
    elif damage == "changed byte":
        victim.write_bytes(content[:-40] + bytes([content[-40] ^ 1]) + content[-39:])
    elif damage == "renamed":
        victim = victim.rename(victim.with_name(victim.name[:2] + "0" * 62 + ".exec"))
    elif damage == "future version":
        victim.write_bytes(content[:8] + (99).to_bytes(4, "little") + content[12:])
    elif damage == "another file":
        victim.write_bytes(b"#!/bin/sh\n")
    else:
        victim.write_bytes(b"")
    text = clutch(copied, "verify", code=1)
    assert str(victim) in text and "1 bad" in text and "--repair" in text
    found = clutch(copied, "verify", "--json", code=1)
    assert [b["path"] for b in found["bad"]] == [str(victim)]
    if damage == "future version":
        assert "by hand" in clutch(copied, "verify", "--repair", code=1) and victim.exists()
    else:
        clutch(copied, "verify", "--repair")
        assert not victim.exists() and "0 bad" in clutch(copied, "verify")
    # Never loaded, always compiled again.
    assert run(copied, WARM)["compiles"] == 1


def test_prune(copied):
    total = sum(f.stat().st_size for f in files(copied, "*"))
    half = clutch(copied, "prune", "--to", str(total // 2), "--json")
    assert half["removed"] > 0 and half["remaining_bytes"] <= total // 2
    assert "removed 0 entries" in clutch(copied, "prune")
    assert "0 entries left" in clutch(copied, "prune", "--all")
    assert not files(copied, "exec")
    assert "500M" in clutch(copied, "prune", "--to", "much", code=2)


def test_a_bundle_that_is_none_or_is_damaged(filled, tmp_path):
    bundle, cache = tmp_path / "all.bundle", tmp_path / "cache"
    clutch(filled, "export", bundle)
    content = bundle.read_bytes()
    bundle.write_bytes(content[: len(content) // 2])
    text = clutch(cache, "import", bundle, code=1)
    assert "cut off or damaged" in text and "imported" in text
    bundle.write_bytes(b"PK\x03\x04 not a bundle")
    assert "is not a cache bundle" in clutch(cache, "import", bundle, code=1)
    bundle.write_bytes(content[:8] + (7).to_bytes(4, "little") + content[12:])
    assert "version 7" in clutch(cache, "import", bundle, code=1)
    assert "does not exist" in clutch(cache, "import", tmp_path / "missing", code=2)
    assert "0 bad" in clutch(cache, "verify")


def test_an_export_that_cannot_be_written_leaves_nothing(filled, tmp_path):
    text = clutch(filled, "export", tmp_path / "no" / "such" / "folder.bundle", code=1)
    assert "folder.bundle" in text and not (tmp_path / "no").exists()


def test_a_directory_that_others_can_write_is_refused(copied):
    copied.chmod(0o777)
    for command in (["stats"], ["ls"], ["verify"], ["prune"]):
        text = clutch(copied, *command, code=1)
        assert "can be written by other users" in text and "chmod go-w" in text
    # The compiler goes on without it.
    assert run(copied, WARM)["graph_hits"] == 0


def test_an_entry_that_others_can_write_is_not_loaded(copied):
    for file in files(copied, "exec"):
        file.chmod(0o666)
    assert "another user owns it or can write it" in clutch(copied, "verify", code=1)
    assert run(copied, WARM)["graph_hits"] == 0


def test_sizes_are_read_and_written():
    from torch_clutch.cli.cache import human, read_size

    assert [read_size(t) for t in ("0", "1k", "1.5M", "2GiB", "3 TB")] == [0, 1024, 1536 << 10, 2 << 30, 3 << 40]
    for wrong in ("", "G", "-1", "inf", "nan", "5x"):
        with pytest.raises(ValueError):
            read_size(wrong)
    assert [human(n) for n in (0, 1023, 1536, 10 << 30)] == ["0 B", "1023 B", "1.5 KiB", "10.0 GiB"]
