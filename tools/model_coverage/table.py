"""The committed table: how each model fared.

One line a model, tab-separated: source, name, parameters, and a column for each stage. A cell is the stage's status, with ` breaks`
where the model is no single graph.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .drive import STAGES, Result

# What counts as run, and of that as agreeing with eager; the rest of what eager runs failed.
AGREES = ("passed", "parts", "random")
RUNS = (*AGREES, "mismatch")
FAILURES = ("crashed", "timeout", "error", "mismatch", "unsupported")
OUTSIDE = ("uncaptured", "skipped")
_TITLE = "\t".join(["source", "model", "parameters", *STAGES])


@dataclass
class Row:
    """A model's parameters, and its cells by stage."""

    parameters: int = 0
    cells: dict[str, str] = field(default_factory=dict)


def cell(stage: dict) -> str:
    """The cell of a stage's outcome."""
    return stage["status"] if stage["whole"] else f"{stage['status']} breaks"


@dataclass
class Table:
    """Rows by source and name."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)

    @staticmethod
    def of(results: Iterable[Result]) -> "Table":
        """The table of a run's results."""
        return Table({r.key: Row(r.parameters, {s: cell(r.stages[s]) for s in STAGES if s in r.stages}) for r in results})

    @staticmethod
    def read(text: str) -> "Table":
        """The table in its text form; `ValueError` where the text is none."""
        head, *lines = text.splitlines()
        if head != _TITLE:
            raise ValueError(f"not a table of models: {head!r}")
        table = Table()
        for line in lines:
            source, name, parameters, *cells = line.split("\t")
            table.rows[(source, name)] = Row(int(parameters), {s: c for s, c in zip(STAGES, cells, strict=True) if c})
        return table

    def write(self) -> str:
        """The table's text form."""
        lines = [_TITLE]
        for (source, name), row in self.rows.items():
            lines.append("\t".join([source, name, str(row.parameters), *(row.cells.get(s, "") for s in STAGES)]))
        return "\n".join(lines) + "\n"


def load(path: Path) -> Table:
    """The committed table."""
    return Table.read(path.read_text())
