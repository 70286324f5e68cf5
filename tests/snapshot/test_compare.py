import dataclasses

import numpy as np
from snapshot.notebooks import Notebook, main

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.snapshot import read_snapshot, take
from workbench.snapshot.capture import capture
from workbench.snapshot.cell import read_cell
from workbench.snapshot.compare import between, differences

CELL = """lr = loguniform(1e-4, 1)
hidden = choice(32, 64)
model = make(hidden, data)
for epoch in trial.steps():
    trial.report(val_acc=0.5)
"""
NOTES = "import json\ndata = [1, 2]\ndef make(h, d):\n    return h\n"


def version(store, number, source=CELL, notes=NOTES, **changed):
    notebook = Notebook().run(notes)
    with main(notebook.module):
        cell = read_cell(source, notebook.names)
        captured = capture(cell.needs, notebook.names, store, assigned=cell.assigned)
    taken = take(store, cell=cell, capture=captured, cells=[notes, source])
    spec = Spec(
        id=f"id{number}",
        name="digits",
        version=number,
        created="",
        goal=Goal("val_acc"),
        space=cell.space.to_json(),
        scheduler=Scheduler(last=27),
        searcher=Searcher(),
        program=Program("cell", source, "digits", captured.digest),
        training=Training("python", "."),
        snapshot=taken.digest,
    )
    return dataclasses.replace(spec, **changed)


def test_nothing_changed_is_nothing(store):
    assert differences(store, version(store, 1), version(store, 2)) == []


def test_what_changed_is_told_in_words(store):
    old = version(store, 1)
    assert differences(store, old, version(store, 2, CELL.replace("1e-4", "1e-5"))) == [
        "lr: loguniform(0.0001, 1) → loguniform(1e-05, 1)"
    ]
    assert differences(store, old, version(store, 2, CELL.replace("=0.5", "=0.7"))) == [
        "`trial.report(val_acc=0.5)` → `trial.report(val_acc=0.7)`"
    ]
    assert differences(store, old, version(store, 2, notes=NOTES.replace("[1, 2]", "[1, 3]"))) == ["data changed"]
    assert differences(store, old, version(store, 2, notes=NOTES.replace("return h", "return d"))) == ["make changed"]
    more = CELL.replace("model =", "extra = 1\nother = 2\nmodel =") + "print(epoch)\n"
    assert differences(store, old, version(store, 2, more)) == ["the cell's text (+3 −0 lines)"]
    added = CELL.replace("hidden =", "wd = uniform(0, 1)\nhidden =")
    assert differences(store, old, version(store, 2, added)) == ["wd added"]
    told = differences(store, old, version(store, 2, goal=Goal("loss", "min"), scheduler=Scheduler(last=81), seed=4))
    assert told == ["goal max val_acc → min loss", "steps 1-27 → 1-81", "seed 0 → 4"]


def test_packages_that_are_used_come_first(store):
    before = read_snapshot(store, take(store, capture=Notebook(np=np).capture(store, "np")).digest)
    after = {**before, "environment": {**before["environment"]}}
    packages = dict(before["environment"]["distributions"])
    after["environment"]["distributions"] = {**packages, "anyio": "0.1", "numpy": "99", "attrs": "1", "zzz": "1"}
    told = between(before, after)
    assert told[0] == f"numpy {packages['numpy']} → 99"
    assert told[-1] == "1 more packages" or "more packages" in told[-1]


def test_a_snapshot_that_is_gone_leaves_what_the_specs_say(store):
    old, new = version(store, 1), version(store, 2, CELL.replace("64", "128"), snapshot="0" * 64)
    assert differences(store, old, new) == ["hidden: choice(32, 64) → choice(32, 128)"]
