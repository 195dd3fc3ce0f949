"""The committed table: how each entry's samples fared in each type and direction.

One line an entry, tab-separated, a column for each type and direction; `#` begins a line of settings. A cell is empty where the
entry does not support the type, else `COUNT` (samples of the entry) followed by the numbers of samples that did not pass, by
status: `24 mismatch=3,7 uncaptured=0-2`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .drive import Result
from .samples import spread

DTYPES = ("float32", "bfloat16", "float16", "float64", "int64", "int32", "bool")
COLUMNS = tuple([(dtype, False) for dtype in DTYPES] + [(dtype, True) for dtype in DTYPES if "float" in dtype])
# Clutch's failures; the other statuses are outside the yardstick.
FAILURES = ("crashed", "timeout", "error", "mismatch", "unsupported")
OUTSIDE = ("data-dependent", "uncaptured", "skipped")


def column_name(dtype: str, backward: bool) -> str:
    """The column's title."""
    return f"{dtype} backward" if backward else dtype


@dataclass
class Cell:
    """The samples of an entry in one type and direction that did not pass, by number, and how many samples there are."""

    count: int = 0
    others: dict[int, str] = field(default_factory=dict)


@dataclass
class Table:
    """Cells by entry and column. `most` is how many samples of each entry ran, spread over all; 0 for all."""

    most: int = 0
    cells: dict[tuple[str, str, bool], Cell] = field(default_factory=dict)

    @staticmethod
    def of(results: Iterable[Result], most: int) -> "Table":
        """The table of a run's results."""
        table = Table(most)
        for result in results:
            others = {s["number"]: s["status"] for s in result.samples if s["status"] != "passed"}
            table.cells[result.key] = Cell(result.count, others)
        return table

    def entries(self) -> list[str]:
        """Names of the entries, sorted."""
        return sorted({op for op, _, _ in self.cells})

    def numbers(self, key: tuple[str, str, bool]) -> list[int]:
        """Numbers of the samples that ran."""
        return spread(self.cells[key].count, self.most)

    @staticmethod
    def read(text: str) -> "Table":
        """The table in its text form; `ValueError` where the text is none."""
        table, titles = Table(), {column_name(*c): c for c in COLUMNS}
        columns: list[tuple[str, bool]] = []
        for line in text.splitlines():
            if line.startswith("# samples: "):
                table.most = int(line.removeprefix("# samples: "))
            elif line.startswith("entry\t"):
                found = line.split("\t")[1:]
                if unknown := [title for title in found if title not in titles]:
                    raise ValueError(f"columns of no type and direction: {unknown}")
                columns = [titles[title] for title in found]
            elif line and not line.startswith("#"):
                op, *texts = line.split("\t")
                for column, cell in zip(columns, texts, strict=True):
                    if cell:
                        table.cells[(op, *column)] = _read_cell(cell)
        return table

    def write(self) -> str:
        """The table's text form."""
        lines = [f"# samples: {self.most}", "\t".join(["entry", *(column_name(*c) for c in COLUMNS)])]
        for op in self.entries():
            lines.append("\t".join([op, *(_write_cell(self.cells.get((op, *c))) for c in COLUMNS)]))
        return "\n".join(lines) + "\n"


def load(path: Path) -> Table:
    """The committed table."""
    return Table.read(path.read_text())


def ranges(numbers: Iterable[int]) -> str:
    """Sorted numbers as `0-2,7`."""
    parts: list[list[int]] = []
    for n in sorted(numbers):
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _write_cell(cell: Cell | None) -> str:
    if cell is None:
        return ""
    words = [str(cell.count)]
    for status in (*FAILURES, *OUTSIDE):
        numbers = [n for n, s in cell.others.items() if s == status]
        words += [f"{status}={ranges(numbers)}"] if numbers else []
    return " ".join(words)


def _read_cell(text: str) -> Cell:
    count, *words = text.split(" ")
    cell = Cell(int(count))
    for word in words:
        status, _, numbers = word.partition("=")
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
            cell.others |= dict.fromkeys(range(int(first), int(last or first) + 1), status)
    return cell
