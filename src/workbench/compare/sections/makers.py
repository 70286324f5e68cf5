"""Which edited, deleted or added cells of the notebook changed the value of a name.

Law: it compares executed texts; it reports a cell as deleted only if the notebook's file shows it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from workbench.compare.section import number
from workbench.compare.sections.cells import Cell, aligned, cells, file_cells, tree_of
from workbench.compare.sides import Side
from workbench.snapshot.reading.facts import facts_of
from workbench.snapshot.reading.history import History

#: The maximum number of cells listed for one name.
_MOST = 3


@dataclass(frozen=True, slots=True)
class Part:
    """A cell that influenced only one side's value, or each side's differently: its text, and what happened to it."""

    source: str
    became: str

    @property
    def words(self) -> str:
        """``the cell X = X / 255 was deleted``."""
        line = next((line.strip() for line in self.source.splitlines() if line.strip()), "")
        return f"the cell {number(line)} {self.became}"


DELETED, EDITED, NEW, NOW = "was deleted", "was edited", "is new", "was executed before it"
AGAIN, IDLE, GONE = "was not executed again", "was not executed", "was deleted, or not executed"


class Makers:
    """The cells behind the captured names of two sides."""

    def __init__(self, a: Side, b: Side) -> None:
        #: The first side's cells in order, and those of both sides matched.
        self.one, self._other = cells(a), cells(b)
        self.pairs = aligned(self.one, self._other)
        self._histories = [History([cell.source for cell in side[:-1]]) for side in (self.one, self._other)]
        self._file = file_cells(b)

    def parts(self, name: str) -> list[Part]:
        """The cells that may have changed ``name``, in the order of the notebook."""
        before, after = (
            {id(side[at]) for at in history.needed([name], len(side) - 1)}
            for side, history in zip((self.one, self._other), self._histories, strict=True)
        )
        found = []
        for one, other in self.pairs:
            was, is_ = id(one) in before, id(other) in after
            if one is not None and other is not None and one.source != other.source and (was or is_):
                found.append(Part(other.source, EDITED))
            elif one is not None and was and not is_:
                found.append(Part(one.source, self._became(one, other)))
            elif other is not None and is_ and not was:
                found.append(Part(other.source, NEW if one is None else NOW))
        return found

    def _became(self, one: Cell, other: Cell | None) -> str:
        if self._file is not None and one.id not in self._file and one.source.strip() not in self._file.values():
            return DELETED
        if other is not None:
            return AGAIN
        return GONE if self._file is None else IDLE

    def looked_up(self, name: str) -> frozenset[str]:
        """The names that a function or class looks up when it is called; none if it may differ by something else: if no
        cell defines it by a statement of its own, or if a cell behind its decorators, defaults or bases changed."""
        cell = next((cell for cell in reversed(self._other[:-1]) if name in cell.names), None)
        made = [] if cell is None else [node for node in tree_of(cell.source).body if getattr(node, "name", "") == name]
        if not made:
            return frozenset()
        facts = facts_of(ast.unparse(made[-1]))
        return frozenset() if any(map(self.parts, facts.uses)) else facts.later

    def note(self, name: str) -> str:
        """The cells behind ``name`` in words; empty if none is known."""
        parts = self.parts(name)
        rest = len(parts) - _MOST
        return ", ".join([*(part.words for part in parts[:_MOST]), *([f"{rest} more cells"] if rest > 0 else [])])

    def short(self, name: str) -> str:
        """The same for a title, if a cell was deleted."""
        gone = [part for part in self.parts(name) if part.became not in (EDITED, NEW, NOW)]
        return f" ({gone[0].words})" if gone else ""
