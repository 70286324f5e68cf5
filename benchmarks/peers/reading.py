"""What the lines of one run say. Law: times are differences of ``time.time()`` of this machine; nothing is run here."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.peers.work import LEVELS, WORKERS, R

Lines = list[dict[str, Any]]
#: The values of one run, by name: ``ms``, ``s``, ``steps``, ``too_many``, ``twice``.
Values = dict[str, float]


def cost(lines: Lines, trials: int) -> Values:
    """Milliseconds a trial from the first report of any trial to the last, so that no start-up is in it, and steps."""
    reports = [one for one in _of(lines, trials) if one["kind"] == "report"]
    return {"ms": (reports[-1]["at"] - reports[0]["at"]) / trials * 1e3, "steps": len(reports)}


def first(lines: Lines, trials: int, launched: float) -> Values:
    """Seconds from the interpreter's launch to the first report."""
    return {"s": next(one["at"] for one in _of(lines, trials) if one["kind"] == "report") - launched}


def whole(lines: Lines, trials: int, launched: float) -> Values:
    """Seconds from the interpreter's launch to the end of the search, and to its first report; steps."""
    searched = next(one["at"] for one in lines if one["kind"] == "searched")
    steps = sum(one["kind"] == "report" for one in _of(lines, trials))
    return {"s": searched - launched, "first": first(lines, trials, launched)["s"], "steps": steps}


def stop(lines: Lines, trials: int) -> Values:
    """Milliseconds from the report that stopped a trial to the next trial's first line in its slot; steps after it.

    Medians over the stopped trials. A tool's processes come and go, so a slot has no number: each trial that begins
    takes the slot that has been free for longest. A trial's last level is where it was stopped.
    """
    freed = sorted(_ends(_of(lines, trials)))
    begins = [one["at"] for one in _of(lines, trials) if one["kind"] == "begin"][WORKERS:]
    waits, too_many = [], []
    for at in begins:
        if not freed or freed[0][0] > at:
            continue
        decided, steps, is_stop = freed.pop(0)
        if is_stop:
            waits.append((at - decided) * 1e3)
            too_many.append(steps)
    if not waits:
        raise ValueError("no trial was stopped")
    return {"ms": statistics.median(waits), "too_many": statistics.median(too_many), "most": max(too_many)}


def recovery(lines: Lines, trial: int, killed: float, pid: int) -> Values | None:
    """Seconds from the kill to the trial's first line in another process, and how many steps are trained twice.

    The step that was interrupted does not count; those of other trials whose state was lost do. None until the trial
    has got further than before.
    """
    before = {(one["trial"], one["step"]) for one in lines if one["kind"] == "report" and one["at"] <= killed}
    after = [one for one in lines if one["at"] > killed and one["pid"] != pid]
    own = [one for one in after if one["trial"] == trial]
    last = max(step for number, step in before if number == trial)
    if all(one["step"] <= last for one in own):
        return None
    twice = sum(one["kind"] == "report" and (one["trial"], one["step"]) in before for one in after)
    return {"s": own[0]["at"] - killed, "twice": twice}


def _of(lines: Lines, trials: int) -> Lines:
    """Lines of the configurations that were asked for: some tools begin others when these have run out."""
    return [one for one in lines if 0 <= one["trial"] < trials]


def _ends(lines: Lines) -> list[tuple[float, int, bool]]:
    """For each leg: when it was decided that it ends, the steps after that, and whether its trial was stopped there."""
    legs: dict[int, list[Lines]] = {}
    for one in lines:
        if one["kind"] == "begin":
            legs.setdefault(one["trial"], []).append([])
        elif one["kind"] == "report" and one["trial"] in legs:
            legs[one["trial"]][-1].append(one)
    found = []
    for leg in (leg for each in legs.values() for leg in each if leg):
        last = leg[-1]["step"]
        level = max((level for level in LEVELS if level <= last), default=last)
        decided = next((one["at"] for one in leg if one["step"] == level), leg[-1]["at"])
        found.append((decided, last - level, last < R))
    return found
