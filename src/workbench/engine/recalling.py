"""Recovers an experiment's loop from its journal. Law: it continues from what is on disk, and from nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.cluster.backend import Survivor
from workbench.engine.legs.leg import Leg, started
from workbench.engine.tending.installed import ACCEPTED
from workbench.errors import Unreadable
from workbench.facts import Ended, Extended, Fact, Finish, Left, Reached, Rest, Run, Settle, fact_from_line
from workbench.records import ENDED
from workbench.store.journal import OWN
from workbench.store.recalled import check_order, nonsense

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop

_Rows: TypeAlias = Mapping[tuple[int, int], dict[str, Any]]


def recover(loop: ExperimentLoop, lines: list[dict[str, Any]]) -> None:
    """Read these lines again, and start the legs that should run. Raises Unreadable."""
    if not lines:
        loop.journal.append({"kind": "Began", "experiment": loop.spec.id, "label": loop.spec.label})
    read_again(loop, lines)
    is_lost = loop.loss.look(lines)
    if is_lost:
        show_again(loop, lines)
    loop.shown.put_planned()
    loop.shown.recall(loop.series)
    loop.teller.recall_points()
    rows = {(leg["trial"], leg["attempt"]): leg for leg in loop.series.legs()}
    attempts = loop.legbook.attempts
    for trial, attempt in rows:  # a journal that lost its end must not give an attempt number twice
        attempts[trial] = max(attempt, attempts.get(trial, 0))
    saved = (leg["detail"].get("saved") or {} for leg in rows.values() if leg.get("detail"))
    loop.legbook.largest = max((one.get("bytes", 0) for one in saved), default=0)
    if not loop.finished.is_set() or loop.series.missing or is_lost or loop.teller.is_pending:
        for number in loop.search.trials:
            loop.hearing.put_trial(number)
    for number in loop.search.leaving:
        loop.tell(Left(number))  # it was told to leave, and the process that trained it is gone
    _go_on(loop, rows)


def _go_on(loop: ExperimentLoop, rows: _Rows) -> None:
    """Adopt the legs that still train since an earlier engine, and restart the others. rows: the legs in the series."""
    outstanding = loop.search.outstanding()
    adopted = {order.trial: one for order in outstanding if (one := _adopted(loop, order, rows)) is not None}
    why = "the engine started again: "
    legs = [loop.legbook.ordered(order, why) for order in outstanding if order.trial not in adopted]
    at = loop.now()
    if legs:
        loop.begin(at)
    for leg in legs:
        loop.journal.append(started(leg), at)
    loop.journal.commit()
    for leg in legs:
        loop.slots.dispatch(loop, leg)
    loop.drop_checks()
    for leg, survivor in adopted.values():
        loop.slots.adopt(loop, leg, survivor)
        if loop.legbook.legs.get(leg.trial) is leg:  # otherwise it has left meanwhile
            leg.step = max(leg.step, *leg.known, leg.start)
            loop.hearing.put_trial(leg.trial, leg.reason)


def _adopted(loop: ExperimentLoop, order: Run, rows: _Rows) -> tuple[Leg, Survivor] | None:
    """The leg of ``order`` that still trains since an earlier engine; None if it must restart.

    Only the newest attempt counts, and only if it trains what this search needs.
    """
    attempt = loop.legbook.begun.get(order.trial, 0)
    found = loop.slots.survivor(loop.spec.id, order.trial, attempt)
    if found is None or found.story.until != loop.legbook.until(order, found.story.start):
        return None
    row, now = rows.get((order.trial, attempt), {}), time.monotonic()
    loop.shown.first_leg_at = loop.shown.first_leg_at or now
    known = loop.hearing.heard_before(order.trial, row.get("began"))
    return loop.legbook.adopted(order, found, row, known, now), found


def show_again(loop: ExperimentLoop, lines: Iterable[dict[str, Any]]) -> None:
    """Write to a rebuilt series what the journal knows besides trials, legs and points."""
    loop.verification.put_back()
    loop.teller.put_back()
    for line in lines:
        if line["kind"] == "Concluded":
            loop.conclusion = {key: value for key, value in line.items() if key not in (*OWN, "kind")}
    for key, found in loop.conclusion.items():
        loop.series.put_meta(key, found)


async def mend(loop: ExperimentLoop, broken: Path | None) -> None:
    """Restore the series, whose broken file was moved to ``broken``."""
    lines = await asyncio.get_running_loop().run_in_executor(None, loop.loss.put_back, broken)
    show_again(loop, lines)
    loop.shown.put_planned()
    for number in loop.search.trials:
        loop.hearing.put_trial(number)
    for leg in loop.legbook.legs.values():
        loop.hearing.put_leg(leg)


def read_again(loop: ExperimentLoop, lines: Iterable[dict[str, Any]]) -> None:
    """Read these lines again. Raises Unreadable for one that is not valid after those before it."""
    for line in lines:
        try:
            _recall(loop, line)
            check_order(loop.paths, line, loop.search.trials)
        except Unreadable:
            raise
        except Exception as error:
            raise nonsense(loop.paths, line, repr(error)[:200]) from error


def _recall(loop: ExperimentLoop, line: dict[str, Any]) -> None:
    loop.retainer.take(line, line["n"])
    fact = fact_from_line(line)
    if fact is not None:
        _fact(loop, fact, line["at"])
    elif loop.legbook.recall(line):
        if line["kind"] == "LegStarted":
            loop.begin(line["at"])
    elif loop.teller.recall(line):
        pass
    elif line["kind"] == ACCEPTED:
        loop.installed.recall(line)
    else:
        loop.verification.recall(line)


def _fact(loop: ExperimentLoop, fact: Fact, at: str) -> None:
    if isinstance(fact, Reached | Ended):
        loop.legbook.probed = True
        loop.shown.know(fact.trial, fact.step, fact.value)
    loop.note_wish(fact, at)
    if isinstance(fact, Extended):
        loop.reopen()
    for instruction in loop.search.handle(fact):
        if isinstance(instruction, Finish):
            loop.end(instruction, at)
        elif isinstance(instruction, Rest):
            loop.note_wish(instruction, at)
        elif isinstance(instruction, Settle) and instruction.state in ENDED:
            loop.shown.ended[instruction.trial] = at
        elif isinstance(instruction, Settle | Run):
            loop.shown.ended.pop(instruction.trial, None)
    if isinstance(fact, Extended):
        loop.was_extended(fact, at)
