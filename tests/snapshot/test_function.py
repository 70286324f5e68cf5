# ruff: noqa: B008 - distributions as defaults are what is tested
"""Reading training functions, in each form that people have them in."""

import asyncio
import functools
import importlib
import sys
import types

import pytest

from workbench import space as wb
from workbench.errors import BadCell, BadSpace
from workbench.snapshot.capture import capture
from workbench.snapshot.fingerprint import Fingerprint
from workbench.snapshot.reading.function import read_function, taken
from workbench.store import Store


def train(trial, lr=wb.loguniform(1e-4, 1), opt=wb.choice(sorted, reversed), *, batch=32, **more):
    for _ in trial.steps():
        trial.report(val_acc=lr)


def test_defaults_that_are_distributions_are_the_space():
    cell = read_function(train)
    assert cell.kind == "function"
    assert cell.entry == "train"
    assert cell.space.names == ("batch", "lr", "opt")
    assert [one.name for one in cell.hyperparameters] == ["lr", "opt"]
    assert cell.reports == {"val_acc"}
    assert cell.steps == train.__code__.co_firstlineno + 1
    assert "def train(" in cell.source
    assert cell.call is None
    cell.check_goal("val_acc")


def test_the_trial_may_go_by_another_name():
    def learn(t, lr=wb.uniform(0, 1)):
        for _ in t.steps():
            t.report(loss=1)

    assert read_function(learn).reports == {"loss"}

    def wrong(t, lr=wb.uniform(0, 1)):
        for _ in enumerate(t.steps()):
            t.report(loss=1)

    with pytest.raises(BadCell, match="enumerate"):
        read_function(wrong)


def test_functions_of_modules_say_where_they_live():
    assert read_function(train).module == train.__module__


# ---------------------------------------------------------------------------------------------------------------------
# Forms


class Trainer:
    """What people write around their functions."""

    def __init__(self, rate=0.1):
        self.rate, self.data, self.hook = rate, [1, 2, 3], len

    def fit(self, trial, lr=wb.uniform(0, 1)):
        for _ in trial.steps():
            trial.report(acc=lr * self.rate)

    @classmethod
    def on_class(cls, trial, lr=wb.uniform(0, 1)):
        for _ in trial.steps():
            trial.report(acc=lr)

    @staticmethod
    def alone(trial, lr=wb.uniform(0, 1)):
        for _ in trial.steps():
            trial.report(acc=lr)

    def __call__(self, trial, lr=wb.uniform(0, 1)):
        for _ in trial.steps():
            trial.report(acc=lr)

    class Inner:
        def fit(self, trial, lr=wb.uniform(0, 1)):
            for _ in trial.steps():
                trial.report(acc=lr)


def made(scale, rows=(1, 2)):
    def closure(trial, lr=wb.uniform(0, 1)):
        for _ in trial.steps():
            trial.report(acc=lr * scale + len(rows))

    return closure


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@logged
def decorated(trial, lr=wb.uniform(0, 1)):
    for _ in trial.steps():
        trial.report(acc=lr)


def arranged(scale, rows, trial, lr, depth=2):
    for _ in trial.steps():
        trial.report(acc=lr * scale)


with_lr = {"lr": wb.uniform(0, 1)}
ROWS = [[1, 2], [3]]
FORMS = {
    "a method": (Trainer().fit, {}, "Trainer.fit", ["Trainer.rate", "Trainer.data"]),
    "a method of an inner class": (Trainer.Inner().fit, {}, "Inner.fit", []),
    "a class method": (Trainer.on_class, {}, "Trainer.on_class", []),
    "a class method of an object": (Trainer().on_class, {}, "Trainer.on_class", []),
    "a static method": (Trainer.alone, {}, "alone", []),
    "an object": (Trainer(), {}, "Trainer.__call__", ["Trainer.rate", "Trainer.data"]),
    "a closure": (made(3), {}, "closure", ["closure: rows", "closure: scale"]),
    "a decorated function": (decorated, {}, "decorated", []),
    "a partial": (
        functools.partial(arranged, 2, ROWS, lr=wb.uniform(0, 1)),
        {},
        "partial(arranged)",
        ["arranged(scale)", "arranged(rows)"],
    ),
    "a partial by names": (
        functools.partial(arranged, scale=2, rows=ROWS),
        with_lr,
        "partial(arranged)",
        ["arranged(rows)"],
    ),
    "a partial of a partial": (
        functools.partial(functools.partial(arranged, 2), ROWS),
        with_lr,
        "partial(arranged)",
        ["arranged(scale)", "arranged(rows)"],
    ),
    "a partial of a method": (
        functools.partial(Trainer().fit, lr=wb.uniform(0, 1)),
        {},
        "partial(Trainer.fit)",
        ["Trainer.rate", "Trainer.data"],
    ),
    "a lambda": (lambda trial, lr: arranged(1, ROWS, trial, lr), with_lr, "<lambda>", []),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read(form):
    function, space, entry, parts = FORMS[form]
    cell = read_function(function, space)
    assert cell.entry == entry
    assert "lr" in cell.space.names
    assert cell.space.parameters["lr"] == wb.uniform(0, 1)
    if form != "a lambda":
        assert cell.reports == {"acc"}
        assert cell.steps is not None
    assert (cell.module is not None) == (form == "a decorated function")
    cell, its = taken(cell, function)
    assert its.parts == set(parts)
    assert [*cell.needs] == [entry, *parts]
    if not isinstance(function, functools.partial):
        assert its.values[entry] == function


def test_a_constant_of_a_partial_is_one_of_the_space():
    function = functools.partial(arranged, 2, ROWS, lr=wb.uniform(0, 1), depth=5)
    assert read_function(function).space.parameters["depth"] == 5


def test_a_partial_is_the_same_whatever_its_constants_are():
    """The space has them; options that are objects travel along."""

    def captured(**fixed):
        function = functools.partial(arranged, 2, ROWS, **fixed)
        cell, its = taken(read_function(function), function)
        return its.values[cell.entry].keywords

    assert captured(lr=wb.uniform(0, 1), depth=5) == captured(lr=wb.choice(1, 2), depth=None)
    assert captured(lr=wb.choice(sorted, 2)) == {"lr": wb.choice(sorted, 2)}


def test_a_name_that_the_code_uses_keeps_its_meaning():
    """The closure calls the module's function of the same name, which must not become itself."""

    def outer():
        def train(trial, lr=wb.uniform(0, 1)):
            for _ in trial.steps():
                trial.report(acc=lr)

        return train

    cell = read_function(outer())
    assert cell.entry == outer().__qualname__ != "train"
    assert cell.module is None


def test_a_method_bound_by_hand_has_the_content_of_its_function():
    def one(self, trial): ...

    def other(self, trial):
        return trial.steps()

    digest = Fingerprint({}).of
    owner = Trainer()
    assert digest(types.MethodType(one, owner)) == digest(types.MethodType(one, Trainer()))
    assert digest(types.MethodType(one, owner)) != digest(types.MethodType(other, owner))
    assert digest(owner.fit) != digest(Trainer(0.2).fit)


def test_named_parts_leave_the_content_as_earlier_versions_computed_it(tmp_path):
    function = made(3)
    cell, its = taken(read_function(function), function)
    store = Store(tmp_path / "store").create()
    whole = capture(cell.needs, its.namespace, store, values=its.values, parts=its.parts, entry=cell.entry)
    alone = capture({cell.entry: 0}, its.namespace, store, values=its.values)
    assert whole.fingerprint == alone.fingerprint
    assert {*whole.names} == {"closure", "closure: rows", "closure: scale"}
    assert whole.kinds["closure: scale"] == {"kind": "value", "words": "int", "value": 3}


def test_a_line_added_above_does_not_hide_the_text(tmp_path, monkeypatch):
    text = "def train(trial, lr=None):\n    for _ in trial.steps():\n        trial.report(acc=1)\n"
    file = tmp_path / "edited_model.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("edited_model")
    try:
        file.write_text("def helper(x):\n    return x\n\n\nclass A:\n    pass\n\n\n" + text)
        cell = read_function(module.train)
        assert cell.source == text
        assert cell.steps == 10
        file.write_text("# all is gone\n")
        assert "not known" in read_function(module.train).source
    finally:
        del sys.modules["edited_model"]


# ---------------------------------------------------------------------------------------------------------------------
# Refused


def no_trial(lr=wb.uniform(0, 1)): ...


def nothing(): ...


def without_default(trial, lr): ...


def no_steps(trial, lr=wb.uniform(0, 1)):
    for epoch in range(10):
        epoch.backward()


def bad_space(trial, lr=wb.uniform(0, 1), m=wb.uniform(0, 1, when=wb.Parameter("later") == 1)):
    for _ in trial.steps():
        pass


def hidden(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


async def asynchronous(trial): ...


def generator(trial):
    yield


class Waiting:
    async def fit(self, trial): ...

    def __call__(self, trial):
        yield


def in_a_loop(trial):
    return asyncio.run(asynchronous(trial))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Trainer, "a class"),
        (functools.partial(Trainer), "a class"),
        (Trainer.fit, "is a method without its object"),
        (functools.lru_cache(train), "_lru_cache_wrapper"),
        (print, "builtin"),
        (functools.partial(print), "builtin"),
        (7, "a int"),
        (no_trial, "no parameter for the trial"),
        (functools.partial(no_trial, lr=wb.uniform(0, 2)), "no parameter for the trial"),
        (nothing, "no parameter for the trial"),
        (hidden(train), "no parameter for the trial"),
        (lambda: 0, "no parameter for the trial"),
        (lambda x, lr=1: 0, "has no loop over trial.steps()"),
        (without_default, "lr=wb.uniform"),
        (functools.partial(arranged, 1), "nothing says what rows should be"),
        (functools.partial(train, 1, 2, 3, 4, 5), "does not say what parameters it has"),
        (asynchronous, "async"),
        (functools.partial(asynchronous), "async"),
        (Waiting().fit, "Waiting.fit() is async"),
        (Waiting(), "Waiting.__call__() yields"),
        (generator, "yields"),
        (functools.partial(functools.partial(generator)), "partial(generator) yields"),
        (no_steps, "for epoch in trial.steps():"),
    ],
)
def test_what_cannot_train_is_refused(given, told):
    with pytest.raises(BadCell) as caught:
        read_function(given)
    assert told in str(caught.value)


def test_a_function_that_has_its_own_loop_of_events_is_not_async():
    assert read_function(in_a_loop).entry == "in_a_loop"


def test_a_bad_space_names_the_function():
    with pytest.raises(BadSpace, match="bad_space"):
        read_function(bad_space)
