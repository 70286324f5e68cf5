"""Files that have changed since are seen as they were, by every reader where mounts are permitted, else by relative
paths; and the person's files stay as they are."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from mounts import may_mount
from trial.world import said

from workbench.cluster.workers.laying import lay_out
from workbench.snapshot.surroundings.data import describe
from workbench.store.files.atomic import WRITING

READS = """
import os, sqlite3, subprocess
import numpy as np, pandas as pd
score = {reading}
for epoch in trial.steps():
    trial.report(score=float(score))
"""
WAYS = {
    "python": "open('{at}a.csv').read()",
    "pandas": "pd.read_csv('{at}a.csv', header=None).iloc[0, 0]",
    "parquet": "pd.read_parquet('{at}a.parquet')['a'][0]",
    "numpy": "np.load('{at}a.npy', mmap_mode='r')[0]",
    "sqlite": "sqlite3.connect('{at}a.db').execute('select x from t').fetchone()[0]",
    "subprocess": "subprocess.run(['cat', '{at}a.csv'], capture_output=True, text=True, check=True).stdout",
    "deeper": "open('{at}parts/a.csv').read()",
    "beside": "open('{at}other.csv').read()",
}


def written(folder: Path, value: int) -> None:
    import numpy as np
    import pandas as pd

    (folder / "parts").mkdir(exist_ok=True)
    for name in ("a.csv", "parts/a.csv"):
        (folder / name).write_text(f"{value}\n")
    pd.DataFrame({"a": [value]}).to_parquet(folder / "a.parquet")
    np.save(folder / "a.npy", np.array([value]))
    (folder / "a.db").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / "a.db")
    connection.execute("create table t (x)")
    connection.execute("insert into t values (?)", (value,))
    connection.commit()
    connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "work"
    found.mkdir()
    (found / "other.csv").write_text("1\n")
    written(found, 1)
    return found


@pytest.fixture
def leg(server, experiment, folder):
    """``leg(reading, is_mounted)``: what training reads and says, where the files were overwritten since."""
    made = experiment(READS.format(reading="0"))
    store = made.store
    names = ("a.csv", "a.parquet", "a.npy", "a.db", "parts/a.csv")
    back = {
        str(folder / name): {
            "kept": store.put_blob((folder / name).read_bytes()),
            "digest": describe(folder / name).digest,
            "modified": "2026-03-01T12:00:00+00:00",
        }
        for name in names
    }
    written(folder, 2)

    def run(reading: str, is_mounted: bool, files: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        one = experiment(READS.format(reading=reading), steps=1)
        one = experiment(READS.format(reading=reading), steps=1, training=replaced(one.spec.training, folder))
        laid = lay_out(one.store, files or back, one.store.experiment(one.spec.id).folder / f"back-0-1{WRITING}")
        runner = covered(server, list(laid["copies"].items()) if is_mounted else [])
        told = runner.leg({**one.order(), "back": laid})
        runner.close()
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        [begun] = said(told, "begun")
        [point] = [row for one in said(told, "points") for row in one["rows"] if row[0] == "score"]
        return point[3], begun

    return run


def replaced(training, folder):
    import dataclasses

    return dataclasses.replace(training, cwd=str(folder))


def covered(server, pairs):
    """A runner in which copies lie over files."""
    send = server.control.send
    try:
        server.control.send = lambda message, fds=(): send({**message, "cover": pairs}, fds)
        return server.runner()
    finally:
        server.control.send = send


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at", ["", "absolute"])
def test_every_reader_meets_the_old_bytes_in_a_namespace(leg, folder, way, at):
    if not may_mount():
        pytest.fail("this machine permits no mounts: run the suite where it does")
    reading = f"float({WAYS[way]})".format(at=f"{folder}/" if at else "")
    score, begun = leg(reading, True)
    assert score == 1.0
    assert begun["back"]["mounted"] is True
    assert begun["back"]["not_shown"] == {}
    if way != "beside":
        assert len(begun["seen"]["paths"]) == 1, begun["seen"]["paths"]
        [path] = begun["seen"]["paths"]
        assert path.startswith(str(folder))
        assert describe(begun["seen"]["copies"][path]).digest  # the worker digests what was read
    assert (folder / "a.csv").read_text() == "2\n"
    with sqlite3.connect(folder / "a.db") as connection:
        assert connection.execute("select x from t").fetchone() == (2,)


@pytest.mark.parametrize("way", WAYS)
def test_without_a_namespace_relative_paths_meet_the_old_bytes(leg, folder, way):
    score, begun = leg(f"float({WAYS[way]})".format(at=""), False)
    assert score == 1.0
    assert begun["back"]["mounted"] is False
    [path] = begun["seen"]["paths"]
    assert Path(path).parent in (folder, folder / "parts")  # told by its own name
    assert (folder / "a.csv").read_text() == "2\n"


def test_without_a_namespace_an_absolute_path_meets_the_file_of_today_and_that_is_seen(leg, folder):
    score, begun = leg(f"float(open('{folder}/a.csv').read())", False)
    assert score == 2.0
    assert begun["seen"]["paths"] == [str(folder / "a.csv")]
    assert "copies" not in begun["seen"]


@pytest.mark.parametrize("is_mounted", [True, False])
def test_files_that_are_gone_are_seen_again(leg, folder, is_mounted):
    (folder / "a.csv").unlink()
    score, _ = leg("float(open('a.csv').read()) + float(open('parts/a.csv').read())", is_mounted)
    assert score == 2.0
    assert not (folder / "a.csv").exists()


def test_what_lies_above_the_folder_is_found_by_links(leg, folder, tmp_path):
    (tmp_path / "above.csv").write_text("5\n")
    assert leg("float(open('../above.csv').read())", False)[0] == 5.0


def test_what_cannot_be_shown_is_said(leg, folder, experiment, tmp_path_factory):
    far = tmp_path_factory.mktemp("far") / "far.csv"
    far.write_text("2\n")
    store = experiment(READS.format(reading="0")).store
    files = {
        str(far): {"kept": store.put_blob(b"1\n")},
        str(folder / "a.csv"): {"kept": "0" * 64},
    }
    score, begun = leg(f"float(open('{far}').read())", False, files)
    assert score == 2.0
    assert begun["back"]["not_shown"] == {
        str(far): "it lies outside the notebook's folder, and the system permits no mounts",
        str(folder / "a.csv"): "its bytes are no longer in the store",
    }
    if may_mount():
        assert leg(f"float(open('{far}').read())", True, files)[0] == 1.0


def test_a_runner_in_a_namespace_may_do_no_more_than_before(leg, folder):
    score, _ = leg("int(open('/proc/self/status').read().split('CapEff:')[1].split()[0], 16) >= 0", True)
    assert score == 1.0
    assert leg("os.getuid()", True)[0] == float(os.getuid())
    # It still ends with the forkserver: the signal at its parent's death is asked for.
    asks = (
        "(lambda c, x: c.CDLL(None).prctl(2, c.byref(x)) or x.value)(*(lambda c: (c, c.c_int()))(__import__('ctypes')))"
    )
    assert leg(asks, True)[0] == 9.0
