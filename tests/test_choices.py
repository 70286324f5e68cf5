"""Each option of a search is declared once, and the three forms of a search have all of them."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.choices import BESIDES, Choices
from workbench.errors import BadOption, BadSpace
from workbench.experiment.grammar import OPTIONS, parse
from workbench.experiment.grammar import Options as Written
from workbench.launch import fingerprint
from workbench.records import Recorded, Spec
from workbench.settled import Settings, searched

CHOICES = {one.name: one for one in dataclasses.fields(Choices)}
#: What a function's search is given besides.
OTHERS = {"self", "name", "function", "space", "goal", "scheduler", "searcher", "notify", "notify_command", "store"}
OTHERS |= {"first", "configurations"}
#: A spec has ``seeds`` already: those of the trials that it repeats.
NAMED = {"seeds": "seeds_each"}


def train(trial: Any, lr: Any = wb.loguniform(1e-4, 1)) -> None:  # noqa: B008 - how a space is written
    for _ in trial.steps():
        trial.report(acc=lr)


def test_no_form_of_a_search_declares_an_option_again() -> None:
    for form, base in ((Spec, Recorded), (Choices, Recorded), (Settings, Choices), (Written, Choices)):
        declared = {one.name for one in dataclasses.fields(base)}
        assert not declared & set(inspect.get_annotations(form)), form
        assert declared <= {one.name for one in dataclasses.fields(form)}


def test_a_cell_can_write_each_option_and_a_function_take_it() -> None:
    assert set(CHOICES) <= {option.field for option in OPTIONS}
    given = set(inspect.signature(wb.Experiment.__init__).parameters) - OTHERS
    assert {NAMED.get(name, name) for name in given} == set(CHOICES)


def test_a_function_has_the_same_defaults_as_a_cell(tmp_path) -> None:
    made = wb.Experiment(
        "one", train, goal=wb.maximize("acc"), scheduler=wb.ASHA(max_steps=9), trials=5, store=tmp_path
    )
    assert made._settings.chosen() == {**Choices().chosen(), "trials": 5}


def test_the_options_that_change_no_result_are_these() -> None:
    assert set(CHOICES) - set(BESIDES) == {
        *("trials", "seeds_each", "slots", "strategy", "threads", "seed", "deterministic")
    }


def test_slots_auto_changes_no_content_and_a_word_like_it_is_refused(tmp_path) -> None:
    given = {"goal": wb.maximize("acc"), "scheduler": wb.ASHA(max_steps=9), "trials": 5, "store": tmp_path}
    plain, auto = wb.Experiment("one", train, **given), wb.Experiment("one", train, slots="auto", **given)
    assert (auto._settings.packs, auto._settings.slots) == (True, 1)
    contents = {fingerprint(one._cell, one._settings, "", {}) for one in (plain, auto)}
    assert len(contents) == 1, "results are the same, so the earlier ones are shown"
    for wrong in ("autos", "AUTO", ""):
        with pytest.raises(BadOption, match=f"slots={wrong!r}: expected a whole number of slots .* or auto"):
            wb.Experiment("one", train, slots=wrong, **given)
    parsed = parse("one --goal max acc --slots auto")
    assert (parsed.packs, parsed.slots) == (True, 1)


@pytest.mark.parametrize("seed", [True, 1.0, 1.5, -1, "1", None, float("nan")])
def test_a_seed_is_a_whole_number_so_that_one_seed_is_one_search(tmp_path, seed) -> None:
    given = {"goal": wb.maximize("acc"), "scheduler": wb.ASHA(max_steps=9), "store": tmp_path}
    with pytest.raises(BadOption, match=r"seed=.*: expected a whole number of 0 or more. For example: seed=0"):
        wb.Experiment("one", train, seed=seed, **given)
    assert type(wb.Experiment("one", train, seed=np.int64(3), **given)._settings.seed) is int


#: Options that are numbers, each with one that it takes.
NUMBERS = {
    "trials": 2,
    "seeds": 2,
    "seed": 3,
    "parallel": 1,
    "priority": -1,
    "weight": 2,
    "slots": 1,
    "threads": 1,
    "save_every": 2,
    "keep_data": 5,
    "limit_s": 50,
    "hang_s": 100,
    "setup_limit_s": 100,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_of_numpy_is_taken_for_every_option_as_a_number_of_python(tmp_path, name) -> None:
    given = {"goal": wb.maximize("acc"), "scheduler": wb.ASHA(max_steps=9), "store": tmp_path}
    plain, other = (
        wb.Experiment("one", train, **given, **{name: number})._settings
        for number in (NUMBERS[name], np.int64(NUMBERS[name]))
    )
    assert json.dumps(dataclasses.asdict(other)) == json.dumps(dataclasses.asdict(plain)), "a spec keeps it as JSON"
    for wrong in (True, np.bool_(True)):
        with pytest.raises(BadOption):
            wb.Experiment("one", train, **given, **{name: wrong})


def test_a_scheduler_takes_steps_of_numpy() -> None:
    made = wb.Hyperband(np.int64(9), eta=np.int32(3), min_steps=np.int64(1))
    assert json.dumps(dataclasses.asdict(made)) == json.dumps(dataclasses.asdict(wb.Hyperband(9)))
    with pytest.raises(BadOption, match="max_steps=True: expected two integers"):
        wb.All(True)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"parallel": 0}, "parallel=0: expected how many slots"),
        ({"parallel": 2.5}, "parallel=2.5: expected how many slots"),
        ({"hang_s": -1}, "hang_s=-1: expected seconds"),
        ({"hang_s": "1h"}, "hang_s='1h': expected seconds"),
        ({"deterministic": True}, "deterministic=True: expected one of 'off', 'seeded', 'strict'"),
        ({"deterministic": "Strict"}, "deterministic='Strict': expected one of 'off', 'seeded', 'strict'"),
        ({"strategy": "ddp"}, "strategy='ddp': expected one of 'replicate', 'fsdp'"),
    ],
)
def test_a_value_that_an_option_does_not_have_is_refused(tmp_path, option, words) -> None:
    with pytest.raises(BadOption, match=words):
        wb.Experiment("one", train, goal=wb.maximize("acc"), scheduler=wb.ASHA(max_steps=9), store=tmp_path, **option)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: wb.ASHA(max_steps=9, mode="stopping"), "mode='stopping': expected one of 'stop', 'promote'"),
        (lambda: wb.ASHA(max_steps=9, brackets="all"), "brackets='all': expected one of 'aggressive', 'standard'"),
        (lambda: wb.Hyperband(max_steps=9, table="table2"), "table='table2': expected one of 'algorithm1', 'table1'"),
        (lambda: wb.maximize(3), r"wb.maximize\(3\): expected the name of a metric"),
        (lambda: wb.minimize(" "), r"wb.minimize\(' '\): expected the name of a metric"),
    ],
)
def test_a_scheduler_or_a_goal_that_is_none_is_refused(make, words) -> None:
    with pytest.raises(BadOption, match=words):
        make()


def test_a_function_has_conditions_as_the_message_about_a_wrong_one_says(tmp_path) -> None:
    with pytest.raises(BadSpace, match=r'when=wb\.Parameter\("opt"\) == "sgd"'):
        wb.uniform(0, 1, when=wb.choice("sgd", "adam") == "sgd")
    space = {"lr": wb.choice(1, 2), "opt": wb.uniform(0, 1, when=wb.Parameter("lr") == 1)}
    made = wb.Experiment(
        "one", lambda trial, lr, opt: trial.report(acc=lr), space=space, goal=wb.maximize("acc"),
        scheduler=wb.All(max_steps=1), trials=20, store=tmp_path,
    )  # fmt: skip
    search = searched(made._cell.space, made._settings)
    found = [search.configuration(trial) for trial in range(20)]
    assert {(one["lr"], one["opt"] is None) for one in found} == {(1, False), (2, True)}
