"""Importance by permutation. Law: a library's forest learns the goal from configurations, and a hyperparameter's
importance is how much worse the forest predicts held-out trials when that hyperparameter's values are shuffled.

(Permutation importance: Breiman, Random Forests, 2001.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # of NumPy

_TREES, _FOLDS, _SHUFFLES, _SEED = 64, 3, 4, 0
#: Standard deviations by which predictions must beat chance: noise does so in one of a hundred searches.
_BEATS = 2.326


@dataclass(frozen=True, slots=True)
class Predicted:
    """How well held-out trials are predicted (R², 1 at best), whether that is better than chance, and the importances:
    of each group of columns the mean and the standard deviation over folds and shuffles; the means add up to 1."""

    quality: float
    signal: bool
    means: tuple[float, ...]
    deviations: tuple[float, ...]


def predicted(groups: Sequence[Array], goal: Array) -> Predicted:
    """Learn ``goal`` from ``groups`` of columns. Needs scikit-learn."""
    from sklearn.ensemble import RandomForestRegressor  # takes a second to import, so only on request

    nothing = (0.0,) * len(groups)
    spread = float(np.mean((goal - goal.mean()) ** 2))
    if spread == 0:
        return Predicted(0.0, False, nothing, nothing)
    inputs = np.concatenate(groups, axis=1)
    ends = np.cumsum([group.shape[1] for group in groups])
    random = np.random.default_rng(_SEED)
    drops: list[list[float]] = [[] for _ in groups]
    guesses = np.zeros(len(goal))
    for fold in np.array_split(random.permutation(len(goal)), _FOLDS):
        others = np.setdiff1d(np.arange(len(goal)), fold)
        forest = RandomForestRegressor(_TREES, min_samples_leaf=2, random_state=_SEED, n_jobs=1)
        forest.fit(inputs[others], goal[others])
        # All are predicted at once: a forest takes milliseconds for a call, however few the rows.
        asked = [inputs[fold]]
        for place, end in enumerate(ends):
            mine = slice(end - groups[place].shape[1], end)
            for _ in range(_SHUFFLES):
                asked.append(inputs[fold].copy())
                asked[-1][:, mine] = asked[-1][random.permutation(len(fold)), mine]
        guesses[fold], *worse = np.split(forest.predict(np.concatenate(asked)), len(asked))
        errors = [float(np.mean((goal[fold] - guess) ** 2)) for guess in (guesses[fold], *worse)]
        for number, error in enumerate(errors[1:]):
            drops[number // _SHUFFLES].append((error - errors[0]) / spread)
    quality = 1 - float(np.mean((goal - guesses) ** 2)) / spread
    means = np.array([max(float(np.mean(drop)), 0.0) for drop in drops])
    whole = float(means.sum())
    if quality <= 0 or whole == 0 or not _beats_chance(goal, guesses):
        return Predicted(quality, False, nothing, nothing)
    deviations = tuple(float(np.std(drop)) / whole for drop in drops)
    return Predicted(quality, True, tuple((means / whole).tolist()), deviations)


def _beats_chance(goal: Array, guesses: Array) -> bool:
    """Whether values and predictions correlate more than chance explains (Fisher's transformation of r)."""
    if float(np.std(guesses)) == 0:
        return False
    correlation = min(float(np.corrcoef(goal, guesses)[0, 1]), 1 - 1e-9)
    return correlation > math.tanh(_BEATS / math.sqrt(max(len(goal) - 3, 1)))
