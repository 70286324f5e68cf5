"""Which hyperparameters matter. Law: a library's forest learns the goal from configurations, and a hyperparameter's
importance is how much worse the forest predicts held-out trials when that hyperparameter's values are shuffled.

Two sources of error are removed. Values count by rank, so that one trial that exploded does not outweigh all others.
The step at which a trial's value was reported is an input of the forest, since a trial that was stopped early is worse
for that reason alone. (Permutation importance: Breiman, Random Forests, 2001.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any

import numpy as np

from workbench.store import Store
from workbench.store.files.database import state_of
from workbench_ext.server.base import Refused
from workbench_ext.server.curves import Kept, last_values
from workbench_ext.server.experiments import found, series_of

Json = Any
Array = Any  # of NumPy

#: The fewest trials with a finite value for an answer, and the number above which a sample suffices.
LEAST_TRIALS, MOST_TRIALS = 12, 2_000
_TREES, _FOLDS, _SHUFFLES, _SEED = 64, 3, 4, 0

#: Answers by their inputs.
_kept: Kept[dict[str, Json]] = Kept(64, lambda _: 1)


def importance(store: Store, name: str, metric: str | None) -> Json:
    """Each hyperparameter's share of what can be predicted of ``metric`` (None: the goal), the greatest first.

    values: name, importance (shares that add up to 1; all 0 if nothing can be predicted), std (of the same, over folds
    and shuffles). quality: R² on held-out trials, 1 at best. Raises Refused (409) if there are too few trials, or no
    scikit-learn.
    """
    if find_spec("sklearn") is None:
        raise Refused(
            HTTPStatus.CONFLICT,
            "Importance needs scikit-learn in JupyterLab's environment: pip install 'workbench[importance]'.",
        )
    experiment_id, spec = found(store, name)
    metric = metric or spec.goal.metric
    path = store.experiment(experiment_id).series
    key = (path, metric, *state_of(path))
    kept = _kept.get(key)
    if kept is not None:
        return kept
    rows = _told(store, experiment_id, metric, is_goal=metric == spec.goal.metric)
    varied = _varied([configuration for configuration, _, _ in rows])
    if len(rows) < LEAST_TRIALS:
        raise Refused(
            HTTPStatus.CONFLICT,
            f"{len(rows)} trials have a value of {metric}: importance needs {LEAST_TRIALS} or more.",
        )
    if not varied:
        raise Refused(HTTPStatus.CONFLICT, "all trials have the same configuration: nothing can matter.")
    return _kept.put(key, _weighed(rows, varied, _kinds(spec.space)))


def _told(
    store: Store, experiment_id: str, metric: str, is_goal: bool
) -> list[tuple[Mapping[str, Json], float, float]]:
    """(configuration, value, step) of each trial with a finite value, by number; an even sample if there are very
    many."""
    series = series_of(store, experiment_id)
    if series is None:
        return []
    with series:
        trials = series.trials()
    path = store.experiment(experiment_id).series
    last = {} if is_goal else last_values(path, metric)
    rows = []
    for row in trials:
        value, step = (row.get("value"), row.get("step")) if is_goal else last.get(row["number"], (None, None))
        if isinstance(value, float) and math.isfinite(value) and row.get("configuration"):
            rows.append((row["configuration"], value, float(step or 0)))
    if len(rows) > MOST_TRIALS:
        rows = [rows[place] for place in np.linspace(0, len(rows) - 1, MOST_TRIALS).astype(int)]
    return rows


def _kinds(space: Json) -> dict[str, str]:
    parameters = space.get("parameters") if isinstance(space, dict) else None
    return {str(one.get("name")): str(one.get("kind")) for one in parameters or () if isinstance(one, dict)}


def _varied(configurations: list[Mapping[str, Json]]) -> list[str]:
    """Names with more than one value."""
    names = dict.fromkeys(name for one in configurations for name in one)
    return [name for name in names if len({repr(one.get(name)) for one in configurations}) > 1]


# ---------------------------------------------------------------------------------------------------------------------
# Configurations as columns


def columns(configurations: list[Mapping[str, Json]], name: str, kind: str) -> Array:
    """The forest's inputs for one hyperparameter, a row for each trial.

    Numbers stay numbers (their logarithm for ``loguniform``); other values become a column for each value. Where the
    hyperparameter is not active, its number is the median of the others, and a column of its own says so.
    """
    flat = [dict(_flat(one.get(name), "")) for one in configurations]
    found = []
    for field in dict.fromkeys(field for one in flat for field in one):
        values = [one.get(field) for one in flat]
        there = [value for value in values if value is not None]
        if not there:
            continue
        if all(_is_number(value) for value in there):
            if kind == "loguniform" and min(there) > 0:
                values = [None if value is None else math.log(value) for value in values]
            numbers = np.array([np.nan if value is None else float(value) for value in values])
            found.append(np.where(np.isnan(numbers), np.nanmedian(numbers), numbers))
            if len(there) < len(values):
                found.append(np.isnan(numbers).astype(float))
        else:
            words = [repr(value) for value in values]
            found += [np.array([one == word for one in words], float) for word in dict.fromkeys(words)]
    return np.stack(found, axis=1) if found else np.zeros((len(flat), 1))


def _flat(value: Json, field: str) -> Iterator[tuple[str, Json]]:
    """Fields of a choice that holds hyperparameters of its own, each with its path; a plain value is one field."""
    if isinstance(value, Mapping):
        yield f"{field}?", "dict"
        for name, inner in value.items():
            yield from _flat(inner, f"{field}.{name}")
    else:
        yield field, repr(value) if isinstance(value, list) else value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# ---------------------------------------------------------------------------------------------------------------------


def _weighed(
    rows: list[tuple[Mapping[str, Json], float, float]], names: list[str], kinds: Mapping[str, str]
) -> dict[str, Json]:
    from sklearn.ensemble import RandomForestRegressor  # takes a second to import, so only on request

    groups = [columns([configuration for configuration, _, _ in rows], name, kinds.get(name, "")) for name in names]
    ends = np.cumsum([group.shape[1] for group in groups])
    steps = np.array([[math.log1p(step)] for _, _, step in rows])
    inputs = np.concatenate([*groups, steps], axis=1)
    goal = _ranks(np.array([value for _, value, _ in rows]))
    random = np.random.default_rng(_SEED)
    folds = np.array_split(random.permutation(len(rows)), _FOLDS)
    drops: list[list[float]] = [[] for _ in names]
    missed = 0.0
    for fold in folds:
        others = np.setdiff1d(np.arange(len(rows)), fold)
        forest = RandomForestRegressor(_TREES, min_samples_leaf=2, random_state=_SEED, n_jobs=1)
        forest.fit(inputs[others], goal[others])
        spread = float(np.mean((goal[fold] - goal.mean()) ** 2)) or 1.0
        error = float(np.mean((goal[fold] - forest.predict(inputs[fold])) ** 2))
        missed += error / spread / _FOLDS
        for place, end in enumerate(ends):
            mine = slice(end - groups[place].shape[1], end)
            for _ in range(_SHUFFLES):
                shuffled = inputs[fold].copy()
                shuffled[:, mine] = shuffled[random.permutation(len(fold)), mine]
                worse = float(np.mean((goal[fold] - forest.predict(shuffled)) ** 2))
                drops[place].append((worse - error) / spread)
    means = np.array([max(float(np.mean(drop)), 0.0) for drop in drops])
    whole = float(means.sum()) or 1.0
    values = [
        {"name": name, "importance": round(float(mean) / whole, 6), "std": round(float(np.std(drop)) / whole, 6)}
        for name, mean, drop in zip(names, means, drops, strict=True)
    ]
    return {
        "method": f"random forest of {_TREES} trees on ranks, values shuffled in {_FOLDS} held-out parts",
        "trials": len(rows),
        "quality": round(1 - missed, 6),
        "values": sorted(values, key=lambda one: -float(one["importance"])),
    }


def _ranks(values: Array) -> Array:
    """From 0 to 1; equal values share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2
    return middle[place] / max(len(values) - 1, 1)
