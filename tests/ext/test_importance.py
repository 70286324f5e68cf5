"""Which hyperparameters matter: known functions are told rightly, and too little is said to be too little."""

from __future__ import annotations

import math
import random

import pytest
from lab.recorded import spec

from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series
from workbench_ext.server import importance
from workbench_ext.server.importance import columns


@pytest.fixture
def known(store):
    """An experiment of ``trials`` trials whose goal is a known function of their configurations."""

    def known(function, trials=120, seed=0, space=None, name="digits"):
        made = spec(name, space=space or {})
        store.write_spec(made)
        chance = random.Random(seed)
        with Series.open(store.experiment(made.id).series) as series:
            for number in range(trials):
                configuration, value = function(chance)
                series.put_trial(number, configuration=configuration, value=value, step=9, state="completed")
                series.add_points([(number, "loss", 1, 0, -value, 1.0), (number, "loss", 9, 0, value**3, 2.0)])
        catalog = Catalog(store)
        fields = {"name": name, "version": 1, "created": made.created, "state": "completed", "goal": "max val_acc"}
        catalog.upsert_experiment(made.id, fields)
        catalog.close()
        return made

    return known


def mixed(chance):
    configuration = {"lr": 10 ** chance.uniform(-4, 0), "opt": chance.choice(["sgd", "adam", "lion"])}
    configuration["width"] = chance.randint(1, 100)
    configuration["momentum"] = chance.random() if configuration["opt"] == "sgd" else None
    configuration["same"] = 3
    value = math.log10(configuration["lr"]) + 1.0 * (configuration["opt"] == "adam")
    return configuration, value


async def test_a_known_function_is_told_rightly(ask, known):
    known(mixed, space={"schema": 1, "parameters": [{"name": "lr", "kind": "loguniform", "low": 1e-4, "high": 1.0}]})
    answer = await ask("experiments", "digits", "importance")
    assert [one["name"] for one in answer["values"]][:2] == ["lr", "opt"]
    shares = {one["name"]: one["importance"] for one in answer["values"]}
    assert "same" not in shares, "what never varied cannot matter"
    assert sum(shares.values()) == pytest.approx(1, abs=1e-4)
    assert shares["lr"] > 0.6
    assert shares["width"] < 0.05
    assert answer["trials"] == 120
    assert answer["quality"] > 0.8
    assert answer == await ask("experiments", "digits", "importance"), "the same seeds say the same"


async def test_another_metric_counts_by_its_last_value(ask, known):
    known(mixed)
    values = (await ask("experiments", "digits", "importance", metric="loss"))["values"]
    assert values[0]["name"] == "lr"


async def test_one_trial_that_exploded_does_not_outweigh_the_others(ask, known):
    def exploding(chance):
        configuration, value = mixed(chance)
        return configuration, value if chance.random() > 0.02 else 1e30

    known(exploding)
    assert (await ask("experiments", "digits", "importance"))["values"][0]["name"] == "lr"


async def test_where_nothing_can_be_foretold_nothing_is_said(ask, known):
    known(lambda chance: ({"a": chance.random(), "b": chance.random()}, chance.random()))
    assert (await ask("experiments", "digits", "importance"))["quality"] < 0.3


async def test_too_few_trials_are_409_in_words(refused, known):
    known(lambda chance: ({"a": chance.random()}, math.nan if chance.random() < 0.5 else chance.random()), trials=14)
    code, message = await refused("experiments", "digits", "importance")
    assert code == 409
    assert "12 or more" in message
    known(lambda chance: ({"a": 1}, chance.random()), name="other")
    assert (await refused("experiments", "other", "importance"))[0] == 409


async def test_without_the_library_it_says_what_to_install(refused, known, monkeypatch):
    known(mixed)
    monkeypatch.setattr(importance, "find_spec", lambda name: None)
    code, message = await refused("experiments", "digits", "importance")
    assert code == 409
    assert "workbench[importance]" in message


def test_configurations_become_columns_that_belong_together():
    rows = [{"a": 1.0, "c": "x"}, {"a": None, "c": ["y"]}, {"a": 100.0, "c": {"depth": 3, "kind": "tree"}}]
    assert columns(rows, "a", "loguniform").tolist() == [
        [0.0, 0.0],
        [math.log(100) / 2, 1.0],
        [math.log(100), 0.0],
    ]
    assert columns(rows, "c", "choice").shape[0] == 3
    assert columns(rows, "nothing", "choice").tolist() == [[0.0], [0.0], [0.0]]
    assert columns([{"a": True}, {"a": False}], "a", "choice").tolist() == [[1.0, 0.0], [0.0, 1.0]]
