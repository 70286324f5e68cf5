"""What only training can show: the trial fails with that very sentence, and the others go on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from running import PLAIN, ended, engine, engine_pid, lines, spec_of, start, until

from workbench import asked, launch
from workbench.asking import ask
from workbench.errors import BadOption, NoAnswer, TrialFailed
from workbench.space import uniform
from workbench.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("training") / ".workbench")
    with engine(store, workers=2):
        until(lambda: engine_pid(store))
        yield store


HELPER = """
def ask():
    return float(input("How good is it? "))
"""
CELL = """%%train various --store {store} --goal max val_acc --steps 1-3 --scheduler all --searcher grid --wait
import numpy, torch
kind = choice("fine", "text", "none", "nan", "infinite", "tensor", "array", "asks", "other", "fine too")
values = {{"text": "0.9", "none": None, "nan": float("nan"), "infinite": -float("inf"),
          "tensor": torch.tensor([0.5, 0.6]), "array": numpy.zeros(3)}}
for epoch in trial.steps():
    if kind == "other":
        trial.report(accuracy=0.5)
    else:
        trial.report(val_acc=ask() if kind == "asks" else values.get(kind, 0.5))
"""
NUMBER = "but a metric is one number."
FLOAT = "For example: trial.report(val_acc=float(val_acc))."
MEAN = "Report its mean: trial.report(val_acc=val_acc.mean())."
SENTENCES = {
    "text": f"BadMetric: trial t0001 reported val_acc=the text '0.9' at step 1, {NUMBER} {FLOAT} (line 10)",
    "none": f"BadMetric: trial t0002 reported val_acc=None at step 1, {NUMBER} {FLOAT} (line 10)",
    "tensor": f"BadMetric: trial t0005 reported val_acc=a Tensor of 2 elements at step 1, {NUMBER} {MEAN} (line 10)",
    "array": f"BadMetric: trial t0006 reported val_acc=an ndarray of 3 elements at step 1, {NUMBER} {MEAN} (line 10)",
    "asks": (
        "EOFError: input() was called, but a trial has no keyboard input. Give the value in a cell above, or make it a "
        "hyperparameter. (line 10); the second time in a row at step 0, so it is not retried"
    ),
    "other": (
        "BadMetric: trial t0008 reported {'accuracy'} at step 1, but the goal is max val_acc. Report val_acc in every "
        "turn of the loop, or change --goal. (line 6)"
    ),
}


def test_a_trial_that_reports_no_number_fails_alone(person, store):
    assert person.cell(HELPER).error is None
    said = person.cell(CELL.format(store=store.root))
    assert said.error is None, said.shown
    table = person.cell("import workbench as wb; exp = wb.last(); exp.trials").error
    assert table is None
    trials = person.names["exp"].trials.set_index("kind")
    assert {kind: trials.reason[kind] for kind in SENTENCES} == SENTENCES
    assert {trials.state[kind] for kind in SENTENCES} == {"failed"}
    for kind in ("nan", "infinite"):
        assert (trials.state[kind], trials.reason[kind]) == ("completed", "all 3 steps: val_acc diverged")
    assert said.shown.rstrip().splitlines()[-1].endswith(", 2 trials diverged")
    assert [trials.state[kind] for kind in ("fine", "fine too")] == ["completed", "completed"]
    shown = person.command("--store", str(store.root), "show", "various").shown
    assert [sentence for sentence in SENTENCES.values() if sentence not in shown] == []
    assert person.names["exp"].best.configuration["kind"] == "fine"


def test_where_every_trial_fails_two_are_tried_and_the_cell_says_why_once(person, store):
    text = (
        f"%%train typo --store {store.root} --goal max val_acc --steps 1-9 --wait\n"
        "lr = uniform(0, 1)\nfor epoch in trial.steps():\n    trial.report(val_acc='0.9')\n"
    )
    said = person.cell(text)
    assert type(said.error) is TrialFailed
    sentence = f"reported val_acc=the text '0.9' at step 1, {NUMBER} {FLOAT}"
    message = str(said.error)
    assert message.startswith("typo@1 failed: no trial got as far as a first report: BadMetric: trial t000")
    assert sentence in message
    assert '\n\nt0000: Traceback (most recent call last):\n  File "<typo@1>", line 4, in <module>' in message
    assert said.shown.rstrip().endswith(message.rstrip())
    assert "workbench/" not in said.shown
    again = person.cell(text.replace(" --wait", ""))
    assert "typo@1 failed before with the same content; nothing is trained. Use --again to retrain." in again.shown


#: Torch from the package index calls itself so, where its distribution has no suffix.
SUFFIX = """
import sys
if any("workbench" in one for one in sys.orig_argv):
    import numpy
    numpy.__version__ += "+cu130"
"""


def test_a_module_whose_version_has_a_suffix_that_its_distribution_has_not_is_the_same(
    person, store, tmp_path, monkeypatch
):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SUFFIX)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    said = person.cell(
        f"%%train suffix --store {store.root} --goal max val_acc --steps 1-3 --wait\n"
        "lr = uniform(0, 1)\nimport numpy\nfor epoch in trial.steps():\n"
        "    trial.report(val_acc=lr + numpy.__version__.endswith('+cu130'))\n"
    )
    assert said.error is None
    person.cell("import workbench as wb; exp = wb.last()")
    assert person.names["exp"].state == "completed"
    assert person.names["exp"].best.value > 1.0, "its processes saw the suffix"


def test_versions_that_differ_from_a_workers_are_told_and_nothing_is_tried_twice(person, store, monkeypatch):
    here = launch.versions()
    monkeypatch.setattr(launch, "versions", lambda: {**here, "numpy": "1.0.0"})
    said = person.cell(
        f"%%train versions --store {store.root} --goal max val_acc --steps 1-9 --wait\n"
        "lr = uniform(0, 1)\nfor epoch in trial.steps():\n    trial.report(val_acc=lr)\n"
    )
    assert type(said.error) is TrialFailed
    for part in (f"{sys.executable} on ", f"has numpy {here['numpy']} instead of 1.0.0", "Install the same versions"):
        assert part in str(said.error)
    person.cell("import workbench as wb; exp = wb.last()")
    assert person.names["exp"].state == "failed"
    assert set(person.names["exp"].trials.state) <= {"failed", "stopped"}  # refused, or stopped before it was
    assert len(person.names["exp"].trials) <= 2  # one for each slot


def test_a_second_engine_is_refused_and_told_who_holds_the_store(person, store):
    first = engine_pid(store)
    command = [sys.executable, "-m", "workbench.engine", "--store", str(store.root)]
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert second.returncode == 3
    assert len(second.stderr.splitlines()) == 1
    for part in (f"process {first}", str(store.root), "a store has one engine", "workbench engine stop", "--store"):
        assert part in second.stderr
    said = person.command("--store", str(store.root), "engine", "start")
    assert said.error == 4
    assert len(said.shown.splitlines()) == 1
    for part in (f"process {first}", "has one engine", "`workbench engine stop`", "--store"):
        assert part in said.shown
    assert engine_pid(store) == first


def test_a_cluster_that_is_not_the_engines_is_refused_while_that_has_work(person, store):
    other = (
        f"%%train other --store {store.root} --goal max val_acc --steps 1-9 --cluster tcp://127.0.0.1:1\n"
        "lr = uniform(0, 1)\nfor epoch in trial.steps():\n    trial.report(val_acc=lr)\n"
    )
    slow = PLAIN.replace("trial.report", "__import__('time').sleep(5)\n    trial.report")
    spec = spec_of(slow, store.root.parent, space={"x": uniform(0.0, 1.0)}, name="long")
    start(store, spec)
    until(lambda: lines(store, spec, "LegStarted"), what="work of the engine")
    try:
        said = person.cell(other)
        assert type(said.error) is BadOption
        for part in ("tcp://127.0.0.1:1", "works on a cluster of this machine", "`workbench engine stop`"):
            assert part in str(said.error)
    finally:
        ask(store, asked.Stop(spec.id))
        assert ended(store, spec) == "stopped"
    # An engine without work makes way; but nothing answers at this address.
    until(lambda: type(person.cell(other).error) is NoAnswer, what="an engine that would make way")
    assert engine_pid(store) is not None
    assert "other" not in {store.read_spec(one).name for one in store.experiment_ids()}
