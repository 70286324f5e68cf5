"""The ladder of rungs at the end of a journal. Law: the search itself reads the journal; this module only queries it.

With a cursor, it returns changes: the trials whose entries changed after a line of the journal, and the present
brackets.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import Unreadable
from workbench.facts import CapacityChanged, Extended, Fact, Failed, Instruction, Lost, Settle, fact_from_line
from workbench.records import Json, plain_value
from workbench.search import Search
from workbench.search.climb import Entry
from workbench.standing import Best
from workbench.store import journal
from workbench.store.layout import Store
from workbench.store.recalled import check_lines, check_spec

__all__ = ["Ladder", "ladder"]

#: The number of cached ladders: a panel asks for the same few again and again.
_KEPT = 8
#: More slots than any engine has: a forged journal may claim millions, and each would start a trial.
_MOST_SLOTS = 100_000


@dataclass(slots=True)
class _Happened:
    """Events for a user who was away."""

    n: int
    at: str
    kind: str
    value: Json = None


class Ladder:
    """A search that reads a journal line by line, and records which trials each line changed."""

    def __init__(self, search: Search) -> None:
        self._search = search
        #: The last line read.
        self.n = 0
        #: The last line that changed each trial, and trials with a leg.
        self._changed: dict[int, int] = {}
        self._live: set[int] = set()
        self._best: Best | None = None
        self._happened: list[_Happened] = []

    def read(self, lines: Iterable[Mapping[str, Json]]) -> Ladder:
        """Process lines in order; lines that were read before change nothing."""
        for line in lines:
            n = line["n"]
            if n <= self.n:
                continue
            self.n = n
            fact = fact_from_line(line)
            if fact is not None:
                if isinstance(fact, CapacityChanged):
                    fact = CapacityChanged(min(fact.slots, _MOST_SLOTS))
                self._take(line, fact)
            elif line["kind"] in ("LegStarted", "LegLeft"):
                (self._live.add if line["kind"] == "LegStarted" else self._live.discard)(line["trial"])
                if line["trial"] in self._search.trials:
                    self._changed[line["trial"]] = n
            elif line["kind"] == "Finish":
                self._happen(line, "ended", line["state"])
        return self

    def _take(self, line: Mapping[str, Json], fact: Fact) -> None:
        orders = self._search.handle(fact)
        if isinstance(fact, Extended):
            self._changed = dict.fromkeys(self._search.trials, self.n)
            self._happen(line, "extended")
        elif line.get("trial") in self._search.trials:
            # With its value, the mean of its configuration may change for all of these.
            members = self._search.plan.members
            known = (one for one in members.trials(members.group(line["trial"])) if one in self._search.trials)
            self._changed.update(dict.fromkeys(known, self.n))
        for order in orders:
            if (trial := getattr(order, "trial", None)) is not None:
                self._changed[trial] = self.n
        if isinstance(fact, Lost):
            self._happen(line, "retry")
        if isinstance(fact, Failed) and any(map(_fails, orders)):
            self._happen(line, "failure")
        best = self._search.best
        if best is not None and best != self._best:
            self._best = best
            self._happen(line, "best", best.value)

    def _happen(self, line: Mapping[str, Json], kind: str, value: Json = None) -> None:
        self._happened.append(_Happened(line["n"], str(line.get("at", "")), kind, value))

    # -- what is shown

    def to_json(self, after: int = 0) -> dict[str, Json]:
        """The ladder as plain data, with only those trials whose entries changed after the line ``after``."""
        search = self._search
        best, goal = search.best, search.goal
        return {
            "n": self.n,
            "goal": {"metric": goal.metric, "mode": goal.mode},
            "scheduler": search.plan.scheduler.kind,
            **({"members": search.plan.members.count} if search.plan.members.count > 1 else {}),
            "brackets": [
                {
                    "bracket": bracket.number,
                    "turn": bracket.turn,
                    "rungs": [
                        {"step": rung.step, "places": rung.places, "going": rung.going, "cut": rung.cut}
                        for rung in bracket.rungs
                    ],
                }
                for bracket in search.climb.brackets
            ],
            "trials": [
                {
                    "trial": trial,
                    "bracket": search.climb.place(trial),
                    "entries": [self._entry(trial, entry) for entry in search.climb.entries(trial)],
                }
                for trial, n in self._changed.items()
                if n > after
            ],
            "best": {**best.to_json(), "step": search.climb.best_step} if best else None,
        }

    def _entry(self, trial: int, entry: Entry) -> dict[str, Json]:
        return {
            "step": entry.step,
            "from": entry.start,
            "value": plain_value(entry.value),
            "ranks": entry.ranks,
            # It holds a slot, but its leg may not have started.
            "fate": "waiting" if entry.fate == "training" and trial not in self._live else entry.fate,
            "reason": entry.reason,
            **({} if entry.mean is None else {"mean": plain_value(entry.mean)}),
        }

    def since(self, after: int) -> dict[str, Json]:
        """What happened after the line ``after``, for a user who was away.

        ``retries`` and ``failures`` are counts; ``best`` is None, or the best value before (None if there was none) and
        now; ``ended`` is None, or the time (UTC) and state of its end.
        """
        new = [one for one in self._happened if one.n > after]
        bests = [one.value for one in new if one.kind == "best"]
        before = [one.value for one in self._happened if one.kind == "best" and one.n <= after]
        turn = next((one for one in reversed(new) if one.kind in ("ended", "extended")), None)
        return {
            "retries": sum(one.kind == "retry" for one in new),
            "failures": sum(one.kind == "failure" for one in new),
            "best": {"first": before[-1] if before else None, "last": bests[-1]} if bests else None,
            # An extended experiment has not ended.
            "ended": {"at": turn.at, "state": turn.value} if turn is not None and turn.kind == "ended" else None,
        }


def _fails(order: Instruction) -> bool:
    return isinstance(order, Settle) and order.state == "failed"


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Kept:
    ladder: Ladder
    lock: threading.Lock = field(default_factory=threading.Lock)


_kept: OrderedDict[Path, _Kept] = OrderedDict()
_lock = threading.Lock()


def ladder(store: Store, experiment: str, after: int = 0) -> dict[str, Any]:
    """Changes of an experiment's ladder after the journal's line ``after``, and the events since.

    Results are cached, so the next call reads only new lines. A journal that became shorter is read again, and returned
    completely. Raises NotFound, StoreError, and Unreadable for an invalid journal.
    """
    try:
        return _told(store, experiment, after)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"the spec or the journal of experiment {experiment} is not valid ({error!r})"
        raise Unreadable(f"{why[:300]}. Restore them from a copy.") from error


def _told(store: Store, experiment: str, after: int) -> dict[str, Any]:
    paths = store.experiment(experiment)
    with _lock:
        kept = _kept.pop(paths.journal, None)
        end = journal.last(paths.journal)
        last = int(end["n"]) if end is not None else 0
        if kept is None or kept.ladder.n > last:
            kept = _Kept(Ladder(Search.of(check_spec(store.read_spec(experiment, viewing=True)))))
        _kept[paths.journal] = kept
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
    with kept.lock:
        lines = list(journal.read(paths.journal, kept.ladder.n))
        check_lines(paths, lines)
        found = kept.ladder.read(lines)
        behind = after if after <= found.n else 0
        return {"ladder": found.to_json(behind), "since": found.since(behind)}
