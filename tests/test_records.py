"""Settings come back from their file as they were; names that could act are refused; states have ways out or end."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import BadName, BadOption, NewerSchema
from workbench.records import (
    BY_EXTENSION,
    ENDED,
    LEGAL_EXPERIMENT,
    LEGAL_TRIAL,
    SCHEMA,
    Goal,
    Program,
    Scheduler,
    Searcher,
    Spec,
    Training,
)
from workbench.records.names import checked_name, trial_label, trial_number


def spec(**fields):
    given = {
        "id": "20260101T000000-abc",
        "name": "digits",
        "version": 2,
        "created": "2026-01-01T00:00:00Z",
        "goal": Goal("val_acc"),
        "space": {"schema": 1, "parameters": []},
        "scheduler": Scheduler("hyperband", 1, 81, 3),
        "searcher": Searcher("sobol"),
        "program": Program("cell", "x = 1", "<cell>", capture="abc"),
        "training": Training("/usr/bin/python", ".", path=("a", "b"), preload=("torch",), env={"A": "1"}),
    }
    return Spec(**{**given, **fields})


def test_a_spec_comes_back_from_its_file():
    one = spec(trials=5, limit_s=3600.0)
    again = Spec.from_json(json.loads(json.dumps(one.to_json())))
    assert again == one
    assert again.label == "digits@2"


def test_a_spec_of_a_later_workbench_is_refused_and_unknown_fields_are_left_alone():
    data = spec().to_json()
    assert Spec.from_json({**data, "colour": "red"}) == spec()
    with pytest.raises(NewerSchema, match="Upgrade Workbench"):
        Spec.from_json({**data, "schema": SCHEMA + 1})


@pytest.mark.parametrize("legal", [LEGAL_TRIAL, LEGAL_EXPERIMENT])
def test_who_has_ended_changes_by_an_extension_alone_and_everybody_can_end(legal):
    assert {pair for pair in legal if pair[0] in ENDED} <= BY_EXTENSION
    states = {state for pair in legal for state in pair}
    for state in states - ENDED:
        found, seen = {state}, set()
        while found - seen:
            seen |= found
            found |= {after for before, after in legal if before in found}
        assert found >= ENDED


@pytest.mark.parametrize("name", ["digits", "resnet-18", "Größe 2", "a", "1", "x" * 100, "a.b_c+d"])
def test_names(name):
    assert checked_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " a",
        "a ",
        "../etc",
        "a/b",
        "a..b",
        ".hidden",
        "-x",
        "_x",
        "a\nb",
        "a\x00b",
        "a\x1b[31m",
        "x" * 101,
        "x" * 300,
    ],
)
def test_names_that_could_act_are_refused(name):
    with pytest.raises(BadName) as caught:
        checked_name(name)
    message = str(caught.value)
    assert "expected 1 to 100 letters" in message
    assert message.isprintable()
    assert len(message) < 300


@given(st.text(max_size=120))
def test_a_name_that_passes_is_safe_in_a_path(name):
    try:
        checked_name(name)
    except BadName:
        return
    assert name.isprintable()
    assert not set(name) & set('/\\:*?"<>|\0')
    assert ".." not in name


@given(st.integers(0, 999_999_999))
def test_labels_of_trials(number):
    assert trial_number(trial_label(number)) == number


def test_a_label_has_four_digits_or_more():
    assert trial_label(7) == "t0007"
    assert trial_label(12345) == "t12345"


@pytest.mark.parametrize("label", ["7", "t", "t-1", "T0007", "t0007 ", "t1e3"])
def test_what_is_no_label_is_refused(label):
    with pytest.raises(BadName, match="expected t and a number"):
        trial_number(label)


def test_a_goal_knows_what_is_better():
    assert Goal("acc").better(0.9, 0.8)
    assert not Goal("acc").better(0.8, 0.8)
    assert Goal("loss", "min").better(0.1, 0.2)
    assert str(Goal("loss", "min")) == "min loss"


@pytest.mark.parametrize("eta", [1, 0, -3, 2.5, True, "3"])
def test_an_eta_that_keeps_everybody_is_refused(eta):
    with pytest.raises(BadOption, match=r"--eta .*expected an integer of 2 or more"):
        Scheduler("hyperband", 1, 9, eta)


@pytest.mark.parametrize(("first", "last"), [(0, 9), (-1, 9), (9, 3)])
def test_steps_that_begin_at_zero_or_run_backwards_are_refused(first, last):
    with pytest.raises(BadOption, match=r"--steps .*1 ≤ first ≤ last"):
        Scheduler("hyperband", first, last)
