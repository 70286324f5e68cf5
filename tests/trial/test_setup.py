"""What a set-up made the first time is what every later leg trains with, whatever it makes the next time."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trial.setups import HEAD, ONCE, STEADY, UNSTEADY, cell
from trial.world import points, said

STEPS = 5


def failed(told):
    return told[-1]["error"] and told[-1]["error"]["traceback"]


def shown(told):
    """What each step reported of the set-up."""
    return [value for (name, _, _), value in sorted(points(told).items()) if name == "score"]


def by_legs(server, experiment, source, ends):
    """Train to each of ``ends`` in a process of its own; all messages, in order."""
    one = experiment(source, steps=ends[-1])
    told, start = [], 0
    for until in ends:
        runner = server.runner()
        leg = runner.leg(one.order(until, start=start))
        runner.kill()
        assert failed(leg) is None, failed(leg)
        told += leg
        start = until
    return one, told


@pytest.mark.parametrize("name", UNSTEADY)
def test_what_the_set_up_does_not_make_again_is_kept(server, experiment, tmp_path, name):
    one, told = by_legs(server, experiment, cell(name), [1, 3, STEPS])
    assert len(set(shown(told))) == 1, shown(told)
    known = json.loads((one.store.experiment(one.spec.id).setup).read_text())
    assert known["failed"] == ""
    assert known["names"]
    assert all(message["found"]["kept"] for message in said(told, "saved") if message["found"])
    (line,) = said(told, "says")
    assert line["text"].startswith(f"the set-up makes {known['names'][0]}")


@pytest.mark.parametrize("name", ONCE)
def test_what_only_the_first_set_up_makes_is_no_hindrance(server, experiment, name):
    """Such as what fills a cache: later set-ups find it, and go another way."""
    one, told = by_legs(server, experiment, cell(name), [1, 3, STEPS])
    assert len(set(shown(told))) == 1, shown(told)
    other = server.runner().leg(one.order(STEPS, trial=1))
    assert failed(other) is None, failed(other)


def test_a_name_that_one_set_up_lacks_is_kept_for_the_next_that_has_it(server, experiment):
    source = """
import os
def turn():
    open("runs", "a").write("x")
    return os.path.getsize("runs")
if turn() != 2: extra = os.urandom(8).hex()
for epoch in trial.steps():
    trial.report(score=int(globals().get("extra", "0"), 16) % 1000)
"""
    _, told = by_legs(server, experiment, source, [1, 3, STEPS])
    assert len(set(shown(told))) == 1, shown(told)


@pytest.mark.parametrize("name", STEADY)
def test_what_is_the_same_each_time_costs_nothing(server, experiment, name):
    one, told = by_legs(server, experiment, cell(name), [1, 3, STEPS])
    known = json.loads((one.store.experiment(one.spec.id).setup).read_text())
    assert (known["changed"], known["grown"], known["failed"]) == ([], [], "")
    assert all("kept" not in message["found"] for message in said(told, "saved") if message["found"])
    calm = experiment(cell(name), steps=STEPS)
    assert points(server.runner().leg(calm.order())) == points(told)


@pytest.mark.parametrize("name", UNSTEADY)
def test_another_attempt_from_the_beginning_begins_with_the_same(server, experiment, name):
    """Once it is known what is not made again, a leg that dies before its first checkpoint loses nothing either."""
    one = experiment(cell(name), steps=STEPS)
    assert failed(server.runner().leg(one.order(1))) is None
    runner = server.runner()
    first = runner.leg(one.order(2, trial=1))
    runner.kill()
    one.paths(1).bundle.unlink()
    second = server.runner().leg(one.order(STEPS, trial=1, resume=True))
    assert failed(second) is None, failed(second)
    both = points(first), points(second)
    assert both[0] == {key: both[1][key] for key in both[0]}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_set_up_resumed_anywhere_equals_the_undisturbed_run(server, experiment, data):
    """Random parts make a set-up, with and without entropy; it is left at random levels, and killed between them."""
    parts = data.draw(st.lists(st.sampled_from([*UNSTEADY, *STEADY]), min_size=1, max_size=4, unique=True))
    ends = [*sorted(data.draw(st.sets(st.integers(1, STEPS - 1), min_size=1, max_size=3))), STEPS]
    kills = data.draw(st.sets(st.sampled_from(ends)))
    every = {**UNSTEADY, **STEADY}
    functions, calls = [], []
    for number, name in enumerate(parts):
        setup, shows = every[name]
        # Each part in a namespace of its own: names do not clash.
        functions.append(f"space{number} = {{**globals()}}\nexec({setup!r}, space{number})\n")
        calls.append(f"s{number}=float(eval({shows!r}, space{number}))")
    source = f"""{HEAD}{"".join(functions)}
for epoch in trial.steps():
    trial.report(score=epoch, {", ".join(calls)})
"""
    one = experiment(source, steps=STEPS)
    told, start = [], 0
    for until in ends:
        if until in kills and start:
            lost = server.runner()
            lost.connection.send(one.order(until, start=start))
            told_first = lost.connection.receive()
            assert told_first["op"] == "begun", told_first
            lost.kill()
        runner = server.runner()
        leg = runner.leg(one.order(until, start=start))
        runner.kill()
        assert failed(leg) is None, failed(leg)
        told += leg
        start = until
    values = points(told)
    for number in range(len(parts)):
        steady = parts[number] in UNSTEADY
        column = [values[f"s{number}", step, 0] for step in range(1, STEPS + 1)]
        if steady:
            assert len(set(column)) == 1, (parts[number], column)
    if not set(parts) & set(UNSTEADY):
        calm = experiment(source, steps=STEPS)
        assert points(server.runner().leg(calm.order())) == values


GROWS = """
rows = [float(line) for line in open("data.csv")]
import torch
X = torch.tensor(rows)
seen = []
for epoch in trial.steps():
    seen.append(epoch)
    trial.report(score=len(rows) + float(X.sum()))
"""


def test_a_file_that_somebody_changes_between_two_legs_is_refused_by_name(server, experiment, tmp_path):
    (tmp_path / "data.csv").write_text("1\n2\n")
    one = experiment(GROWS, steps=3)
    assert failed(server.runner().leg(one.order(1))) is None
    with open(tmp_path / "data.csv", "a") as file:
        file.write("3\n")
    left = server.runner().leg(one.order(3, start=1))[-1]
    assert left["error"]["type"] == "CannotResume"
    assert "X, rows" in left["error"]["message"]
    assert f"Since then {tmp_path / 'data.csv'} changed" in left["error"]["message"]
    assert "--again" in left["error"]["message"]
    (tmp_path / "data.csv").write_text("1\n2\n")
    told = server.runner().leg(one.order(3, start=1))
    assert failed(told) is None
    assert shown(told) == [5.0, 5.0]


def test_files_that_the_set_up_writes_are_whole_when_the_loop_reads_them(server, experiment):
    source = """
import time
with open("tokens.txt", "w") as file:
    for line in range(20):
        file.write(f"{line}\\n"); file.flush()
        time.sleep(0.005)
for epoch in trial.steps():
    with open("tokens.txt") as file:
        trial.report(score=len(file.readlines()))
    time.sleep(0.01)
"""
    one = experiment(source, steps=9)
    told = server.runner().leg(one.order(9))
    assert failed(told) is None
    assert shown(told) == [20.0] * 9
    assert json.loads(one.store.experiment(one.spec.id).setup.read_text())["failed"] == ""


def resumed_without_a_second_run(server, experiment, set_up, loop):
    """What legs say whose set-up fails where it is executed again, until the second leg."""
    source = f"""
import collections, os, time
if os.path.exists("in-use") and not os.path.exists("free"): raise OSError("in use")
open("in-use", "w").close()
{set_up}
for epoch in trial.steps():
{loop}
"""
    one = experiment(source, steps=3)
    told = server.runner().leg(one.order(1))
    assert failed(told) is None
    assert json.loads(one.store.experiment(one.spec.id).setup.read_text())["failed"] == "OSError: in use"
    (one.store.root.parent / "free").touch()
    told += server.runner().leg(one.order(3, start=1))
    assert failed(told) is None, failed(told)
    return told


def test_a_second_run_that_fails_is_said_and_plain_values_are_kept(server, experiment):
    told = resumed_without_a_second_run(
        server,
        experiment,
        "began, tags = time.time(), [str(time.time_ns())]",
        "    trial.report(score=began % 1e5 + float(tags[0]) % 997)",
    )
    assert len(set(shown(told))) == 1


def test_a_value_that_a_step_replaces_is_no_hindrance_where_no_second_run_was_compared(server, experiment):
    told = resumed_without_a_second_run(
        server,
        experiment,
        "hooks = collections.OrderedDict(a=1)",
        "    hooks = collections.OrderedDict(a=hooks['a'] + 1)\n    trial.report(score=hooks['a'])",
    )
    assert shown(told) == [2.0, 3.0, 4.0]


def test_the_second_run_prints_nothing_and_leaves_no_process(server, experiment):
    source = """
import subprocess
print("setting up")
child = subprocess.Popen(["sleep", "1000"])
for epoch in trial.steps():
    if epoch == 1: child.kill(); child.wait()
    trial.report(score=1.0)
"""
    one = experiment(source, steps=2)
    runner = server.runner()
    told = runner.leg(one.order())
    assert failed(told) is None
    assert told[-1]["reusable"], told[-1]["why"]
    runner.kill()
    assert runner.output().count("setting up") == 1


def test_without_verification_nothing_runs_twice(server, experiment, tmp_path):
    source = """
open("runs", "a").write("x")
for epoch in trial.steps(): trial.report(score=1.0)
"""
    one = experiment(source, steps=2, verify=False)
    assert failed(server.runner().leg(one.order())) is None
    assert (tmp_path / "runs").read_text() == "x"
    assert not one.store.experiment(one.spec.id).setup.exists()


def test_a_set_up_hook_that_counts_in_a_reused_process_is_no_difference(server, experiment):
    name = "hooks and loaders"
    one = experiment(cell(name), steps=4)
    runner = server.runner()
    for start, until in ((0, 1), (1, 2), (2, 4)):
        told = runner.leg(one.order(until, start=start))
        assert failed(told) is None, failed(told)
        told = runner.leg(one.order(until, start=start, trial=1))
        assert failed(told) is None, failed(told)


def test_random_numbers_of_a_generator_made_in_the_loop_go_on(server, experiment):
    source = """
import numpy as np
for epoch in trial.steps():
    trial.report(score=np.random.default_rng().random())
"""
    calm = points(server.runner().leg(experiment(source, steps=6).order()))
    assert len(set(calm.values())) == 6
    ends = [*sorted(random.Random(0).sample(range(1, 6), 3)), 6]
    _, told = by_legs(server, experiment, source, ends)
    assert points(told) == calm


LEARNER = """
import torch
from torch import nn

class Learner:
    def __init__(self, model):
        self.model, self.opt, self.seen = model, torch.optim.Adam(model.parameters(), lr=0.1), 0

    def __getattr__(self, name):  # what it does not know itself, its model is asked for
        if name == "model":
            raise AttributeError(name)
        return getattr(self.__dict__["model"], name)

    def __getstate__(self):
        return dict(self.__dict__)

    def __setstate__(self, state):
        self.__dict__.update(state)

    def step(self):
        self.opt.zero_grad()
        self.model(torch.randn(4, 3)).pow(2).mean().backward()
        self.opt.step()
        self.seen += 1

learn = Learner(nn.Linear(3, 1))
for epoch in trial.steps():
    learn.step()
    trial.report(score=float(learn.weight.sum()), seen=learn.seen)
"""


def test_an_object_that_passes_names_on_is_not_taken_for_its_part(server, experiment):
    _, told = by_legs(server, experiment, LEARNER, [1, 3, STEPS])
    assert points(told) == points(server.runner().leg(experiment(LEARNER, steps=STEPS).order()))
