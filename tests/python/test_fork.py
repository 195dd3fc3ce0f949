"""Forked processes: the plugin's threads stay in the parent."""

import subprocess
import sys
import textwrap


def in_a_fork(before: str, child: str) -> None:
    """Runs a script in a process of its own: `before`, then `child` in a fork of it; a child that fails or hangs is a failure."""
    script = """
import os, signal, traceback, torch, torch_clutch

def compiled(f):
    return torch.compile(f, backend="tpu", fullgraph=True)

def double(x):
    return x + x

x = torch.arange(3.0)
{before}
if (child := os.fork()) == 0:
    signal.alarm(60)
    try:
{child}
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    filled = script.format(before=textwrap.dedent(before), child=textwrap.indent(textwrap.dedent(child), " " * 8))
    subprocess.run([sys.executable, "-c", filled], check=True, timeout=300)


def test_calls_and_compilations_in_a_fork_of_a_used_process_say_what_to_do() -> None:
    refused = """
    for again in (run, compiled(lambda x: x * 3)):
        try:
            again(x)
        except torch_clutch.DeviceError as error:
            assert "spawn" in str(error)
        else:
            raise AssertionError("it ran")
    assert double(x)[2] == 4
    """
    in_a_fork("run = compiled(double)\nassert run(x)[2] == 4", refused)


def test_the_parent_goes_on() -> None:
    in_a_fork("run = compiled(double)\nrun(x)\nos.fork() or os._exit(0)\nassert run(x)[2] == 4", "pass")


def test_a_fork_of_an_unused_process_compiles() -> None:
    in_a_fork("", "assert compiled(double)(x)[2] == 4")
