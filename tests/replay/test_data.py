"""Data that was overwritten or removed since: a replay and `why` train with the old bytes and change no file."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pandas as pd
from mounts import may_mount
from replay.test_why import CELLS, TRAIN, trained, whats
from running import ended, spec_of, start

import workbench as wb
from workbench.cli import main
from workbench.records import Scheduler
from workbench.store.series import Series

#: No text of it names a file as it is called.
READS = """
import sqlite3, subprocess
import pandas as pd
total = pd.read_parquet("table" + ".parquet")["a"].sum()
total += float(open("start" + ".txt").read())
total += sqlite3.connect("rows" + ".db").execute("select sum(x) from t").fetchone()[0]
for epoch in trial.steps():
    trial.report(score=float(total) + epoch)
"""


#: A package's code: its start is in a file beside it.
TOLD = """
from pathlib import Path
def start():
    return float(Path(__file__).with_name("start.yaml").read_text())
"""


def written(value: int) -> None:
    pd.DataFrame({"a": [value] * value}).to_parquet("table.parquet")
    Path("start.txt").write_text(f"{value}\n" * (value > 0))
    Path("rows.db").unlink(missing_ok=True)
    connection = sqlite3.connect("rows.db")
    connection.execute("create table t (x)")
    connection.execute("insert into t values (?)", (value,))
    connection.commit()
    connection.close()


def run(store, folder, source=READS, **fields) -> str:
    spec = spec_of(source, folder, name="read", scheduler=Scheduler("all", 2, 2), trials=1, **fields)
    start(store, spec)
    assert ended(store, spec) == "completed"
    return f"{spec.id}/t0000"


def test_a_replay_trains_with_the_old_bytes_and_leaves_the_files_alone(store, folder, capsys):
    written(3)
    ref = run(store, folder)
    written(5)
    Path("start.txt").unlink()
    made = wb.replay(ref, store=store)
    assert made.verdict == "identical"
    assert len(made.notes) == 3
    assert all(note.endswith("training sees it as it was, and the file stays as it is") for note in made.notes)
    assert not Path("start.txt").exists()
    assert pd.read_parquet("table.parquet")["a"].sum() == 25
    # The replay says what it read: the same as the trial it repeats. So can it be replayed itself.
    told = wb.compare(ref, f"{made.experiment.id}/t0000", store=store)
    assert "data" not in {section["kind"] for section in told.sections}
    assert wb.replay(f"{made.experiment.id}/t0000", store=store).verdict == "identical"
    assert main(["--store", str(store.root), "show", f"{made.experiment.id}/t0000"]) == 0
    shown = capsys.readouterr().out
    assert "start.txt  as it was when the first trial read it" in shown
    # Nothing of the copies is left.
    assert list(store.experiments.rglob("back-*")) == []


def test_why_puts_the_old_bytes_back(store, folder):
    train = TRAIN.replace("total = 0.0", "total = float(open('start.txt').read())")
    Path("start.txt").write_text("1.0\n")
    one = trained(store, *CELLS, train=train, name="started")
    Path("start.txt").write_text("2.00\n")
    other = trained(store, *CELLS, train=train, name="started")
    Path("start.txt").write_text("9.000\n")
    found = wb.why(f"{one.id}/t0000", f"{other.id}/t0000", store=store)
    assert whats(found) == ["baseline", "nothing", "data"]
    assert found.explained
    assert found.rows[-1].could_not == []
    assert Path("start.txt").read_text() == "9.000\n"
    known = store.experiment_ids()
    assert wb.why(f"{one.id}/t0000", f"{other.id}/t0000", store=store).explained
    assert store.experiment_ids() == known  # nothing is trained twice


def test_why_puts_back_a_small_file_of_a_package_that_training_reads_in_its_copy(store, folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    Path("told").mkdir()
    Path("told/__init__.py").write_text(TOLD)
    train = TRAIN.replace("total = 0.0", "from told import start; total = start()")
    sides = []
    for value in ("1.0", "2.00"):
        Path("told/start.yaml").write_text(f"{value}\n")
        sides.append(f"{trained(store, *CELLS, train=train, name='told').id}/t0000")
    told = wb.compare(*sides, store=store)
    assert told.title.startswith("start.yaml 4 B → 5 B")
    found = wb.why(*sides, store=store)
    assert whats(found) == ["baseline", "nothing", "data"]
    assert found.explained is may_mount()
    assert bool(found.rows[-1].could_not) is not may_mount()
    assert wb.replay(sides[0], store=store).verdict == "identical"


IMPORTS = """
import os, sys
sys.path.insert(0, os.path.abspath("elsewhere"))
from models_of_test_data import WIDTH
for epoch in trial.steps():
    trial.report(score=float(WIDTH) + epoch)
"""


def test_code_of_the_project_of_which_there_is_no_copy_is_brought_back_and_compared(store, folder):
    """A script that puts a folder on its own path: who launches it cannot know what it will import."""
    code = Path("elsewhere/models_of_test_data.py")
    code.parent.mkdir()
    code.write_text("WIDTH = 8\n")
    one = run(store, folder, IMPORTS)
    code.write_text("WIDTH = 16\n")
    other = run(store, folder, IMPORTS)
    assert "models_of_test_data.py" in wb.compare(one, other, store=store).title
    replayed = wb.replay(one, store=store)
    assert (replayed.verdict == "identical") is may_mount()
    assert any("models_of_test_data.py" in note for note in replayed.notes)
    assert code.read_text() == "WIDTH = 16\n"


def test_why_trains_the_other_causes_with_the_data_of_its_side(store, folder):
    train = TRAIN.replace("total = 0.0", "total = float(open('start.txt').read())")
    Path("start.txt").write_text("1.0\n")
    one = trained(store, *CELLS, train=train, name="both")
    Path("start.txt").write_text("2.00\n")
    other = trained(store, CELLS[0], "decay = 0.5", CELLS[2], train=train, name="both", seed=3)
    Path("start.txt").unlink()
    found = wb.why(f"{one.id}/t0000", f"{other.id}/t0000", store=store)
    assert whats(found)[:4] == ["baseline", "nothing", "data", "configuration"]
    assert found.explained
    assert not any("gone" in one for row in found.rows for one in row.could_not)


def test_a_file_of_which_only_the_digest_is_kept_is_named_with_what_to_do(store, folder):
    Path("start.txt").write_text("1\n")
    written(3)
    ref = run(store, folder, keep_data=1)
    Path("start.txt").write_text("2.0\n")
    made = wb.replay(ref, store=store)
    assert made.verdict == "parts"
    [note] = made.notes
    assert note.endswith(
        "only the digest of start.txt (2 B) is kept: it is larger than --keep-data; restore the file to replay exactly"
    )


def test_data_that_was_kept_and_is_gone_from_the_store_is_said(store, folder):
    written(3)
    ref = run(store, folder)
    with Series.read(store.experiment(ref.split("/")[0]).series) as series:
        [leg] = series.legs(0)
    files = leg["detail"]["seen"]["files"]
    written(4)
    store.blob_path(files[str(folder / "start.txt")]["kept"]).unlink()
    made = wb.replay(ref, store=store)
    assert made.verdict == "parts"
    assert any("were kept, but are no longer in this store" in note for note in made.notes)
    assert json.dumps(store.read_spec_json(made.experiment.id)["data_back"]).count("kept") == 2


def test_repeats_with_other_seeds_read_the_old_bytes_as_well(store, folder):
    written(3)
    ref = run(store, folder)
    written(5)
    made = wb.repeat(ref, seeds=2, store=store)
    made.experiment.wait()
    with Series.read(store.experiment(made.experiment.id).series) as series:
        assert {value for _, _, step, _, value, _ in series.points() if step == 1} == {15.0}
