import dataclasses
import json
import os
import time

import pytest

from workbench.errors import NotFound
from workbench.store.files.atomic import size_of
from workbench.store.journal import Journal
from workbench.store.keeping import naming, usage
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.owner.ownership import IGNORE, MARK

A, B = "20261120-140312-aaaaaa", "20261120-140313-bbbbbb"


@pytest.fixture(autouse=True)
def still(monkeypatch):
    """What these tests write counts as long past, and is looked through again when it changes."""
    monkeypatch.setattr(usage, "STILL_S", -1.0)


def checkpoint(store, key, trial, step, size=1000):
    checkpoints = Checkpoints(store.experiment(key).trial(trial))
    aside = checkpoints.begin(step, 1)
    (aside / "state.bin").write_bytes(b"x" * size)
    checkpoints.publish(aside, step, 1)
    with Journal.open(store.experiment(key).journal) as journal:
        journal.append({"kind": "Saved", "trial": trial, "attempt": 1, "step": step})
    return size_of(checkpoints.folder / f"step-{step:08d}")


def captured(store, *regions):
    """A capture as the notebook's names are kept: a list that names the blobs of its buffers."""
    shas = [store.put_blob(region) for region in regions]
    return store.put_blob(json.dumps({"buffers": [], "regions": shas, "stream": store.put_blob(b"stream")}).encode())


def of(spec, capture=None, snapshot=None):
    return dataclasses.replace(spec, program=dataclasses.replace(spec.program, capture=capture), snapshot=snapshot)


def test_bytes_are_told_by_what_they_are_for(store, make_spec):
    store.write_spec(make_spec(A))
    paths = store.experiment(A)
    expected = checkpoint(store, A, 7, 3) + checkpoint(store, A, 7, 9, 5000)
    paths.trial(7).log.write_bytes(b"l" * 321)
    (paths.trial(7).files).mkdir()
    (paths.trial(7).files / "3-figure.png").write_bytes(b"f" * 77)
    found = usage.usage(store).experiments[A]
    fence = 20 * 8  # the file that holds the highest attempt of each trial
    assert found.trials[7].checkpoints == expected
    assert found.checkpoints == expected + fence
    assert (found.log, found.files) == (321, 77)
    assert found.journal == paths.journal.stat().st_size
    assert found.bytes == size_of(paths.folder)


def test_what_comes_and_goes_is_seen_and_what_stays_is_not_looked_at_again(store, make_spec, monkeypatch):
    store.write_spec(make_spec(A))
    for trial in range(50):
        checkpoint(store, A, trial, 3)
    before = usage.usage(store).experiments[A]
    looked = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(str(path)) or real(path))
    assert usage.usage(store).experiments[A] == before
    trials = str(store.experiment(A).trials)  # a thread of an earlier test may look at another store
    assert not [path for path in looked if path.startswith(trials)]
    grown = checkpoint(store, A, 7, 9)
    assert usage.usage(store).experiments[A].checkpoints == before.checkpoints + grown
    assert {path.split("/trials/")[1].split("/")[0] for path in looked if path.startswith(f"{trials}/")} == {"t0007"}
    Checkpoints(store.experiment(A).trial(7)).remove(9)
    os.utime(store.experiment(A).trials)
    assert usage.usage(store).experiments[A].checkpoints == before.checkpoints


def test_blobs_and_snapshots_are_counted_once_and_said_to_be_shared(store, make_spec):
    big = store.put_blob(b"b" * 10_000)
    both, own = captured(store, b"s" * 2000, b"t" * 300), captured(store, b"o" * 4000)
    digest = "ab" * 32
    store.snapshot(digest).mkdir()
    (store.snapshot(digest) / "snapshot.json").write_text(json.dumps({"notebook": {"sha256": big}}))
    os.link(store.blob_path(big), store.snapshot(digest) / "notebook.ipynb")
    store.write_spec(of(make_spec(A), both, digest))
    store.write_spec(of(make_spec(B), both))
    store.write_spec(of(make_spec("c"), own))
    loose = store.put_blob(b"nobody names it")
    found = usage.usage(store)
    sizes = {path.name: path.stat().st_size for path in store.blobs.iterdir()}
    text = (store.snapshot(digest) / "snapshot.json").stat().st_size
    assert found.blobs == sum(sizes.values())
    assert found.snapshots == text
    assert found.experiments[A].own == 10_000 + text
    # The pickled stream is the same in all three.
    assert found.experiments[A].shared == found.experiments[B].shared == sizes[both] + 2300 + len(b"stream")
    assert found.experiments[B].own == 0
    assert found.experiments["c"].own == sizes[own] + 4000
    assert found.unnamed == sizes[loose]
    links = 10_000  # the notebook lies in two folders, and once on the disk
    assert found.bytes == size_of(store.root) - links


def test_an_experiment_under_way_is_looked_through_at_most_every_few_seconds(store, make_spec, monkeypatch):
    monkeypatch.setattr(usage, "STILL_S", 1000.0)
    store.write_spec(make_spec(A))
    checkpoint(store, A, 0, 3)
    before = usage.usage(store).experiments[A]
    store.experiment(A).trial(0).log.write_bytes(b"x" * 10)
    assert usage.usage(store).experiments[A] == before
    monkeypatch.setattr(time, "monotonic", lambda real=time.monotonic: real() + usage.BUSY_S)
    assert usage.usage(store).experiments[A].log == 10


def test_an_empty_store_takes_nothing(store):
    found = usage.usage(store)
    made = sum((store.root / name).stat().st_size for name in (MARK, IGNORE))
    assert (found.bytes, found.unnamed, found.experiments) == (made, 0, {})
    assert found.free > 0


def test_an_experiment_that_was_deleted_a_moment_ago_is_not_found(store, make_spec):
    store.write_spec(make_spec(A))
    assert usage.experiment_usage(store, A).folder > 0
    with pytest.raises(NotFound, match=f"experiment {B} is not in"):
        usage.experiment_usage(store, B)


def test_names_of_nothing_are_not_looked_for(store, make_spec, monkeypatch):
    capture = captured(store, b"weights")
    store.write_spec(dataclasses.replace(of(make_spec(A), capture=capture, snapshot="b" * 64), content="c" * 64))
    asked: list[str] = []
    looks = naming._named_by
    # The real look-up, which also notes what it was asked for.
    monkeypatch.setattr(naming, "_named_by", lambda store, name: asked.append(name) or looks(store, name))
    found = usage.usage(store).experiments[A]
    blobs = {entry.name: entry.stat().st_size for entry in store.blobs.iterdir()}
    assert (found.own, sorted(asked)) == (sum(blobs.values()), sorted(blobs))
    # What removes files looks for all of them: a snapshot may have come since a list of them was made.
    asked.clear()
    naming.named_by_experiment(store, A)
    assert {"b" * 64, "c" * 64} <= set(asked)
