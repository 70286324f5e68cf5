"""The results of an experiment, as tables and words. Law: a column or a line appears only if it is informative."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from workbench.experiment.trial import table
from workbench.records.names import trial_label
from workbench.search.members import members_of
from workbench.space import Space
from workbench.status.board import Board, diverged, duration, number

if TYPE_CHECKING:
    import pandas as pd


def trials(board: Board) -> pd.DataFrame:
    """The trials, best first. For trials that resumed inexactly, ``inexact`` names what they lost."""
    import pandas as pd

    metric = board.spec.goal.metric
    lost = ["inexact"] if any(row.get("inexact") for row in board.trials.values()) else []
    several = ["mean", "deviation"] if any(row.get("mean") is not None for row in board.trials.values()) else []
    rows = [
        {
            "trial": trial_label(row["number"]),
            "state": row["state"],
            "step": row["step"],
            metric: row["value"],
            **{name: row.get(name) for name in several},
            **(row.get("configuration") or {}),
            **{name: ", ".join(one["name"] for one in row.get(name) or ()) for name in lost},
            "reason": row["reason"],
        }
        for row in board.ranked()
    ]
    columns = ["trial", "state", "step", metric, *several, *board.parameters, *lost, "reason"]
    return pd.DataFrame(rows, columns=list(dict.fromkeys(columns))).set_index("trial")


def configurations(board: Board) -> pd.DataFrame:
    """The configurations, best mean first: their trials, the step at which these are compared, and the mean and the
    sample standard deviation of the goal there."""
    import pandas as pd

    members, repeated = members_of(board.spec), Space.from_json(board.spec.space).repeated
    sign = -1.0 if board.spec.goal.mode == "max" else 1.0
    names = [name for name in board.parameters if name not in repeated]
    rows = []
    for first in {members.group(n): row for n, row in sorted(board.trials.items(), reverse=True)}.values():
        group = members.group(first["number"])
        mean, step = (first.get("mean"), first.get("compared")) if members.count > 1 else _alone(first)
        trials = [trial_label(number) for number in members.trials(group) if number in board.trials]
        values = {"step": step, "mean": mean, "deviation": first.get("deviation"), "trials": " ".join(trials)}
        rank = (mean is None, -(step or 0), 0.0 if mean is None else sign * mean, group)
        rows.append((rank, {"configuration": group, **values, **_some(first.get("configuration"), names)}))
    columns = ["configuration", "step", "mean", "deviation", "trials", *names]
    return pd.DataFrame([row for _, row in sorted(rows, key=itemgetter(0))], columns=columns).set_index("configuration")


def _alone(row: Mapping[str, Any]) -> tuple[float | None, int | None]:
    value = row.get("value")
    return (None, None) if value is None or not math.isfinite(value) else (value, row["step"])


def _some(configuration: Mapping[str, Any] | None, names: Sequence[str]) -> dict[str, Any]:
    return {name: (configuration or {}).get(name) for name in names}


def curves(found: Mapping[int, Mapping[int, float]]) -> pd.DataFrame:
    """Values of a metric by trial and step: a column for each trial, a row for each step."""
    import pandas as pd

    return pd.DataFrame({trial_label(n): pd.Series(c) for n, c in found.items()}).rename_axis("step").sort_index()


def summary(board: Board) -> str:
    """Its state, as HTML."""
    status = board.status
    facts = [("state", status.state), ("trials", f"{status.progress.ended} of {status.progress.of}")]
    if status.best is not None:
        best = status.best
        facts.append((f"best {board.spec.goal.metric}", f"{best.words(number)} ({trial_label(best.trial)})"))
    if board.diverged_trials:
        facts.append(("diverged", str(board.diverged_trials)))
    if board.seconds is not None:
        facts.append(("time", duration(board.seconds)))
    return table(board.spec.label, facts, " · ".join(board.notes))


def why_none_is_best(board: Board) -> str:
    """Why no trial is the best one yet, in words."""
    spec, label, metric = board.spec, board.spec.label, board.spec.goal.metric
    if board.diverged_trials:
        return (
            f"{label} has no best trial: none reported a finite {metric}, {diverged(board)}. "
            f"{label} as a table is exp.trials; one trial is exp['t0000']."
        )
    first = spec.base + spec.scheduler.first
    return f"{label} has no best trial yet: none has reported {metric} at step {first} or later."
