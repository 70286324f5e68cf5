"""Which hyperparameters matter at one level of a search, by three methods. Law: values count by rank, so that one trial
that exploded does not outweigh all others; where nothing can be predicted, no importance is given.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.compare.importance.columns import columns, varied
from workbench.errors import BadOption
from workbench.records import Json
from workbench.store import Store
from workbench.store.lists.levels import Level, levels, values_at
from workbench.store.series import Series

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEAST_TRIALS", "Importance", "Share", "importance"]

Array = Any  # of NumPy

#: The fewest trials with a finite value for an answer, and the number above which a sample suffices.
LEAST_TRIALS, MOST_TRIALS = 12, 2_000


@dataclass(frozen=True, slots=True)
class Share:
    """The importances of one hyperparameter. Those of one method add up to 1 over all hyperparameters.

    importance: how much worse held-out trials are predicted when its values are shuffled; std: the standard deviation.
    fanova: the share of the variance that it explains alone. ped_anova: how much its values in the best tenth of trials
    differ from those in all. The last two are None without Optuna.
    """

    name: str
    importance: float
    std: float
    fanova: float | None = None
    ped_anova: float | None = None


@dataclass(frozen=True, slots=True)
class Importance:
    """How much each hyperparameter matters for a metric at a level, from ``trials`` trials; the greatest first.

    quality: R² of predictions for held-out trials, 1 at best. signal: whether they beat chance; if not, there are no
    values. lacks: packages without which some methods are missing.
    """

    metric: str
    level: int
    trials: int
    quality: float
    signal: bool
    lacks: tuple[str, ...] = ()
    values: tuple[Share, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """The values as a table: a row for each hyperparameter, a column for each method."""
        import pandas as pd

        names = ["importance", "std", *(["fanova", "ped_anova"] if not self.lacks else [])]
        rows = [[getattr(one, name) for name in names] for one in self.values]
        return pd.DataFrame(
            rows, columns=names, index=pd.Index([one.name for one in self.values], name="hyperparameter")
        )

    def __str__(self) -> str:
        return f"{self._head}\n{self.table.round(3)}" if self.signal else self._head

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        head = f"<p>{escape(self._head)}</p>"
        return head + self.table.round(3).to_html() if self.signal else head

    @property
    def _head(self) -> str:
        of = f"{self.metric} at level {self.level}, {self.trials} trials"
        if not self.signal:
            return (
                f"{of}: no signal. Predictions for held-out trials are no better than chance, so no hyperparameter "
                "can be said to matter. More trials may show more."
            )
        said = f"{of}; R² on held-out trials {self.quality:.2f}"
        if self.lacks:
            said += f". fANOVA and PED-ANOVA need {' and '.join(self.lacks)}: pip install 'workbench[importance]'"
        return said


def importance(store: Store, experiment: str, metric: str | None = None, level: int | None = None) -> Importance:
    """The importances for ``metric`` (None: the goal) at ``level`` (None: the highest that enough trials reached).

    Raises BadOption if there are too few trials, no hyperparameter varies, the level is none, or scikit-learn is
    missing.
    """
    if find_spec("sklearn") is None:
        raise BadOption(
            f"Importance needs scikit-learn, which {sys.prefix} does not have. Run there: "
            "pip install 'workbench[importance]'."
        )
    spec = store.read_spec(experiment, viewing=True)
    metric = metric or spec.goal.metric
    found = {one.step: one for one in levels(store, experiment)}
    chosen = _chosen(found, level)
    values = chosen.values if metric == spec.goal.metric else values_at(store, experiment, metric, chosen)
    rows = _rows(store, experiment, values)
    if len(rows) < LEAST_TRIALS:
        have = "1 trial has" if len(rows) == 1 else f"{len(rows)} trials have"
        raise BadOption(
            f"{have} a finite {metric} at level {chosen.step}: importance needs {LEAST_TRIALS} or more. Choose a lower "
            "level, or train more trials."
        )
    names = varied([configuration for configuration, _ in rows])
    if not names:
        raise BadOption("All trials have the same configuration, so no hyperparameter can matter.")
    # Of a metric that is not the goal, the better direction is unknown: the greater one is taken.
    sign = -1.0 if metric == spec.goal.metric and spec.goal.mode == "min" else 1.0
    return _weighed(rows, names, _kinds(spec.space), sign, metric, chosen.step)


def _chosen(found: Mapping[int, Level], level: int | None) -> Level:
    if level is not None and level not in found:
        raise BadOption(f"level={level}: expected one of {', '.join(map(str, found)) or 'the levels of the search'}.")
    if level is not None:
        return found[level]
    enough = [one for one in found.values() if len(one.values) >= LEAST_TRIALS]
    # Without enough anywhere, the one that is nearest to it.
    most = max(found.values(), key=lambda one: (len(one.values), one.step), default=Level(0, {}))
    return enough[-1] if enough else most


def _rows(store: Store, experiment: str, values: Mapping[int, float]) -> list[tuple[Mapping[str, Json], float]]:
    """(configuration, value) of each trial with both, by number; an even sample if there are very many."""
    path = store.experiment(experiment).series
    if not path.exists():
        return []
    with Series.read(path) as series:
        trials = series.trials()
    rows = [
        (row["configuration"], values[row["number"]])
        for row in trials
        if row["number"] in values and row.get("configuration")
    ]
    if len(rows) > MOST_TRIALS:
        rows = [rows[place] for place in np.linspace(0, len(rows) - 1, MOST_TRIALS).astype(int)]
    return rows


def _kinds(space: Json) -> dict[str, str]:
    parameters = space.get("parameters") if isinstance(space, dict) else None
    return {str(one.get("name")): str(one.get("kind")) for one in parameters or () if isinstance(one, dict)}


def _weighed(
    rows: Sequence[tuple[Mapping[str, Json], float]],
    names: Sequence[str],
    kinds: Mapping[str, str],
    sign: float,
    metric: str,
    level: int,
) -> Importance:
    from workbench.compare.importance.forest import predicted

    configurations = [configuration for configuration, _ in rows]
    goal = _ranks(sign * np.array([value for _, value in rows]))
    forest = predicted([columns(configurations, name, kinds.get(name, "")) for name in names], goal)
    told = Importance(metric, level, len(rows), round(forest.quality, 6), forest.signal)
    lacks = () if find_spec("optuna") is not None else ("Optuna",)
    if not forest.signal:
        return told
    fanova: Mapping[str, float] = {}
    ped_anova: Mapping[str, float] = {}
    if not lacks:
        from workbench.compare.importance.evaluators import evaluated

        fanova, ped_anova = evaluated(configurations, goal.tolist(), names, kinds)
    values = [
        Share(name, round(mean, 6), round(deviation, 6), _rounded(fanova, name), _rounded(ped_anova, name))
        for name, mean, deviation in zip(names, forest.means, forest.deviations, strict=True)
    ]
    values.sort(key=lambda one: -one.importance)
    return Importance(metric, level, len(rows), told.quality, True, lacks, tuple(values))


def _rounded(shares: Mapping[str, float], name: str) -> float | None:
    return round(shares[name], 6) if shares else None


def _ranks(values: Array) -> Array:
    """From 0 to 1; equal values share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2
    return middle[place] / max(len(values) - 1, 1)
