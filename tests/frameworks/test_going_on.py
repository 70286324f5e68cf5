"""Searches over frameworks' loops that are extended, and trials that start from another one's checkpoint."""

from __future__ import annotations

import dataclasses
import functools

import pytest
from frameworks import test_boosting, test_keras, test_lightning, test_transformers
from frameworks.driver import Driver, error_of, forked

from workbench.records import Scheduler

SPACE = "lr = loguniform(1e-4, 1.0)\n"
LR = {"lr": 0.01}
TEXTS = {
    "keras": (test_keras.cell().replace("Adam(0.01)", "Adam(lr)"), "min val_loss"),
    "lightning": (test_lightning.cell().replace("self.parameters(), 0.01", "self.parameters(), lr"), "max score"),
    "transformers": (test_transformers.cell().replace("learning_rate=0.01", "learning_rate=lr"), "min eval_loss"),
    "xgboost": (test_boosting.cell(test_boosting.XGBOOST, '"eta": lr'), "min test-rmse"),
}


def made(experiment, name: str, steps: int = 6):
    """Makes an experiment over that framework's loop, given fields of its spec."""
    text, goal = TEXTS[name]
    assert "lr" in text
    return functools.partial(experiment, SPACE + text, steps=steps, goal=goal)


@pytest.mark.parametrize("name", ["keras", "xgboost"])
def test_after_its_last_step_it_takes_no_further_one_unless_it_was_extended(server, experiment, tmp_path, name):
    calm = Driver(server, made(experiment, name)(), LR).run(6)
    (tmp_path / "ended").unlink()
    cell = made(experiment, name, steps=4)()
    driver = Driver(server, cell, LR).run(4).run(4)  # killed before it could say that it was over
    assert driver.began == [0, 4]
    cell.spec = dataclasses.replace(cell.spec, scheduler=Scheduler("all", 1, 6))
    driver.run(6)
    assert driver.values == calm.values
    assert len((tmp_path / "ended").read_text().split()) == 3


@pytest.mark.parametrize("name", TEXTS)
def test_a_fork_without_a_change_is_its_parent(server, experiment, name):
    make = made(experiment, name)
    parent = Driver(server, make(), LR).run(2, 6)
    fork = forked(server, make, parent, 2).run(4, 6)
    assert fork.began == [2, 4]
    assert fork.values == {key: value for key, value in parent.values.items() if key[1] > 2}


@pytest.mark.parametrize("name", ["keras", "xgboost"])
def test_a_fork_trains_with_what_it_changes(server, experiment, name):
    make = made(experiment, name)
    parent = Driver(server, make(), LR).run(2, 6)
    fork = forked(server, make, parent, 2, lr=0.5).run(4, 6)
    assert fork.values.keys() == {key for key in parent.values if key[1] > 2}
    assert all(fork.values[key] != parent.values[key] for key in fork.values if key[0] != "learning_rate")


@pytest.mark.parametrize("name", ["lightning", "transformers"])
def test_a_change_that_the_parents_checkpoint_would_hide_is_refused_by_name(server, experiment, name):
    make = made(experiment, name)
    parent = Driver(server, make(), LR).run(2)
    fork = forked(server, make, parent, 2, lr=0.5)
    says = error_of(server, fork.cell, start=2, configuration=fork.configuration)
    assert f"this fork of {parent.cell.spec.id}/t0000:2 changes lr" in says
    assert "fork it without a change" in says
