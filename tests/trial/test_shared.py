"""``trial.cached`` and ``trial.shared``: one call for all trials, each with the numbers it would have alone."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import pytest
from trial.world import points, said

from workbench.records import Training

#: A set-up that draws before, inside and after a cached function, and trains on its result.
CELL = """
import random, time, torch, numpy as np

def prepare(rows, scale=1.0):
    open({log!r}, "a").write("called\\n")
    time.sleep({seconds})
    return {{"X": torch.randn(rows, 64) * scale, "order": np.random.permutation(rows), "few": [random.random()],
            "own": np.random.default_rng().random()}}

torch.rand(1), np.random.rand(), random.random()
data = trial.cached(prepare, {rows}{more})
model = torch.nn.Linear(64, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for step in trial.steps():
    loss = (model(data["X"]) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    data["X"][0] += 1                   # this trial's own from now on
    trial.report(score=loss.item(), drawn=torch.rand(1).item() + np.random.rand() + random.random(),
                 first=data["few"][0] + data["own"] + float(data["order"][0]), x=data["X"][0, 0].item())
"""


def cell(tmp_path, seconds=0.0, rows=1000, more=""):
    return CELL.format(log=str(tmp_path / "calls"), seconds=seconds, rows=rows, more=more)


def calls(tmp_path):
    path = tmp_path / "calls"
    return len(path.read_text().splitlines()) if path.exists() else 0


def error(told):
    return told[-1]["error"] and told[-1]["error"]["traceback"]


def trained(server, one, *, trial=0, until=None, start=0):
    runner = server.runner()
    told = runner.leg(one.order(until, start=start, trial=trial))
    runner.kill()
    assert error(told) is None, error(told)
    return told


def test_it_is_called_once_and_every_trial_has_its_own_value_and_its_own_numbers(server, experiment, tmp_path):
    one = experiment(cell(tmp_path))
    made, loaded = (trained(server, one, trial=0), trained(server, one, trial=1))
    assert calls(tmp_path) == 1
    alone = experiment(cell(tmp_path))
    for entry in alone.store.cached.glob("*.json"):
        entry.unlink()
    # The trial that loaded it before makes it now, and has the same numbers.
    again = trained(server, alone, trial=1)
    assert calls(tmp_path) == 2
    assert points(again) == points(loaded)
    assert {key: points(made)[key] for key in points(made) if key[0] == "first"} == {
        key: points(loaded)[key] for key in points(loaded) if key[0] == "first"
    }
    # What the first trial wrote into the result, the second one did not see.
    assert points(made)["x", 1, 0] == points(loaded)["x", 1, 0]


def test_resumed_in_other_processes_it_equals_an_undisturbed_run(server, experiment, tmp_path):
    calm = trained(server, experiment(cell(tmp_path)))
    one = experiment(cell(tmp_path))
    told = [message for start in range(4) for message in trained(server, one, until=start + 1, start=start)]
    assert points(told) == points(calm)
    known = json.loads(one.store.experiment(one.spec.id).setup.read_text())
    assert (known["changed"], known["grown"], known["failed"]) == ([], [], "")


def test_what_is_made_again_after_cleaning_up_is_the_same(server, experiment, tmp_path):
    calm = trained(server, experiment(cell(tmp_path)))
    one = experiment(cell(tmp_path))
    told = trained(server, one, until=2)
    for folder in (one.store.cached, one.store.blobs):
        for entry in folder.iterdir():
            entry.unlink()
    told += trained(server, one, start=2)
    assert calls(tmp_path) == 2
    assert points(told) == points(calm)


def test_a_damaged_result_is_made_again(server, experiment, tmp_path):
    one = experiment(cell(tmp_path))
    calm = trained(server, one)
    large = max(one.store.blobs.iterdir(), key=lambda path: path.stat().st_size)
    os.truncate(large, 4096)
    assert points(trained(server, experiment(cell(tmp_path)))) == points(calm)
    (entry,) = one.store.cached.glob("*.json")
    entry.write_text("{")
    assert points(trained(server, experiment(cell(tmp_path)))) == points(calm)
    assert calls(tmp_path) == 3


def test_two_at_the_same_time_call_it_once(server, experiment, tmp_path):
    one = experiment(cell(tmp_path, seconds=0.6))
    runners = [server.runner() for _ in range(4)]
    told = {}

    def leg(number):
        told[number] = runners[number].leg(one.order(trial=number))

    threads = [threading.Thread(target=leg, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [error(one) for one in told.values()] == [None] * 4
    assert calls(tmp_path) == 1
    assert len({points(one)["first", 1, 0] for one in told.values()}) == 1


def test_where_the_trial_that_makes_it_is_killed_the_next_one_makes_it(server, experiment, tmp_path):
    source = cell(tmp_path, seconds=1.0).replace(
        "    time.sleep(1.0)",
        "    if not os.fork():\n        os.setsid()\n        time.sleep(60)\n"  # it may live longer
        f"    while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)",  # the first one waits for the kill
    )
    one = experiment(source.replace("import random", "import os, random"))
    first, second = server.runner(), server.runner()
    first.connection.send(one.order(trial=0))
    while not calls(tmp_path):
        time.sleep(0.01)
    told = []
    waits = threading.Thread(target=lambda: told.extend(second.leg(one.order(trial=1))))
    waits.start()
    time.sleep(0.3)
    assert calls(tmp_path) == 1  # it waits
    begun = time.monotonic()
    os.kill(first.pid, 9)
    (tmp_path / "go").touch()
    waits.join()
    assert error(told) is None
    assert time.monotonic() - begun < 15
    assert calls(tmp_path) == 2


@pytest.mark.parametrize(
    ("what", "change", "again"),
    [
        ("a comment", ("def prepare(rows, scale=1.0):", "def prepare(rows, scale=1.0):  # rows"), False),
        ("the code", ('"few": [random.random()]', '"few": [random.random() * 2]'), True),
        ("an argument", ("trial.cached(prepare, 1000)", "trial.cached(prepare, 1001)"), True),
        ("an argument by name", ("trial.cached(prepare, 1000)", "trial.cached(prepare, 1000, scale=2.0)"), True),
        ("a default", ("scale=1.0)", "scale=2.0)"), True),
        ("a value that it uses", ("torch.randn(rows, 64)", "torch.randn(rows, 64) * LARGE"), True),
    ],
)
def test_it_is_called_again_when_something_that_decides_changes(server, experiment, tmp_path, what, change, again):
    source = cell(tmp_path)
    trained(server, experiment(source), until=1)
    assert change[0] in source
    trained(server, experiment("LARGE = 2\n" + source.replace(*change)), until=1)
    assert calls(tmp_path) == (2 if again else 1), what
    if "LARGE" in change[1]:
        trained(server, experiment("LARGE = 3\n" + source.replace(*change)), until=1)
        assert calls(tmp_path) == 3


READS = """
import os
import torch

def prepare(folder):
    open({log!r}, "a").write("called\\n")
    return [float(open(os.path.join(folder, name)).read()) for name in sorted(os.listdir(folder))]

{before}
values = trial.cached(prepare, {folder!r})
for step in trial.steps():
    trial.report(score=sum(values))
"""


def test_it_is_called_again_when_a_file_that_it_read_changes(server, experiment, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for name in "ab":
        (folder / name).write_text("1")
    (tmp_path / "other").write_text("")
    # What the trial has read before counts if the function reads it too, and only then.
    before = f"open({str(folder / 'a')!r}).read() + open({str(tmp_path / 'other')!r}).read()"
    source = READS.format(log=str(tmp_path / "calls"), folder=str(folder), before=before)

    def score():
        told = trained(server, experiment(source), until=1)
        read = {path for message in said(told, "begun") for path in message["seen"]["paths"]}
        return points(told)["score", 1, 0], {os.path.basename(path) for path in read if path.startswith(str(folder))}

    time.sleep(0.02)  # a file that is newer than the call's beginning is not relied on
    assert score() == (2.0, {"a", "b"})
    assert score() == (2.0, {"a", "b"})  # its data is told though it was not called
    assert calls(tmp_path) == 1
    (tmp_path / "other").write_text("changed")
    os.utime(folder / "a")
    assert score()[0] == 2.0  # the same content
    assert calls(tmp_path) == 1
    (folder / "a").write_text("5")
    time.sleep(0.02)
    assert score()[0] == 6.0
    (folder / "c").write_text("10")
    time.sleep(0.02)
    assert score()[0] == 16.0
    (folder / "b").unlink()
    assert score()[0] == 15.0
    assert calls(tmp_path) == 4


def test_a_relative_path_is_each_folders_own_and_what_read_nothing_there_is_shared(server, experiment, tmp_path):
    source = f"""
    def total(path):
        open({str(tmp_path / "calls")!r}, "a").write("called\\n")
        return sum(map(float, open(path).read().split(",")))
    far, near = trial.cached(total, {str(tmp_path / "far.csv")!r}), trial.cached(total, "near.csv")
    for step in trial.steps(): trial.report(score=far + near)
    """
    (tmp_path / "far.csv").write_text("100,200")
    for name, text in (("one", "1,2,3"), ("two", "10,20,30")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "near.csv").write_text(text)
    time.sleep(0.02)

    def score(name):
        one = experiment(source, training=Training(sys.executable, str(tmp_path / name)))
        return points(trained(server, one, until=1))["score", 1, 0], calls(tmp_path)

    assert [score(name) for name in ("one", "two", "one", "two")] == [(306, 2), (360, 3), (306, 3), (360, 3)]
    # Those of an earlier Workbench do not say in which folder they were made.
    for path in (tmp_path / "store" / "cached").glob("*.json"):
        kept = json.loads(path.read_text())
        del kept["folder"]
        path.write_text(json.dumps(kept))
    assert [score(name) for name in ("one", "two")] == [(306, 4), (360, 4)]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("trial.cached(5)", "was given a int: expected a function"),
        ("trial.cached(list, (one for one in 'ab'))", "argument 1 holds a generator, whose content cannot be compared"),
        ("trial.cached(len, name=open('/dev/null'))", "argument name= holds a _io.TextIOWrapper"),
        ("trial.cached(lambda: trial.seed)", "`trial` is or holds the trial"),
        ("trial.cached(id, trial)", "argument 1 is or holds the trial"),
        ("trial.cached(threading.Lock)", "the result is a _thread.lock, which belongs to the threads of this process"),
        ("trial.cached(lambda: {'a': [threading.Lock()]})", "the result['a'][0] is a _thread.lock"),
        ("trial.cached(lambda one: one.append(1), [])", "the function changes argument 1"),
        ("trial.cached(lambda: held.append(1))", "the function changes `held`"),
        ("trial.cached(uses)", "the function uses trial.report"),
        ("trial.cached(fails)", "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_shared_is_refused_by_name(server, experiment, code, message):
    one = experiment(f"""
        import threading
        held = []
        def uses():
            from workbench import trial as mine
            mine.report(score=1.0)
        def fails():
            return 1 / 0
        try:
            {code}
        except Exception as error:
            text = f"{{type(error).__name__}}: {{error}}"
            print("TOLD", text)
            right = {message!r} in text
        for step in trial.steps():
            trial.report(score=float(right))
    """)
    runner = server.runner()
    told = runner.leg(one.order(1))
    runner.kill()
    assert points(told).get(("score", 1, 0)) == 1.0, runner.output()
    assert not [*one.store.cached.glob("*.json")]


WEIGHTS = """
import torch
from torch import nn

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(WIDTH, WIDTH)
        self.tied = self.body.weight

WIDTH = 2000
def load(path):
    base = Base()
    base.load_state_dict(torch.load(path))
    return base

base = trial.shared(load, {path!r})
same = base.tied.data_ptr() == base.body.weight.data_ptr() and isinstance(base, Base)
frozen = not any(one.requires_grad for one in base.parameters())
head = nn.Linear(WIDTH, 1)
opt = torch.optim.SGD(head.parameters(), lr=0.1)
for step in trial.steps():
    if step == 2 and trial.number == 0:
        with torch.no_grad():
            base.body.weight[0] += 1
    loss = head(base.body(torch.ones(1, WIDTH))).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    trial.report(score=loss.item(), same=float(same and frozen), sum=base.body.weight.sum().item())
"""


def weights(tmp_path):
    import torch

    weight = torch.nn.Linear(2000, 2000).weight.detach()
    torch.save({"tied": weight, "body.weight": weight, "body.bias": torch.zeros(2000)}, tmp_path / "base.pt")
    time.sleep(0.02)
    return WEIGHTS.format(path=str(tmp_path / "base.pt"))


def checkpoint_bytes(one, trial=0):
    paths = one.paths(trial)
    large = [entry for entry in paths.folder.rglob("*") if entry.is_file()] if paths.folder.exists() else []
    return sum(entry.stat().st_size for entry in (*large, *([paths.bundle] if paths.bundle.exists() else [])))


def test_checkpoints_do_not_hold_shared_weights_until_a_trial_changes_them(server, experiment, tmp_path):
    source = weights(tmp_path)
    one = experiment(source)
    told = trained(server, one, until=2)
    assert checkpoint_bytes(one) < 100_000
    assert {value for (name, *_), value in points(told).items() if name == "same"} == {1.0}
    told += trained(server, one, start=2)
    assert checkpoint_bytes(one) > 16_000_000  # the trial has weights of its own now
    other = trained(server, one, trial=1)
    assert points(told)["sum", 3, 0] == pytest.approx(points(other)["sum", 3, 0] + 2000, abs=1)
    assert points(told) == points(trained(server, experiment(source)))


def test_what_a_function_of_a_module_makes_depends_on_the_modules_code(server, experiment, tmp_path):
    module = tmp_path / "preparing.py"
    source = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import preparing
        value = trial.cached(preparing.prepare, 2)
        for step in trial.steps():
            trial.report(score=value)
    """
    scores = []
    for factor in (1.0, 1.0, 3.25):  # longer: within a second, Python takes a text of the same length for the same
        module.write_text(
            f"def factor():\n    return {factor}\n\ndef prepare(one):\n"
            f"    open({str(tmp_path / 'calls')!r}, 'a').write('called\\n')\n    return one * factor()\n"
        )
        scores.append(points(trained(server, experiment(source), until=1))["score", 1, 0])
    assert scores == [2.0, 2.0, 6.5]
    assert calls(tmp_path) == 2


def test_a_plain_run_calls_the_function_with_the_same_random_numbers(server, experiment, tmp_path):
    source = """
        import random
        value = trial.cached(lambda: random.random())
        for step in trial.steps():
            trial.report(score=value)
    """
    from workbench.trial.api.local import local_trial

    names = {"trial": local_trial(folder=tmp_path), "__name__": "__main__"}
    text = """
import random
drawn = random.getstate()
value = trial.cached(lambda: random.random())
same = random.getstate() == drawn
"""
    exec(compile(text, "<here>", "exec", dont_inherit=True), names)
    assert names["same"]
    told = trained(server, experiment(source), until=1)
    assert points(told)["score", 1, 0] == names["value"]


MEMORY = """
import torch
from torch import nn

def own():
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024

def load():
    return nn.Sequential(*(nn.Linear(1000, 1000) for _ in range(16)))

before = own()
base = LOAD
loaded = own() - before
loss = 0.0
for step in trial.steps():
    with torch.no_grad():
        loss += base(torch.ones(1, 1000)).sum().item()
    trial.report(score=loss, loaded=loaded, used=own() - before)
"""


def test_weights_take_their_memory_once(server, experiment):
    def taken(load, trial):
        told = points(trained(server, experiment(MEMORY.replace("LOAD", load)), trial=trial, until=2))
        return told["loaded", 1, 0], told["used", 2, 0]

    assert min(taken("load()", 0)) > 64_000_000
    # Also where it was made, and after it was used and looked through for a checkpoint.
    for trial in range(3):
        assert max(taken("trial.shared(load)", trial)) < 32_000_000
