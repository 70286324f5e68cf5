"""Which hyperparameters matter: known functions are told in their order by each method, noise is said to be noise."""

from __future__ import annotations

import math
import random

import pytest
from levelled import levelled

from workbench.compare import importance as room
from workbench.compare.importance import LEAST_TRIALS, importance
from workbench.compare.importance.columns import columns
from workbench.compare.importance.evaluators import evaluated
from workbench.errors import BadOption
from workbench.records import Goal, Scheduler
from workbench.space import Space, choice, loguniform, randint, uniform
from workbench.space.conditions import Parameter
from workbench.store import Store
from workbench.store.lists.levels import levels

SPACE = Space(
    {
        "lr": loguniform(1e-4, 1.0),
        "opt": choice("sgd", "adam", "lion"),
        "width": randint(1, 100),
        "momentum": uniform(0, 1, when=Parameter("opt") == "sgd"),
    }
)
METHODS = ("importance", "fanova", "ped_anova")
HALVING = Scheduler("asha", 1, 9, 3)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store").create()


def known(configuration, _step=0) -> float:
    """Of the learning rate most, of the optimizer some, of the rest nothing."""
    return math.log10(configuration["lr"]) + 1.0 * (configuration["opt"] == "adam")


def noise(configuration, step) -> float:
    return random.Random(f"{configuration}{step}").random()


def order(told, method: str) -> list[str]:
    return [one.name for one in sorted(told.values, key=lambda one: -getattr(one, method))]


@pytest.mark.parametrize("goal", [Goal("val_acc", "max"), Goal("val_acc", "min")])
def test_every_method_tells_the_order_of_a_known_function(store, goal):
    sign = 1 if goal.mode == "max" else -1
    told = importance(store, levelled(store, SPACE, lambda *of: sign * known(*of), trials=120, goal=goal).id)
    assert told.signal
    assert told.quality > 0.8
    assert (told.level, told.trials, told.lacks) == (9, 120, ())
    for method in METHODS:
        assert order(told, method)[:2] == ["lr", "opt"], method
        assert sum(getattr(one, method) for one in told.values) == pytest.approx(1, abs=1e-4)
    shares = {one.name: one for one in told.values}
    assert shares["lr"].importance > 0.6
    assert shares["width"].importance < 0.05
    assert shares["width"].fanova < 0.05


@pytest.mark.parametrize(("goal", "first"), [(Goal("val_acc", "max"), "a"), (Goal("val_acc", "min"), "b")])
def test_ped_anova_asks_about_the_best_trials(store, goal, first):
    """The largest values depend on one hyperparameter, the smallest on the other."""
    space = Space({"a": uniform(0, 1), "b": uniform(0, 1)})

    def value(configuration, _):
        return float(configuration["a"] > 0.85) - float(configuration["b"] < 0.15)

    told = importance(store, levelled(store, space, value, trials=100, goal=goal).id)
    assert order(told, "ped_anova")[0] == first


def test_the_same_trials_give_the_same_numbers(store):
    made = levelled(store, SPACE, known, trials=40)
    assert importance(store, made.id) == importance(store, made.id)


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_said_to_be_noise(store, seed):
    told = importance(store, levelled(store, SPACE, noise, trials=60, seed=seed).id)
    assert not told.signal
    assert told.values == ()
    assert "no signal" in str(told)
    assert "R²" not in str(told)
    assert "no signal" in told._repr_html_()


def test_equal_values_are_no_signal(store):
    told = importance(store, levelled(store, SPACE, lambda *_: 0.5, trials=20).id)
    assert not told.signal


def test_a_conditional_hyperparameter_is_told(store):
    space = Space({"opt": choice("sgd", "adam"), "momentum": uniform(0, 1, when=Parameter("opt") == "sgd")})

    def value(configuration, _):
        return 0.5 if configuration["opt"] == "adam" else configuration["momentum"]

    told = importance(store, levelled(store, space, value, trials=80).id)
    for method in METHODS:
        assert order(told, method)[0] == "momentum", method


@pytest.mark.parametrize("lacking", [1, 39])
def test_a_case_of_one_trial_is_left_out_without_a_warning(lacking):
    """Optuna would warn, and warnings are errors here."""
    chance = random.Random(0)
    values = [None] * lacking + [chance.random() for _ in range(40 - lacking)]
    configurations = [{"a": n / 40, "b": value} for n, value in enumerate(values)]
    for shares in evaluated(configurations, [n / 40 for n in range(40)], ["a", "b"], {}):
        assert shares["a"] > 0.5
        assert sum(shares.values()) == pytest.approx(1)


def test_one_trial_that_exploded_does_not_outweigh_the_others(store):
    def exploding(configuration, _):
        return known(configuration) if configuration["width"] > 3 else 1e30

    told = importance(store, levelled(store, SPACE, exploding, trials=120).id)
    assert [order(told, method)[0] for method in METHODS] == ["lr", "lr", "lr"]


def test_only_values_of_one_level_are_compared(store):
    """At the first level the width decides, at the last one the learning rate."""

    def value(configuration, step):
        return configuration["width"] / 100 if step == 1 else 10 + math.log10(configuration["lr"])

    made = levelled(store, SPACE, value, HALVING, trials=150)
    found = {one.step: one.values for one in levels(store, made.id)}
    assert list(found) == [1, 3, 9]
    assert len(found[1]) == 150 > len(found[3]) > len(found[9]) >= LEAST_TRIALS
    assert all(value < 2 for value in found[1].values())
    assert all(value > 5 for value in found[9].values())
    first, last = importance(store, made.id, level=1), importance(store, made.id)
    assert (first.trials, last.level) == (150, 9)
    assert [order(first, method)[0] for method in METHODS] == ["width"] * 3
    assert order(last, "importance")[0] == "lr"


def test_the_highest_level_with_enough_trials_is_chosen(store):
    made = levelled(store, SPACE, known, HALVING, trials=45)
    found = {one.step: len(one.values) for one in levels(store, made.id)}
    assert found[9] < LEAST_TRIALS <= found[3]
    assert importance(store, made.id).level == 3


def test_another_metric_counts_by_its_value_at_the_level(store):
    told = importance(store, levelled(store, SPACE, known, trials=60).id, "loss")
    assert (told.metric, told.trials) == ("loss", 60)
    assert order(told, "importance")[0] == "lr"


def test_values_that_are_not_finite_are_left_out(store):
    def value(configuration, _):
        return math.nan if configuration["width"] > 50 else known(configuration)

    made = levelled(store, SPACE, value, trials=80)
    told = importance(store, made.id)
    assert 30 < told.trials < 55
    assert told.trials == len(levels(store, made.id)[-1].values)


@pytest.mark.parametrize("trials", [1, LEAST_TRIALS - 1])
def test_too_few_trials_are_refused_in_words(store, trials):
    made = levelled(store, SPACE, known, trials=trials)
    with pytest.raises(BadOption, match=rf"^{trials} trials? ha(s|ve) a finite val_acc at level 9: .*12 or more"):
        importance(store, made.id)


def test_one_configuration_and_unknown_levels_are_refused_in_words(store):
    made = levelled(store, Space({"only": choice(3)}), noise, trials=20)
    with pytest.raises(BadOption, match="same configuration"):
        importance(store, made.id)
    with pytest.raises(BadOption, match=r"level=7: expected one of 1, 3, 9"):
        importance(store, made.id, level=7)


def test_without_optuna_one_method_is_left_and_it_says_what_to_install(store, without):
    without("optuna")
    told = importance(store, levelled(store, SPACE, known, trials=60).id)
    assert order(told, "importance")[0] == "lr"
    assert {one.fanova for one in told.values} == {one.ped_anova for one in told.values} == {None}
    assert told.lacks == ("Optuna",)
    assert list(told.table.columns) == ["importance", "std"]
    assert "pip install 'workbench[importance]'" in str(told)


def test_without_scikit_learn_it_says_what_to_install(store, without):
    without("sklearn")
    made = levelled(store, SPACE, known, trials=20)
    with pytest.raises(BadOption, match=r"needs scikit-learn.* pip install 'workbench\[importance\]'"):
        importance(store, made.id)


@pytest.fixture
def without(monkeypatch):
    """Let a package be missing."""

    def without(name: str) -> None:
        find = room.find_spec
        monkeypatch.setattr(room, "find_spec", lambda one: None if one == name else find(one))

    return without


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
