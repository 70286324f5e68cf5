"""The minimal notebook of an experiment: the executed cells that its training needs, in order, and nothing else.

Law: recorded text is written unchanged; cells in which a secret was masked are listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.errors import NotFound
from workbench.records import Json, Spec
from workbench.snapshot.reading.facts import facts_of
from workbench.snapshot.reading.history import History
from workbench.snapshot.secrets.masking import MASK

#: Names that the magic line takes from the notebook.
_EXPANDED = re.compile(r"\$(\w+)|\{([^}]*)\}")
#: Names that Workbench or IPython provides to a cell.
_GIVEN = frozenset({"trial", "get_ipython", "In", "Out", "exit", "quit", "display"})


@dataclass(frozen=True, slots=True)
class Slice:
    """cells: the needed executed cells, in the form of the snapshot, the train cell last. left_out: the number of other
    executed cells. missing: names that no executed cell defines. masked: numbers of cells in which a secret was masked.
    """

    cells: list[dict[str, Any]]
    left_out: int
    missing: list[str]
    masked: list[int]

    def notebook(self, kernel: Mapping[str, Json] | None = None) -> dict[str, Any]:
        """The notebook, in nbformat 4.5. kernel: its kernelspec; None for the default one."""
        import nbformat

        cells = []
        taken: set[str] = set()
        for cell in self.cells:
            made = nbformat.v4.new_code_cell(cell["source"])
            known = str(cell.get("cell_id") or "")
            if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", known) and known not in taken:
                made["id"] = known
            taken.add(made["id"])
            if cell.get("failed"):
                made["metadata"]["tags"] = ["raises-exception"]
            cells.append(made)
        spec = dict(kernel or {"name": "python3", "display_name": "Python 3", "language": "python"})
        found: dict[str, Any] = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec})
        nbformat.validate(found)
        return found


def minimal(spec: Spec, snapshot: Mapping[str, Any]) -> Slice:
    """The slice of the cells executed when ``spec`` was launched. Raises NotFound if nothing was recorded."""
    executed = list((snapshot.get("cells") or {}).get("cells") or ())
    if not executed:
        raise NotFound(
            f"{spec.label} was not started from a notebook, or its cells were not recorded: there is nothing to slice. "
            "`workbench show` names its snapshot, which holds its code."
        )
    last = executed[-1]
    failed = [number for number, cell in enumerate(executed) if cell.get("failed")]
    history = History([str(cell["source"]) for cell in executed[:-1]], failed)
    # For a train cell, the text that is trained; for a function, the cell that called Workbench. A script uses no cell.
    texts = {"cell": [spec.program.source], "script": []}.get(spec.program.kind, [str(last["source"])])
    facts = [facts_of(text) for text in texts]
    names = {name for one in facts for name in one.uses | one.later}
    # A function's object or arguments have names of Workbench's own; the cell that called it names theirs.
    names |= {name for name in (snapshot.get("capture") or {}).get("names", {}) if name.isidentifier()}
    for plain, expression in _EXPANDED.findall(spec.typed):
        names |= {plain} if plain else facts_of(expression).uses
    quoted = {text for one in facts for text in one.quoted}
    before = len(executed) - 1
    needed = history.needed(names, before, quoted)
    own = {name for one in facts for name in one.may_bind} | _GIVEN
    known = {name for number in needed for name in history.facts[number].may_bind}
    dynamic = any(history.facts[number].dynamic for number in needed)
    lacking = [] if dynamic else sorted(name for name in names - own - known if _is_lacking(name, snapshot))
    cells = [*(executed[number] for number in needed), last]
    masked = [int(cell["number"]) for cell in cells if MASK in str(cell["source"])]
    return Slice(cells, len(executed) - len(cells), lacking, masked)


def _is_lacking(name: str, snapshot: Mapping[str, Any]) -> bool:
    """Whether a name was captured from the notebook; others are built in, or Workbench's own."""
    return name in (snapshot.get("capture") or {}).get("names", {})
