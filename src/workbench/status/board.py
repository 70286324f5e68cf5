"""A viewer's data about one experiment, followed by cursor. Law: it reads the store and writes nothing."""

from __future__ import annotations

import math
import os
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from workbench.errors import MEND, Broken, NotFound
from workbench.records import ENDED, SETTING_UP, Spec, numbers
from workbench.records.durations import duration as duration
from workbench.records.names import trial_label
from workbench.standing import has_diverged, ranked
from workbench.status import Around, Status, asked_trials, setups_words
from workbench.status.unranked import why_none_is_best
from workbench.store import Store
from workbench.store.lists import outcome
from workbench.store.lists.catalog import read_entry, shown_as
from workbench.store.series import Series

#: Points read from the store at a time, so that a long history never blocks the reader.
BATCH = 200_000
#: Seconds after the end for which a cell waits for the resume check, so that its last line has the verdict.
CHECK_S = 10.0


class Curve:
    """One trial's values of one metric, in the order of x. A repeated report replaces its point."""

    __slots__ = ("x", "y")

    def __init__(self) -> None:
        self.x, self.y = array("d"), array("d")

    def put(self, x: float, y: float) -> None:
        """Add a point, or replace the one at ``x``."""
        if not self.x or x > self.x[-1]:
            self.x.append(x)
            self.y.append(y)
            return
        at = bisect_left(self.x, x)
        if self.x[at] == x:
            self.y[at] = y
        else:
            self.x.insert(at, x)
            self.y.insert(at, y)

    def thinned(self, most: int) -> tuple[list[float], list[float]]:
        """At most about ``most`` points that draw the same curve: the lowest and highest of each bucket, and both
        ends."""
        n = len(self.x)
        if n <= max(most, 4):
            return self.x.tolist(), self.y.tolist()
        buckets = max(1, (most - 2) // 2)
        keep = {0, n - 1}
        for k in range(buckets):
            bucket = range(k * n // buckets, (k + 1) * n // buckets)
            finite = [i for i in bucket if math.isfinite(self.y[i])] or list(bucket)[:1]
            keep.add(min(finite, key=self.y.__getitem__))
            keep.add(max(finite, key=self.y.__getitem__))
        order = sorted(keep)
        return [self.x[i] for i in order], [self.y[i] for i in order]


@dataclass(slots=True)
class Change:
    """What is new since the last look at the store."""

    words: bool = False
    trials: list[int] = field(default_factory=list)
    points: list[tuple[int, float, float]] = field(default_factory=list)
    #: Points were left out or replaced, so a viewer must reload everything.
    anew: bool = False

    def __bool__(self) -> bool:
        return self.words or self.anew or bool(self.trials) or bool(self.points)


class Board:
    """An experiment's words, trials and the curves of one metric, as of the last look at the store."""

    def __init__(self, store: Store, experiment: str, metric: str | None = None) -> None:
        self.store = store
        self.spec: Spec = store.read_spec(experiment)
        self._asked = asked_trials(self.spec)
        self.metric = metric or self.spec.goal.metric
        self.meta: dict[str, Any] = {}
        self.names: list[str] = [self.spec.goal.metric]
        self.trials: dict[int, dict[str, Any]] = {}
        self.curves: dict[int, Curve] = {}
        self._series: Series | None = None
        self._broken: Broken | None = None
        self._cursor, self._change = 0, 0
        #: The largest number of points of the metric that one turn has logged: they share the width of a step.
        self._turn = 1

    # -- reading ------------------------------------------------------------------------------------------------------

    def look(self, most: int = BATCH) -> Change:
        """Read what is new since the last look, at most ``most`` points; nothing while the series is damaged."""
        try:
            self._broken, change = None, self._look(most)
        except Broken as error:  # the engine rebuilds it with numbers above those already seen
            self.close()
            self._broken, change = error, Change()
        return change

    def check_readable(self) -> None:
        """Raise Broken if it has trials and none could be read: its series is damaged or missing."""
        if self.trials:  # as they were at the last look that could read them
            return
        if self._broken is not None:
            raise Broken(f"{self._broken} {MEND}")
        if self.series is None and read_entry(self.store, self.spec.id).get("trials"):
            raise Broken(f"{self.store.experiment(self.spec.id).series} is missing. {MEND}")

    def _look(self, most: int) -> Change:
        change = Change()
        series = self.series
        if series is None:
            return change
        meta = series.meta()
        change.words = meta != self.meta
        self.meta = meta
        self._change, rows = series.trials_after(self._change)
        for row in rows:
            self.trials[row["number"]] = row
            change.trials.append(row["number"])
        self._cursor, points = series.points_after(self._cursor, most)
        for trial, name, step, index, value, _ in points:
            if name not in self.names:
                self.names.append(name)
                change.words = True
            if name == self.metric:
                if index > self._turn:
                    self._turn, change.anew = index, True
                x = self._position(step, index)
                self.curves.setdefault(trial, Curve()).put(x, value)
                change.points.append((trial, x, value))
        if change.anew:
            self.choose(self.metric)
        return change

    @property
    def is_there(self) -> bool:
        """False once the experiment was deleted. Its open database would go on answering."""
        return self.store.experiment(self.spec.id).spec.exists()

    def stamp(self) -> tuple[int, ...]:
        """A value that changes when the engine has written, so that a look is worthwhile. It takes microseconds, a look
        a millisecond."""
        path = self.store.experiment(self.spec.id).series
        found: list[int] = []
        for file in (path, path.with_name(path.name + "-wal")):
            try:
                status = os.stat(file)
                found += (status.st_mtime_ns, status.st_size)
            except OSError:
                found.append(0)
        return tuple(found)

    def choose(self, metric: str) -> None:
        """Follow another metric's curves from now on."""
        self.metric, self.curves, self._turn = metric, {}, 1
        series = self.series
        if series is None:
            return
        points = series.points(names=[metric])
        self._turn = max((index for _, _, _, index, _, _ in points), default=1) or 1
        for trial, _, step, index, value, _ in points:
            self.curves.setdefault(trial, Curve()).put(self._position(step, index), value)

    def _position(self, step: int, index: int) -> float:
        """Where a point stands on the axis of steps: a report at its step, a logged point inside the turn before."""
        return float(step) if index <= 0 else step - 1 + index / self._turn

    def close(self) -> None:
        """Close the database."""
        if self._series is not None:
            self._series.close()
            self._series = None

    @property
    def series(self) -> Series | None:
        """The experiment's database, once the engine has started it."""
        if self._series is None:
            try:
                self._series = Series.read(self.store.experiment(self.spec.id).series)
            except (NotFound, FileNotFoundError):
                return None
        return self._series

    # -- words --------------------------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """The experiment's status; *waiting* until an engine has written one."""
        entry = read_entry(self.store, self.spec.id)
        return Status.of(entry, self.meta, Around.of(self.store), self._asked)

    @property
    def is_ended(self) -> bool:
        """True once the experiment is in a state that only an extension can change."""
        return self.meta.get("state") in ENDED or self.status.is_ended

    @property
    def is_resting(self) -> bool:
        """True if it is inactive: it has ended, or its files are not valid."""
        return self.status.is_resting

    @property
    def is_settled(self) -> bool:
        """True once it has ended and its resume check has too, or has taken longer than :data:`CHECK_S`."""
        if not self.is_ended or not self.meta.get("checking"):
            return self.is_ended
        ended = self.meta.get("ended")
        return not ended or (datetime.now(UTC) - datetime.fromisoformat(ended)).total_seconds() > CHECK_S

    @property
    def outcome(self) -> dict[str, Any]:
        """Its outcome besides the best trial. For an experiment of an earlier version, as far as its trials show."""
        if "failures" in self.meta:
            return self.meta
        failed = (str(row.get("reason") or "") for row in self.trials.values() if row["state"] == "failed")
        return {**self.meta, "failures": outcome.failures(failed)}

    @property
    def label(self) -> str:
        """``digits@1``, as its store lists it."""
        return shown_as(self.store, self.spec)

    @property
    def why_none_is_best(self) -> str:
        """Why it has no best trial, where it has none."""
        return why_none_is_best(self.spec, self.label, self.trials.values(), is_ended=self.is_ended)

    @property
    def checked(self) -> str:
        """Whether resuming was found exact, in a few words; empty if it was not checked."""
        return outcome.checked_words({"verdict": "waiting"} if self.meta.get("checking") else self.meta.get("verify"))

    @property
    def diverged_trials(self) -> int:
        """How many trials have nan or an infinity as the goal's newest value."""
        return sum(has_diverged(row.get("value")) for row in self.trials.values())

    @property
    def notes(self) -> list[str]:
        """Notes for the user: failures, inexact resumes, alerts, what it was forked from, whether resuming was found
        exact.
        """
        verdict = self.meta.get("verify")
        told = [words for words in outcome.told(self.outcome).values() if words]
        origin = [f"from {self.spec.parent['label']}"] if self.spec.parent else []
        alerts = [str(alert["words"]) for alert in (self.meta.get("alerts") or ())[-3:]]
        lacks = self.meta.get("lacks")
        missing = [f"trains without {', '.join(lacks)}; its value is not available"] if lacks else []
        says = [str(words) for words in self.meta.get("says") or ()]
        return [*told, *alerts, *says, *missing, *origin, *([str(verdict["words"])] if verdict else [])]

    @property
    def parameters(self) -> list[str]:
        """Names of the hyperparameters, in the order of the cell."""
        found: dict[str, None] = {}
        for row in self.trials.values():
            found.update(dict.fromkeys(row.get("configuration") or ()))
        return list(found)

    @property
    def seconds(self) -> float | None:
        """How long the experiment has taken so far, or took."""
        started = self.meta.get("started")
        if not started:
            return None
        ended = self.meta.get("ended") if self.is_ended else None
        until = datetime.fromisoformat(ended) if ended else datetime.now(UTC)
        return max(0.0, (until - datetime.fromisoformat(started)).total_seconds())

    def ranked(self) -> list[dict[str, Any]]:
        """The trials, the best first, in the order in which the search compares them (:mod:`workbench.standing`)."""
        best = self.meta.get("best")
        return ranked(self.trials.values(), self.spec.goal.mode, best and best["trial"])


def number(value: Any) -> str:
    """A value for people, numbers as everywhere (:mod:`workbench.records.numbers`); text as it is."""
    if value is None:
        return "–"
    return numbers.shown(value) if isinstance(value, float) else str(value)


def since_words(row: Mapping[str, Any]) -> str:
    """``for 3 min``, of a trial that is setting up; empty for others. row: the trial's."""
    if row.get("state") != SETTING_UP or not row.get("since"):
        return ""
    return f"for {duration((datetime.now(UTC) - datetime.fromisoformat(row['since'])).total_seconds())}"


def diverged(board: Board) -> str:
    """``3 trials diverged``; empty if none did."""
    count = board.diverged_trials
    return f"{count} trial{'s' * (count != 1)} diverged" if count else ""


def configured(configuration: dict[str, Any] | None, names: Iterable[str] | None = None) -> str:
    """A configuration in one line: ``lr=0.01  hidden=64``; inactive hyperparameters are left out."""
    shown = configuration or {}
    return "  ".join(f"{key}={number(shown[key])}" for key in (names or shown) if shown.get(key) is not None)


def sentence(board: Board) -> str:
    """``digits@1 completed: 143 trials in 42 s, best val_acc 0.9871 by t0005 (lr=0.05444  hidden=256)``.

    Then, after semicolons: what was resumed inexactly, that seeds gave the same bits, whether resuming was checked.
    """
    told, seconds, status = board.outcome, board.seconds, board.status
    words = f"{board.label} {status.state}: {outcome.trials_words(len(board.trials), told)}"
    if seconds is not None:
        words += f"{',' * bool(told['failures'])} in {duration(seconds)}"
    if status.best is not None:
        row = board.trials.get(status.best.trial, {})
        configuration = configured(row.get("configuration"))
        shown = f"{number(status.best.value)} before it diverged"
        shown = shown if has_diverged(row.get("value")) else status.best.words(number)
        words += ", " + outcome.best_words(board.spec.goal, status.best.trial, told, shown, configuration)
    elif status.is_ended and status.reason:
        words += f" ({status.reason})"
    if board.diverged_trials:
        words += f", {diverged(board)}"
    found = outcome.told(told)
    return "; ".join(part for part in (words, found["inexact"], found["seeds"], board.checked) if part)


def progress(board: Board) -> str:
    """``digits@1 running: 12 of 143 trials ended, best val_acc 0.9123 (t0007), 2 slots, about 42 s left``."""
    parts, status = [], board.status
    if status.progress.begun or status.progress.planned:
        parts.append(str(status.progress))
    if status.best is not None:
        best = status.best
        parts.append(f"best {board.spec.goal.metric} {best.words(number)} ({trial_label(best.trial)})")
    if board.diverged_trials:
        parts.append(diverged(board))
    if setups := setups_words(status.counts):
        parts.append(setups)
    used = (status.slots or {}).get("used")
    if used:
        parts.append(f"{used} slot{'s' * (used != 1)}")
    if status.seconds_left is not None:
        parts.append(f"about {duration(status.seconds_left)} left")
    if status.state in ("waiting", "paused", "stopping"):
        parts.insert(0, status.reason)
    return f"{board.label} {status.state}" + (": " + ", ".join(parts) if parts else "")
