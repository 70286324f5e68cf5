# ruff: noqa: B008 - distributions as defaults are what is tested
"""Which parameter gets the trial, and which gets what of a configuration; and how a runner then calls the function."""

import enum
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from workbench import space as wb
from workbench import trial as global_trial
from workbench.errors import BadCell, BadOption, BadSpace
from workbench.snapshot.reading.calls import Call, Callee
from workbench.snapshot.reading.function import read_function

LR, HIDDEN = wb.loguniform(1e-4, 1), wb.choice(32, 64)
SPACE = {"lr": LR, "hidden": HIDDEN}
VALUES = {"lr": 0.5, "hidden": 64}
ARRAY = np.zeros(3)


class Trial:
    """A stub of one's own for annotations."""

    def steps(self): ...
    def report(self, **values): ...


class Color(enum.IntEnum):
    RED = 1


def turns(trial):
    for _ in trial.steps():
        trial.report(acc=1)


def by_defaults(trial, lr=LR, hidden=HIDDEN):
    turns(trial)


def by_names(trial, lr, hidden):
    turns(trial)


def trial_last(lr, hidden, trial):
    turns(trial)


def annotated(lr, hidden, t: Trial):
    turns(t)


def annotated_as_text(lr, hidden, t: "wb.Trial"):
    turns(t)


def keyword_only(trial, *, lr, hidden=32):
    turns(trial)


def trial_keyword_only(*, lr, hidden, trial):
    turns(trial)


def positional_only(trial, lr, hidden, /):
    turns(trial)


def the_rest(trial, lr=0.1, **others):
    turns(trial)


def only_the_rest(trial, **others):
    turns(trial)


def whole(trial, config):
    turns(trial)


def whole_of_any_name(trial, h):
    turns(trial)


def whole_first(config, trial):
    turns(trial)


def whole_first_by_use(cfg, t):
    for _ in t.steps():
        t.report(acc=1)


def whole_first_by_annotation(c: dict[str, Any], t):
    turns(t)


def whole_positional_only(trial, config, /):
    turns(trial)


def whole_beside_defaults(trial, config, verbose=False, *, depth=wb.randint(1, 3)):
    turns(trial)


def whole_alone(config):
    for _ in global_trial.steps():
        global_trial.report(acc=1)


def whole_alone_of_any_name(h):
    turns(global_trial)


def whole_alone_by_a_helper(config: Mapping):
    globally()


def globally():
    for _ in global_trial.steps():
        global_trial.report(acc=1)


def whole_or_nothing(config=None):
    globally()


def whole_or_none_beside(trial, data=ARRAY, config=None):
    turns(trial)


def names_without_trial(lr, hidden):
    globally()


def imported_inside(config):
    from workbench import trial

    for _ in trial.steps():
        trial.report(acc=1)


#: function → its call, and the arguments for VALUES.
CALLS = {
    by_names: (Call("trial", None, ("lr", "hidden")), (["T"], VALUES)),
    trial_last: (Call("trial", None, ("lr", "hidden")), ([], {**VALUES, "trial": "T"})),
    annotated: (Call("t", None, ("lr", "hidden")), ([], {**VALUES, "t": "T"})),
    annotated_as_text: (Call("t", None, ("lr", "hidden")), ([], {**VALUES, "t": "T"})),
    keyword_only: (Call("trial", None, ("lr", "hidden")), (["T"], VALUES)),
    trial_keyword_only: (Call("trial", None, ("lr", "hidden")), ([], {**VALUES, "trial": "T"})),
    positional_only: (Call("trial", None, ("lr", "hidden")), (["T", 0.5, 64], {})),
    the_rest: (Call("trial", None, ("lr", "hidden")), (["T"], VALUES)),
    only_the_rest: (Call("trial", None, ("lr", "hidden")), (["T"], VALUES)),
    whole: (Call("trial", "config", ("lr", "hidden")), (["T"], {"config": VALUES})),
    whole_of_any_name: (Call("trial", "h", ("lr", "hidden")), (["T"], {"h": VALUES})),
    whole_first: (Call("trial", "config", ("lr", "hidden")), ([], {"config": VALUES, "trial": "T"})),
    whole_first_by_use: (Call("t", "cfg", ("lr", "hidden")), ([], {"cfg": VALUES, "t": "T"})),
    whole_first_by_annotation: (Call("t", "c", ("lr", "hidden")), ([], {"c": VALUES, "t": "T"})),
    whole_positional_only: (Call("trial", "config", ("lr", "hidden")), (["T", VALUES], {})),
    whole_alone: (Call(None, "config", ("lr", "hidden")), ([], {"config": VALUES})),
    whole_alone_of_any_name: (Call(None, "h", ("lr", "hidden")), ([], {"h": VALUES})),
    whole_alone_by_a_helper: (Call(None, "config", ("lr", "hidden")), ([], {"config": VALUES})),
    whole_or_nothing: (Call(None, "config", ("lr", "hidden")), ([], {"config": VALUES})),
    whole_or_none_beside: (Call("trial", "config", ("lr", "hidden")), (["T"], {"config": VALUES})),
    names_without_trial: (Call(None, None, ("lr", "hidden")), ([], VALUES)),
    imported_inside: (Call(None, "config", ("lr", "hidden")), ([], {"config": VALUES})),
}


@pytest.mark.parametrize("function", CALLS, ids=lambda one: one.__name__)
def test_each_function_is_called_as_its_parameters_say(function):
    call, given = CALLS[function]
    cell = read_function(function, SPACE)
    assert cell.space.names == ("lr", "hidden") or {*cell.space.names} == {"lr", "hidden"}
    assert Call.of(cell.call, function) == call
    assert Callee(function, call).arguments(VALUES, "T") == given


def test_a_plain_function_is_recorded_as_by_earlier_versions():
    assert read_function(by_defaults).call is None
    assert Call.of(None, by_defaults) == Call("trial")
    assert Callee(by_defaults, Call("trial")).arguments(VALUES, "T") == (["T"], VALUES)


def test_a_whole_configuration_holds_what_was_given_beside_the_function():
    cell = read_function(whole_beside_defaults, SPACE)
    assert cell.space.names == ("verbose", "depth", "lr", "hidden")
    callee = Callee(whole_beside_defaults, Call.of(cell.call, whole_beside_defaults))
    before, named = callee.arguments({**VALUES, "verbose": False, "depth": 2}, "T")
    assert (before, named) == (["T"], {"config": VALUES, "verbose": False, "depth": 2})


def test_methods_and_partials_are_called_likewise():
    class Runner:
        def train(self, trial, config):
            turns(trial)

    def fixed(data, trial, lr, hidden):
        turns(trial)

    method = Runner().train
    call = Call.of(read_function(method, SPACE).call, method)
    assert Callee(method, call).arguments(VALUES, "T") == (["T"], {"config": VALUES})
    partial = functools.partial(fixed, [1], hidden=32)
    call = Call.of(read_function(partial, {"lr": LR}).call, partial)
    assert Callee(partial, call).arguments(VALUES, "T") == (["T"], VALUES)


# ---------------------------------------------------------------------------------------------------------------------
# Values


def test_what_is_given_beside_overrides_defaults():
    cell = read_function(by_defaults, {"lr": wb.uniform(0, 1), "hidden": 8})
    assert cell.space.parameters == {"lr": wb.uniform(0, 1), "hidden": 8}
    assert cell.beside == {}


def test_objects_travel_beside_the_function():
    rows = [*range(100)]
    space = {"lr": wb.choice(sorted, (1, 2)), "hidden": rows}
    cell = read_function(by_defaults, space)
    assert cell.space.names == ("lr",)
    assert cell.beside == space
    callee = Callee(by_defaults, Call.of(cell.call, by_defaults), cell.beside)
    assert callee.arguments({"lr": "sorted"}, "T") == (["T"], {"lr": sorted, "hidden": rows})
    assert callee.arguments({"lr": [1, 2]}, "T")[1]["lr"] == (1, 2)


def test_short_lists_and_named_objects_are_shown_in_configurations():
    cell = read_function(by_defaults, {"lr": sorted, "hidden": [64, {"a": 32}]})
    assert cell.space.names == ("lr", "hidden")
    assert [*cell.beside] == ["lr"]
    configuration = cell.space.from_unit([0.5])
    assert configuration == {"lr": "sorted", "hidden": [64, {"a": 32}]}
    callee = Callee(by_defaults, Call.of(cell.call, by_defaults), cell.beside)
    _, named = callee.arguments(configuration, "T")
    assert named == {"lr": sorted, "hidden": [64, {"a": 32}]}
    named["hidden"].append(3)
    assert configuration["hidden"] == [64, {"a": 32}]


def test_a_dict_of_distributions_is_drawn_as_one():
    cell = read_function(whole, {"optimizer": {"name": "sgd", "lr": LR}, "depth": wb.randint(1, 3)})
    values = cell.space.from_unit([0.5] * cell.space.dimensions)
    assert cell.beside == {}
    _, named = Callee(whole, Call.of(cell.call, whole)).arguments(values, "T")
    assert named["config"]["optimizer"] == {"name": "sgd", "lr": pytest.approx(0.01)}
    assert named["config"]["depth"] == 2


def test_an_enum_stays_one():
    cell = read_function(by_names, {"lr": Color.RED, "hidden": 3})
    callee = Callee(by_names, Call.of(cell.call, by_names), cell.beside)
    assert callee.arguments({"hidden": 3}, "T")[1]["lr"] is Color.RED

    def default(trial, color=Color.RED):
        turns(trial)

    assert read_function(default).space.names == ()


def test_conditions_come_after_what_they_name():
    def conditional(trial, m=wb.uniform(0, 1, when=wb.Parameter("opt") == "a"), opt="b"):
        turns(trial)

    cell = read_function(conditional, {"opt": wb.choice("a", "b")})
    assert cell.space.names == ("opt", "m")
    callee = Callee(conditional, Call.of(cell.call, conditional))
    assert callee.arguments({"opt": "b", "m": None}, "T") == (["T"], {"opt": "b", "m": None})


def test_labels_of_defaults_become_objects():
    def picks(trial, opt=wb.choice(sorted, reversed)):
        turns(trial)

    assert Callee(picks, Call("trial")).arguments({"opt": "reversed"}, "T") == (["T"], {"opt": reversed})


def test_a_space_may_be_given_as_one():
    assert read_function(by_names, wb.Space(SPACE)).space.names == ("lr", "hidden")


# ---------------------------------------------------------------------------------------------------------------------
# Refused


def two_trials(trial, other: Trial):
    turns(trial)


def contradicts(trial: dict):
    turns(trial)


def one_unknown(x):
    return len(x)


def used_as_trial(x):
    turns(x)
    for _ in x.steps():
        x.report(acc=1)


def two_unknown(trial, first, second):
    turns(trial)


def no_use_of_a_trial(lr, hidden):
    return lr


def the_rest_and_one(trial, data, **others):
    turns(trial)


class Runner:
    def train(self, trial, lr):
        turns(trial)


@pytest.mark.parametrize(
    ("function", "space", "error", "told"),
    [
        (by_names, {"lr": LR, "hiden": HIDDEN}, BadSpace, "hiden, which is not a parameter (is hidden meant?)"),
        (
            by_defaults,
            {"hiden": HIDDEN},
            BadSpace,
            "which is not a parameter (is hidden meant?); it has lr, hidden",
        ),
        (turns, SPACE, BadSpace, "Add the parameter lr, or a parameter `config`"),
        (used_as_trial, SPACE, BadSpace, "it has none for a configuration"),
        (by_names, {"lr": LR}, BadCell, "nothing says what hidden should be"),
        (whole, {}, BadCell, "A dict of all: `space={'lr': wb.loguniform(1e-4, 1)}`"),
        (imported_inside, {}, BadCell, "nothing says what config should be"),
        (whole, {"lr": LR, "config": 3}, BadSpace, "gives lr, which is not a parameter"),
        (two_unknown, {"lr": LR, "first": 3}, BadSpace, "either only parameters, or only names for `second`"),
        (two_unknown, SPACE, BadSpace, "Add the parameter lr"),
        (the_rest_and_one, SPACE, BadCell, "nothing says what data should be"),
        (by_names, {"trial": LR, **SPACE}, BadSpace, "`trial` gets the trial, but space= gives it too"),
        (two_trials, {}, BadCell, "two parameters for the trial, trial and other"),
        (contradicts, SPACE, BadCell, "is `trial` the trial or a dict?"),
        (one_unknown, SPACE, BadCell, "does `x` get the trial, or the configuration?"),
        (no_use_of_a_trial, SPACE, BadCell, "does not use `workbench.trial`"),
        (Runner.train, {"lr": LR}, BadCell, "is a method without its object"),
        (Runner.train, SPACE, BadCell, "is a method without its object"),
        (by_names, [LR], BadOption, "expected a dict of names and distributions"),
        (by_names, {"lr": LR, "hidden": [LR]}, BadSpace, "inside a list"),
        (whole, {"model.lr": LR}, BadSpace, "'model.lr' is not a name"),
        (whole, {3: LR}, BadSpace, "3 is not a name"),
        (by_names, {"lr": wb.uniform(0, 1, when=wb.Parameter("x") == 1), "hidden": 3}, BadSpace, "'x' above it"),
    ],
)
def test_what_cannot_be_called_is_refused(function, space, error, told):
    with pytest.raises(error) as caught:
        read_function(function, space)
    assert told in str(caught.value)
    assert function.__name__ in str(caught.value) or error is BadOption
