"""Experiments carried away and taken in: by a file, by a folder with a page, as tables. Nothing runs unasked."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from running import ended, engine, outcome, spec_of, start, state, until
from share.conftest import SECRET, SOURCE

import workbench as wb
from workbench import asked
from workbench.asking import ask
from workbench.errors import BadInput, BadName, Declined, Untrusted
from workbench.exporters.mirrors.foreign import run_of
from workbench.records import Scheduler, Spec
from workbench.replay.again import recorded
from workbench.replay.executing import packed
from workbench.replay.fork import parent_of
from workbench.share import export, publish, take_in, write_table
from workbench.share.contents import files_of
from workbench.share.copies import _refuse_secret_parameters, copied
from workbench.share.looking import Finding, Findings
from workbench.snapshot import take
from workbench.snapshot.capture import capture
from workbench.snapshot.reading.cell import read_cell
from workbench.snapshot.secrets.literals import masked_code
from workbench.space import uniform
from workbench.store import Store
from workbench.store.files import packed as packing
from workbench.store.layout import PACKED
from workbench.store.owner.trust import trust
from workbench.store.series import Series


def test_a_file_carries_an_experiment_whole_and_runs_nothing_before_it_is_trusted(
    trained: tuple[Store, Spec], other: Store, tmp_path: Path
) -> None:
    store, spec = trained
    told = export(store, "shared", tmp_path / "shared.zip")
    assert told["bytes"] == (tmp_path / "shared.zip").stat().st_size
    taken = take_in(other, tmp_path / "shared.zip")
    assert outcome(other, spec) == outcome(store, spec)
    there = wb.open(taken["label"], store=other)
    assert there.best.value == wb.open("shared", store=store).best.value
    assert [entry["tags"] for entry in there_catalog(other)] == [["good"]]
    with pytest.raises(Untrusted, match="workbench trust shared@1"):
        there.best.load()
    with pytest.raises(Untrusted):
        there.replay()
    assert wb.open("shared", store=other, trust=True).best.load().weights
    with pytest.raises(BadInput, match=rf"shared@1 is already in {other.root}: nothing to do"):
        take_in(other, tmp_path / "shared.zip")
    ask(other, asked.Rename(spec.id, "mine"))
    with pytest.raises(BadInput, match=rf"shared@1 is already in {other.root} as mine@1: nothing to do"):
        take_in(other, tmp_path / "shared.zip", name="third")


def there_catalog(store: Store) -> list[dict[str, Any]]:
    from workbench.store.lists.catalog import read_catalog

    return until(lambda: [entry for entry in read_catalog(store) if entry.get("tags")], 10, "the catalog")


def test_a_name_that_is_taken_gets_a_number(trained: tuple[Store, Spec], other: Store, tmp_path: Path) -> None:
    store, spec = trained
    export(store, "shared", tmp_path / "one.zip")
    scheduler = Scheduler("all", 1, 1, 3)
    mine = spec_of(SOURCE, tmp_path, space={"x": uniform(0.0, 1.0)}, scheduler=scheduler, trials=1, name="shared")
    with engine(other):
        start(other, mine)
        assert ended(other, mine) == "completed"
        assert take_in(other, tmp_path / "one.zip")["label"] == "shared-2@1"
        with pytest.raises(BadName, match="shared-2@1 is not renamed: another experiment is shared@1"):
            ask(other, asked.Rename(spec.id, "shared"))
        ask(other, asked.Rename(mine.id, "shared"))  # its own name is not taken
    assert wb.open("shared-2", store=other).id == spec.id
    assert wb.open("shared", store=other).id == mine.id
    # Its spec has the label of the other one, which is not what has to be trusted.
    loads = (wb.open("shared-2", store=other).best.load, wb.open("shared-2", store=other).replay)
    for load in (*loads, lambda: recorded(other, spec.id), lambda: parent_of(other, f"{spec.id}/t0000")):
        with pytest.raises(Untrusted, match="workbench trust shared-2@1"):
            load()


def test_a_publication_shows_and_compares_and_holds_no_secret(
    trained: tuple[Store, Spec], other: Store, tmp_path: Path
) -> None:
    store, spec = trained
    publish(store, "shared@1", str(tmp_path / "page"))
    for path in (tmp_path / "page").rglob("*"):
        if path.is_file() and path.name != "graph.pkl":
            assert SECRET.encode() not in path.read_bytes(), path
    text = (tmp_path / "page" / "index.html").read_text()
    assert "<h1>shared@1</h1>" in text
    assert "http://" not in text.split("<script>")[0]
    read = wb.open(str(tmp_path / "page"))
    assert read.best.value == wb.open("shared", store=store).best.value
    assert len(read.trials) == len(wb.open("shared", store=store).trials)
    with pytest.raises(Untrusted):
        read.best.load()
    assert take_in(other, tmp_path / "page", name="theirs")["label"] == "theirs@1"
    assert outcome(other, spec) == outcome(store, spec)
    with pytest.raises(BadInput, match="not an empty folder"):
        publish(store, "shared@1", str(tmp_path / "page"))


FAILING = """
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    trial.report(score=x)
    if epoch == 1:
        raise RuntimeError("cannot reach https://me:hunter2-URL@db/x with password=hunter2SECRET1")
"""


def test_what_an_older_store_kept_raw_is_published_without_secrets(
    other: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "older_helpers.py").write_bytes(b'ADMIN_TOKEN = "hunter2-ADMIN"\r\nx = 1\r\n')
    monkeypatch.syspath_prepend(tmp_path / "lib")
    importlib.import_module("older_helpers")
    code = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": 1, "source": "key = 'hunter2-NOTEBOOK'"}
    outputs = [{"output_type": "stream", "name": "stdout", "text": "password=hunter2SECRET2"}]
    notebook = {"cells": [{**code, "outputs": outputs}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "n.ipynb").write_text(json.dumps(notebook))
    store = Store(tmp_path / "store").create()
    with monkeypatch.context() as older:
        older.setattr("workbench.snapshot.notebook.masked_notebook", lambda data: data)
        cell = read_cell("import older_helpers\nfor step in trial.steps():\n    trial.report(x=1)", {})
        snapshot = take(store, cell=cell, notebook=tmp_path / "n.ipynb", folder=tmp_path)
    raw = hashlib.sha256((tmp_path / "n.ipynb").read_bytes()).hexdigest()
    assert store.has_blob(raw)
    settings: dict[str, Any] = {"scheduler": Scheduler("all", 1, 3, 3), "trials": 1, "max_restarts": 0}
    spec = spec_of(FAILING, tmp_path, space={"x": uniform(0.0, 1.0)}, name="s", snapshot=snapshot.digest, **settings)
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "failed"
    publish(store, "s", str(tmp_path / "page"))
    # These tests are modules of the project too, and are copied.
    shown = [path for path in (tmp_path / "page").rglob("*") if path.is_file() and path.name != "graph.pkl"]
    shown = [path for path in shown if "code" not in path.parts or path.name == "older_helpers.py"]
    assert [path for path in shown if b"hunter2" in path.read_bytes()] == []
    assert "with password=***" in (tmp_path / "page" / "index.html").read_text()
    published = Store(tmp_path / "page", readonly=True)
    assert not published.has_blob(raw)
    frozen = published.snapshot(snapshot.digest)
    assert (frozen / "code" / "older_helpers.py").read_bytes() == b"ADMIN_TOKEN = '***'\r\nx = 1\r\n"
    assert json.loads((frozen / "notebook.ipynb").read_text())["cells"][0]["source"] == "key = '***'"
    assert take_in(other, tmp_path / "page")["label"] == "s@1"
    export(store, "s", tmp_path / "s.zip")
    with zipfile.ZipFile(tmp_path / "s.zip") as archive:
        carried = archive.read(f"snapshots/{snapshot.digest}/code/older_helpers.py")
    assert b"hunter2-ADMIN" in carried, "an export carries code as it is"


def test_notebooks_with_a_secret_parameter_are_not_published(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()

    def batch(name: str, parameters: dict[str, Any]) -> str:
        tasks = [{"key": "k", "label": "l", "parameters": parameters}]
        sha = packed(store, tmp_path / "n.ipynb", "{}", tasks)
        spec = spec_of(f"execute({sha!r})", tmp_path, scheduler=Scheduler("all", 1, 1, 3), trials=1, name=name)
        store.write_spec(spec)
        return spec.id

    with pytest.raises(BadInput, match="executed with hub_token, by name a secret"):
        publish(store, batch("one", {"hub_token": "hf_12345678", "lr": 1}), str(tmp_path / "page"))
    assert not (tmp_path / "page").exists()
    _refuse_secret_parameters(files_of(store, batch("two", {"max_tokens": 128, "lr": 1})))


def test_names_that_a_server_gives_lead_nowhere(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    store, _ = trained
    publish(store, "shared", str(tmp_path / "page"))
    with zipfile.ZipFile(tmp_path / "page.zip", "w") as archive:
        for path in (tmp_path / "page").rglob("*"):
            archive.write(path, path.relative_to(tmp_path / "page"))
        outside = f"outside-{os.urandom(4).hex()}"
        for name in (f"../../{outside}", f"snapshots/0123456789abcdef/../../../../{outside}", "engine.json"):
            archive.writestr(name, "x")
    read = wb.open(f"zip://::{tmp_path}/page.zip")
    assert read.best.value == wb.open("shared", store=store).best.value
    assert not (read.store.root / "engine.json").exists()
    assert not [path for path in read.store.root.parents if (path / outside).exists()]


def test_other_programs_are_told_no_secret(trained: tuple[Store, Spec]) -> None:
    store, spec = trained
    reason = "x" * 480 + " password=hunter2SECRET1"
    configuration = {"hub_token": "abc", "optimizer": "adam", "lr": 0.1, "where": "https://me:pw@host/x"}
    row = {"number": 0, "state": "failed", "reason": reason, "configuration": configuration}
    run = run_of(store, spec, row)
    assert run.tags["workbench.reason"] == "x" * 480 + " password=***"
    assert run.parameters == {"hub_token": "***", "optimizer": "adam", "lr": 0.1, "where": "https://***@host/x"}


def test_a_publication_goes_to_a_url_and_comes_from_it(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    store, _ = trained
    where = f"file://{tmp_path}/far"
    publish(store, "shared", where, checkpoints=False)
    assert wb.open(where).best.value == wb.open("shared", store=store).best.value
    assert not list((tmp_path / "far").rglob("graph.pkl"))


def test_all_points_go_into_a_table(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    store, spec = trained
    told = write_table(store, "shared", tmp_path / "points.csv")
    frame = pd.read_csv(tmp_path / "points.csv")
    points = outcome(store, spec)["points"]
    assert len(frame) == told["rows"] == len(points)
    assert sorted(frame["value"]) == sorted(value for *_, value in points)
    assert set(frame.columns) >= {"experiment", "trial", "metric", "step", "value", "time", "x", "state"}


def test_secrets_leave_code_that_still_parses() -> None:
    code = """
api_key = "abc"
login(token="t'x", n=1)
d = {"password": "p", "lr": "0.1"}
print("the password=hunter2-is-no-secret", f"{d}")
tokens = tokenizer(x)
"""
    assert (
        masked_code(code)
        == """
api_key = '***'
login(token='***', n=1)
d = {"password": '***', "lr": "0.1"}
print('the password=***', f"{d}")
tokens = tokenizer(x)
"""
    )


def test_one_that_was_training_elsewhere_is_paused_and_trains_only_when_it_is_trusted(tmp_path: Path) -> None:
    theirs, mine = Store(tmp_path / "theirs").create(), Store(tmp_path / "mine").create()
    gate, trace = tmp_path / "gate", tmp_path / "trace"
    source = f"""
import os, time
for epoch in trial.steps():
    open({str(trace)!r}, "a").write("x")
    while epoch > 1 and not os.path.exists({str(gate)!r}):
        time.sleep(0.02)
    trial.report(score=epoch)
"""
    spec = spec_of(source, tmp_path, scheduler=Scheduler("all", 1, 3, 3), trials=1, verify=False)
    with engine(theirs):
        start(theirs, spec)
        until(lambda: trace.exists() and len(trace.read_text()) > 1, 30, "its second step")
        export(theirs, "probe", tmp_path / "half.zip")
        ask(theirs, asked.Stop(experiment=spec.id))
        assert ended(theirs, spec) == "stopped"
    trace.unlink()
    gate.touch()
    with engine(mine):
        take_in(mine, tmp_path / "half.zip")
        assert state(mine, spec) == "paused"
        assert {row["state"] for row in wb.open("probe", store=mine).trials.to_dict("records")} == {"paused"}
    with engine(mine):
        orders = (
            asked.Start(spec.id),
            asked.Resume(spec.id),
            asked.Extend(experiment=spec.id, trials=1),
            asked.Verify(spec.id, 0),
        )
        for order in orders:
            with pytest.raises(Untrusted, match="workbench trust probe@1"):
                ask(mine, order)
        with pytest.raises(Untrusted):
            wb.open("probe", store=mine)["t0000"].fork()
        assert not trace.exists()
        trust(mine, spec.id)
        ask(mine, asked.Resume(experiment=spec.id))
        assert ended(mine, spec) == "completed"
    assert trace.exists()


# ---------------------------------------------------------------------------------------------------------------------
# What leaves is told


def test_a_publication_tells_what_it_masked_and_asks_before_it_is_written(
    trained: tuple[Store, Spec], tmp_path: Path
) -> None:
    store, _ = trained
    asked: list[Sequence[Finding]] = []
    with pytest.raises(Declined, match="you declined"):
        publish(store, "shared", str(tmp_path / "page"), consent=lambda found: asked.append(found) or False)
    assert list(tmp_path.iterdir()) == []
    told = publish(store, "shared", str(tmp_path / "page"), consent=lambda found: asked.append(found) or True)
    assert asked[0] == asked[1]
    places = {one["place"]: one for one in told["findings"]}
    assert places["train cell and settings"]["done"] == "masked"
    assert places["log of t0000"]["lines"] == [2]
    assert SECRET not in json.dumps(told) + str(asked)
    assert [
        path for path in (tmp_path / "page").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ] == []


def test_a_captured_value_with_a_secret_is_not_published(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    namespace = {"settings": {"hub": {"api_key": "hunter2-is-no-secret"}}, "max_tokens": 100}
    cell = read_cell("for step in trial.steps():\n    trial.report(x=max_tokens, y=len(settings))", namespace)
    captured = capture([*namespace], namespace, store)
    snapshot = take(store, cell=cell, capture=captured, folder=tmp_path)
    spec = spec_of("pass", tmp_path, scheduler=Scheduler("all", 1, 1, 3), trials=1, name="c", snapshot=snapshot.digest)
    spec = replace(spec, program=replace(spec.program, capture=captured.digest))
    store.write_spec(spec)
    files = list(files_of(store, spec.id))
    with pytest.raises(BadInput, match="holds a secret"):
        copied(store, spec.id, tmp_path / "copy", tmp_path, Findings(), checkpoints=True)
    assert len(files) > 3


def test_an_export_is_its_owners_alone_and_says_what_it_carries(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    store, _ = trained
    before = os.umask(0)
    try:
        told = export(store, "shared", tmp_path / "raw.zip")
        shown = export(store, "shared", tmp_path / "masked.zip", mask=True)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["masked.zip", "raw.zip"]
    assert told["carries"]["logs"] > 0
    assert {one["done"] for one in told["findings"]} == {"carried"}
    assert "masked" in {one["done"] for one in shown["findings"]}
    assert SECRET not in json.dumps([told, shown])
    with zipfile.ZipFile(tmp_path / "masked.zip") as archive:
        assert [name for name in archive.namelist() if SECRET.encode() in archive.read(name)] == []


@pytest.mark.parametrize("aside", ["beside the store", "on another disk"])
def test_what_an_engine_packs_meanwhile_is_exported(trained: tuple[Store, Spec], tmp_path: Path, aside: str) -> None:
    whole, spec = trained
    store = Store(shutil.copytree(whole.root, tmp_path / "copy"))
    trials = store.experiment(spec.id).trials
    with tempfile.TemporaryDirectory(dir=tmp_path if aside == "beside the store" else "/dev/shm") as folder:
        names = [name for name, _ in files_of(store, spec.id, Path(folder))]
    for name in packing.within(trials).sizes:
        packing.unpack(trials / name)
    (trials / PACKED).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=tmp_path if aside == "beside the store" else "/dev/shm") as folder:
        listed = dict(files_of(store, spec.id, Path(folder)))
        assert packing.pack(trials) > 0
        assert sorted(listed) == sorted(names)
        assert all(path.read_bytes() for name, path in listed.items() if name.endswith((".zip", ".log.txt")))


def test_a_masked_export_is_taken_in(trained: tuple[Store, Spec], other: Store, tmp_path: Path) -> None:
    store, spec = trained
    export(store, "shared", tmp_path / "masked.zip", mask=True)
    assert take_in(other, tmp_path / "masked.zip")["label"] == "shared@1"
    assert outcome(other, spec) == outcome(store, spec)


def test_what_a_killed_import_left_goes_with_the_next(
    trained: tuple[Store, Spec], other: Store, tmp_path: Path
) -> None:
    store, spec = trained
    export(store, "shared", tmp_path / "good.zip")
    program = f"""
import os, signal
from pathlib import Path
from workbench.share import archive
from workbench.store import Store
def kill(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
archive._look_at = kill
archive.take_in(Store(Path({str(other.root)!r})), Path({str(tmp_path / "good.zip")!r}))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert len(list(other.root.glob(".import-*"))) == 1
    # Killed later, before the engine has listed it, it is listed by the next import.
    late = program.replace("archive._look_at", "archive._adopted")
    assert subprocess.run([sys.executable, "-c", late], check=False).returncode == -signal.SIGKILL
    assert len(list(other.root.glob(".import-*"))) == 1
    assert take_in(other, tmp_path / "good.zip")["label"] == "shared@1"
    assert list(other.root.glob(".import-*")) == []
    assert outcome(other, spec) == outcome(store, spec)


def test_what_trials_used_is_carried_too(trained: tuple[Store, Spec], other: Store, tmp_path: Path) -> None:
    store, spec = trained
    with Series.open(store.experiment(spec.id).series) as series:
        series.add_samples(0, [("cpu", 1e9, 1e9 + 5, 0.5)])
    export(store, "shared", tmp_path / "used.zip", mask=True)
    take_in(other, tmp_path / "used.zip")
    publish(store, "shared@1", str(tmp_path / "used"))
    for there in (wb.open("shared", store=other), wb.open(str(tmp_path / "used"))):
        assert there["t0000"].system["cpu"].tolist() == [0.5, 0.5]
        assert there.metrics == ["score"]
    page = (tmp_path / "used" / "index.html").read_text()
    assert 'id="what-trials-used"' in page
    assert '"text": "processor (cores)"' in page


@pytest.mark.parametrize("way", ["export", "publish"])
@pytest.mark.parametrize("checkpoints", [True, False])
def test_what_the_set_up_made_and_what_all_ranks_printed_go_along(
    trained: tuple[Store, Spec], other: Store, tmp_path: Path, way: str, checkpoints: bool
) -> None:
    spec = trained[1]
    store = Store(shutil.copytree(trained[0].root, tmp_path / "copy"))
    paths, theirs = (one.experiment(spec.id) for one in (store, other))
    made = {
        "setup.json": b'{"unsteady": []}',
        "trials/t0000/ranks/1.log": b"epoch 0 on rank 1\n",
        "trials/t0000/setup/checkpoints/step-00000000/state.pt": b"weights",
    }
    for name, data in made.items():
        (paths.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (paths.folder / name).write_bytes(data)
    if way == "export":
        export(store, "shared", tmp_path / "sent.zip", checkpoints=checkpoints)
    else:
        publish(store, "shared", str(tmp_path / "sent.zip"), checkpoints=checkpoints, consent=lambda found: True)
    take_in(other, tmp_path / "sent.zip")
    found = {name: (theirs.folder / name).read_bytes() for name in made if (theirs.folder / name).exists()}
    assert found == {name: data for name, data in made.items() if checkpoints or "state.pt" not in name}
