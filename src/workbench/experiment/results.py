"""The results of an experiment, as tables and words. Law: a column or a line appears only if it is informative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.experiment.trial import table
from workbench.records.names import trial_label
from workbench.status.board import Board, diverged, duration, number

if TYPE_CHECKING:
    import pandas as pd


def trials(board: Board) -> pd.DataFrame:
    """The trials, best first. For trials that resumed inexactly, ``inexact`` names what they lost."""
    import pandas as pd

    metric = board.spec.goal.metric
    lost = ["inexact"] if any(row.get("inexact") for row in board.trials.values()) else []
    rows = [
        {
            "trial": trial_label(row["number"]),
            "state": row["state"],
            "step": row["step"],
            metric: row["value"],
            **(row.get("configuration") or {}),
            **{name: ", ".join(one["name"] for one in row.get(name) or ()) for name in lost},
            "reason": row["reason"],
        }
        for row in board.ranked()
    ]
    columns = ["trial", "state", "step", metric, *board.parameters, *lost, "reason"]
    return pd.DataFrame(rows, columns=list(dict.fromkeys(columns))).set_index("trial")


def curves(found: Mapping[int, Mapping[int, float]]) -> pd.DataFrame:
    """Values of a metric by trial and step: a column for each trial, a row for each step."""
    import pandas as pd

    return pd.DataFrame({trial_label(n): pd.Series(c) for n, c in found.items()}).rename_axis("step").sort_index()


def summary(board: Board) -> str:
    """Its state, as HTML."""
    status = board.status
    facts = [("state", status.state), ("trials", f"{status.progress.ended} of {status.progress.of}")]
    if status.best is not None:
        trial, value = status.best
        facts.append((f"best {board.spec.goal.metric}", f"{number(value)} ({trial_label(trial)})"))
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
