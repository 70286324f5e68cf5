"""Unreferenced files are deleted. Files that are referenced, requested, young, or needed at that very moment stay."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.errors import NotFound
from workbench.records import Keep
from workbench.store import Store, requests
from workbench.store.journal import Journal
from workbench.store.keeping import cleaning
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists import documents
from workbench.store.lists.said import Said, descents, protected, said

A, B = "20261120-140312-aaaaaa", "20261120-140313-bbbbbb"


def age(*paths):
    for path in paths:
        os.utime(path, (0, 0))


def old_blob(store, data):
    sha = store.put_blob(data)
    age(store.blob_path(sha))
    return sha


def old_snapshot(store, digest, **parts):
    folder = store.snapshot(digest)
    folder.mkdir()
    for name, part in parts.items():
        (folder / f"{name}.json").write_text(json.dumps(part))
    age(folder)
    return digest


def naming(spec, *, capture=None, snapshot=None):
    return dataclasses.replace(spec, program=dataclasses.replace(spec.program, capture=capture), snapshot=snapshot)


def test_what_is_named_stays_with_all_that_it_names(store, make_spec):
    stream, region = old_blob(store, b"stream"), old_blob(store, b"region")
    capture = old_blob(store, json.dumps({"buffers": [0], "regions": [region], "stream": stream}).encode())
    notebook = old_blob(store, b"notebook")
    snapshot = old_snapshot(store, "ab" * 32, snapshot={"notebook": {"sha256": notebook}})
    store.write_spec(naming(make_spec(A), capture=capture, snapshot=snapshot))
    asked = old_blob(store, b"a request names it")
    requests.put(store, {"kind": "start", "capture": asked})
    young = store.put_blob(b"young")
    gone, lost = old_blob(store, b"nobody names it"), old_snapshot(store, "cd" * 32, snapshot={})
    before = cleaning.sweep(store, Said(), dry_run=True)
    assert store.has_blob(gone)
    cleaned = cleaning.sweep(store, Said())
    assert cleaned.bytes == before.bytes
    assert (cleaned.things["blobs"], cleaned.things["snapshots"]) == (1, 1)
    assert cleaned.bytes["blobs"] == len(b"nobody names it")
    assert {path.name for path in store.blobs.iterdir()} == {stream, region, capture, notebook, asked, young}
    assert not store.has_blob(gone)
    assert [path.name for path in store.snapshots.iterdir()] == [snapshot]
    assert not store.snapshot(lost).exists()


def test_what_died_half_written_goes_after_a_day(store, make_spec):
    store.write_spec(make_spec(A))
    checkpoints = Checkpoints(store.experiment(A).trial(0))
    aside = checkpoints.begin(3, 1)
    half = [
        store.root / ".catalog.json.1234abcd.writing", store.blobs / ".ab.1234abcd.writing",
        store.snapshots / ".abcd.writing", store.experiments / "20261120-140319-cccccc",
        store.experiment(A).folder / ".spec.json.12.writing", aside, store.notebooks / A / ".run.json.12.writing",
    ]  # fmt: skip
    for path in half:
        path.mkdir(exist_ok=True, parents=True)
    assert cleaning.sweep(store, Said()).things["unfinished"] == 0
    age(*half)
    assert cleaning.sweep(store, Said()).things["unfinished"] == len(half)
    assert not [path for path in half if path.exists()]
    assert store.read_spec(A).id == A


@pytest.mark.parametrize("part", ["blobs", "snapshots", "experiments", "documents", "cached"])
def test_of_a_folder_that_is_a_link_only_what_a_store_may_have_written_goes(store, tmp_path, part):
    mine = tmp_path / "mine"
    (mine / "website").mkdir(parents=True)
    (mine / "half").mkdir()
    letters = [mine / "letter.txt", mine / "letter.json", mine / "website" / "page.html", mine / f"{'ab' * 16}.txt"]
    for letter in letters:
        letter.write_text("{}")
    (mine / "half" / ".spec.json.12.writing").touch()
    age(*letters, *mine.iterdir())
    if (folder := store.root / part).is_dir():
        folder.rmdir()
    folder.symlink_to(mine)
    cleaned = cleaning.sweep(store, Said())
    assert all(letter.exists() for letter in letters)
    assert sum(cleaned.things.values()) == (1 if part == "experiments" else 0)


@pytest.mark.parametrize("left", ["events.jsonl", "series.db", "trials/t0000.log.txt"])
def test_an_experiment_that_lost_its_spec_stays(store, make_spec, left):
    store.write_spec(make_spec(A))
    paths = store.experiment(A)
    recorded = paths.folder / left
    recorded.parent.mkdir(exist_ok=True)
    recorded.write_text("recorded")
    paths.spec.unlink()
    age(paths.folder)
    assert cleaning.sweep(store, Said()).things["unfinished"] == 0
    assert recorded.read_text() == "recorded"


def test_documents_of_which_no_experiment_was_made_go_with_their_bytes(store, make_spec):
    long_ago = "2026-01-01T00:00:00.000+00:00"
    kept, other = (documents.keep(store, Path(f"/{name}.ipynb"), "c", "", True, name.encode()) for name in ("a", "b"))
    for one in (kept, other):
        path = documents.file_of(store, one.id)
        path.write_text(json.dumps({**json.loads(path.read_text()), "at": long_ago}))
        age(path, store.blob_path(one.blob))
    store.write_spec(dataclasses.replace(make_spec(A, notebook="/a.ipynb"), created=long_ago))
    told = cleaning.sweep(store, Said(), dry_run=True)
    cleaned = cleaning.sweep(store, Said())
    assert cleaned.things == told.things
    assert (cleaned.things["documents"], cleaned.things["blobs"]) == (1, 1)
    assert [one.id for one in documents.documents(store)] == [kept.id]
    assert store.get_blob(kept.blob, verify=True) == b"a"
    assert not store.has_blob(other.blob)


def test_what_lies_between_the_levels_of_a_trial_that_is_over_goes(store, make_spec):
    store.write_spec(make_spec(A))
    paths = store.experiment(A)
    with Journal.open(paths.journal) as writer:
        for trial in (0, 1):
            writer.append({"kind": "Run", "trial": trial, "start": 0, "until": 27, "reason": ""})
            between = Checkpoints(paths.trial(trial).passing)
            between.publish(between.begin(5, 1), 5, 1)
        writer.append({"kind": "Settle", "trial": 0, "state": "stopped", "reason": ""})
    assert cleaning.clean_ended(store, A, Said(), dry_run=True).things["unfinished"] == 1
    assert cleaning.clean_ended(store, A, Said()).things["unfinished"] == 1
    assert not paths.trial(0).passing.exists()
    assert Checkpoints(paths.trial(1).passing).steps() == [5]


def test_what_lies_between_levels_stays_where_an_extension_would_go_on_from_it(store, make_spec):
    store.write_spec(make_spec(A))
    paths = store.experiment(A)
    with Journal.open(paths.journal) as writer:
        for trial in range(4):
            writer.append({"kind": "Run", "trial": trial, "start": 0, "until": 27, "reason": ""})
            between = Checkpoints(paths.trial(trial).passing)
            between.publish(between.begin(5, 1), 5, 1)
        for trial, stop in ((0, {"trial": 0}), (1, None), (2, {"trial": None}), (3, None)):
            if stop is not None:
                writer.append({"kind": "StopAsked", "reason": "requested by you", **stop})
            state = "completed" if trial == 3 else "stopped"
            writer.append({"kind": "Settle", "trial": trial, "state": state, "reason": ""})
        writer.append({"kind": "Finish", "state": "stopped", "reason": ""})
    # One was stopped by itself, one by the rule, one with the whole search; the last was done before the order came.
    assert cleaning.clean_ended(store, A, Said(), dry_run=True).things["unfinished"] == 3
    assert cleaning.clean_ended(store, A, Said()).things["unfinished"] == 3
    assert [trial for trial in range(4) if paths.trial(trial).passing.is_dir()] == [2]
    with Journal.open(paths.journal) as writer:
        writer.append({"kind": "Extended", "reason": "", "seconds": 60})
        writer.append({"kind": "Settle", "trial": 2, "state": "paused", "reason": ""})
        writer.append({"kind": "Run", "trial": 2, "start": 0, "until": 27, "reason": ""})
        writer.append({"kind": "Settle", "trial": 2, "state": "stopped", "reason": "by the rule"})
    assert cleaning.clean_ended(store, A, Said()).things["unfinished"] == 1


def test_a_dry_run_of_the_rule_tells_what_the_rule_then_does(store, make_spec):
    store.write_spec(make_spec(A, keep=Keep(latest=1, best=0)))
    checkpoints = Checkpoints(store.experiment(A).trial(0))
    with Journal.open(store.experiment(A).journal) as writer:
        writer.append({"kind": "Run", "trial": 0, "start": 0, "until": 27, "reason": ""})
        for step in (1, 3, 9, 27):
            aside = checkpoints.begin(step, 1)
            (aside / "state.bin").write_bytes(b"x" * step)
            checkpoints.publish(aside, step, 1)
            writer.append({"kind": "Saved", "trial": 0, "attempt": 1, "step": step})
            writer.append({"kind": "Reached", "trial": 0, "step": step, "value": step / 100})
        writer.append({"kind": "Settle", "trial": 0, "state": "completed", "reason": ""})
    with Journal.open(store.journal_path) as writer:
        writer.append({"kind": "pin", "experiment": A, "trial": 0, "step": 3})
    told = cleaning.clean_ended(store, A, said(store), dry_run=True)
    assert checkpoints.steps() == [1, 3, 9, 27]
    went = cleaning.clean_ended(store, A, said(store))
    assert told.bytes == went.bytes
    assert told.things["checkpoints"] == 2
    assert checkpoints.steps() == [3, 27]
    assert cleaning.removed(store, A, 0) == dict.fromkeys((1, 9), "the rule experiment=1,best=0,latest=1,stopped=0")
    assert cleaning.clean_ended(store, A, said(store)).total == 0
    error = cleaning.missing(store, store.read_spec(A), 0, 9)
    assert "digits@1/t0000 has no checkpoint at step 9: the rule" in str(error)
    assert "workbench pin digits@1/t0000:9" in str(error)
    assert "It has 3, 27." in str(cleaning.missing(store, store.read_spec(A), 0, 4))


def test_a_trial_that_ended_without_a_checkpoint_is_not_to_be_waited_for(store, make_spec):
    spec = make_spec(A)
    store.write_spec(spec)
    with Journal.open(store.experiment(A).journal) as journal:
        for trial in (0, 1):
            journal.append({"kind": "Run", "trial": trial, "start": 0, "until": 9, "reason": "first"})
        journal.append({"kind": "Settle", "trial": 0, "state": "failed", "reason": "ValueError"})
    assert "/t0000 failed without a checkpoint. Load another trial" in str(cleaning.missing(store, spec, 0, None))
    assert "Wait until it reaches its first level" in str(cleaning.missing(store, spec, 1, None))


@pytest.mark.parametrize("field", ["parent", "replays", "repeats"])
def test_what_another_experiment_descends_from_is_protected_until_that_is_deleted(store, make_spec, field):
    store.write_spec(make_spec(A))
    child = make_spec(B, "child")
    path = store.write_spec(child)
    path.write_text(json.dumps({**child.to_json(), field: {"experiment": A, "trial": "t0007", "step": 27}}))
    assert [(one.child, one.experiment, one.trial, one.step) for one in descents(store)] == [(B, A, 7, 27)]
    assert protected(store, Said(), A) == {(7, 27): "child@1 descends from it"}
    assert protected(store, Said(deleted={B}), A) == {}


def test_wishes_are_read_as_they_are_written_and_only_what_is_new(store):
    with Journal.open(store.journal_path) as writer:
        for line in (
            {"kind": "pin", "experiment": A, "trial": 7, "step": 27},
            {"kind": "keep", "experiment": A, "rule": {"latest": 3}},
            {"kind": "keep", "experiment": A, "rule": {"of a later Workbench": 3}},
            {"kind": "note", "experiment": A, "note": "x"},
        ):
            writer.append(line)
        writer.commit()
        found = said(store)
        assert found.pins_of(A) == ["t0007:27"]
        assert found.rule(A, Keep()) == Keep(latest=3)
        writer.append({"kind": "unpin", "experiment": A, "trial": 7, "step": 27})
        writer.append({"kind": "delete", "experiment": A})
        writer.commit()
        again = said(store)
    assert (again.pins, again.deleted, again.rules) == (set(), {A}, {})
    assert found.pins_of(A) == ["t0007:27"], "what was given is not changed afterwards"


LAUNCH = """
import dataclasses, os, sys, time
from pathlib import Path
from workbench.store import Store
sys.path.insert(0, sys.argv[2])
from disk import make_spec
store, who, until = Store(sys.argv[1]), sys.argv[3], time.monotonic() + float(sys.argv[4])
k = 0
while time.monotonic() < until:
    k += 1
    # The same few values, which were long old a moment ago.
    data = who.encode() * (k % 3 + 1)
    path = store.blob_path(store.put_blob(data))
    try:
        os.utime(path, (0, 0))
    except FileNotFoundError:
        pass
    try:  # one that nobody wants, so that the cleaner never is without work
        os.utime(store.blob_path(store.put_blob(f"{who}{k}".encode())), (0, 0))
    except FileNotFoundError:
        pass
    sha = store.put_blob(data)
    spec = make_spec(f"{who}{k}")
    store.write_spec(dataclasses.replace(spec, program=dataclasses.replace(spec.program, capture=sha)))
    assert store.get_blob(sha, verify=True) == data, k
    # Named by nobody again.
    spec_file = store.experiment(spec.id).spec
    spec_file.unlink()
    spec_file.parent.rmdir()
print(k)
"""
CLEAN = """
import sys, time
from workbench.store import Store
from workbench.store.keeping import cleaning
from workbench.store.lists.said import Said
store, until, gone = Store(sys.argv[1]), time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < until:
    gone += cleaning.sweep(store, Said(), young_s=60).things["blobs"]
print(gone)
"""


@pytest.mark.parametrize("experiment", ["../../documents", "", ".", "A", 3, None, ["a"], {"a": 1}])
def test_what_is_no_id_is_wished_of_nothing(store, experiment):
    with Journal.open(store.journal_path) as writer:
        for kind in ("delete", "pin", "keep"):
            writer.append({"kind": kind, "experiment": experiment, "storage": "file:///tmp", "rule": {"latest": 2}})
        writer.append({"kind": "delete", "experiment": A, "storage": {"a": 1}})
    found = said(store)
    assert (found.deleted, found.going, found.emptying, found.pins, found.rules) == ({A}, {A}, {}, set(), {})
    assert cleaning.begun_deletions(store, found) == []


def test_a_blob_is_read_while_cleaning_up_has_it_aside(store):
    sha = store.put_blob(b"wanted")
    path = store.blob_path(sha)
    path.rename(path.with_name(f".removed-{sha}-0123abcd"))
    assert store.get_blob(sha, verify=True) == b"wanted"
    with pytest.raises(NotFound, match="was cleaned up"):
        store.get_blob("0" * 64)


def test_cleaning_up_beside_launches_never_takes_what_was_wanted_again(store):
    here = Path(__file__)
    environment = {**os.environ, "PYTHONPATH": str(here.parents[2] / "src")}
    script = [sys.executable, "-c"]
    launchers = [
        subprocess.Popen(
            [*script, LAUNCH, str(store.root), str(here.parent), who, "3"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for who in "ab"
    ]  # fmt: skip
    cleaner = subprocess.Popen(
        [*script, CLEAN, str(store.root), "3"], env=environment, stdout=subprocess.PIPE, text=True
    )
    for launcher in launchers:
        out, error = launcher.communicate(timeout=60)
        assert launcher.returncode == 0, error
        assert int(out) > 20
    out, _ = cleaner.communicate(timeout=60)
    assert cleaner.returncode == 0
    assert int(out) > 0
    assert isinstance(Store(store.root).experiment_ids(), list)
