# ruff: noqa: B008 - distributions as defaults are what is tested
import functools

import pytest

from workbench import space as wb
from workbench.errors import BadCell, BadSpace
from workbench.snapshot.reading.function import arguments, read_function


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
    cell.check_goal("val_acc")


def test_a_runner_calls_it_with_objects_for_labels():
    assert arguments(train, {"lr": 0.5, "opt": "reversed", "batch": 32}) == {"lr": 0.5, "opt": reversed, "batch": 32}

    def conditional(trial, opt=wb.choice("a", "b"), m=wb.uniform(0, 1, when=wb.Parameter("opt") == "a")):
        for _ in trial.steps():
            trial.report(a=1)

    assert read_function(conditional).space.names == ("opt", "m")
    assert arguments(conditional, {"opt": "b", "m": None}) == {"opt": "b", "m": None}


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


class Trainer:
    def fit(self, trial):
        for _ in trial.steps():
            pass

    def __call__(self, trial): ...


def no_trial(lr=wb.uniform(0, 1)): ...


def nothing(): ...


def without_default(trial, lr): ...


def no_steps(trial, lr=wb.uniform(0, 1)):
    for epoch in range(10):
        epoch.backward()


def bad_space(trial, lr=wb.uniform(0, 1), m=wb.uniform(0, 1, when=wb.Parameter("later") == 1)):
    for _ in trial.steps():
        pass


async def asynchronous(trial): ...


def generator(trial):
    yield


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Trainer().fit, "method"),
        (Trainer(), "Trainer"),
        (Trainer, "a class"),
        (lambda trial: 0, "lambda"),
        (functools.partial(train), "partial"),
        (print, "builtin"),
        (no_trial, "no parameter for the trial"),
        (nothing, "no parameter for the trial"),
        (without_default, "lr=wb.uniform"),
        (asynchronous, "async"),
        (generator, "yields"),
        (no_steps, "for epoch in trial.steps():"),
    ],
)
def test_what_cannot_train_is_refused(given, told):
    with pytest.raises(BadCell) as caught:
        read_function(given)
    assert told in str(caught.value)


def test_a_bad_space_names_the_function():
    with pytest.raises(BadSpace, match="bad_space"):
        read_function(bad_space)
