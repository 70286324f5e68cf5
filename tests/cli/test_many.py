"""A store with many finished experiments: what a command opens and imports, counted and not timed."""

import dataclasses
import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from running import spec_of

from workbench.cli.damage import damage
from workbench.store import Store
from workbench.store.files import packed
from workbench.store.lists.said import descents

MANY = 300
#: What no list needs: it compares, draws, trains and computes nothing.
LATE = (
    *("dask", "distributed", "torch", "pandas", "numpy", "plotly", "nbformat", "IPython", "fsspec", "cloudpickle"),
    *("workbench.snapshot", "workbench.trial", "workbench.cluster", "workbench.engine", "workbench.compare"),
    *("workbench.store.series", "workbench.store.keeping.checkpoints"),
)
#: Runs a command, and tells which files it and the processes that it forked opened, and which modules it has imported.
WATCHED = """
import json, os, sys, tempfile
file = tempfile.TemporaryFile("a+")
told = lambda path: os.write(file.fileno(), f"{path}\\n".encode())
sys.addaudithook(lambda event, given: event in ("open", "sqlite3.connect") and told(given[0]))
from workbench.cli import main
code = main(sys.argv[1:])
file.seek(0)
print("RESULT", json.dumps([code, file.read().splitlines(), sorted(sys.modules)]))
"""


@pytest.fixture
def many(tmp_path):
    """Experiments that have ended, as the catalog lists them."""
    store = Store(tmp_path / "store").create()
    entries = {}
    for number in range(MANY):
        key = f"20260101-{number:06d}-aaaaaa"
        paths = store.experiment(key)
        paths.folder.mkdir()
        line = {"n": 1, "at": "2026-01-01T00:00:00+00:00", "schema": 1, "kind": "Finish", "state": "completed"}
        paths.journal.write_text(json.dumps({**line, "reason": ""}) + "\n")
        whole = dataclasses.replace(spec_of("", tmp_path, name="many"), id=key, version=number + 1)
        store.write_spec(whole)
        spec = {"id": key, "name": "many", "version": number + 1, "created": whole.created}
        entries[str(number + 1)] = {**spec, "label": f"many@{number + 1}", "state": "completed", "goal": "max score"}
    store.catalog_path.write_text(json.dumps({"experiments": entries, "about": {"1": {"schema": 1}}}))
    return store


def watched(store, *words):
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "--store", str(store.root), *words], capture_output=True, text=True, check=True
    )
    code, opened, modules = json.loads(done.stdout.split("RESULT", 1)[1])
    assert code in (0, 1), done.stdout  # what doctor says of these specs is not asked here
    within = [path for path in opened if path.removeprefix("file:").startswith(str(store.root))]
    return done.stdout, within, modules


def test_the_list_opens_one_file_for_all_experiments_and_imports_little(many):
    printed, opened, modules = watched(many, "ls")
    assert printed.count("many@") == MANY
    assert [path for path in opened if "/experiments/" in path] == []
    assert len(opened) <= 4, opened
    loaded = [name for name in modules for late in LATE if name == late or name.startswith(f"{late}.")]
    assert loaded == []


def test_cleaning_looks_once_at_all_experiments_and_not_once_for_each(many, monkeypatch):
    looked = []
    real = Store.experiment_ids
    monkeypatch.setattr(Store, "experiment_ids", lambda store: looked.append(1) or real(store))
    for _ in range(MANY):
        descents(many)
    assert len(looked) == 1
    # One that has a folder and no spec yet is not passed over for ever.
    new = many.experiment("20270101-000000-aaaaaa")
    new.folder.mkdir()
    assert descents(many) == []
    parent = {"experiment": "20260101-000001-aaaaaa", "trial": 0, "step": 3}
    new.spec.write_text(json.dumps({"id": new.id, "name": "child", "version": 1, "parent": parent}))
    (child,) = descents(many)
    assert (child.child, child.experiment, child.step) == (new.id, "20260101-000001-aaaaaa", 3)


def test_doctor_reads_each_journal_once(many):
    _, opened, _ = watched(many, "doctor")
    journals = [path for path in opened if path.endswith("events.jsonl") and "/experiments/" in path]
    assert len(journals) == len(set(journals)) == MANY


def test_doctor_names_an_archive_that_cannot_be_unpacked_and_goes_on(many):
    """Among many experiments: a process of its own looks at it."""
    paths = many.experiment("20260101-000100-aaaaaa")
    paths.trials.mkdir()
    (paths.trials / "t0000.zip").write_bytes(b"no archive")
    packed.pack(paths.trials)
    with closing(sqlite3.connect(paths.packed)) as connection, connection:
        connection.execute("UPDATE sqlar SET sz = 99")  # as though it were compressed
    last = many.experiment(f"20260101-{MANY - 1:06d}-aaaaaa")
    last.journal.write_text("{")
    found = [*damage(many)]
    assert any(about == "packed" and str(paths.packed) in says for about, _, says in found)
    assert any(about == "journal" and str(last.journal) in says for about, _, says in found)
