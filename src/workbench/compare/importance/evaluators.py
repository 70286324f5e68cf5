"""Importance by Optuna's evaluators. Law: Optuna computes; this module writes our trials as a study of its own.

fANOVA: the share of a forest's variance over the tried values that a hyperparameter explains alone (Hutter, Hoos and
Leyton-Brown, 2014). PED-ANOVA: how much the values of the best tenth of trials differ from those of all (Watanabe,
Bansal and Hutter, 2023).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

import numpy as np

from workbench.compare.importance.columns import Configuration, are_numbers, fields
from workbench.records import Json

_SEED = 0
#: fANOVA's time grows with the square of the trials: two hundred and five hyperparameters take a second.
_FANOVA_TRIALS, _FANOVA_TREES = 200, 32

#: Importances by hyperparameter, which add up to 1; all 0 if an evaluator found nothing.
Shares = dict[str, float]


@dataclass(frozen=True, slots=True)
class _Field:
    """One parameter of Optuna's study. values: numbers or labels, by trial; None where it is not active."""

    name: str
    values: Sequence[Json]
    distribution: Any

    @classmethod
    def of(cls, name: str, values: Sequence[Json], kind: str) -> _Field:
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        there = [value for value in values if value is not None]
        if not are_numbers(there):
            labels = [None if value is None else repr(value) for value in values]
            return cls(name, labels, CategoricalDistribution([one for one in dict.fromkeys(labels) if one is not None]))
        low, high = min(there), max(there)
        log = kind == "loguniform" and low > 0
        if all(isinstance(value, int) for value in there):
            return cls(name, values, IntDistribution(low, high, log=log))
        return cls(name, values, FloatDistribution(float(low), float(high), log=log))

    @property
    def filled(self) -> Sequence[Json]:
        """The values, with the middle or the most frequent one where it is not active."""
        there = [value for value in self.values if value is not None]
        usual = median_low(there) if are_numbers(there) else Counter(there).most_common(1)[0][0]
        return [usual if value is None else value for value in self.values]

    @property
    def cases(self) -> Sequence[Json] | None:
        """The values as PED-ANOVA takes them. It leaves out a case (active, or not) that has a single trial."""
        inactive = sum(value is None for value in self.values)
        return None if len(self.values) - inactive < 2 else self.filled if inactive == 1 else self.values


def evaluated(
    configurations: Sequence[Configuration], goal: Sequence[float], names: Sequence[str], kinds: Mapping[str, str]
) -> tuple[Shares, Shares]:
    """Shares by fANOVA and by PED-ANOVA; greater values of ``goal`` are better. Needs Optuna and scikit-learn.

    fANOVA takes the middle value (or the most frequent option) where a hyperparameter is not active, so what depends
    on being active counts for the hyperparameter of the condition. PED-ANOVA knows such cases.
    """
    import optuna
    from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator

    known = [
        _Field.of(name, values, kinds.get(name, ""))
        for name in names
        for values in fields(configurations, name).values()
    ]
    some = np.linspace(0, len(goal) - 1, min(len(goal), _FANOVA_TRIALS)).astype(int).tolist()
    # It announces each study on standard error, in the user's notebook too.
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        sample = _study(known, [one.filled for one in known], goal, some)
        fanova = FanovaImportanceEvaluator(n_trees=_FANOVA_TREES, seed=_SEED).evaluate(sample)
        whole = _study(known, [one.cases for one in known], goal, range(len(goal)))
        ped_anova = PedAnovaImportanceEvaluator().evaluate(whole)
    finally:
        optuna.logging.set_verbosity(before)
    return _shares(fanova, known, names), _shares(ped_anova, known, names)


def _study(
    known: Sequence[_Field], columns: Sequence[Sequence[Json] | None], goal: Sequence[float], trials: Sequence[int]
) -> Any:
    """A study in memory with these trials; a parameter is called by its place in ``known``."""
    import optuna

    study = optuna.create_study(direction="maximize")
    for trial in trials:
        params = {
            str(place): column[trial]
            for place, column in enumerate(columns)
            if column is not None and column[trial] is not None
        }
        its = {place: known[int(place)].distribution for place in params}
        study.add_trial(optuna.create_trial(params=params, distributions=its, value=float(goal[trial])))
    return study


def _shares(found: Mapping[str, float], known: Sequence[_Field], names: Sequence[str]) -> Shares:
    sums = dict.fromkeys(names, 0.0)
    for place, value in found.items():
        sums[known[int(place)].name] += max(float(value), 0.0)
    whole = sum(sums.values()) or 1.0
    return {name: value / whole for name, value in sums.items()}
