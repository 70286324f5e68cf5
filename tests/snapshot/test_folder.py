import json
import os
import time

import pytest
from snapshot.notebooks import Notebook

from workbench.errors import NotFound, StoreReadOnly
from workbench.snapshot import read_snapshot, take
from workbench.snapshot.reading.cell import read_cell
from workbench.store import Store

CELL = "lr = uniform(0, 1)\nfor epoch in trial.steps():\n    trial.report(val_acc=lr)\n"


def test_a_snapshot_holds_everything(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text("1")
    notebook = tmp_path / "n.ipynb"
    notebook.write_text("{}")
    captured = Notebook(x=[1, 2]).capture(store, "x")
    cell = read_cell(CELL, {})
    taken = take(
        store,
        cell=cell,
        capture=captured,
        notebook=notebook,
        cells=["", "open('train.csv')", "%%train"],
        cell_id="id7",
        typed="%%train digits --token sk-12345678",
        expanded="%%train digits --seed 3",
        seed=3,
        data=["nowhere", "n.ipynb"],
    )
    found = read_snapshot(store, taken.digest)
    assert found["typed"] == "%%train digits --token ***"
    assert found["seed"] == 3
    assert found["capture"]["names"] == captured.names
    assert [one["source"] for one in found["cells"]["cells"]] == ["open('train.csv')", "%%train"]
    assert found["cells"]["cells"][1]["cell_id"] == "id7"
    assert [os.path.basename(one["path"]) for one in found["data"]["files"]] == ["train.csv", "n.ipynb"]
    assert found["environment"]["python"]["version"]
    assert (taken.path / "notebook.ipynb").read_text() == "{}"
    assert {part["schema"] for part in (found, found["cells"], found["environment"], found["data"])} == {1}
    assert oct(taken.path.stat().st_mode & 0o777) == "0o700"


def test_the_same_again_is_the_same_folder(store):
    cell = read_cell(CELL, {})
    one = take(store, cell=cell, cells=["x = 1"])
    # Only the folder's own time changes: cleaning up keeps what was touched within a day.
    before = sorted((path, path.stat().st_ino, path.stat().st_mtime_ns) for path in store.snapshots.glob("*/*"))
    assert take(store, cell=cell, cells=["x = 1"]).digest == one.digest
    assert sorted((path, path.stat().st_ino, path.stat().st_mtime_ns) for path in store.snapshots.glob("*/*")) == before
    assert take(store, cell=cell, cells=["x = 2"]).digest != one.digest
    assert len(os.listdir(store.snapshots)) == 2


def test_nothing_is_left_behind_when_it_fails(store, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.snapshot.folder._write", full)
    with pytest.raises(OSError, match="space"):
        take(store, cells=["x = 1"])
    assert os.listdir(store.snapshots) == []


def test_a_read_only_store_is_refused_first(store):
    with pytest.raises(StoreReadOnly):
        take(Store(store.root, readonly=True), cells=["x = 1"])


def test_a_missing_snapshot_is_told(store):
    with pytest.raises(NotFound, match="0123456789ab"):
        read_snapshot(store, "0123456789abcdef" * 4)


def test_a_large_notebook_is_kept_in_time(store, tmp_path):
    notebook = tmp_path / "large.ipynb"
    notebook.write_bytes(json.dumps({"cells": ["x" * 5_000_000] * 10}).encode())
    cells = ["", *(f"x{i} = read('data/{i}.csv')\n" + "#" * 800 for i in range(5000))]
    begun = time.perf_counter()
    taken = take(store, cells=cells, notebook=notebook)
    assert time.perf_counter() - begun < 30  # about 0.5 s where nothing else runs
    assert len(read_snapshot(store, taken.digest)["cells"]["cells"]) == 5000


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["snapshot.json", "cells.json", "environment.json", "data.json"])
def test_a_part_that_is_a_pipe_or_a_link_is_refused_at_once(store, tmp_path, name):
    taken = take(store, cells=["x = 1"])
    place = taken.path / name
    place.rename(tmp_path / "moved")
    os.mkfifo(place)
    with pytest.raises(ValueError, match="a named pipe"):
        read_snapshot(store, taken.digest)
    place.unlink()
    place.symlink_to(tmp_path / "moved")
    with pytest.raises(ValueError, match="a link"):
        read_snapshot(store, taken.digest)
    place.unlink()
    place.write_bytes(b"[" * 200_000)
    with pytest.raises(ValueError):
        read_snapshot(store, taken.digest)
