"""A journal's lines for those who look on, and the ladder they make. Law: it reads; a cursor gives what is new only."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from workbench.records import Json
from workbench.store import journal
from workbench.store.ladder import Ladder
from workbench.store.layout import Store
from workbench.store.series import Series

__all__ = ["events", "ladder", "plan_of"]

#: What of a line is told, beside its number, time and kind. Tracebacks and capacities are not.
_FIELDS = (
    *("trial", "step", "value", "reason", "until", "start", "attempt"),
    *("outcome", "cause", "state", "then", "bracket"),
)
#: Ladders that are kept to be folded on: a panel asks for the same few again and again.
_KEPT = 8


def events(store: Store, experiment: str, after: int = 0, limit: int | None = None) -> tuple[int, list[dict[str, Any]]]:
    """The events behind the journal's line ``after``, at most ``limit``, and the line to ask with next.

    Numbers that JSON lacks are the words nan, inf and -inf. Raises NotFound and StoreError as the store does.
    """
    paths = store.experiment(experiment)
    brackets = _Brackets(paths.series)
    found = [_public(line, brackets) for line in islice(journal.read(paths.journal, after), limit)]
    return (found[-1]["n"] if found else after), found


def ladder(store: Store, experiment: str) -> tuple[int, dict[str, Json]]:
    """The experiment's ladder as plain data, and the journal's line it was read up to.

    What was folded is kept, so asking again costs what is new. A journal that became shorter is folded anew.
    """
    path = store.experiment(experiment).journal
    with _lock:
        kept = _kept.pop(path, None)
        end = journal.last(path)
        last = int(end["n"]) if end is not None else 0
        if kept is None or kept.ladder.n > last or not kept.planned:
            # Without a plan its engine may not have written it yet, or an older one never did.
            plan = plan_of(store, experiment)
            kept = _Kept(Ladder(plan), bool(plan["brackets"]))
        _kept[path] = kept
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
    with kept.lock:
        _, new = events(store, experiment, kept.ladder.n)
        if kept.ladder.n and any(event["kind"] == "Extended" for event in new):
            kept.ladder = Ladder(plan_of(store, experiment))
            _, new = events(store, experiment)
        kept.ladder.fold(new)
        return kept.ladder.n, kept.ladder.to_json()


def plan_of(store: Store, experiment: str) -> dict[str, Json]:
    """What was known of a search before anything ran, as :class:`~workbench.store.ladder.Ladder` wants it."""
    spec = store.read_spec_json(experiment)
    scheduler: Mapping[str, Json] = spec["scheduler"]
    return {
        "goal": spec["goal"],
        "rule": {key: scheduler.get(key) for key in ("kind", "mode", "eta")},
        "brackets": _meta(store.experiment(experiment).series).get("brackets", []),
    }


@dataclass(slots=True)
class _Kept:
    ladder: Ladder
    #: Whether its brackets were known ahead.
    planned: bool
    lock: threading.Lock = field(default_factory=threading.Lock)


_kept: OrderedDict[Path, _Kept] = OrderedDict()
_lock = threading.Lock()


class _Brackets:
    """Each trial's bracket, for journals whose plan was not written down; read when a line first wants it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[int, int] | None = None

    def of(self, trial: int) -> int | None:
        if self._found is None:
            self._found = {}
            if self._path.exists() and "brackets" not in _meta(self._path):
                with Series.read(self._path) as series:
                    self._found = {row["number"]: row["bracket"] for row in series.trials()}
        return self._found.get(trial)


def _meta(path: Path) -> dict[str, Json]:
    if not path.exists():
        return {}
    with Series.read(path) as series:
        return series.meta()


def _public(line: Mapping[str, Json], brackets: _Brackets) -> dict[str, Any]:
    event = {"n": line["n"], "at": line["at"], "kind": line["kind"]}
    for name in _FIELDS:
        value = line.get(name)
        if isinstance(value, float) and not math.isfinite(value):
            value = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        if value is not None:
            event[name] = value
    if line["kind"] in ("Run", "Settle") and "bracket" not in event:
        bracket = brackets.of(line["trial"])
        if bracket is not None:
            event["bracket"] = bracket
    return event
