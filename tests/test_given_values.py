"""Configurations that a user gives, against a space: what they become, and what is refused by name."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import BadSpace
from workbench.space import (
    Parameter,
    Space,
    Text,
    choice,
    given_to,
    left_open,
    loguniform,
    quniform,
    randint,
    uniform,
)


def gelu():
    pass


OPT = Parameter("opt")
SPACE = Space(
    {
        "epochs": 9,
        "lr": loguniform(1e-4, 1),
        "units": randint(16, 64),
        "drop": quniform(0.1, 0.9, 0.2),
        "act": choice("relu", gelu, (1, 2), None, {"kind": "leaky", "slope": uniform(0, 1)}),
        "opt": choice("sgd", "adam"),
        "momentum": uniform(0, 1, when=OPT == "sgd"),
        "beta": uniform(0, 1, when=(OPT == "adam") | (Parameter("units") > 32)),
    }
)
points = st.lists(st.floats(0, 1, exclude_max=True), min_size=SPACE.dimensions, max_size=SPACE.dimensions)


@given(points, points)
def test_a_whole_configuration_is_trained_as_it_is_wherever_the_point_lies(point, other):
    configuration = SPACE.from_unit(point)
    one = given_to(SPACE, configuration)
    assert SPACE.from_unit(other, one) == configuration
    # As it comes back from a file, with the types that JSON has, and from itself.
    assert given_to(SPACE, json.loads(json.dumps(configuration))) == one == given_to(SPACE, one)


@given(points, st.sets(st.sampled_from(["lr", "units", "drop", "act", "opt"])), points)
def test_what_is_left_out_is_the_points_own_and_the_result_is_of_the_space(point, names, source):
    values = {name: value for name, value in SPACE.from_unit(source).items() if name in names}
    if not values:
        return
    one = given_to(SPACE, values)
    made, without = SPACE.from_unit(point, one), SPACE.from_unit(point)
    SPACE.check(made)
    for name in ("lr", "units", "drop", "act", "opt"):
        assert made[name] == (values[name] if name in names else without[name])
    assert (made["momentum"] is None) == (made["opt"] != "sgd")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"lr": 1}, {"lr": 1.0}),
        ({"lr": np.float32(0.5)}, {"lr": 0.5}),
        ({"units": 32.0}, {"units": 32}),
        ({"units": np.int64(32)}, {"units": 32}),
        ({"drop": 0.1 + 0.2}, {"drop": 0.3}),
        ({"act": gelu}, {"act": "gelu"}),
        ({"act": "gelu"}, {"act": "gelu"}),
        ({"act": (1, 2)}, {"act": [1, 2]}),
        ({"act": None}, {"act": None}),
        ({"act": {"kind": "leaky", "slope": 1}}, {"act": {"kind": "leaky", "slope": 1.0}}),
        ({"lr": 0.1, "units": None}, {"lr": 0.1}),
        ({"epochs": 9, "lr": 0.1}, {"lr": 0.1}),
        ({"opt": "adam", "momentum": None}, {"opt": "adam"}),
        ({"opt": "sgd", "momentum": 1}, {"opt": "sgd", "momentum": 1.0}),
        ({"units": 40, "beta": 0.5}, {"units": 40, "beta": 0.5}),  # it holds, whatever opt is
        ({"lr": Text("1e-3"), "units": Text("32"), "act": Text("gelu")}, {"lr": 0.001, "units": 32, "act": "gelu"}),
        ({"act": Text("None"), "opt": Text("")}, {"act": None}),
        ({"act": Text("(1, 2)"), "epochs": Text("9")}, {"act": [1, 2]}),
    ],
)
def test_values_become_as_the_space_proposes_them(values, found):
    made = given_to(SPACE, values)
    assert made == found
    assert {name: type(value) for name, value in made.items()} == {name: type(value) for name, value in found.items()}


def test_text_of_a_table_is_an_option_before_it_is_a_number():
    space = Space({"a": choice("1", 1), "b": choice(1, 2)})
    assert given_to(space, {"a": Text("1"), "b": Text("1")}) == {"a": "1", "b": 1}


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"lr": 2.0}, ["lr is 2.0", "loguniform(0.0001, 1)", "change the distribution of lr"]),
        ({"lr": "0.1"}, ["lr is '0.1'", "loguniform"]),
        ({"lr": Text("fast")}, ["lr is 'fast'", "loguniform"]),
        ({"lr": float("nan")}, ["lr is nan"]),
        ({"lr": True}, ["lr is True"]),
        ({"units": 32.5}, ["units is 32.5", "randint(16, 64)"]),
        ({"drop": 0.2}, ["drop is 0.2", "quniform"]),
        ({"act": "rleu"}, ["act is 'rleu'", "Did you mean 'relu'?"]),
        ({"unit": 32}, ["unit is not a hyperparameter here", "lr, units, drop", "Did you mean units?"]),
        ({7: 32}, ["7 is not a hyperparameter"]),
        ({"lr": 0.1, "epochs": 10}, ["epochs is 10, but the constant 9 here"]),
        ({"opt": "adam", "momentum": 0.9}, ["momentum is 0.9", "opt == 'sgd' does not hold", "Leave momentum out"]),
        ({"momentum": 0.9}, ["momentum is 0.9", "depends on opt", "Give opt too"]),
        ({"beta": 0.9, "units": 20}, ["beta is 0.9", "depends on opt. Give opt too"]),
        ({}, ["no hyperparameter has a value", "lr, units"]),
        ({"epochs": 9, "lr": None}, ["no hyperparameter has a value"]),
    ],
)
def test_what_does_not_belong_to_the_space_is_refused_by_name(values, parts):
    with pytest.raises(BadSpace) as caught:
        given_to(SPACE, values)
    for part in parts:
        assert part in str(caught.value)


@given(points)
def test_nothing_of_a_whole_configuration_is_open(point):
    assert left_open(SPACE, [given_to(SPACE, SPACE.from_unit(point))]) == ()


def test_what_is_open_is_named_unless_it_can_only_be_inactive():
    rest = {"lr": 0.1, "units": 20, "drop": 0.1, "act": "relu"}
    assert left_open(SPACE, [{**rest, "opt": "adam", "beta": 0.5}]) == ()
    assert left_open(SPACE, [{**rest, "opt": "adam"}]) == ("beta",)
    assert left_open(SPACE, [rest]) == ("opt", "momentum", "beta")
    assert left_open(SPACE, [{**rest, "units": 40, "beta": 0.1, "opt": "adam"}, {"lr": 0.1}])[0] == "units"
    assert left_open(SPACE, []) == ()
