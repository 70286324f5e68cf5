"""The forms in which people have training functions, from the notebook and from modules: killed, resumed and loaded."""

import dataclasses
import functools
import json
import subprocess
import sys

import pytest
from thorough import IS_THOROUGH
from trial.test_resume import result
from trial.world import SOURCES, Experiment, points, said

from workbench.space import Space
from workbench.store import Store, new_id
from workbench.trial.export.loading import load

STEPS = 5

#: Each function keeps state where its form keeps it: in its object, in variables around it, in its arguments.
FORMS = '''
import functools, inspect, random, time, types
import torch
from torch import nn
from torch.nn import functional as F
import workbench as wb
from workbench import trial

X = torch.linspace(-1, 1, 64).reshape(16, 4)
Y = (X.sum(1) > 0).long()
goal, scheduler = wb.minimize("score"), wb.All(max_steps=5)


def turn(model, opt, rows=slice(None)):
    opt.zero_grad()
    loss = F.cross_entropy(model(X[rows]), Y[rows])
    loss.backward()
    opt.step()
    return loss.item()


def made(lr, hidden=3):
    model = nn.Sequential(nn.Linear(4, hidden), nn.Dropout(0.3), nn.Linear(hidden, 2))
    return model, torch.optim.AdamW(model.parameters(), lr=lr)


def told(model, *others):
    print("RESULT", [p.tolist() for p in model.parameters()], others, flush=True)


def renamed(function):
    def wrapper(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    wrapper.__signature__ = inspect.signature(function)
    return wrapper


class Runner:
    """Holds what it trains, what it has seen, and a generator of its own."""

    def __init__(self, hidden):
        self.hidden, self.seen, self.best = hidden, [0.5], None
        self.random = random.Random(3)

    def train(self, trial, lr):
        self.model, self.opt = made(lr, self.hidden)
        for _ in trial.steps():
            time.sleep(0.02)
            self.seen.append(turn(self.model, self.opt) + self.random.random())
            self.best = min(self.seen)
            trial.report(score=self.seen[-1], best=self.best, count=len(self.seen))
        told(self.model, self.seen)

    def __call__(self, trial, lr):
        self.train(trial, lr)

    @renamed
    def decorated(self, trial, lr):
        self.train(trial, lr)

    with_less = functools.partialmethod(train, lr=0.01)

    @classmethod
    def alone(cls, trial, lr):
        cls(2).train(trial, lr)


def by_hand(self, trial, lr):
    self.train(trial, lr)


def outer(hidden):
    seen, count = [], 0

    def train(trial, lr):
        nonlocal count
        model, opt = made(lr, hidden)
        for _ in trial.steps():
            time.sleep(0.02)
            seen.append(turn(model, opt))
            count += 1
            trial.report(score=seen[-1], total=sum(seen), count=count)
        told(model, seen, count)

    return train


def arranged(history, model_of, trial, lr, *, options):
    model, opt = model_of(lr, options["hidden"])
    for _ in trial.steps():
        time.sleep(0.02)
        history.append(turn(model, opt) + random.random())
        options["count"] = len(history)
        trial.report(score=history[-1], count=options["count"])
    told(model, history, options)


def logged(function):
    calls = []

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        calls.append(len(kwargs))
        return function(*args, **kwargs)

    return wrapper


@logged
def decorated(trial, lr):
    Runner(3).train(trial, lr)


def whole(trial, config):
    model, opt = made(**config["model"])
    for turns in trial.steps():
        time.sleep(0.02)
        config["seen"].append(turn(model, opt))
        trial.report(score=config["seen"][-1] + len(config["seen"]), optimizer=len(config["optimizer"].__name__))
    told(model, config["seen"])


def whole_alone(config):
    loop(*made(config["lr"]), config["steps_seen"])


def loop(model, opt, seen):
    for _ in trial.steps():
        time.sleep(0.02)
        seen.append(turn(model, opt))
        trial.report(score=seen[-1], count=len(seen))
    told(model, seen)


LR = {"lr": wb.loguniform(1e-3, 1)}
FUNCTIONS = {
    "method": (Runner(3).train, LR),
    "object": (Runner(4), LR),
    "class_method": (Runner.alone, LR),
    "decorated_method": (Runner(3).decorated, LR),
    "partial_method": (Runner(3).with_less, None),
    "bound_by_hand": (types.MethodType(by_hand, Runner(3)), LR),
    "closure": (outer(3), LR),
    "partial": (functools.partial(arranged, [1.5], made, options={"hidden": 3}), LR),
    "partial_of_method": (functools.partial(Runner(2).train, lr=wb.loguniform(1e-3, 1)), None),
    "decorated": (decorated, LR),
    "lambda": (lambda trial, lr: Runner(3).train(trial, lr), LR),
    "whole": (
        whole,
        {
            "model": {"lr": wb.loguniform(1e-3, 1), "hidden": 3},
            "optimizer": wb.choice(torch.optim.SGD, torch.optim.AdamW),
            "seen": [],
        },
    ),
    "whole_alone": (whole_alone, {**LR, "steps_seen": []}),
}


def experiment(name, store):
    function, space = FUNCTIONS[name]
    return wb.Experiment(name, function, space=space, goal=goal, scheduler=scheduler, trials=2, store=store)
'''
LAUNCH = """
import json, sys
{before}
ids = {{name: experiment(name, sys.argv[1])._drafted().launch().id for name in FUNCTIONS}}
print(json.dumps(ids))
"""
NAMES = (
    *("method", "object", "class_method", "closure", "partial", "partial_of_method", "decorated", "lambda"),
    *("whole", "whole_alone", "decorated_method", "partial_method", "bound_by_hand"),
)
HOMES = ("notebook", "module")


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """The ids of all experiments by home and name, and their store."""
    folder = tmp_path_factory.mktemp("forms")
    store = Store(folder / ".workbench").create()
    (folder / "own_forms.py").write_text(FORMS)
    found = {}
    for home, before in {"notebook": FORMS, "module": "from own_forms import *"}.items():
        script = folder / f"{home}_script.py"
        script.write_text(LAUNCH.format(before=before))
        done = subprocess.run(
            [sys.executable, str(script), str(store.root)],
            cwd=folder,
            env={"PYTHONPATH": SOURCES, "HOME": str(folder), "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found |= {(home, name): one for name, one in json.loads(done.stdout).items()}
    return store, found


def fresh(launched, home, name):
    """The same experiment, which has not been trained yet."""
    store, ids = launched
    spec = dataclasses.replace(store.read_spec(ids[home, name]), id=new_id())
    store.write_spec(spec)
    made = Experiment(store, spec)
    read = Space.from_json(spec.space)
    made.configuration = read.from_unit([0.5] * read.dimensions)
    return made


@pytest.fixture
def of(launched):
    return functools.partial(fresh, launched)


def order(made, *args, **changes):
    return made.order(*args, configuration=made.configuration, **changes)


@pytest.fixture(scope="module")
def undisturbed(server, launched):
    """``undisturbed(home, name)``: what its trial 1 reports, and its result."""

    @functools.cache
    def trained(home, name):
        calm = server.runner()
        told = calm.leg(order(fresh(launched, home, name), trial=1))
        assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
        calm.kill()
        return points(told), result(calm.output())

    return trained


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", NAMES)
def test_each_form_that_is_killed_equals_an_undisturbed_one(server, of, undisturbed, home, name):
    expected, weights = undisturbed(home, name)
    made = of(home, name)
    assert len({step for _, step, _ in expected}) == STEPS
    resumed, output, start = {}, "", 0
    for until in range(1, STEPS + 1) if IS_THOROUGH else (1, 3, STEPS):
        runner = server.runner()
        told = runner.leg(order(made, until, start=start, trial=1))
        left = told[-1]
        assert left["op"] == "left", runner.output()
        assert left["error"] is None, left["error"]["traceback"]
        runner.kill()
        assert said(told, "begun")[0]["step"] == start
        resumed |= points(told)
        output += runner.output()
        start = left["step"]
    assert left["outcome"] == "completed"
    assert resumed == expected
    assert result(output) == weights


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", ["method", "closure", "partial"])
def test_killed_inside_of_a_step_and_resumed(server, of, undisturbed, home, name):
    expected, weights = undisturbed(home, name)
    made = of(home, name)
    runner = server.runner()
    runner.connection.send(order(made, trial=1, levels=(2, STEPS)))
    told = runner.until("points")
    runner.kill()
    told += runner.until("left")
    runner = server.runner()
    told += runner.leg(order(made, trial=1, resume=True))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    runner.kill()
    assert points(told) == expected
    assert result(runner.output()) == weights


@pytest.mark.parametrize("name", NAMES)
def test_every_trial_has_its_own_copy(server, of, undisturbed, name):
    """Two trials one after another in one process: what the first changed is not there for the second."""
    made = of("notebook", name)
    runner = server.runner()
    first = runner.leg(order(made, trial=0))
    second = runner.leg(order(made, trial=1))
    assert (first[-1]["outcome"], second[-1]["outcome"]) == ("completed", "completed")
    expected, _ = undisturbed("notebook", name)
    assert points(second) == expected


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", ["method", "closure", "partial", "whole"])
def test_what_was_trained_is_loaded(server, of, monkeypatch, home, name):
    made = of(home, name)
    monkeypatch.syspath_prepend(made.spec.training.cwd)
    runner = server.runner()
    told = runner.leg(order(made, 3, trial=1))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    runner.kill()
    names = vars(load(made.store, made.spec, 1, made.configuration))
    if name == "method":
        assert len(names["self"].seen) == 4
    elif name == "closure":
        assert (len(names["seen"]), names["count"]) == (3, 3)
    elif name == "partial":
        assert (len(names["history"]), names["options"]["count"]) == (4, 4)
    else:
        assert len(names["config"]["seen"]) == 3
    assert all(one.isidentifier() for one in names)
