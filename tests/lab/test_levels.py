"""The values of one level, and which hyperparameters matter there, as a notebook has them."""

from __future__ import annotations

import math

import pytest
from compare.test_importance import HALVING, SPACE, known
from levelled import levelled

from workbench.errors import BadOption
from workbench.experiment.experiment import Experiment
from workbench.store import Store


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store").create()


def test_a_level_is_a_table_best_first_and_by_default_the_highest_one(store):
    exp = Experiment.of(store, levelled(store, SPACE, known, HALVING, trials=45).id)
    first, last = exp.at_level(1), exp.at_level()
    assert list(first.columns) == ["val_acc", "lr", "opt", "width", "momentum"]
    assert len(first) == 45 > len(last) > 0
    assert list(first["val_acc"]) == sorted(first["val_acc"], reverse=True)
    assert set(last.index) < set(first.index)
    assert first.equals(exp.at_level(1))
    assert last.index[0] == exp.best.label
    with pytest.raises(BadOption, match=r"at_level\(2\): expected one of 1, 3, 9"):
        exp.at_level(2)


def test_values_that_are_not_finite_are_in_no_level(store):
    exp = Experiment.of(store, levelled(store, SPACE, lambda *_: math.nan, trials=5).id)
    assert len(exp.at_level()) == len(exp.at_level(9)) == 0


def test_importance_is_a_table_and_a_sentence(store):
    told = Experiment.of(store, levelled(store, SPACE, known, trials=60).id).importance()
    assert list(told.table.columns) == ["importance", "std", "fanova", "ped_anova"]
    assert told.table.index[0] == "lr"
    assert str(told).startswith("val_acc at level 9, 60 trials; R² on held-out trials 0.")
    assert "<table" in told._repr_html_()
