"""A search as a picture: brackets, rungs, ranks. Law: a pure fold of the journal's events; it decides nothing.

The panel folds the same events by the same rules in ``workbench_ext/frontend/src/ladder.ts``; both are tested on the
journals under ``tests/fixtures/ladder``. What :meth:`Ladder.to_json` gives can be folded further, here and there.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from workbench.records import Json
from workbench.store.bracket import Bracket, Entry, Rung

__all__ = ["Ladder", "since"]


@dataclass(slots=True)
class _Trial:
    """Where a trial stands: the last step that was told, the end of its leg, and the step of its last entry.

    live: it has a leg. Facts that the leg told last may come after its end.
    leaving: its leg was told to stop. Such a leg can still come to its last step; nothing before counts any more.
    level, value: the highest level at which its value was finite, and that value. diverged: its newest is not.
    """

    bracket: int
    step: int = 0
    until: int | None = None
    at: int | None = None
    live: bool = False
    leaving: bool = False
    level: int = 0
    value: float | None = None
    diverged: bool = False


class Ladder:
    """The fold. ``plan`` is what was known before anything ran: ``goal`` (metric and mode), ``rule`` (the scheduler's
    kind, mode and eta) and ``brackets``, which is empty for journals of versions that did not write it down. Of a
    search that was made longer it is the longer plan; what was folded by the shorter one is folded again.
    """

    def __init__(self, plan: Mapping[str, Json]) -> None:
        #: The journal's line that was folded last.
        self.n = 0
        self.goal: dict[str, str] = {key: plan["goal"][key] for key in ("metric", "mode")}
        self.rule: dict[str, Json] = {key: plan["rule"].get(key) for key in ("kind", "mode", "eta")}
        self.brackets = [_bracket(data) for data in plan["brackets"]]
        #: The best value at the highest level so far: trial, step and value.
        self.best: dict[str, Json] | None = None
        #: What a person who was away is told: retries, failures, better values, pauses and the end.
        self.happened: list[dict[str, Json]] = []
        self._trials: dict[int, _Trial] = {}
        #: The trial whose value was the last fact: an order that follows is the rule's own answer to it.
        self._told: int | None = None
        self._firsts = [bracket.first for bracket in self.brackets if bracket.first is not None]
        self._sign = -1.0 if self.goal["mode"] == "max" else 1.0

    # -- folding

    def fold(self, events: Iterable[Mapping[str, Json]]) -> Ladder:
        """Take events in their order; those that were taken before change nothing."""
        for event in events:
            if event["n"] > self.n:
                self.n = event["n"]
                take = _TAKE.get(event["kind"])
                if take is not None:
                    take(self, event)
        return self

    def _run(self, event: Mapping[str, Json]) -> None:
        number, until, reason = event["trial"], event["until"], event["reason"]
        trial = self._trial(number, event)
        bracket = self.brackets[trial.bracket]
        before = self._entry(trial, number, trial.step)
        # A longer search takes back ends, too.
        if before is not None and before.fate != "on" and before.value is not None:
            before.fate, before.reason = "on", reason
        entry = self._enter(trial, number, bracket.above(trial.step, until))
        if entry is not None:
            entry.fate, entry.reason = "waiting", reason
        trial.until, trial.leaving = until, False

    def _leg_started(self, event: Mapping[str, Json]) -> None:
        trial = self._trials.get(event["trial"])
        if trial is not None and trial.until is not None:
            trial.live = True
            entry = self._entry(trial, event["trial"], trial.at)
            if entry is not None:
                entry.fate = "training"

    def _leg_left(self, event: Mapping[str, Json]) -> None:
        trial = self._trials.get(event["trial"])
        if trial is None:
            return
        trial.live = False
        entry = self._entry(trial, event["trial"], trial.at)
        if entry is not None and entry.fate == "training":
            entry.fate = "waiting"  # the fact that follows says what for

    def _reached(self, event: Mapping[str, Json]) -> None:
        number, step = event["trial"], event["step"]
        trial = self._trials.get(number)
        if trial is None or trial.until is None or not trial.step < step <= trial.until:
            return
        bracket = self.brackets[trial.bracket]
        if bracket.rung(step) is None:
            return
        if trial.leaving:
            if step != bracket.rungs[-1].step:
                return
            self._comes_through(trial, number)
        entry = self._enter(trial, number, step)
        assert entry is not None
        self._tell(event, trial, entry, step)
        if step == trial.until:
            entry.fate, entry.reason, trial.until = "waiting", "", None
        else:
            # The leg trains on unless it is told otherwise in the same breath.
            entry.fate, entry.reason = "on", ""
            ahead = self._enter(trial, number, bracket.above(step, trial.until))
            assert ahead is not None
            ahead.fate = "training" if trial.live else "waiting"
        self._told = number

    def _ended(self, event: Mapping[str, Json]) -> None:
        trial = self._trials.get(event["trial"])
        if trial is None or trial.until is None:
            return
        number, bracket = event["trial"], self.brackets[trial.bracket]
        if trial.leaving:
            self._comes_through(trial, number)
        # It stands at the level that it came to, or was on its way to.
        entry = self._enter(trial, number, bracket.above(event["step"] - 1, trial.until))
        if entry is not None:
            # A trial whose code came to its own end is as complete as one that took all steps.
            self._tell(event, trial, entry, bracket.rungs[-1].step)
            entry.fate = "waiting"
        trial.until = None

    def _stop(self, event: Mapping[str, Json]) -> None:
        number = event["trial"]
        trial = self._trials.get(number)
        if trial is None or event.get("then") == "paused":
            return
        trial.leaving = True
        entry = self._entry(trial, number, trial.at)
        if entry is None:
            return
        if self._told == number and trial.until is not None and entry.value is None:
            told = self._entry(trial, number, trial.step)
            if told is not None:
                self._leave(trial, number)
                trial.at, told.fate, entry = trial.step, "stopped", told
        entry.reason = event["reason"]

    def _stop_asked(self, event: Mapping[str, Json]) -> None:
        self._told = None  # the orders that follow are a person's

    def _settle(self, event: Mapping[str, Json]) -> None:
        number, state = event["trial"], event["state"]
        trial = self._trial(number, event)
        entry = self._entry(trial, number, trial.at)
        if entry is None:  # it was stopped before its turn
            bracket = self.brackets[trial.bracket]
            entry = self._enter(trial, number, bracket.rungs[0].step) if bracket.rungs else None
        if entry is not None:
            entry.fate, entry.reason = ("waiting" if state == "paused" else state), event["reason"]
        trial.until = None
        if state == "failed":
            self._happen(event, "failure", trial=number)

    def _lost(self, event: Mapping[str, Json]) -> None:
        trial = self._trials.get(event["trial"])
        if trial is None or trial.until is None:
            return
        entry = self._entry(trial, event["trial"], trial.at)
        if entry is not None:
            entry.fate, entry.reason = "lost", event["reason"]
        trial.until = None
        self._happen(event, "retry", trial=event["trial"])

    def _finish(self, event: Mapping[str, Json]) -> None:
        self._happen(event, "ended", state=event["state"])

    # -- what follows

    def _trial(self, number: int, event: Mapping[str, Json]) -> _Trial:
        trial = self._trials.get(number)
        if trial is None:
            trial = self._trials[number] = _Trial(self._place(number, event.get("bracket") or 0))
        return trial

    def _place(self, number: int, bracket: int) -> int:
        """Which of the brackets a trial belongs to: trials are numbered through them, in the order of the plan."""
        if self._firsts:
            return max(0, bisect_right(self._firsts, number) - 1)
        for place, known in enumerate(self.brackets):
            if known.number == bracket:
                return place
        self.brackets.append(Bracket(bracket))
        return len(self.brackets) - 1

    def _entry(self, trial: _Trial, number: int, step: int | None) -> Entry | None:
        if step is None or step == 0:
            return None
        rung = self.brackets[trial.bracket].rung(step)
        return None if rung is None else rung.entries.get(number)

    def _comes_through(self, trial: _Trial, number: int) -> None:
        """It was done before the order to stop arrived: so it went on from the last rung."""
        entry = self._entry(trial, number, trial.step)
        if entry is not None:
            entry.fate = "on"

    def _enter(self, trial: _Trial, number: int, step: int) -> Entry | None:
        """The trial's entry at ``step``, new where it has none; one further up that nothing was told of goes."""
        rung = self.brackets[trial.bracket].rung(step)
        if rung is None:
            return None
        if trial.at is not None and trial.at != step and trial.at > trial.step:
            self._leave(trial, number)
        trial.at = step
        entry = rung.entries.get(number)
        if entry is None:
            entry = rung.entries[number] = Entry(number, trial.step)
        return entry

    def _leave(self, trial: _Trial, number: int) -> None:
        rung = self.brackets[trial.bracket].rung(trial.at or 0)
        if rung is not None:
            rung.entries.pop(number, None)

    def _tell(self, event: Mapping[str, Json], trial: _Trial, entry: Entry, level: int) -> None:
        trial.step = event["step"]
        entry.value = _float(event["value"])
        if event["value"] is None:
            return
        trial.diverged = not math.isfinite(entry.value)
        if not trial.diverged:
            trial.level, trial.value = level, entry.value
        elif trial.value is None:
            return
        known = self.best["trial"] if self.best is not None else entry.trial
        if trial.diverged and known == entry.trial:
            found = min((number for number, one in self._trials.items() if one.value is not None), key=self._standing)
        else:
            found = min(known, entry.trial, key=self._standing)
        best = {"trial": found, "step": self._trials[found].level, "value": self._trials[found].value}
        if best != self.best:
            self.best = best
            self._happen(event, "best", trial=found, value=best["value"])

    def _standing(self, number: int) -> tuple[bool, int, float, int]:
        """As :class:`workbench.standing.Standing` has it: of two trials the lesser is the better one."""
        trial = self._trials[number]
        assert trial.value is not None
        return trial.diverged, -trial.level, self._sign * trial.value, number

    def _happen(self, event: Mapping[str, Json], kind: str, **more: Json) -> None:
        self.happened.append({"n": event["n"], "at": event["at"], "kind": kind, **more})

    # -- the result

    def to_json(self) -> dict[str, Json]:
        """The whole ladder as plain data: entries by rank, then those that have none by trial."""
        return {
            "n": self.n,
            "goal": self.goal,
            "rule": self.rule,
            "brackets": [
                {
                    "bracket": bracket.number,
                    "turn": bracket.turn,
                    "first": bracket.first,
                    "rungs": [self._rung(rung, rung is bracket.rungs[-1]) for rung in bracket.rungs],
                }
                for bracket in self.brackets
            ],
            "trials": {
                str(number): {name: getattr(trial, name) for name in _STANDING}
                for number, trial in self._trials.items()
            },
            "told": self._told,
            "best": self.best,
            "happened": self.happened,
        }

    def _rung(self, rung: Rung, is_top: bool) -> dict[str, Json]:
        told = sorted(
            (entry for entry in rung.entries.values() if entry.value is not None),
            key=lambda entry: (self._key(entry), entry.trial),
        )
        others = sorted((e for e in rung.entries.values() if e.value is None), key=lambda entry: entry.trial)
        cut, going = (None, 0) if is_top else self._cut(told)
        entries = [_entry(entry, rank) for rank, entry in enumerate(told, 1)]
        entries += [_entry(entry, None) for entry in others]
        return {"step": rung.step, "places": rung.places, "cut": cut, "going": going, "entries": entries}

    def _key(self, entry: Entry) -> float:
        assert entry.value is not None
        return self._sign * entry.value if math.isfinite(entry.value) else math.inf

    def _cut(self, told: list[Entry]) -> tuple[float | None, int]:
        """The value of the last rank that goes on, and how many do; no value where all of them do."""
        kind = self.rule["kind"]
        if kind == "hyperband":
            ranks = [rank for rank, entry in enumerate(told, 1) if entry.fate == "on"]
            going = ranks[-1] if ranks else 0
        elif kind == "asha":
            going = len(told) // cast("int", self.rule["eta"])
            if self.rule["mode"] == "stop" and told:
                going = max(1, going)
        else:
            return None, 0
        last = told[going - 1].value if 0 < going < len(told) else None
        return (last if last is not None and math.isfinite(last) else None), going

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Ladder:
        """The ladder that :meth:`to_json` gave, to fold on."""
        ladder = cls(data)
        ladder.n, ladder.best, ladder._told = data["n"], data["best"], data["told"]
        ladder.happened = list(data["happened"])
        for bracket, given in zip(ladder.brackets, data["brackets"], strict=True):
            for rung, of in zip(bracket.rungs, given["rungs"], strict=True):
                for entry in of["entries"]:
                    value = None if entry["value"] is None else _float(entry["value"])
                    rung.entries[entry["trial"]] = Entry(
                        entry["trial"], entry["from"], entry["fate"], entry["reason"], value
                    )
        for number, state in data["trials"].items():
            ladder._trials[int(number)] = _Trial(**{name: state[name] for name in _STANDING if name in state})
        return ladder


def since(ladder: Mapping[str, Json], after: int) -> dict[str, Json]:
    """What happened behind the journal's line ``after``, for a person who was away.

    ``retries`` and ``failures`` are counts; ``best`` is None, or the best value as it was (None before there was one)
    and as it is; ``ended`` is None, or when (UTC) and in which state.
    """
    first: float | None = None
    latest: float | None = None
    found: dict[str, Json] = {"retries": 0, "failures": 0, "best": None, "ended": None}
    for event in ladder["happened"]:
        kind, is_new = event["kind"], event["n"] > after
        if kind == "best":
            if is_new:
                latest = event["value"]
            else:
                first = event["value"]
        elif is_new and kind in _COUNTED:
            found[_COUNTED[kind]] += 1
        elif is_new and kind == "ended":
            found["ended"] = {"at": event["at"], "state": event["state"]}
        elif kind == "extended":
            found["ended"] = None
    if latest is not None:
        found["best"] = {"first": first, "last": latest}
    return found


_STANDING = ("bracket", "step", "until", "at", "live", "leaving", "level", "value", "diverged")

_COUNTED = {"retry": "retries", "failure": "failures"}

_TAKE: dict[str, Callable[[Ladder, Mapping[str, Json]], None]] = {
    "Run": Ladder._run,
    "LegStarted": Ladder._leg_started,
    "LegLeft": Ladder._leg_left,
    "Reached": Ladder._reached,
    "Ended": Ladder._ended,
    "Stop": Ladder._stop,
    "StopAsked": Ladder._stop_asked,
    "Settle": Ladder._settle,
    "Lost": Ladder._lost,
    "Finish": Ladder._finish,
    "PauseAsked": lambda ladder, event: ladder._happen(event, "paused"),
    "ResumeAsked": lambda ladder, event: ladder._happen(event, "resumed"),
    "Extended": lambda ladder, event: ladder._happen(event, "extended"),
}


def _bracket(data: Mapping[str, Json]) -> Bracket:
    rungs = [Rung(rung["step"], rung["places"]) for rung in data["rungs"]]
    return Bracket(data["bracket"], data["turn"], data["first"], rungs)


def _entry(entry: Entry, rank: int | None) -> dict[str, Any]:
    return {
        "trial": entry.trial,
        "value": entry.value if entry.value is None or math.isfinite(entry.value) else _word(entry.value),
        "rank": rank,
        "fate": entry.fate,
        "reason": entry.reason,
        "from": entry.came,
    }


def _word(value: float) -> str:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _float(value: Json) -> float:
    """A number as a journal or a public event writes it: nan and infinities may be words, and nan may be nothing."""
    return math.nan if value is None else float(value)
