"""The results of an experiment, as tables and words. Law: a column or a line appears only if it is informative."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.errors import BadOption, Broken
from workbench.experiment.trial import Trial, table
from workbench.records.names import column_of, trial_label
from workbench.records.texts import escaped
from workbench.search.members import members_of
from workbench.space import Space
from workbench.status.board import Board, duration, number
from workbench.store import Store
from workbench.store.lists import system
from workbench.store.lists.levels import levels
from workbench.store.lists.measures import measures

if TYPE_CHECKING:
    import pandas as pd


#: Durations in seconds, the size of checkpoints in bytes, the slot of the newest leg.
_MEASURED = ("duration", "slot_time", "setup_time", "bytes", "slot")
#: The best value of the goal, and the first step with it.
_BEST = ("best", "best_step")
#: The other columns that the user has not named.
_SHOWN = ("trial", "state", "step", "mean", "deviation", "inexact", "reason")
#: These, and those that only the panel's table has.
_OWN = (*_SHOWN, "bracket", "level", "restarts", "started", "ended")
#: The columns of the configurations' table besides their hyperparameters.
_COMPARED = ("configuration", "step", "mean", "deviation", "trials")


def trials(board: Board) -> pd.DataFrame:
    """The trials, best first as the search ranks them, with all metrics, durations (seconds), and the checkpoints' size
    (bytes).

    ``loss`` is the last value of a metric, ``loss.low`` and ``loss.high`` are its smallest and largest one, and
    ``loss.at_best`` is its value at ``best_step``, where the goal was ``best``. A metric with the name of another
    column is ``metric.…``, a measure with the name of a hyperparameter ``trial.…``, and a hyperparameter with the
    name of the goal or of another column ``configuration.…``. For trials that resumed inexactly, ``inexact`` names what
    they lost. ``system/cpu`` (cores) and ``system/waits`` (share of the time in which the loop waited for data) are
    means over a trial's time, ``system/memory`` (bytes) is its peak; ``Trial.system`` has them over time. Whole numbers
    stay whole beside missing ones: such a column is of pandas' type ``Int64``.
    """
    metric = column_of("metric", board.spec.goal.metric, _SHOWN)
    parameters = _parameters(board.parameters, {*_SHOWN, metric})
    taken = {*_OWN, metric, *parameters.values()}
    measured = _measured(board, taken)
    lost = ["inexact"] if any(row.get("inexact") for row in board.trials.values()) else []
    several = ["mean", "deviation"] if any(row.get("mean") is not None for row in board.trials.values()) else []
    rows = [
        {
            "trial": trial_label(row["number"]),
            "state": row["state"],
            "step": row["step"],
            metric: row["value"],
            **{name: row.get(name) for name in several},
            **_some(row.get("configuration"), parameters),
            **{name: ", ".join(one["name"] for one in row.get(name) or ()) for name in lost},
            **measured.get(row["number"], {}),
            "reason": row["reason"],
        }
        for row in board.ranked()
    ]
    more = [name for name in _names(measured) if any(row.get(name) is not None for row in measured.values())]
    columns = ["trial", "state", "step", metric, *several, *parameters.values(), *lost, *more, "reason"]
    return _frame(rows, list(dict.fromkeys(columns)))


def _measured(board: Board, taken: Collection[str]) -> dict[int, dict[str, Any]]:
    """What was measured of each trial, by the name of its column; ``taken`` are the names of other columns."""
    goal, paths = board.spec.goal, board.store.experiment(board.spec.id)
    try:
        _, found = measures(paths, goal)
    except Broken:  # the engine rebuilds the series
        return {}
    rows, reported = {}, {name for one in found for name in one.metrics}
    for one in found:
        row: dict[str, Any] = {column_of("trial", name, taken): getattr(one, name) for name in _BEST}
        for name, metric in one.metrics.items():
            if name != goal.metric:
                own = column_of("metric", name, {*taken, *_BEST, *_MEASURED})
                row |= {own: metric.last, f"{own}.low": metric.low, f"{own}.high": metric.high}
                row[f"{own}.at_best"] = metric.at_best
        rows[one.trial] = row | {column_of("trial", name, taken): getattr(one, name) for name in _MEASURED}
        rows[one.trial] |= {
            column_of("trial", f"{system.GROUP}/{name}", {*taken, *reported}): used for name, used in one.system.items()
        }
    return rows


def _parameters(names: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """The column of each hyperparameter, by its name; ``taken`` are the names of other columns."""
    return {name: column_of("configuration", name, taken) for name in names}


def _names(rows: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """The columns of these rows: those of one metric together, durations last."""
    found = dict.fromkeys(name for row in rows.values() for name in row)
    measured = {*_MEASURED, *system.COLUMNS}
    last = [name for name in found if name.removeprefix("trial.") in measured]
    return [*(name for name in found if name not in last), *last]


def configurations(board: Board) -> pd.DataFrame:
    """The configurations, best mean first: their trials, the step at which these are compared, and the mean and the
    sample standard deviation of the goal there."""
    members, repeated = members_of(board.spec), Space.from_json(board.spec.space).repeated
    names = _parameters([name for name in board.parameters if name not in repeated], _COMPARED)
    firsts: dict[int, dict[str, Any]] = {}
    for row in board.ranked():
        firsts.setdefault(members.group(row["number"]), row)
    rows = []
    for group, first in firsts.items():
        mean, step = (first.get("mean"), first.get("compared")) if members.count > 1 else _alone(first)
        trials = [trial_label(number) for number in members.trials(group) if number in board.trials]
        values = {"step": step, "mean": mean, "deviation": first.get("deviation"), "trials": " ".join(trials)}
        rows.append({"configuration": group, **values, **_some(first.get("configuration"), names)})
    return _frame(rows, [*_COMPARED, *names.values()])


def _alone(row: Mapping[str, Any]) -> tuple[float | None, int | None]:
    value = row.get("value")
    return (None, None) if value is None or not math.isfinite(value) else (value, row["step"])


def _some(configuration: Mapping[str, Any] | None, names: Mapping[str, str]) -> dict[str, Any]:
    """The values of hyperparameters by the name of their column."""
    return {column: (configuration or {}).get(name) for name, column in names.items()}


def at_level(board: Board, level: int | None) -> pd.DataFrame:
    """The trials with a finite value of the goal at a level (None: the highest with any), best first: the value and
    the configuration. Raises BadOption if the search has no such level."""
    found = {one.step: one.values for one in levels(board.store, board.spec.id)}
    if level is not None and level not in found:
        raise BadOption(
            f"at_level({level!r}): expected one of {', '.join(map(str, found)) or 'the levels of a search'}."
        )
    reached = [step for step, values in found.items() if values]
    step = level if level is not None else reached[-1] if reached else None
    values = found[step] if step is not None else {}
    goal = board.spec.goal
    parameters = _parameters(board.parameters, ("trial", goal.metric))
    sign = -1.0 if goal.mode == "max" else 1.0
    rows = [
        {"trial": trial_label(number), goal.metric: value, **_some(row.get("configuration"), parameters)}
        for number, value in sorted(values.items(), key=lambda one: (sign * one[1], one[0]))
        if (row := board.trials.get(number)) is not None
    ]
    columns = ["trial", goal.metric, *parameters.values()]
    return _frame(rows, columns)


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """These rows as a table, whose index is the first of ``columns``."""
    import pandas as pd

    found = {name: _exact([row.get(name) for row in rows]) for name in columns}
    return pd.DataFrame(found, columns=columns).set_index(columns[0])


def _exact(values: list[Any]) -> Any:
    """The values of a column. Beside a missing one, pandas would make whole numbers floats: 7 a 7.0, and 2**53 + 1
    another number."""
    import pandas as pd

    values = escaped(values)  # pandas holds UTF-8 only
    there = [value for value in values if value is not None]
    if not there or len(there) == len(values) or any(type(value) is not int for value in there):
        return values
    fits = all(-(2**63) <= value < 2**63 for value in there)
    return pd.array(values, dtype="Int64" if fits else object)


def curves(found: Mapping[int, Mapping[int, float]]) -> pd.DataFrame:
    """Values of a metric by trial and step: a column for each trial, a row for each step."""
    import pandas as pd

    return pd.DataFrame({trial_label(n): pd.Series(c) for n, c in found.items()}).rename_axis("step").sort_index()


def absent(store: Store, experiment: str | None) -> str:
    """Why an experiment has no results, in words: it was not started (None), or was deleted. Empty if it is there."""
    if experiment is None:
        return "not started"
    return "" if store.experiment(experiment).spec.exists() else "deleted"


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
    return table(board.label, facts, " · ".join(board.notes))


def why_it_failed(label: str, reason: str, failed: Trial | None) -> str:
    """Why an experiment failed, in words; with the error of the first failed trial, if there is one."""
    words = f"{label} failed: {reason or 'no trial completed'}."
    return words if failed is None else f"{words}\n\n{failed.label}: {failed.error or failed.reason}"
