"""Restoring a lost series from other files. Law: it reads; only times between known moments are estimated.

Levels are in the journal, with the goal's value at each. Reports of all metrics are in the newest checkpoint of each
trial, up to its step. Points logged inside steps are not kept elsewhere.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from workbench.records import Goal, Json, value_of
from workbench.store.keeping.checkpoints import Checkpoint, Checkpoints
from workbench.store.layout import ExperimentPaths
from workbench.store.series import Point, Series

#: The kind of the journal's line about a lost series, and the name of that fact in the series.
LINE, FACT = "SeriesLost", "lost"
#: Returns a trial's reports from a checkpoint: metrics by step. It may raise anything for a damaged one.
Reports = Callable[[Checkpoint], Mapping[int, Mapping[str, float]]]


@dataclass(slots=True)
class Known:
    """The curves and legs of an experiment according to its journal."""

    goal: Goal
    #: Trial, step, value and time (as in the journal) of each reported level, in the journal's order.
    levels: list[tuple[int, int, float | None, str]] = field(default_factory=list)
    #: The highest step of each trial.
    steps: dict[int, int] = field(default_factory=dict)
    #: Legs by trial and attempt, as the series keeps them.
    legs: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    #: For each trial, steps and when they were reached, as in the journal.
    times: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    #: The newest message about curves that were lost before.
    lost: dict[str, Json] | None = None

    def take(self, line: Mapping[str, Any]) -> None:
        """Read one line of the journal; lines about something else change nothing."""
        kind = line.get("kind")
        if kind in ("Reached", "Ended") or (kind == "Saved" and "value" in line):
            trial, step, at = line["trial"], line["step"], str(line.get("at"))
            self.levels.append((trial, step, value_of(line["value"]), at))
            self._reached(trial, step, at)
        elif kind == "LegStarted":
            start = int(line.get("start") or 0)
            self.legs[line["trial"], line["attempt"]] = {
                "start": start, "until": line.get("until"), "started": line.get("at"),
            }  # fmt: skip
            self.times.setdefault(line["trial"], []).append((start, str(line.get("at"))))
        elif kind == "LegSized":
            self.legs.setdefault((line["trial"], line["attempt"]), {})["slots"] = line["slots"]
        elif kind == "LegLeft":
            leg = self.legs.setdefault((line["trial"], line["attempt"]), {})
            leg |= {"ended": line.get("at"), "outcome": line.get("outcome"), "reason": line.get("reason")}
            if line.get("step") is not None:
                leg["step"] = line["step"]
                self._reached(line["trial"], line["step"], str(line.get("at")))
        elif kind == LINE:
            self.lost = {name: line.get(name) for name in ("before", "points", "put_back", "sources", "file")}

    def _reached(self, trial: int, step: int, at: str) -> None:
        self.steps[trial] = max(step, self.steps.get(trial, 0))
        self.times.setdefault(trial, []).append((step, at))

    @classmethod
    def of(cls, goal: Goal, lines: Iterable[Mapping[str, Any]]) -> Known:
        """The facts of these lines."""
        known = cls(goal)
        for line in lines:
            known.take(line)
        return known

    def lacking(self, series: Series) -> int:
        """How many levels of the journal the series lacks: 0 for a complete one."""
        return series.lacking(
            self.goal.metric, ((trial, step, value) for trial, step, value, _ in self.levels if value is not None)
        )

    def time_of(self, trial: int, step: int) -> float:
        """The approximate time of a trial's step, interpolated between the journal's times."""
        anchors = sorted((at, _seconds(told)) for at, told in self.times.get(trial) or [(0, "")])
        after = bisect.bisect_left(anchors, (step, 0.0))
        if after == len(anchors):
            return anchors[-1][1]
        if after == 0 or anchors[after][0] == step:
            return anchors[after][1]
        (one, begun), (other, ended) = anchors[after - 1], anchors[after]
        return begun + (ended - begun) * (step - one) / (other - one)


def put_back(series: Series, known: Known, paths: ExperimentPaths, reports: Reports, base: int = 0) -> dict[str, Json]:
    """Write the points and legs of journal and checkpoints into ``series``, with the message about the loss.

    base: the step at which the trials started. It reads checkpoints, so it is called in a thread, or before anything
    runs. Existing points of the series are unchanged.
    """
    metric = known.goal.metric
    points: dict[tuple[int, str, int], Point] = {}
    for trial, step, value, at in known.levels:
        if value is not None:
            points[trial, metric, step] = (trial, metric, step, 0, value, _seconds(at))
    told = len(points)
    for trial in sorted(known.steps):
        for step, row in sorted(_reports(paths, trial, reports).items()):
            for name, value in row.items():
                points[trial, name, step] = (trial, name, step, 0, float(value), known.time_of(trial, step))
    there = {(trial, name, step) for trial, name, step, index, _, _ in series.points() if index == 0}
    series.add_points([point for key, point in sorted(points.items()) if key not in there])
    for (trial, attempt), fields in sorted(known.legs.items()):
        series.put_leg(trial, attempt, **fields)
    goals = {(trial, step) for trial, name, step in {*points, *there} if name == metric}
    sources = ["the journal"] * bool(told) + ["checkpoints"] * (len(points) > told)
    return {
        "points": max(sum(max(0, step - base) for step in known.steps.values()), len(goals)),
        "put_back": len(goals),
        "sources": sources,
    }


def _reports(paths: ExperimentPaths, trial: int, reports: Reports) -> dict[int, Mapping[str, float]]:
    """A trial's reports according to its newest readable checkpoint."""
    places = paths.trial(trial)
    kept = [*Checkpoints(places).all(), *Checkpoints(places.passing).all()]
    for checkpoint in sorted(kept, key=lambda one: one.step, reverse=True):
        try:
            return {int(step): dict(row) for step, row in reports(checkpoint).items()}
        except Exception:  # noqa: S112 - a damaged one may raise anything, and an older one may be readable
            continue
    return {}


def _seconds(at: str) -> float:
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0
