"""What Python keeps without a name between two batches is not lost: such a step is saved at its end, or the trial goes
on from the checkpoint before."""

import pytest
from trial.loops import FOOT
from trial.test_batches import ALWAYS, HEAD, STEP, STEPS, killed_and_resumed, outcome, undisturbed
from trial.world import said

from workbench.trial.api.batches import EXACT

LOADER = "loader = DataLoader(TensorDataset(X, Y), 8, shuffle=True)"
LEARN = f"""
{LOADER}
def learn(x, y):
    {STEP}
    return loss.item()
def total():
    found = 0.0
    for x, y in trial.batches(loader):
        found += learn(x, y)
    return found
"""

#: Loops that are saved at the ends of their steps only, and what the trial's page says of them.
KEEPS = {
    "a list": (
        "losses = [learn(x, y) for x, y in trial.batches(loader)]; score = sum(losses)",
        "a comprehension keeps",
    ),
    "a dictionary": (
        "losses = {i: learn(*b) for i, b in zip(range(9), [*trial.batches(loader)])}; score = sum(losses.values())",
        "keeps is not known",
    ),
    "a reduction": (
        "import functools; score = functools.reduce(lambda c, b: c + learn(*b), trial.batches(loader), 0.0)",
        "functools.reduce() keeps",
    ),
    "a value computed before": ("score = (float(torch.rand(())), total())[0]", "rand(()))` is computed before"),
    "a manager that puts back": (
        "with torch.random.fork_rng():\n        score = total()\n    score += float(torch.rand(()))",
        "`with torch.random.fork_rng()` is open",
    ),
    "a manager in the function": (
        "score = measured()",
        "`with Meter()` is open",
    ),
    "a closure": ("score = closed()", "add and closed share the variable found"),
    "a file": ("score = written(epoch)", "out is a file that written writes"),
}
KEEPING = """
class Meter:
    def __enter__(self): self.start = float(torch.rand(())); return self
    def __exit__(self, *_): self.end = self.start
def measured():
    with Meter() as meter:
        for x, y in trial.batches(loader):
            learn(x, y)
    return meter.end
def closed():
    found = 0.0
    def add(value):
        nonlocal found
        found += value
    for x, y in trial.batches(loader):
        add(learn(x, y))
    return found
def written(epoch):
    out = open(trial.folder / f"{epoch}.txt", "w")
    for x, y in trial.batches(loader):
        print(learn(x, y), file=out, flush=True)
    out.close()
    return len(open(trial.folder / f"{epoch}.txt").readlines())
"""

#: Loops that are still saved inside: what they keep is made again as it was.
FINE = {
    "reported at once": "trial.report(score=total(), epoch=epoch)",
    "added to": "best = 0.0\n    best += total()\n    trial.report(score=best)",
    "an argument": "history.append(max(total(), 0.0)); trial.report(score=history[-1])",
    "managers of torch": (
        "with torch.autograd.set_detect_anomaly(False), torch.enable_grad():\n        score = total()\n"
        "    trial.report(score=score)"
    ),
    "next": (
        "batches, score = trial.batches(loader), 0.0\n    while (batch := next(batches, None)) is not None:\n"
        "        score += learn(*batch)\n    trial.report(score=score)"
    ),
    "an outer loop": "score = 0.0\n    for part in range(2):\n        score += total()\n    trial.report(score=score)",
}

#: What the code before the batches changes, and a checkpoint does not hold, since it was as the set-up made it.
TOGGLES = {
    "a flag": ("flag = False", "flag = not flip(flag)", "flag"),
    "two that take turns": (
        "first, second = [1.0], [2.0]",
        "first, second = second, first; flag = first[0]",
        "first",
    ),
    "an attribute": ("class C: scale = 1.0\nflag = 0", "C.scale = -C.scale; flag = C.scale", "C"),
}


def loop(body):
    return f"{LEARN}{KEEPING}history = []\nfor epoch in trial.steps():\n    {body}\n"


@pytest.mark.parametrize("name", KEEPS)
def test_a_step_that_keeps_something_without_a_name_is_saved_at_its_end(server, experiment, name):
    body, reason = KEEPS[name]
    source = loop(f"{body}\n    trial.report(score=float(score))")
    expected = undisturbed(server, experiment, source)
    cell = experiment(HEAD + source + FOOT, steps=STEPS, save_s=ALWAYS)
    found, told, output = killed_and_resumed(server, cell, [(1, None)])
    assert found == expected
    assert not [m for m in said(told, "saved") if m.get("inside", 0) > 0]
    assert any(reason in m["found"]["resumes"] for m in said(told, "saved") if m["found"])
    assert reason in output


@pytest.mark.parametrize("name", FINE)
def test_others_are_saved_between_their_batches(server, experiment, name):
    source = loop(FINE[name])
    expected = undisturbed(server, experiment, source)
    cell = experiment(HEAD + source + FOOT, steps=STEPS, save_s=ALWAYS)
    found, told, _ = killed_and_resumed(server, cell, [(0, 2), (1, 1)])
    assert found == expected
    assert [m["found"]["resumes"] for m in said(told, "saved") if m["found"]][-1] == EXACT


@pytest.mark.parametrize("name", TOGGLES)
def test_what_the_step_has_changed_before_its_batches_is_not_taken_for_what_it_was(server, experiment, tmp_path, name):
    set_up, before, word = TOGGLES[name]
    stay = tmp_path / "stay"  # while it is there, the trial waits for the kill
    held = f"while epoch and found and os.path.exists({str(stay)!r}): time.sleep(0.01)"
    learn = LEARN.replace("        found +=", f"        {held}\n        found +=")
    source = f"""
import time
{learn}
def flip(value): return value
{set_up}
for epoch in trial.steps():
    {before}
    score = total()
    trial.report(score=score, flag=float(flag))
"""
    expected = undisturbed(server, experiment, source)
    cell = experiment(HEAD + source + FOOT, steps=STEPS, save_s=ALWAYS)
    runner = server.runner()
    stay.touch()
    runner.connection.send(cell.order())
    told = runner.until("saved", step=1, inside=1)  # in the second step everything is as the set-up made it
    runner.kill()
    stay.unlink()
    told += runner.until("left")
    left = server.runner().leg(cell.order(resume=True))
    assert left[-1]["error"]["type"] == "Elsewhere", left[-1]
    assert f"changes {word}" in left[-1]["error"]["message"]
    runner = server.runner()
    told += runner.leg(cell.order(resume=True))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]
    runner.kill()
    assert outcome(told, runner.output()) == expected


WRAPPED = {
    "zip": "steps = trial.steps()\nfor epoch, rate in zip(steps, [1, 2, 3]):\n    trial.report(score=rate)",
    "enumerate": (
        "def fit(steps):\n    for i, epoch in enumerate(steps):\n        trial.report(score=i)\nfit(trial.steps())"
    ),
    "a comprehension": (
        "def fit(epoch): trial.report(score=epoch)\nsteps = trial.steps()\ndone = [fit(epoch) for epoch in steps]"
    ),
    "functools.reduce()": (
        "import functools\nsteps = trial.steps()\n"
        "def fit(count, epoch): trial.report(score=count); return count + 1\nfunctools.reduce(fit, steps, 0)"
    ),
}


#: What makes one value of all that a generator gives.
COLLECTED = {
    "sum()": "sum(trial.report(score=epoch) or 1 for epoch in trial.steps())",
    "list()": (
        "def run():\n    for epoch in trial.steps():\n        trial.report(score=epoch)\n        yield epoch\n"
        "done = list(run())"
    ),
    "a comprehension": "def run():\n    for epoch in trial.steps():\n        yield epoch\n{one for one in run()}",
    "np.fromiter()": (
        "import numpy as np\ndef run(steps):\n    yield from steps\nnp.fromiter(run(trial.steps()), dtype=float)"
    ),
}


@pytest.mark.parametrize("around", COLLECTED)
def test_what_collects_the_values_of_a_generator_is_refused(server, experiment, around):
    """After a pause it would have those of the last leg only."""
    error = server.runner().leg(experiment(COLLECTED[around], steps=STEPS).order())[-1]["error"]
    assert error["message"].startswith(f"{around} goes through trial.steps().")


def test_what_takes_one_value_after_another_from_a_generator_may(server, experiment):
    source = """
def run():
    for epoch in trial.steps():
        trial.report(score=epoch)
        yield epoch
def all_of():
    yield from run()
running = all_of()
first = running.send(None)
assert any(epoch == 1 for epoch in running)
for epoch in running:
    pass
"""
    assert server.runner().leg(experiment(source, steps=STEPS).order())[-1]["outcome"] == "completed"


@pytest.mark.parametrize("around", WRAPPED)
def test_what_would_count_the_steps_anew_is_refused_before_the_first(server, experiment, around):
    cell = experiment(WRAPPED[around], steps=STEPS)
    error = server.runner().leg(cell.order())[-1]["error"]
    assert error["type"] == "BadInput"
    assert error["message"].startswith(f"{around} goes through trial.steps().")
    assert "write `for epoch in trial.steps():`" in error["message"]


#: Loops whose text may hide what goes through the steps.
HIDDEN = {
    "steps of another object": """
class Mine:
    def steps(self): return enumerate(steps)
steps, mine = trial.steps(), Mine()
for epoch in mine.steps():
    trial.report(score=epoch[0])""",
    "steps that were exchanged": """
steps = trial.steps()
trial.steps = lambda: enumerate(steps)
for epoch in trial.steps():
    trial.report(score=epoch[0])""",
    "another object called trial": """
def fit(trial, steps):
    for epoch in trial.steps():
        steps.append(epoch[0])
class Mine:
    def __init__(self, steps): self.all = enumerate(steps)
    def steps(self): return self.all
fit(Mine(trial.steps()), [])""",
    "steps that were exchanged for all": """
exchanged = type(trial).steps
type(trial).steps = lambda self: enumerate(exchanged(self))
for epoch in trial.steps():
    trial.report(score=epoch[0])""",
    "one branch of a condition": """
for epoch in enumerate(trial.steps()) if trial.number == 0 else trial.steps():
    trial.report(score=epoch[0])""",
    "the other branch": """
for epoch in trial.steps() if trial.number else enumerate(trial.steps()):
    trial.report(score=epoch[0])""",
    "code that is not what its text says": """
import ast
text = ast.parse("for epoch in trial.steps():\\n    trial.report(score=epoch[0])")
loop = text.body[0]
loop.iter = ast.copy_location(ast.Call(ast.Name("enumerate", ast.Load()), [loop.iter], []), loop.iter)
exec(compile(ast.fix_missing_locations(text), "<plain>", "exec"))""",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_counts_again_is_found_behind_a_plain_text(server, experiment, name):
    error = server.runner().leg(experiment(HIDDEN[name], steps=STEPS).order())[-1]["error"]
    assert error["message"].startswith("enumerate goes through trial.steps().")


def test_what_counts_again_is_found_in_a_module_that_was_edited(server, experiment, tmp_path):
    """A traceback's text is read once in a process, and each leg imports the module again."""
    text = "def fit(trial):\n    for epoch in {}:\n        trial.report(score=1.0)\n"
    source = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport fitted\nfitted.fit(trial)"
    cell, runner = experiment(source, steps=STEPS), server.runner()
    for around in ("trial.steps()", "enumerate(trial.steps())"):
        (tmp_path / "fitted.py").write_text(text.format(around))
        left = runner.leg(cell.order())[-1]
    assert left["error"]["message"].startswith("enumerate goes through trial.steps().")


PLAIN = {
    "in the cell": "for epoch in trial.steps():\n    trial.report(score=len(searched))",
    "in a function": (
        "def fit(run):\n    for epoch in run.steps():\n        run.report(score=len(searched))\nfit(trial)"
    ),
    "beside another loop": (
        "done = [one for one in range(3) for two in (one,)]\n"
        "for epoch in trial.steps():\n    for one in done: pass\n    trial.report(score=len(searched))"
    ),
    "a long loop": (
        "for epoch in trial.steps():\n"
        + "    done = [epoch, epoch + 1, epoch + 2]\n" * 60
        + "    trial.report(score=len(searched))"
    ),
    "under another name": "run = trial\nfor epoch in run.steps():\n    trial.report(score=len(searched))",
    "with a name before": "steps = trial.steps()\nfor epoch in steps:\n    trial.report(score=len(searched))",
}
SEARCH = """
from workbench.trial.api import places
searched, search = [], places.iterator_around
places.iterator_around = lambda items: searched.append(1) or search(items)
"""


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_loop_is_known_by_its_code(server, experiment, name):
    """To search all objects for what holds the steps is a large part of a very short leg."""
    told = server.runner().leg(experiment(SEARCH + PLAIN[name], steps=STEPS).order())
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    assert told[-1]["metrics"]["score"] == float(name == "with a name before")


def test_python_warns_of_a_text_in_each_leg_and_of_nothing_else(server, experiment):
    source = """
import warnings
warnings.simplefilter("always")
x = "\\d"
with warnings.catch_warnings(record=True) as caught:
    for epoch in trial.steps():
        trial.report(score=len(caught))
"""
    runner, cell = server.runner(), experiment(source, steps=1)
    assert [runner.leg(cell.order(trial=trial))[-1]["metrics"]["score"] for trial in (0, 1)] == [0.0, 0.0]
    runner.kill()
    assert "<unknown>" not in runner.output()


def test_a_generator_a_bar_and_next_may_go_through_the_steps(server, experiment):
    source = """
from tqdm import tqdm
def only(steps):
    for epoch in steps: yield epoch
bar = tqdm(only(trial.steps()))
while (epoch := next(iter(bar), None)) is not None:
    trial.report(score=epoch)
"""
    assert server.runner().leg(experiment(source, steps=STEPS).order())[-1]["outcome"] == "completed"
