"""Checkpoints at a URL: whole or not there, sent again where something failed, fetched where the disk was lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from workbench.engine.telling import courier as couriers
from workbench.engine.telling.courier import Courier, remove_all
from workbench.errors import BadOption, NotFound, StoreError
from workbench.share import export, publish
from workbench.share.archive import _place
from workbench.share.manifest import Manifest
from workbench.store import Store
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.keeping.cleaning import remove
from workbench.store.keeping.passing import KIND, drop_passing, fetch_passing, send_passing
from workbench.store.keeping.remote import Remote, at_hand, bring, checked, mirror, shown, shown_spec
from workbench.store.owner.adoption import adopt
from workbench.trial.export.loading import plain_state

KEY = "20261120-140312-abcdef"


class Flaky(LocalFileSystem):
    """A folder whose first writes fail, as many as are ``left``; with a word of a driver's that bears a secret."""

    protocol = "flaky"
    cachable = False
    left = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol("/" + path.partition("@host/")[2] if "@host/" in path else path)

    def put_file(self, *arguments: Any, **more: Any) -> None:
        if type(self).left > 0:
            type(self).left -= 1
            raise ConnectionError("flaky://me:s3cr3tpass@host/x gave no answer to me:s3cr3tpass")
        super().put_file(*arguments, **more)


fsspec.register_implementation("flaky", Flaky, clobber=True)


def keep(store: Store, step: int, data: bytes = b"tensors", *, trial: int = 0) -> Checkpoints:
    checkpoints = Checkpoints(store.experiment(KEY).trial(trial))
    aside = checkpoints.begin(step, 1)
    (aside / "saved").mkdir()
    (aside / "saved" / "one.bin").write_bytes(data)
    (aside / "graph.pkl").write_bytes(data * 2)
    checkpoints.publish(aside, step, 1)
    return checkpoints


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The folder in which one trial's checkpoints lie behind :func:`url`."""
    return tmp_path / "far" / KEY / "t0000" / "checkpoints"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return (tmp_path / "far").as_uri()


def test_what_is_published_is_there_whole_and_what_the_rule_removes_goes(store, there, url):
    keep(store, 3)
    here = keep(store, 9)
    trial = store.experiment(KEY).trial(0)
    assert mirror(trial, Remote(url, KEY, 0)) == 2
    for step in (3, 9):
        assert tree(there / f"step-{step:08d}") == tree(here.folder / f"step-{step:08d}")
    assert mirror(trial, Remote(url, KEY, 0)) == 0
    remove(store.experiment(KEY), {0: [3]}, {0: [9]})
    mirror(trial, Remote(url, KEY, 0))
    assert Remote(url, KEY, 0).steps() == [9]
    # Losing the local files is not a request to delete the remote ones.
    shutil.rmtree(here.folder)
    mirror(trial, Remote(url, KEY, 0))
    assert Remote(url, KEY, 0).steps() == [9]
    # Trained again, with other bytes at the same step.
    keep(store, 9, b"others")
    assert mirror(trial, Remote(url, KEY, 0)) == 1
    assert tree(there / "step-00000009") == tree(here.folder / "step-00000009")


def test_what_was_fetched_between_levels_goes_there_once_it_is_not_needed(store, url):
    trial, remote = store.experiment(KEY).trial(0), Remote(url, KEY, 0, KIND)
    passing = Checkpoints(trial.passing)
    aside = passing.begin(5, 1)
    (aside / "graph.pkl").write_bytes(b"between")
    passing.publish(aside, 5, 1)
    assert send_passing(trial, remote)
    shutil.rmtree(trial.folder)  # the disk is lost, and with it what was known of the URL
    assert fetch_passing(remote, trial.folder, 0, None, 2) == []
    assert Checkpoints(trial.passing).steps() == [5]
    drop_passing(trial)
    send_passing(trial, remote)
    assert remote.names() == []


KILLED = """
import os, signal, sys
from fsspec.implementations.local import LocalFileSystem
from workbench.store import Store
from workbench.store.keeping.passing import KIND, drop_passing, fetch_passing, send_passing
from workbench.store.keeping.remote import Remote, mirror
put, count = LocalFileSystem.put_file, 0
def dies(self, source, target, **more):
    global count
    count += 1
    if count == 2:
        with open(source, "rb") as file, open(target, "wb") as half:
            half.write(file.read()[:3])
        os.kill(os.getpid(), signal.SIGKILL)
    put(self, source, target, **more)
LocalFileSystem.put_file = dies
mirror(Store(sys.argv[1]).experiment(sys.argv[2]).trial(0), Remote(sys.argv[3], sys.argv[2], 0))
"""


def test_a_kill_on_the_way_leaves_no_checkpoint_and_the_next_completes_it(store, there, url):
    here = keep(store, 9)
    done = subprocess.run([sys.executable, "-c", KILLED, str(store.root), KEY, url], check=False)
    assert done.returncode == -signal.SIGKILL
    step = there / "step-00000009"
    assert step.is_dir()
    assert not (step / "manifest.json").exists()
    assert (
        Remote(url, KEY, 0).fetch(9, Checkpoints(here.folder.parent / "elsewhere"), None) == "it was never sent in full"
    )
    assert mirror(store.experiment(KEY).trial(0), Remote(url, KEY, 0)) == 1
    assert tree(step) == tree(here.folder / "step-00000009")


def test_what_is_lost_here_is_fetched_and_what_is_damaged_there_is_skipped_and_said(store, there, url, make_spec):
    keep(store, 3)
    here = keep(store, 9)
    spec = make_spec(KEY, storage=url)
    mirror(store.experiment(KEY).trial(0), Remote(url, KEY, 0))
    before = tree(here.folder)
    shutil.rmtree(here.folder)
    assert bring(store, spec, 0) == []
    assert here.steps() == [9]
    at_hand(store, spec, 0, 3)
    assert {name: data for name, data in tree(here.folder).items() if name != "attempt"} == {
        name: data for name, data in before.items() if name != "attempt"
    }
    shutil.rmtree(here.folder)
    file = there / "step-00000009" / "saved" / "one.bin"
    data = bytearray(file.read_bytes())
    data[2] ^= 1
    file.write_bytes(data)
    skipped = bring(store, spec, 0, attempt=4)
    assert [(one.step, "one.bin have changed" in one.why) for one in skipped] == [(9, True)]
    assert here.steps() == [3]
    assert not [name for name in os.listdir(here.folder) if name.startswith(".")]


def test_a_manifest_that_names_other_places_is_not_followed(store, there, url, make_spec):
    here = keep(store, 9)
    mirror(store.experiment(KEY).trial(0), Remote(url, KEY, 0))
    manifest = there / "step-00000009" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("graph.pkl", "../../graph.pkl"))
    shutil.rmtree(here.folder)
    assert [one.step for one in bring(store, make_spec(KEY, storage=url), 0)] == [9]
    assert not list(store.root.rglob("graph.pkl"))


def test_a_storage_that_fails_delays_and_says_so_once_without_its_secret(
    store, tmp_path, make_spec, caplog, monkeypatch
):
    monkeypatch.setattr(couriers, "FIRST_S", 0.01)
    monkeypatch.setattr(Flaky, "left", 3)
    keep(store, 9)
    spec = make_spec(KEY, storage=f"flaky://me:s3cr3tpass@host{tmp_path}/far")
    words: list[str | None] = []
    done = threading.Event()

    def tell(key: str, word: str | None) -> None:
        words.append(word)
        if word is None:
            done.set()

    courier = Courier(store, tell)
    courier.take(spec, [0])
    assert done.wait(20)
    assert courier.word(KEY) is None
    assert Flaky.left == 0
    courier.close()
    assert str(words[0]).startswith("waits since ")
    told = [record.getMessage() for record in caplog.records if "is not available" in record.getMessage()]
    assert len(told) == 1
    assert "s3cr3tpass" not in f"{told} {words}"


def test_a_trial_with_nothing_to_send_is_no_sign_that_the_storage_is_there_again(store, tmp_path, make_spec, caplog):
    caplog.set_level("INFO", "workbench.engine")
    (tmp_path / "far").write_text("no folder")
    spec, words, told = make_spec(KEY, storage=(tmp_path / "far").as_uri()), [], threading.Semaphore(0)

    def tell(_key: str, word: str | None) -> None:
        words.append(word)
        told.release()

    def logged() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        return [one for one in found if "is not available" in one or "is there again" in one]

    courier = Courier(store, tell)
    try:
        keep(store, 9)
        courier.take(spec, [0])
        assert told.acquire(timeout=20)
        # The rule removes it before it was sent: nothing is left to do.
        shutil.rmtree(store.experiment(KEY).trial(0).checkpoints)
        courier.retry()
        assert told.acquire(timeout=20)
        assert words[1] is None
        keep(store, 11)
        courier.take(spec, [0])
        assert told.acquire(timeout=20)
        assert words[2] == words[0], "since the first failure"
        assert len(logged()) == 1, logged()
        (tmp_path / "far").unlink()
        courier.retry()
        assert told.acquire(timeout=20)
        assert words[3] is None
        assert len(logged()) == 2
        assert "is there again" in logged()[1]
    finally:
        courier.close()


def test_credentials_are_not_shown(make_spec, monkeypatch, tmp_path):
    secret = "sftp://me:s3cr3tpass@host/place?token=abc123def456"
    assert "s3cr3t" not in shown(secret)
    assert "abc123" not in shown(secret)
    assert "host/place" in shown(secret)
    spec = make_spec(KEY, storage=secret)
    assert "s3cr3t" not in str(shown_spec(spec))
    assert spec.storage == secret
    monkeypatch.setattr(Flaky, "left", 1)
    remote = Remote(f"flaky://me:s3cr3tpass@host{tmp_path}/far", KEY, 0)
    store = Store(tmp_path / "s").create()
    found = keep(store, 9).at(9)
    with pytest.raises(StoreError) as refused:
        remote.push(found)
    assert "s3cr3tpass" not in str(refused.value)
    assert "***" in str(refused.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("nowhere://bucket/place", "fsspec knows no nowhere://"),
        ("memory://x", "ends with its process"),
        ("file://", "expected a place"),
        ("simplecache::s3://bucket", "expected a folder or one URL"),
        ("libarchive://me:s3cr3tpass@host/x", "is not installed"),
    ],
)
def test_a_url_that_cannot_do_is_refused_before_anything_is_written(given, says):
    with pytest.raises(BadOption, match=says) as refused:
        checked(given)
    assert "s3cr3tpass" not in str(refused.value)


def test_a_folder_is_a_url_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert checked("backup") == (tmp_path / "backup").as_uri() == checked(str(tmp_path / "backup"))


@pytest.mark.parametrize("name", ["My Backüp [1]", "a%20b", "a#b?c", "a@b", "~x"])
def test_the_folder_that_is_named_is_the_one_that_is_used_whatever_its_name(store, tmp_path, name):
    folder = tmp_path / name
    keep(store, 3)
    url = checked(str(folder))
    assert mirror(store.experiment(KEY).trial(0), Remote(url, KEY, 0)) == 1
    assert (folder / KEY / "t0000" / "checkpoints" / "step-00000003").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir() and path != store.root) == [name]
    assert Remote(url, KEY, 0).steps() == [3]
    Remote(url, KEY).remove_trials()
    assert list(folder.iterdir()) == []


def test_of_a_deleted_experiment_only_trials_are_removed_at_its_storage(tmp_path):
    """Its URL and its id may be another person's, and together name any folder."""
    mine = tmp_path / "documents"
    (mine / "t0000x").mkdir(parents=True)
    (mine / "t0000x" / "letter.txt").write_text("mine")
    (mine / "t0000" / "checkpoints").mkdir(parents=True)
    assert remove_all(tmp_path.as_uri(), mine.name) is None
    assert tree(mine) == {"t0000x/letter.txt": b"mine"}
    assert not (mine / "t0000").exists()
    assert remove_all(tmp_path.as_uri(), "nothing-there") is None


def test_a_store_of_somebody_else_fetches_nothing(store, url, make_spec):
    here = keep(store, 9)
    mirror(store.experiment(KEY).trial(0), Remote(url, KEY, 0))
    shutil.rmtree(here.folder)
    store.experiment(KEY).foreign.write_text("{}")
    assert bring(store, make_spec(KEY, storage=url), 0) == []
    assert here.steps() == []


@pytest.mark.parametrize("is_marked", [False, True])
def test_the_state_of_what_is_not_trusted_is_read_and_never_fetched(store, url, make_spec, tmp_path, is_marked):
    store.write_spec(make_spec(KEY, storage=url))
    here = keep(store, 9)
    mirror(store.experiment(KEY).trial(0), Remote(url, KEY, 0))
    with_it = Store(shutil.copytree(store.root, tmp_path / "with"))
    shutil.rmtree(here.folder)
    theirs = Store(shutil.copytree(store.root, tmp_path / "theirs"))
    if is_marked:
        adopt(theirs)
        theirs.experiment(KEY).foreign.write_text("{}")
    spec = theirs.read_spec(KEY)
    with pytest.raises(NotFound, match="nothing is fetched") as refused:
        plain_state(theirs, spec, 0)
    assert ("workbench trust digits@1" if is_marked else f"workbench adopt {theirs.root}") in str(refused.value)
    assert Checkpoints(theirs.experiment(KEY).trial(0)).is_empty
    assert plain_state(with_it, spec, 0) == {}, "what lies there is read; these are no tensors"


def test_neither_the_url_nor_a_wish_to_send_there_leaves_or_enters_the_store(store, url, make_spec, tmp_path):
    spec = make_spec(KEY, storage="sftp://me:s3cr3tpass@host/place")
    store.write_spec(spec)
    store.experiment(KEY).journal.write_text("")
    export(store, KEY, tmp_path / "one.zip")
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert not any(b"s3cr3tpass" in archive.read(name) for name in archive.namelist())
    publish(store, KEY, str(tmp_path / "page"))
    assert not any(b"s3cr3tpass" in data.encode("latin-1") for data in map(str, tree(tmp_path / "page").values()))
    # A storage that was planted in a publication is dropped when another store takes the publication in.
    name = tmp_path / "page" / "experiments" / KEY / "spec.json"
    name.write_text(json.dumps({**json.loads(name.read_text()), "storage": url}))
    other = Store(tmp_path / "other").create()
    _place(other, tmp_path / "page", Manifest(experiment=KEY))
    assert other.read_spec(KEY).storage is None
