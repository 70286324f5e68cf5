"""Slot-hours of this user's stores in a period, by user, experiment and outcome. Law: it only reads the series, and the
outcome of each second follows from the table below.

A leg holds its slot from when the engine places it there until the engine hears that it has left: set-up and training.
Its outcome, at the time of reading:

| outcome | seconds of legs |
|---|---|
| completed | of trials that have completed |
| stopped early | of trials that the search or the user stopped, or that wait at a rung or in a paused search |
| running | of all other trials that have not ended: they train, or wait for a slot or an engine |
| lost | of trials that failed; of any trial: steps that were or must be trained again, and set-ups of legs that died |

A leg died if its process failed or was killed, or if its machine or engine was gone. The step at which the trial's next
leg started tells which of its steps must be trained again; before there is one, its newest checkpoint does. Each step
of a leg counts with the same part of the time that it spent on steps. A leg with a part of a slot counts with that
part: what is left empty of a slot is counted for none.

If an engine was killed together with its trials, no end is recorded. Then a leg ends with its last report. Seconds are
those of the clock that the engine read. A leg that ended before it started, or ends in the future, counts as 0: the
clock was set back. A clock that was set forward cannot be told from time that passed.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from workbench.errors import WorkbenchError
from workbench.records import ENDED
from workbench.records.sizes import slots_of_row
from workbench.status import Around
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner import own_cluster, ownership
from workbench.store.owner.listed import person
from workbench.store.series import Series

Outcome = Literal["completed", "stopped early", "lost", "running"]
OUTCOMES: tuple[Outcome, ...] = ("completed", "stopped early", "lost", "running")

#: The outcome of what is not lost, by the trial's state. Any other state: it is under way.
_OF_STATE: Mapping[str, Outcome] = {
    "completed": "completed",
    "stopped": "stopped early",
    "paused": "stopped early",
    "failed": "lost",
}
_DIED = ("failed", "died")
#: Seconds by which the clocks of two machines that use one store may differ.
_SKEW_S = 60.0


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg. Times are in seconds since 1970."""

    experiment: str
    trial: int
    attempt: int
    #: Where it trained; legs of one slot follow each other. Empty: it is not recorded, or it had a part of the slot.
    slot: str
    placed: float
    #: When its first step began; None: it never did.
    began: float | None
    #: When it left; of one that trains, the time of reading.
    left: float
    #: The step at which it started, and its last one.
    start: int
    step: int
    #: Whether it ended by a fault.
    died: bool
    #: The step of its newest checkpoint.
    saved: int | None
    #: How many slots it held, or which part of one.
    slots: float = 1


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds that the legs of one experiment held slots, of one outcome."""

    #: The login name of the store's owner.
    user: str
    store: Path
    #: Its label.
    experiment: str
    outcome: Outcome
    seconds: float


@dataclass(frozen=True, slots=True)
class Unread:
    """An experiment, or a whole store (None), that could not be read, and why."""

    store: Path
    experiment: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage from ``since`` to ``until``: aware times."""

    since: datetime
    until: datetime
    #: By user, store, experiment and outcome; none of 0 seconds.
    rows: tuple[Row, ...]
    unread: tuple[Unread, ...]


# ---------------------------------------------------------------------------------------------------------------------
# Pure: from legs to seconds


def seconds(
    legs: Iterable[Leg], states: Mapping[tuple[str, int], str], since: float, until: float
) -> dict[tuple[str, Outcome], float]:
    """Seconds between ``since`` and ``until`` in which the ``legs`` of one store held slots, by experiment and outcome.

    states: of each trial, by experiment and number.
    """
    trials = defaultdict(list)
    for leg in in_turn(legs):
        trials[leg.experiment, leg.trial].append(leg)
    found: dict[tuple[str, Outcome], float] = defaultdict(float)
    for (experiment, trial), its in trials.items():
        its.sort(key=lambda leg: leg.attempt)
        usual = _OF_STATE.get(states.get((experiment, trial), ""), "running")
        for leg, follows in zip(its, [*its[1:], None], strict=True):
            for outcome, start, end in _parts(leg, follows, usual):
                found[experiment, outcome] += leg.slots * max(0.0, min(end, until) - max(start, since))
    return {key: spent for key, spent in found.items() if spent > 0}


def in_turn(legs: Iterable[Leg]) -> list[Leg]:
    """The legs without the time in which they were queued behind another one in the same slot, as very short ones are.

    After the clock was set back, earlier legs seem to end in the future. So a leg counts from its first step on at
    least.
    """
    found, free = [], dict[str, float]()
    for leg in sorted(legs, key=lambda leg: (leg.placed, leg.left)):
        latest = leg.left if leg.began is None else leg.began
        placed = max(leg.placed, min(free.get(leg.slot, leg.placed), latest)) if leg.slot else leg.placed
        free[leg.slot] = max(free.get(leg.slot, leg.left), leg.left)
        found.append(replace(leg, placed=placed))
    return found


def _parts(leg: Leg, follows: Leg | None, usual: Outcome) -> Iterator[tuple[Outcome, float, float]]:
    """The leg's time, as outcome, start and end. follows: the trial's next leg."""
    began = min(max(leg.placed, leg.left if leg.began is None else leg.began), max(leg.placed, leg.left))
    share = _kept(leg, follows)
    fails = began + (leg.left - began) * share
    yield "lost" if leg.died else usual, leg.placed, began
    yield usual, began, fails
    yield "lost", fails, leg.left


def _kept(leg: Leg, follows: Leg | None) -> float:
    """The part of the leg's steps that need not be trained again, from 0 to 1."""
    steps = leg.step - leg.start
    if follows is not None:
        after = follows.start
    elif leg.died:
        after = leg.start if leg.saved is None else leg.saved
    else:
        after = leg.step
    if steps <= 0:
        return 0.0 if leg.died else 1.0
    return min(max(0.0, (after - leg.start) / steps), 1.0)


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def usage(since: datetime, now: datetime, stores: Iterable[Path] | None = None) -> Usage:
    """The usage from ``since`` to ``now`` (aware times) in the stores in these folders; None: all of this user's.

    Imported experiments that are not trusted are left out: they trained elsewhere. An experiment that is in two stores,
    since one is a copy of the other, counts in the first.
    """
    rows: list[Row] = []
    unread: list[Unread] = []
    counted: set[str] = set()
    for root in ownership.known() if stores is None else stores:
        store = Store(root)
        try:
            user = person(os.stat(root).st_uid)
            entries = [entry for entry in read_catalog(store) if entry["id"] not in counted]
            labels = {entry["id"]: _label(entry) for entry in entries if _may_have_trained(store, entry, since)}
        except (WorkbenchError, OSError, KeyError, TypeError, ValueError) as error:
            unread.append(Unread(root, None, str(error)))
            continue
        counted |= labels.keys()
        legs: list[Leg] = []
        states: dict[tuple[str, int], str] = {}
        for one in list(labels):
            try:
                its, of = _read(store, one, now.timestamp())
            except LookupError:
                continue  # no leg of it has been started
            except (WorkbenchError, OSError, ValueError, TypeError, KeyError) as error:
                unread.append(Unread(root, labels[one], str(error)))
                continue
            legs += its
            states |= of
        spent = seconds(legs, states, since.timestamp(), now.timestamp())
        order = sorted(spent, key=lambda key: (labels[key[0]], OUTCOMES.index(key[1])))
        rows += (Row(user, root, labels[key[0]], key[1], spent[key]) for key in order)
    return Usage(since, now, tuple(rows), tuple(unread))


def _may_have_trained(store: Store, entry: Mapping[str, Any], since: datetime) -> bool:
    ended = _time(entry.get("ended")) if entry.get("state") in ENDED else None
    is_recent = ended is None or ended >= since.timestamp()
    return is_recent and not store.experiment(entry["id"]).foreign.exists()


def _label(entry: Mapping[str, Any]) -> str:
    return str(entry.get("label") or f"{entry.get('name')}@{entry.get('version')}")


def _read(store: Store, experiment: str, now: float) -> tuple[list[Leg], dict[tuple[str, int], str]]:
    """The legs of an experiment, and the states of its trials. Raises NotFound if it has no series yet."""
    trains = Around.of(store).alive or bool(own_cluster.trains_on(store.root))
    with Series.read(store.experiment(experiment).series) as series:
        trials = {row["number"]: row for row in series.trials()}
        rows = [row for row in series.legs() if _time(row.get("started")) is not None]
        goal = (series.meta().get("goal") or {}).get("metric")

        def reports(trial: int) -> list[tuple[float, int]]:
            points = series.points([trial], None if goal is None else [goal])
            return [(at, step) for _, _, step, index, _, at in points if index == 0]

        legs = []
        for row, follows in zip(rows, [*rows[1:], None], strict=False):  # the None is one too many if there are no rows
            is_newest = follows is None or follows["trial"] != row["trial"]
            before = now if is_newest or follows is None else _time(follows["started"]) or now
            goes_on = trains and is_newest and _is_under_way(row, trials.get(row["trial"], {}))
            legs.append(_leg(experiment, row, now, goes_on, before, reports))
    return legs, {(experiment, number): str(row.get("state")) for number, row in trials.items()}


def _is_under_way(row: Mapping[str, Any], trial: Mapping[str, Any]) -> bool:
    """Whether the newest leg of a trial may still train. Of one that waits for a slot, only the trial tells."""
    return trial.get("attempt", row["attempt"]) == row["attempt"] and trial.get("state") not in (*ENDED, "paused")


def _leg(
    experiment: str,
    row: Mapping[str, Any],
    now: float,
    goes_on: bool,
    before: float,
    reports: Callable[[int], Sequence[tuple[float, int]]],
) -> Leg:
    """The leg of a row of the series.

    goes_on: whether it trains unless its end is recorded. before: when the trial's next leg was placed. reports: times
    and steps of a trial's reports, for a leg whose end is not recorded.
    """
    placed, left = _time(row["started"]) or 0.0, _time(row.get("ended"))
    began, start = row.get("began"), int(row.get("start") or 0)
    step = row.get("step")
    died = row.get("outcome") in _DIED
    if left is not None:
        left = placed if left > now + _SKEW_S else left
    elif goes_on:
        left = now
    else:
        died = True
        told = [one for one in reports(row["trial"]) if placed <= one[0] <= before]
        left = max([placed, *([began] if began else []), *(at for at, _ in told)])
        step = max((step for _, step in told), default=start)
    saved, parts = row.get("checkpoint"), int(row.get("parts") or 1)
    return Leg(
        experiment=experiment,
        trial=row["trial"],
        attempt=row["attempt"],
        slot=row.get("slot") or "" if parts == 1 else "",
        placed=placed,
        began=began,
        left=left,
        start=start,
        step=start if step is None else int(step),
        died=died,
        saved=None if saved is None else int(saved),
        slots=slots_of_row(row) / parts,
    )


def _time(text: Any) -> float | None:
    """Seconds since 1970; None for anything but a time in ISO 8601."""
    with contextlib.suppress(ValueError, TypeError):
        return datetime.fromisoformat(text).timestamp()
    return None
