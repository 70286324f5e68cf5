"""The index of executed notebooks. A notebook counts as running only while a process holds its lock."""

from __future__ import annotations

import dataclasses
import json

import pytest

from workbench.errors import BadName, NewerSchema, NotFound, StoreReadOnly
from workbench.store import Store, new_id
from workbench.store.lists import notebooks
from workbench.store.lists.notebooks import NotebookRun


def one(**fields) -> NotebookRun:
    return NotebookRun(**{"id": new_id(), "key": "k", "path": "/a.ipynb", "started": "2026-11-20", **fields})


def test_what_is_executed_runs_and_is_interrupted_when_nobody_holds_it(store):
    run = one(parameters={"lr": 0.1, "name": "a b", "deep": [1]})
    with notebooks.executing(store, run) as kept:
        assert kept == notebooks.executed(store, run.id)
        assert notebooks.read(store, run.id) == run
        assert kept.parent.stat().st_mode & 0o77 == 0  # its owner's only
    assert notebooks.read(store, run.id).state == "interrupted"
    assert run.label == "lr=0.1 name='a b' deep=[1]"
    assert one().label == "as it is"


def test_its_end_is_kept(store):
    run = one()
    with notebooks.executing(store, run):
        ended = dataclasses.replace(run, state="failed", cell=3, error="ValueError: no", trained=("a", "b"))
        notebooks.write(store, ended)
    assert notebooks.read(store, run.id) == ended


def test_the_newest_of_each_key_is_what_counts(store):
    first, second, other = one(id="20261120-140312-aaaaaa"), one(id="20261120-140313-aaaaaa"), one(key="l")
    for run in (second, other, first):
        with notebooks.executing(store, run):
            notebooks.write(store, dataclasses.replace(run, state="completed"))
    assert {key: run.id for key, run in notebooks.newest(store).items()} == {"k": second.id, "l": other.id}
    assert [run.id for run in notebooks.runs(store)] == sorted([first.id, second.id, other.id])


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"id": "x", "key": "k", "path": "", "schema": 99})])
def test_what_cannot_be_read_is_left_out_of_the_list(store, text):
    folder = notebooks.folder_of(store, "20261120-140312-aaaaaa")
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(text)
    (store.notebooks / "NOT an id").mkdir()
    assert notebooks.runs(store) == []
    with pytest.raises((NotFound, NewerSchema)):
        notebooks.read(store, folder.name)


def test_names_lead_nowhere_else_and_a_store_that_is_only_read_is_not_written(store):
    with pytest.raises(BadName):
        notebooks.folder_of(store, "../experiments")
    with pytest.raises(StoreReadOnly), notebooks.executing(Store(store.root, readonly=True), one()):
        pass
    assert notebooks.runs(Store(store.root / "nowhere")) == []
