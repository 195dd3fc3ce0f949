"""Cycles of a TPU program by the schedule that libtpu made for it, read from what libtpu dumps; an estimate, not a measurement.

Each kernel counts the bundles that it executes (loops by their exit tests), and at least the time that its traffic with HBM takes. The
program's instructions run in the order of the schedule; asynchronous copies share one channel. Stalls are not counted.
"""

import dataclasses
import glob
import math
import os
import re

DUMP_FLAGS = (
    "--xla_jf_dump_to={} --xla_jf_dump_llo_text=true --xla_jf_dump_hlo_text=true --xla_jf_dump_llo_pass_label_regex=^final_bundles$"
)
"""Flags in ``LIBTPU_INIT_ARGS`` that make libtpu dump what ``read`` needs; the directory is to be filled in."""

HBM_BYTES_PER_CYCLE = {"v5e": 491.0, "v6e": 936.0, "tpu7x": 1940.0}
"""Bytes of HBM traffic in a cycle, from ``optimal_seconds`` of libtpu's own cost analysis of a streaming addition."""

FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "after-all", "partition-id"}
CONTROL = {"while", "call", "conditional"}
BITS = re.compile(r"\d+")
BUNDLE = re.compile(r"\s*(?:0x[0-9a-f]+|\d+)\s+(LH|LB|LE|PB|PF|CT)?:\s*([> ]*)\{")
EXIT_TEST = re.compile(r"scmp\.\w+\.s32\.totalorder (?:\([^)]*\), )?[^,]*, (-?\w+) /\* loop exit test")
PIPELINED = "iteration index, stage"
COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-<>]+) \(.*\{$")
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%([\w.\-<>]+) = (.*)")
ARRAY = re.compile(r"(\w+)\[([\d,]*)\](\{[^}]*\})?")
CALLED = re.compile(r"\b(?:calls|to_apply|body|condition|true_computation|false_computation)=%([\w.\-<>]+)|branch_computations=\{([^}]*)\}")
TRIPS = re.compile(r'"known_trip_count":\{"n":"?(\d+)')
NAME = re.compile(r"%([\w.\-<>]+)")
DUMP = re.compile(r"(\d+)-(.*)-\d+-final_bundles\.txt$")


@dataclasses.dataclass
class Estimate:
    """``cycles`` of the whole program; ``kernels`` that run; those ``unknown``, which libtpu showed no schedule of; loops whose number of
    turns is not known and counts as one."""

    cycles: int
    kernels: int
    unknown: int
    endless: int


@dataclasses.dataclass
class Instruction:
    """One instruction of a scheduled module."""

    name: str
    shape: str
    op: str
    operands: list[str]
    called: list[str]
    attributes: str
    trips: int | None

    def hbm_bytes(self) -> float:
        """Bytes of the result that lie in HBM."""
        return sum(size for size, place in _arrays(self.shape) if "S(" not in place)


def _arrays(shape: str) -> list[tuple[float, str]]:
    found = []
    for dtype, dims, layout in ARRAY.findall(shape):
        bits = BITS.search(dtype)
        size = 1.0 if dtype == "pred" else int(bits.group()) / 8 if bits else 0.0
        found.append((size * math.prod(int(d) for d in dims.split(",") if d), layout))
    return found


def _closing(text: str) -> int:
    """Index after the parenthesis that closes the one at the start."""
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return index + 1
    return len(text)


def _instruction(name: str, text: str) -> Instruction:
    cut = _closing(text) if text.startswith("(") else text.index(" ")
    shape, rest = text[:cut], text[cut:].lstrip()
    op = rest[: rest.index("(")]
    rest = rest[len(op) :]
    end = _closing(rest)
    inside, attributes = rest[:end], rest[end:]
    called = [n for one, many in CALLED.findall(attributes) for n in ([one] if one else NAME.findall(many))]
    trips = TRIPS.search(attributes)
    operands = [] if op in ("parameter", "constant") else NAME.findall(inside)
    kept = re.split(r", (?:metadata|backend_config|frontend_attributes)=", attributes)[0]
    if not operands:
        kept = inside + kept
    return Instruction(name, shape, op, operands, called, CALLED.sub("", kept), int(trips.group(1)) if trips else None)


class Module:
    """A scheduled HLO module, from its text."""

    def __init__(self, text: str) -> None:
        self.computations: dict[str, list[Instruction]] = {}
        self.entry, current = "", None
        for line in re.sub(r"/\*index=\d+\*/", "", text).splitlines():
            if (head := COMPUTATION.match(line)) is not None:
                current = self.computations.setdefault(head.group(2), [])
                self.entry = head.group(2) if head.group(1) else self.entry
            elif current is not None and (found := INSTRUCTION.match(line)) is not None:
                current.append(_instruction(*found.groups()))
        self.by_name = {i.name: i for c in self.computations.values() for i in c}
        self._keys: dict[str, int] = {}

    def key(self, instruction: Instruction) -> int:
        """Equal for instructions that libtpu compiles to one kernel."""
        places: dict[str, int] = {}
        pattern = tuple(places.setdefault(o, len(places)) for o in instruction.operands)
        shapes = tuple(self.by_name[o].shape for o in instruction.operands if o in self.by_name)
        called = tuple(self._computation_key(c) for c in instruction.called)
        return hash((instruction.op, instruction.shape, instruction.attributes, pattern, shapes, called))

    def _computation_key(self, name: str) -> int:
        if name not in self._keys:
            body = self.computations.get(name, [])
            places = {i.name: n for n, i in enumerate(body)}
            parts = [
                (i.op, i.shape, i.attributes, tuple(places.get(o, -1) for o in i.operands), tuple(map(self._computation_key, i.called)))
                for i in body
            ]
            self._keys[name] = hash(tuple(parts))
        return self._keys[name]


def bundles(text: str) -> int:
    """Bundles that a kernel executes, from the text of its final schedule."""
    lines = [(found.group(1), found.group(2).count(">"), line) for line in text.splitlines() if (found := BUNDLE.match(line))]

    def region(at: int, depth: int) -> tuple[int, int]:
        total, trips, pipelined, seen = 0, 1, False, False
        while at < len(lines):
            label, deep, line = lines[at]
            if deep < depth or (depth and label == "LB" and seen and lines[at - 1][1] <= depth and deep == depth):
                break
            if deep > depth:
                at, inner = region(at, depth + 1)
                total += inner
            else:
                if depth and (test := EXIT_TEST.search(line)) is not None:
                    trips = int(test.group(1), 0)
                pipelined |= PIPELINED in line
                total += 1
                at += 1
            seen = True
        # A pipelined loop has two more turns, in which its body is skipped.
        return at, total * max(1, trips - 2 if pipelined else trips) if depth else total

    at = total = 0
    while at < len(lines):
        at, part = region(at, 0)
        total += part
    return total


class _Replay:
    def __init__(self, module: Module, kernels: dict[str, int], rate: float) -> None:
        self.module, self.rate = module, rate
        self.cycles = dict(kernels)
        self.by_key = {module.key(module.by_name[n]): c for n, c in kernels.items() if n in module.by_name}
        used = {o for i in module.by_name.values() for o in i.operands}
        last = {c[-1].name for c in module.computations.values() if c}
        dead = [i for i in module.by_name.values() if i.op.endswith("-done") and i.name not in used | last]
        # A copy that nobody waits for is the prefetch for the next run.
        self.dead = {i.name for i in dead} | {o for i in dead for o in i.operands}
        self.now = self.channel = 0.0
        self.arrives: dict[str, float] = {}
        self.count = self.unknown = self.endless = 0

    def kernel(self, instruction: Instruction) -> int | None:
        found = self.cycles.get(instruction.name)
        return self.by_key.get(self.module.key(instruction)) if found is None else found

    def total(self, computation: str) -> int:
        return sum(
            (self.kernel(i) or 0) + sum(map(self.total, i.called if i.op in CONTROL else [])) for i in self.module.computations[computation]
        )

    def run(self, computation: str, times: int) -> None:
        for i in self.module.computations[computation]:
            if i.op == "while":
                self.endless += i.trips is None
                for called in i.called:
                    self.run(called, times * (i.trips or 1))
            elif i.op == "conditional":
                self.run(max(i.called, key=self.total), times)
            elif i.op == "call":
                self.run(i.called[0], times)
            elif i.op not in FREE and i.name not in self.dead:
                self.step(i, times)

    def step(self, i: Instruction, times: int) -> None:
        if i.op.endswith("-start"):
            sizes = [size for size, _ in _arrays(i.shape)]
            moved = sizes[0] if i.op == "copy-start" or len(sizes) < 2 else sizes[1]
            self.channel = max(self.now, self.channel) + times * moved / self.rate
            self.arrives[i.name] = self.channel
        elif i.op.endswith("-done"):
            self.now = max([self.now, *(self.arrives.get(o, 0.0) for o in i.operands)])
        elif 'custom_call_target="ConcatBitcast"' not in i.attributes:
            cycles = self.kernel(i)
            self.count += times
            self.unknown += cycles is None
            moved = i.hbm_bytes()
            # Gathers and scatters touch few of their operands' bytes.
            if "kind=kCustom" not in i.attributes:
                moved += sum(self.module.by_name[o].hbm_bytes() for o in i.operands if o in self.module.by_name)
            self.now += times * max(cycles or 0, moved / self.rate)


def read(directory: str, generation: str) -> list[Estimate]:
    """Estimates of the programs that one process compiled one after the other, in that order, from libtpu's dumps in `directory`.

    ``generation`` is the part of the topology's name before the colon.
    """
    stamps: list[tuple[int, str, str]] = []
    for path in glob.glob(os.path.join(directory, "*-final_bundles.txt")):
        if (found := DUMP.match(os.path.basename(path))) is not None:
            stamps.append((int(found.group(1)), found.group(2), path))
    estimates: list[Estimate] = []
    tops = sorted((s, path) for s, name, path in stamps if name == "TLP")
    for number, (stamp, path) in enumerate(tops):
        end = tops[number + 1][0] if number + 1 < len(tops) else math.inf
        kernels = {}
        for at, name, kernel in sorted(stamps):
            if stamp <= at < end and name != "TLP":
                kernels[name] = bundles(_text(kernel))
        replay = _Replay(
            Module(_text(os.path.join(directory, f"{stamp}-TLP-hlo.txt"))), kernels, HBM_BYTES_PER_CYCLE.get(generation, 500.0)
        )
        replay.run(replay.module.entry, 1)
        cycles = round(max(replay.now, replay.channel)) + bundles(_text(path))
        estimates.append(Estimate(cycles, replay.count, replay.unknown, replay.endless))
    return estimates


def _text(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()
