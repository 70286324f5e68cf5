"""The results of both sides, and the first step at which they differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from workbench.compare.bests import Chosen, chosen, compared_by, selection
from workbench.compare.noise import within_noise
from workbench.compare.sections.curves import curve, curves, goal_value, last, parts_at
from workbench.compare.sides import Side
from workbench.records import Json

#: More pairs than this are compared by the goal's metric only.
_MANY = 200


def results(a: Side, b: Side) -> dict[str, Json]:
    """Metrics with the first step at which they differ; for experiments also their trials of equal configuration.

    ``bests``: the compared trials, the best one if none was named. ``selection``: how they were chosen. The goal's
    values are those of the trials, or the means of their configurations if both were trained several times.
    """
    goal = b.spec.goal
    names = [*dict.fromkeys([goal.metric, *a.metrics, *b.metrics])]
    one, other = chosen(a), chosen(b)
    found: dict[str, Json] = {
        "goal": {"metric": goal.metric, "mode": goal.mode},
        "bests": [None if best is None else best.to_json() for best in (one, other)],
        "selection": selection(a, b, one, other),
        "within_noise": within_noise(a, b, one, other),
        "pairs": [],
    }
    if a.trial is not None and b.trial is not None:
        found["metrics"] = _of_trials(a, b, names)
    else:
        pairs = paired(a, b)
        found["pairs"] = _pairs(a, b, pairs)
        found["metrics"] = _of_pairs(a, b, (one, other), pairs, names)
    return found


def _of_trials(a: Side, b: Side, names: Iterable[str]) -> list[dict[str, Json]]:
    found = []
    for name in names:
        one, other = curve(a, a.trial, name), curve(b, b.trial, name)
        if one or other:
            found.append({"name": name, "a": last(one), "b": last(other), "parts_at": parts_at(one, other)})
    return found


def paired(a: Side, b: Side) -> list[tuple[int, int]]:
    """Trials of equal configuration, each once, older first."""
    waiting: dict[str, list[int]] = {}
    for number, row in sorted(b.trials.items()):
        if b.trial is None or b.trial == number:
            waiting.setdefault(_key(row), []).append(number)
    found = []
    for number, row in sorted(a.trials.items()):
        twins = waiting.get(_key(row)) if a.trial is None or a.trial == number else None
        if twins:
            found.append((number, twins.pop(0)))
    return found


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps(row.get("configuration") or {}, sort_keys=True, default=str)


def _pairs(a: Side, b: Side, pairs: list[tuple[int, int]]) -> list[dict[str, Json]]:
    metric = b.spec.goal.metric
    one, other = (curves(side, metric) for side in (a, b))
    return [
        {
            "configuration": a.trials[left].get("configuration") or {},
            "a": left,
            "b": right,
            "value_a": goal_value(a, left),
            "value_b": goal_value(b, right),
            "parts_at": parts_at(one.get(left, {}), other.get(right, {})),
        }
        for left, right in pairs
    ]


def _of_pairs(
    a: Side, b: Side, bests: tuple[Chosen | None, Chosen | None], pairs: list[tuple[int, int]], names: list[str]
) -> list[dict[str, Json]]:
    found = []
    for name in names if len(pairs) <= _MANY else names[:1]:
        one, other = (curves(side, name) for side in (a, b))
        steps = [parts_at(one.get(left, {}), other.get(right, {})) for left, right in pairs]
        known = [step for step in steps if step is not None]
        by_goal = compared_by(*bests)
        ends = [
            value if name == side.spec.goal.metric else None if best is None else last(told.get(best.trial, {}))
            for side, best, told, value in zip((a, b), bests, (one, other), by_goal, strict=True)
        ]
        found.append({"name": name, "a": ends[0], "b": ends[1], "parts_at": min(known, default=None)})
    return found
