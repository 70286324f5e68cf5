"""Spaces: what they hold, what they refuse, and that a configuration is plain data."""

from __future__ import annotations

import enum
import functools
import json
import math
import pickle
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import BadSpace, NewerSchema
from workbench.space import Parameter, Space, choice, label, loguniform, quniform, randint, uniform

unit = st.floats(0, 1, exclude_max=True)


class Relu:
    pass


def gelu():
    pass


def fill(space, value):
    return space.from_unit([value] * space.dimensions)


# -- what they hold


@given(unit)
def test_values_lie_within_their_bounds(u):
    space = Space(
        {
            "a": uniform(-1, 2),
            "b": loguniform(1e-5, 1),
            "c": randint(3, 5),
            "d": quniform(0.1, 0.9, 0.2),
            "e": choice(1),
        }
    )
    values = fill(space, u)
    assert -1 <= values["a"] <= 2
    assert 1e-5 <= values["b"] <= 1
    assert values["c"] in (3, 4, 5)
    assert values["d"] in (0.1, 0.3, 0.5, 0.7, 0.9)
    space.check(values)


def test_both_bounds_of_randint_are_possible():
    space = Space({"n": randint(3, 5)})
    assert [fill(space, u)["n"] for u in (0.0, 0.5, 0.999)] == [3, 4, 5]


def test_loguniform_is_uniform_in_the_logarithm():
    assert math.isclose(loguniform(1e-4, 1).at([0.5]), 1e-2)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (quniform(16, 64, 16), [16, 32, 48, 64]),
        (quniform(0.1, 0.5, 0.1), [0.1, 0.2, 0.3, 0.4, 0.5]),
        (quniform(0, 1, 0.4), [0, 0.4, 0.8]),
        (randint(1, 3), [1, 2, 3]),
        (choice("a", None, 2.5, True), ["a", None, 2.5, True]),
    ],
)
def test_finite_ones_have_a_grid(given, values):
    assert list(given.grid()) == values
    assert all(given.contains(value) for value in values)


def test_quantised_integers_stay_integers():
    assert isinstance(quniform(16, 64, 16).at([0.9]), int)


def test_numbers_of_numpy_become_plain():
    values = fill(Space({"a": choice(np.float32(0.5), np.int64(3)), "b": uniform(np.float64(0), np.int32(1))}), 0.6)
    assert values == {"a": 3, "b": 0.6}
    json.dumps(values)
    assert json.dumps(Space({"n": randint(np.int64(1), 3)}).to_json())


def test_an_empty_space_has_one_configuration():
    assert Space().sample(random.Random(0)) == {}
    assert Space().is_empty
    assert Space({"a": 3, "b": choice(4)}).is_empty
    assert not Space({"a": choice(3, 4)}).is_empty
    assert not Space({"a": choice({"x": uniform(0, 1)})}).is_empty
    assert fill(Space({"a": 3, "b": choice(4)}), 0.5) == {"a": 3, "b": 4}


@pytest.mark.parametrize(
    ("one", "values"),
    [
        (quniform(1e13, 1e13 + 5, 1), [1e13 + n for n in range(6)]),
        (quniform(1700000000.25, 1700000001.0, 0.125), [1700000000.25 + n / 8 for n in range(7)]),
        (quniform(1700000000.0, 1700000000.3, 0.1), [1700000000.0, 1700000000.1, 1700000000.2, 1700000000.3]),
        (quniform(0.1, 0.7, 0.2), [0.1, 0.3, 0.5, 0.7]),
    ],
)
def test_steps_keep_the_digits_that_they_need(one, values):
    assert list(one.grid()) == values
    assert [one.fitted(value) for value in values] == values


def test_the_lowest_bits_of_many_integers_differ():
    space = Space({"n": randint(0, 2**53 - 1)})
    drawn = [space.sample(random.Random(seed))["n"] for seed in range(64)]
    assert {n % 2 for n in drawn} == {0, 1}
    assert space.from_unit([1 - 2**-53])["n"] == 2**53 - 1


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400])
@pytest.mark.parametrize(
    "one", [uniform(0, 1), loguniform(0.1, 1), randint(0, 9), quniform(0, 1, 0.1), quniform(0, 9, 3)]
)
def test_no_distribution_holds_what_no_float_holds(one, value):
    assert not one.contains(value)
    with pytest.raises(ValueError, match="is not a value of"):
        one.fitted(value)
    if isinstance(one, type(quniform(0, 1, 0.1))):
        with pytest.raises(BadSpace, match="which can never hold"):
            Space({"a": one, "b": uniform(0, 1, when=Parameter("a") == value)})


def test_samples_come_from_the_generator_alone():
    space = Space({"a": uniform(0, 1), "b": choice(1, 2, 3)})
    assert space.sample(random.Random(5)) == space.sample(random.Random(5))
    assert space.sample(random.Random(5)) != space.sample(random.Random(6))


# -- options that are no JSON data


def test_objects_are_held_by_their_names_and_picked_as_themselves():
    options = (Relu, gelu, math, (64, 32), functools.partial(gelu), "relu", None)
    one = choice(*options)
    labels = list(one.grid())
    assert labels == ["Relu", "gelu", "math", [64, 32], "partial[4]", "relu", None]
    json.dumps(labels)
    for option, value in zip(options, labels, strict=True):
        assert one.pick(value) is option


def test_an_enum_member_is_held_by_its_name():
    Mode = enum.Enum("Mode", ["TRAIN", "TEST"])
    assert list(choice(Mode.TRAIN, Mode.TEST).grid()) == ["Mode.TRAIN", "Mode.TEST"]
    assert label(enum.IntEnum("Size", ["S"]).S) == "Size.S"


@pytest.mark.parametrize(
    ("one", "value"),
    [
        *((choice(1, 1.0), value) for value in (1, 1.0)),
        *((choice(2.0, 2), value) for value in (2, 2.0)),
        *((choice(0.0, -0.0), value) for value in (0.0, -0.0)),
        *((choice(1, quniform(0.25, 1.0, 0.25)), value) for value in (1, 1.0, 0.5)),
        *((choice((1, 2), (1.0, 2)), value) for value in ([1, 2], [1.0, 2])),
    ],
)
def test_of_equal_options_the_one_that_is_written_so_is_picked(one, value):
    assert value in list(one.grid())
    assert label(one.pick(value)) == value
    assert repr(label(one.pick(value))) == repr(value)
    assert repr(label(one.fitted(value))) == repr(value)
    # A number may come back from elsewhere as another kind of number, and is still an option.
    assert choice(1, 3).pick(1.0) == 1


def test_true_is_not_one():
    one = choice(True, 1)
    assert list(one.grid()) == [True, 1]
    assert one.pick(True) is True
    assert one.pick(1) == 1
    assert one.pick(1) is not True


@pytest.mark.parametrize(
    "options", [(1, 1), ("gelu", gelu), (lambda x: x, lambda x: -x), ((1, 2), [1, 2]), ({"a": 1}, {"a": 1})]
)
def test_two_options_of_one_label_are_refused(options):
    with pytest.raises(BadSpace, match="options 1 and 2 have one label"):
        choice(*options)


def test_a_label_that_is_no_option_is_refused():
    with pytest.raises(BadSpace, match="is not an option"):
        choice(Relu, gelu).pick("Tanh")


# -- nested and conditional


def nested():
    return Space(
        {
            "opt": choice({"name": "sgd", "momentum": uniform(0, 1)}, {"name": "adam", "act": choice(Relu, gelu)}),
            "dropout": choice(0.0, uniform(0.0, 0.5)),
        }
    )


def test_nested_options_draw_their_own_coordinates():
    space = nested()
    assert space.dimensions == 5
    assert space.from_unit([0.0, 0.25, 0.9, 0.9, 0.5]) == {"opt": {"name": "sgd", "momentum": 0.25}, "dropout": 0.25}
    assert space.from_unit([0.5, 0.25, 0.9, 0.0, 0.5]) == {"opt": {"name": "adam", "act": "gelu"}, "dropout": 0.0}


def test_nested_labels_are_picked_as_objects():
    configuration = nested().from_unit([0.5, 0.25, 0.9, 0.0, 0.5])
    assert nested().pick(configuration) == {"opt": {"name": "adam", "act": gelu}, "dropout": 0.0}


def test_a_grid_goes_into_nested_options():
    space = Space({"opt": choice({"name": "sgd", "m": choice(1, 2)}, {"name": "adam"}), "b": choice(3, 4)})
    assert list(space.grid()) == [
        {"opt": {"name": "sgd", "m": 1}, "b": 3},
        {"opt": {"name": "sgd", "m": 1}, "b": 4},
        {"opt": {"name": "sgd", "m": 2}, "b": 3},
        {"opt": {"name": "sgd", "m": 2}, "b": 4},
        {"opt": {"name": "adam"}, "b": 3},
        {"opt": {"name": "adam"}, "b": 4},
    ]


def conditional(make=lambda opt: opt == "sgd"):
    opt = choice("sgd", "adam", "rmsprop")
    return Space({"opt": opt, "momentum": choice(0.5, 0.9, when=make(Parameter("opt", opt)))})


def test_an_inactive_hyperparameter_is_none():
    assert fill(conditional(), 0.0) == {"opt": "sgd", "momentum": 0.5}
    assert fill(conditional(), 0.5) == {"opt": "adam", "momentum": None}


def test_a_grid_has_an_inactive_hyperparameter_once():
    assert list(conditional().grid()) == [
        {"opt": "sgd", "momentum": 0.5},
        {"opt": "sgd", "momentum": 0.9},
        {"opt": "adam", "momentum": None},
        {"opt": "rmsprop", "momentum": None},
    ]


@pytest.mark.parametrize(
    ("make", "active"),
    [
        (lambda opt: opt == "sgd", ["sgd"]),
        (lambda opt: opt != "sgd", ["adam", "rmsprop"]),
        (lambda opt: opt.isin("sgd", "adam"), ["sgd", "adam"]),
        (lambda opt: opt.isin(["sgd", "adam"]), ["sgd", "adam"]),
        (lambda opt: ~opt.isin("sgd"), ["adam", "rmsprop"]),
        (lambda opt: (opt == "sgd") | (opt == "adam"), ["sgd", "adam"]),
        (lambda opt: ~((opt == "sgd") | (opt == "adam")), ["rmsprop"]),
        (lambda opt: (opt != "sgd") & (opt != "adam"), ["rmsprop"]),
    ],
)
def test_conditions_compare_and_join(make, active):
    space = conditional(make)
    assert sorted({c["opt"] for c in space.grid() if c["momentum"] is not None}) == sorted(active)
    again = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert again == space
    assert list(again.grid()) == list(space.grid())


def test_conditions_compare_numbers_and_objects():
    layers, act = randint(1, 4), choice(Relu, gelu)
    space = Space(
        {
            "layers": layers,
            "act": act,
            "second": choice(1, when=Parameter("layers") >= 2),
            "third": choice(1, when=(Parameter("layers") > 2) & (Parameter("act") == gelu)),
            "few": choice(1, when=(Parameter("layers") < 3) & (Parameter("layers") <= 2)),
        }
    )
    rows = {(c["layers"], c["act"]): (c["second"], c["third"], c["few"]) for c in space.grid()}
    assert rows[1, "gelu"] == (None, None, 1)
    assert rows[2, "gelu"] == (1, None, 1)
    assert rows[3, "gelu"] == (1, 1, None)
    assert rows[3, "Relu"] == (1, None, None)


@pytest.mark.parametrize("make", [lambda m: m == 0.5, lambda m: m != 0.5, lambda m: m < 2, lambda m: ~(m == 0.5)])
def test_no_comparison_with_an_inactive_hyperparameter_holds(make):
    space = Space({**conditional().parameters, "nesterov": choice(1, 2, when=make(Parameter("momentum")))})
    assert all(c["nesterov"] is None for c in space.grid() if c["momentum"] is None)


# -- plain data


def everything():
    opt = choice("sgd", "adam")
    return Space(
        {
            **nested().parameters,
            "lr": loguniform(1e-4, 1),
            "kind": opt,
            "m": uniform(0, 1, when=(Parameter("kind", opt) == "sgd") & (Parameter("lr") > 0.01)),
            "n": randint(1, 9),
            "q": quniform(0, 1, 0.25),
            "width": choice((64, 64), (128,)),
            "seed": 3,
        }
    )


@given(st.lists(unit, min_size=11, max_size=11))
def test_a_space_comes_back_from_plain_data(units):
    space = everything()
    again = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert again == space
    assert hash(again) == hash(space)
    assert again.to_json() == json.loads(json.dumps(space.to_json()))
    units += [0.5] * (space.dimensions - len(units))
    configuration = space.from_unit(units)
    assert json.loads(json.dumps(configuration)) == configuration
    assert again.from_unit(units) == configuration
    space.check(configuration)
    again.check(configuration)


def test_a_space_can_be_pickled():
    assert pickle.loads(pickle.dumps(everything())) == everything()


def test_a_space_is_described_as_it_was_typed():
    assert everything().describe().splitlines()[2:7] == [
        "lr = loguniform(0.0001, 1)",
        "kind = choice('sgd', 'adam')",
        "m = uniform(0, 1, when=(kind == 'sgd') & (lr > 0.01))",
        "n = randint(1, 9)",
        "q = quniform(0, 1, 0.25)",
    ]


def test_a_later_schema_is_not_guessed_at():
    with pytest.raises(NewerSchema):
        Space.from_json({"schema": 99, "parameters": []})


# -- what they reject; an error says what was given, what was expected, and what to do


BAD = {
    "a reversed range": (lambda: uniform(1, 0), "expected low below high. Swap them: uniform(0, 1)"),
    "no range": (lambda: uniform(1, 1), "low equals high. Assign the constant 1 instead"),
    "no range of integers": (lambda: randint(4, 4), "low equals high"),
    "not a number": (lambda: uniform("0", 1), "expected two finite numbers"),
    "infinity": (lambda: uniform(0, math.inf), "expected two finite numbers"),
    "nan": (lambda: loguniform(math.nan, 1), "expected two finite numbers"),
    "too wide": (lambda: uniform(-1e308, 1e308), "too wide"),
    "an integer beyond floats": (lambda: uniform(0, 10**400), "expected two finite numbers"),
    "integers too wide": (lambda: uniform(-(10**308), 10**308), "too wide"),
    "too many integers": (lambda: randint(0, 2**63 - 1), "expected at most 2**53 integers"),
    "far too many integers": (lambda: randint(0, 10**400), "expected two finite numbers"),
    "a step beyond floats": (lambda: quniform(0, 1, 10**400), "expected a step q above 0"),
    "a step that changes nothing": (lambda: quniform(1e17, 1e17 + 64, 1.0), "the step is too small for such numbers"),
    "too many steps": (lambda: quniform(0, 1, 1e-300), "the step is too small for such numbers"),
    "a truth value": (lambda: uniform(False, True), "expected two finite numbers"),
    "log of zero": (lambda: loguniform(0, 1), "expected bounds above 0"),
    "log of less": (lambda: loguniform(-1, 1), "expected bounds above 0"),
    "reversed logs": (lambda: loguniform(1, 0.1), "Swap them: loguniform(0.1, 1)"),
    "an integer with a point": (lambda: randint(1, 10.0), "expected two integers"),
    "reversed integers": (lambda: randint(5, 1), "Swap them"),
    "no step": (lambda: quniform(0, 1, 0), "expected a step q above 0"),
    "a step too large": (lambda: quniform(0, 1, 2), "the step is larger than the range"),
    "an empty choice": (choice, "expected at least one option"),
    "a list for a choice": (lambda: choice([32, 64]), "Write choice(32, 64)"),
    "an empty list": (lambda: choice([]), "Write choice(32, 64)"),
    "a range for a choice": (lambda: choice(range(3)), "Write choice(*range(0, 3)), with a star"),
    "a range of folds": (lambda: choice(range(5), repeat=True), "Write choice(*range(0, 5)), with a star"),
    "an array for a choice": (lambda: choice(np.linspace(0, 1, 5)), "Write choice(*options.tolist()), with a star"),
    "a column for a choice": (lambda: choice(pd.Series([1, 2])), "Write choice(*options.tolist()), with a star"),
    "keys for a choice": (lambda: choice({"a": 1, "b": 2}.keys()), "Write choice(*options), with a star"),
    "a generator for a choice": (lambda: choice(n for n in (1, 2)), "Write choice(*options), with a star"),
    "a condition that is none": (lambda: uniform(0, 1, when=True), "expected a comparison with a hyperparameter"),
    "a comparison with a bare distribution": (lambda: uniform(0, 1, when=choice("a") == "a"), "expected a comparison"),
    "a truth value of a condition": (lambda: bool(Parameter("a") == 1), "no truth value of its own"),
    "'and' between conditions": (lambda: Parameter("a") == 1 and Parameter("b") == 2, "join two with & and |"),
    "a distribution in a tuple": (lambda: choice((1, uniform(0, 1)), 2), "use a dict"),
    "a hyperparameter as an option": (lambda: choice(Parameter("a"), 1), "used as an option"),
    "a condition inside an option": (
        lambda: choice({"m": uniform(0, 1, when=Parameter("a") == 1)}, 2),
        "The option is the condition there",
    ),
    "a dict of numbers": (lambda: choice({1: 2}, 3), "strings as keys"),
    "a name that is none": (lambda: Space({"learning rate": uniform(0, 1)}), "is not a name for a hyperparameter"),
    "a keyword": (lambda: Space({"lambda": uniform(0, 1)}), "is not a name for a hyperparameter"),
    "a condition on itself": (
        lambda: Space({"a": uniform(0, 1, when=Parameter("a") > 0)}),
        "needs a hyperparameter 'a' above it, which is not one",
    ),
    "a condition on a later one": (
        lambda: Space({"a": uniform(0, 1, when=Parameter("b") > 0), "b": uniform(0, 1)}),
        "which comes later",
    ),
    "a condition on nobody": (lambda: Space({"a": uniform(0, 1, when=Parameter("b") > 0)}), "which is not one"),
    "a condition on what is never so": (lambda: conditional(lambda opt: opt == "sdg"), "which can never hold"),
    "a condition that orders words": (lambda: conditional(lambda opt: opt > 3), "Compare numbers with numbers"),
    "a grid of real numbers": (lambda: Space({"lr": uniform(0, 1)}).grid(), "lr = uniform(0, 1) has no grid"),
    "a grid of real numbers within": (
        lambda: list(Space({"a": choice({"lr": uniform(0, 1)}, 1)}).grid()),
        "has no grid",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_makes_no_sense_is_refused(what):
    make, says = BAD[what]
    with pytest.raises(BadSpace) as caught:
        make()
    assert says in str(caught.value)


def test_collections_among_other_options_are_options():
    assert choice(range(3), range(4)).pick("range(0, 4)") == range(4)
    assert choice(np.ndarray).pick("ndarray") is np.ndarray
    assert choice(np.float64(0.5)).pick(0.5) == 0.5


@pytest.mark.parametrize(
    ("configuration", "says"),
    [
        ({"opt": "sgd"}, "expected exactly opt, momentum"),
        ({"opt": "sdg", "momentum": 0.5}, "expected a value of choice"),
        ({"opt": "sgd", "momentum": 0.6}, "expected a value of choice"),
        ({"opt": "adam", "momentum": 0.5}, "does not hold. Give None"),
        ({"opt": "sgd", "momentum": None}, "expected a value of choice"),
    ],
)
def test_a_configuration_of_another_space_is_refused(configuration, says):
    with pytest.raises(BadSpace, match=says):
        conditional().check(configuration)
