"""Hidden state: names that a train cell uses and that the present notebook, run again, would not make the same.

Law: one line, or none. It mentions nothing that is uncertain (an unsaved notebook, cells without ids).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workbench.errors import WorkbenchError
from workbench.experiment.executed import Log, Run, log_of
from workbench.snapshot.reading.cell import content_of
from workbench.snapshot.reading.effects import GENERATORS, effects_of
from workbench.snapshot.reading.facts import facts_of
from workbench.snapshot.reading.history import History
from workbench.store import Store
from workbench.store.files.atomic import read_json
from workbench.words import few

#: The largest notebook file that is read: a larger one would cause a noticeable delay.
_MOST_BYTES = 4 << 20
#: The number of newest executions that are examined for one name, and for all names.
_MOST_RUNS, _MOST_PAST = 100, 2000
#: Seconds for which a page's message counts as current, and how many of the newest messages are examined.
_NOW_S, _NEWEST = 30.0, 4

DELETED, EDITED, ORDER = "its cell was deleted", "edited since", "executed out of order"
CHANGED, MADE_OF = "a deleted cell changed it", "a deleted cell gave what it is made of"
TWICE = "a cell that builds on its own result was executed more than once"


@dataclass(frozen=True, slots=True)
class Shown:
    """A notebook's cells by id, in their order, as they were at a time (seconds since 1970)."""

    cells: dict[str, str]
    at: float


def line(shell: Any, store: Store, notebook: str | None, names: Iterable[str]) -> str | None:
    """The line about ``names``, or None if there is no problem or nothing is known."""
    log = log_of(shell)
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    cell_id = (parent.get("metadata") or {}).get("cellId")
    if log is None or cell_id is None:
        return None
    used = {name: log.binders[name][-1] for name in names if log.binders.get(name)}
    if not used:
        return None
    source = str((parent.get("content") or {}).get("code", ""))
    shown = _document(store, cell_id, source) or _file(notebook, min(run.at for run in used.values()))
    return words(hidden(log, used, shown, cell_id))


def hidden(log: Log, used: dict[str, Run], shown: Shown | None, cell_id: str) -> dict[str, str]:
    """Names with their problems. used: each with its last execution that may define it.

    shown: the present notebook, if known. Whether a cell was executed twice is known without it.
    """
    found = Past(log).hidden(used, shown)
    return found if shown is None else {**found, **_one_by_one(log, used, shown, cell_id)}


def _one_by_one(log: Log, used: dict[str, Run], shown: Shown, cell_id: str) -> dict[str, str]:
    """The problems seen from the last execution that defines each name."""
    found = {}
    order = {key: number for number, key in enumerate(shown.cells)}
    for name, run in used.items():
        if run.cell_id is None or not run.is_whole or shown.at <= run.at:
            continue
        if run.cell_id not in shown.cells:
            if not _stands_elsewhere(run, shown):
                found[name] = DELETED
        elif not _alike(shown.cells[run.cell_id], run.source):
            imported = run.facts.modules.get(name)
            if imported is None or facts_of(shown.cells[run.cell_id]).modules.get(name) != imported:
                found[name] = EDITED
        elif name not in run.facts.modules and _out_of_order(log, name, run, shown, order, order.get(cell_id)):
            found[name] = ORDER
    return found


def _out_of_order(log: Log, name: str, run: Run, shown: Shown, order: dict[str, int], here: int | None) -> bool:
    """Whether running all cells from the top would define ``name`` in another cell, or from other values."""
    assert run.cell_id is not None
    at = order[run.cell_id]
    if here is None:
        return False
    if at > here:
        return True
    for other in log.binders[name][-_MOST_RUNS:]:
        between = at < order.get(other.cell_id or "", -1) < here
        if between and other.source != run.source and name in other.facts.binds and _place(other, shown, order):
            return True  # the one below was executed before it
    for one in run.facts.uses:
        binders = log.binders.get(one, [])
        before = next((other for other in reversed(binders) if other.number < run.number), None)
        last = binders[-1] if binders else None
        if before is None or last is None or last.number <= run.number or last.source == before.source:
            continue
        place = _place(last, shown, order)
        if place is not None and place < at and one not in last.facts.modules:
            return True  # its inputs were changed above it, and it was not executed again
    return False


class Past:
    """All executions of a kernel, and which of them produced the value of a name."""

    def __init__(self, log: Log) -> None:
        self.runs = [log.runs[number] for number in sorted(log.runs)][-_MOST_PAST:]
        self._effects = [effects_of(run.source) for run in self.runs]
        self._functions = {name: body for run in self.runs for name, body in run.facts.functions.items()}
        self._generators = {
            name for run in self.runs for name, _, last in run.facts.body.made if last in GENERATORS
        }  # fmt: skip

    def hidden(self, names: Collection[str], shown: Shown | None) -> dict[str, str]:
        """Names influenced by a cell that, in a run from the top, would not influence them or would do so
        differently."""
        counts = Counter(run.cell_id for run, effects in zip(self.runs, self._effects, strict=True)
                         if run.cell_id is not None and (effects.again or effects.draws))  # fmt: skip
        gone = shown is not None and any(self._is_gone(run, shown) for run in self.runs)
        if not gone and max(counts.values(), default=0) < 2:
            return {}
        found = {}
        history = History([run.source for run in self.runs],
                          [at for at, run in enumerate(self.runs) if not run.is_whole])  # fmt: skip
        for name in names:
            needed = history.needed([name], len(self.runs))
            # A problem of another of the names is reported there.
            matters = {name} | {one for at in needed for one in self.runs[at].facts.uses if one not in names}
            if self._twice(needed, matters):
                found[name] = TWICE
            if shown is not None:
                does = [self._does(at, shown) & matters for at in needed if self._is_gone(self.runs[at], shown)]
                if any(does):
                    found[name] = CHANGED if any(name in one for one in does) else MADE_OF
        return found

    def _again(self, at: int) -> frozenset[str]:
        """The names that the run at ``at`` computed from their own earlier values."""
        run, effects = self.runs[at], self._effects[at]
        return (effects.again | (effects.draws & self._generators)) & run.facts.uses

    def _twice(self, needed: Sequence[int], matters: set[str]) -> bool:
        last: dict[str, int] = {}
        for at in needed:
            cell = self.runs[at].cell_id
            before = last.get(cell) if cell is not None else None
            if before is not None:
                for name in self._again(at) & self._again(before) & matters:
                    between = [self.runs[one].facts for one in range(before + 1, at)]
                    if not any(name in facts.binds and name not in facts.uses for facts in between):
                        return True
            if cell is not None:
                last[cell] = at
        return False

    def _is_gone(self, run: Run, shown: Shown) -> bool:
        """Whether the run's cell is known to be deleted from the notebook."""
        if run.cell_id is None or not run.is_whole or shown.at <= run.at or run.cell_id in shown.cells:
            return False
        return not _stands_elsewhere(run, shown)

    def _does(self, at: int, shown: Shown) -> frozenset[str]:
        """The names that the run defined or changed, except imports that another cell makes as well."""
        run = self.runs[at]
        imported = {
            name
            for name, module in run.facts.modules.items()
            if any(facts_of(text).modules.get(name) == module for text in shown.cells.values())
        }
        return (
            run.facts.binds | self._effects[at].changed | self._again(at) | self._changed_by_functions(run)
        ) - imported

    def _changed_by_functions(self, run: Run) -> set[str]:
        """Arguments that the run passed to functions of the notebook that modify them."""
        found = set()
        for call in run.facts.body.calls:
            function = self._functions.get(call.root) if not call.attributes else None
            if function is not None:
                places: dict[int | str, str] = dict(enumerate(function.parameters))
                places |= {one: one for one in function.parameters}
                found |= {name for place, name in call.arguments if places.get(place) in function.stores}
        return found


def _stands_elsewhere(run: Run, shown: Shown) -> bool:
    """Whether another cell has the same text: a cell that is cut and pasted gets another id."""
    return any(_alike(text, run.source) for text in shown.cells.values())


def _place(run: Run, shown: Shown, order: dict[str, int]) -> int | None:
    """The position of the cell of ``run``, if the cell is known to be there unchanged."""
    if run.cell_id is None or not run.is_whole or shown.at <= run.at or run.cell_id not in shown.cells:
        return None
    return order[run.cell_id] if _alike(shown.cells[run.cell_id], run.source) else None


def words(found: dict[str, str]) -> str | None:
    """The line, without the word before it."""
    if not found:
        return None
    parts = []
    for why in (DELETED, CHANGED, MADE_OF, EDITED, TWICE, ORDER):
        names = sorted(name for name, reason in found.items() if reason == why)
        if names:
            parts.append(f"{', '.join(few(names, 6))} ({why})")
    return f"hidden state: {', '.join(parts)}. A new kernel may give other results"


def _alike(one: str, other: str) -> bool:
    """Whether two texts are the same code, comments not counted."""
    return one.rstrip() == other.rstrip() or _content(one) == _content(other)


@functools.lru_cache(maxsize=20_000)
def _content(source: str) -> str:
    try:
        return content_of(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError):
        return source.rstrip()


# ---------------------------------------------------------------------------------------------------------------------
# What the notebook is now


def _document(store: Store, cell_id: str, source: str) -> Shown | None:
    """The notebook as the page showed it when this cell was executed, if the page has reported it already."""
    digest = hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()
    try:
        names = sorted((name for name in os.listdir(store.documents) if name.endswith(".json")), reverse=True)
        for name in names[:_NEWEST]:
            told = read_json(store.documents / name)
            age = time.time() - datetime.fromisoformat(told["at"]).timestamp()
            if (told["cell_id"], told["source"]) == (cell_id, digest) and age < _NOW_S:
                return _cells(store.get_blob(told["blob"]), float("inf"))
    except (OSError, ValueError, KeyError, TypeError, WorkbenchError):
        return None
    return None


def _file(notebook: str | None, after: float) -> Shown | None:
    """The notebook on disk, if it was saved after the first relevant execution."""
    if notebook is None:
        return None
    try:
        status = os.stat(notebook)
        if status.st_mtime <= after or status.st_size > _MOST_BYTES:
            return None
        with open(notebook, "rb") as file:
            return _cells(file.read(), status.st_mtime)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _cells(content: bytes, at: float) -> Shown | None:
    cells: Sequence[Any] = json.loads(content)["cells"]
    if not all(cell.get("id") for cell in cells):
        return None  # of a version in which cells have none
    texts = {cell["id"]: cell["source"] for cell in cells if cell["cell_type"] == "code"}
    return Shown({key: text if isinstance(text, str) else "".join(text) for key, text in texts.items()}, at)
