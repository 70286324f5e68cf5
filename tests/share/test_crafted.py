"""Files that an attacker crafted are refused before anything is written, and leave nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import BadInput
from workbench.records import Spec
from workbench.share import export, publish, take_in
from workbench.store import Store
from workbench.store.owner.ownership import MARK

Change = Callable[[dict[str, bytes], dict[str, Any], dict[str, int]], None]


def escaping(name: str) -> Change:
    def change(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
        files[name] = b"x"
        about["files"].append({"name": name, "bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()})

    return change


def list_again(files: dict[str, bytes], about: dict[str, Any], name: str) -> None:
    """Have the manifest list a file as it is now."""
    for one in about["files"]:
        if one["name"] == name:
            one.update(bytes=len(files[name]), sha256=hashlib.sha256(files[name]).hexdigest())


def link(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    name = next(name for name in files if name.endswith("spec.json"))
    modes[name] = stat.S_IFLNK | 0o777


def bomb(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    name = next(name for name in files if name.endswith("log.txt"))
    files[name] = b"\0" * (64 << 20)
    list_again(files, about, name)


def flipped(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    name = next(name for name in files if name.endswith(".zip"))
    files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])


def unlisted(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    files[next(iter(files)) + ".more"] = b"x"


def headless(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    about["kind"] = "holiday pictures"


def other_owner(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    escaping("experiments/20200101-000000-abcdef/events.jsonl")(files, about, modes)


def changed(good: Path, bad: Path, change: Change) -> None:
    """Write to ``bad`` a copy of the file ``good`` with this change, as an attacker would."""
    with zipfile.ZipFile(good) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    about = json.loads(files.pop("manifest.json"))
    modes: dict[str, int] = {}
    change(files, about, modes)
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, "manifest.json": json.dumps(about).encode()}.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = modes.get(name, 0) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)


OWN: dict[str, Any] = {
    "storage": "memory://secret-token",
    "mirror": [{"kind": "mlflow", "where": "http://secret-token:5000", "offline": False, "folder": ""}],
    "notify": {"webhook": "https://example.org/secret-token", "command": "touch secret-token", "on": ["end"]},
}


def claiming(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    """What the author's own is, stands in the spec."""
    name = next(name for name in files if name.endswith("spec.json"))
    files[name] = json.dumps({**json.loads(files[name]), **OWN}).encode()
    list_again(files, about, name)


def test_places_and_people_of_the_author_stay_with_the_author(
    trained: tuple[Store, Spec], other: Store, tmp_path: Path
) -> None:
    store, spec = trained
    shutil.copytree(store.root, tmp_path / "mine")
    mine = Store(tmp_path / "mine")
    mine.experiment(spec.id).spec.write_text(json.dumps({**mine.read_spec_json(spec.id), **OWN}))
    export(mine, "shared", tmp_path / "good.zip")
    publish(mine, "shared", str(tmp_path / "page"))
    with zipfile.ZipFile(tmp_path / "good.zip") as archive:
        carried = {name: archive.read(name) for name in archive.namelist()}
    shown = {str(path): path.read_bytes() for path in (tmp_path / "page").rglob("*") if path.is_file()}
    assert [name for name, data in {**carried, **shown}.items() if b"secret-token" in data] == []
    changed(tmp_path / "good.zip", tmp_path / "bad.zip", claiming)
    take_in(other, tmp_path / "bad.zip")
    taken = other.read_spec_json(spec.id)
    assert {key: taken[key] for key in OWN} == {"storage": None, "mirror": [], "notify": None}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (escaping("../outside.txt"), "not a path in a store"),
        (escaping("/etc/cron.d/x"), "not a path in a store"),
        (escaping("blobs/../../x"), "not a path in a store"),
        (escaping("snapshots/0123456789abcdef/../../x"), "not a path in a store"),
        (escaping("snapshots/0123456789abcdef/a\\..\\b"), "not a path in a store"),
        (escaping("engine.json"), "not a path in a store"),
        (escaping("requests/20260101-000000-000000-00000000.json"), "not a path in a store"),
        (other_owner, "belongs to another experiment"),
        (link, "a link or a device"),
        (bomb, "unpack to more"),
        (flipped, "is damaged"),
        (unlisted, "not those that its manifest lists"),
        (headless, "does not describe one experiment"),
    ],
)
def test_a_hostile_file_is_refused_and_leaves_nothing(
    trained: tuple[Store, Spec], tmp_path: Path, change: Change, why: str
) -> None:
    store, _ = trained
    export(store, "shared", tmp_path / "good.zip")
    changed(tmp_path / "good.zip", tmp_path / "bad.zip", change)
    target = Store(tmp_path / "inside" / "store").create()
    with pytest.raises(BadInput, match=why):
        take_in(target, tmp_path / "bad.zip")
    left = [path for path in (tmp_path / "inside").rglob("*") if path.is_file()]
    assert left == [target.root / MARK]
    assert not (tmp_path / "outside.txt").exists()


@pytest.mark.timeout(10)
def test_a_device_and_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    target = Store(tmp_path / "store").create()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "published.json")
    for source, why in (
        (Path("/dev/zero"), "neither a file nor a folder"),
        (tmp_path / "pipe", "neither a file nor a folder"),
        (tmp_path / "folder", "a named pipe"),
        (tmp_path / "nothing", "No such file"),
    ):
        with pytest.raises(BadInput, match=why):
            take_in(target, source)


def test_a_file_that_would_unpack_to_too_much_is_refused(trained: tuple[Store, Spec], tmp_path: Path) -> None:
    store, _ = trained
    export(store, "shared", tmp_path / "good.zip")
    with pytest.raises(BadInput, match="would unpack to"):
        take_in(Store(tmp_path / "small"), tmp_path / "good.zip", most_bytes=1000)
    shutil.copy(__file__, tmp_path / "none.zip")
    with pytest.raises(BadInput, match="is not a file that"):
        take_in(Store(tmp_path / "small"), tmp_path / "none.zip")


def senseless(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    """A spec that is JSON and nothing else: found when all else lies in its place."""
    name = next(name for name in files if name.endswith("spec.json"))
    files[name] = json.dumps({"id": json.loads(files[name])["id"], "schema": 1, "program": []}).encode()
    list_again(files, about, name)


def false_blob(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    escaping(f"blobs/{'f' * 64}")(files, about, modes)


def triggered(files: dict[str, bytes], about: dict[str, Any], modes: dict[str, int]) -> None:
    """A database that runs a statement of its author's when the experiment is paused here."""
    name = next(name for name in files if name.endswith("series.db"))
    with closing(sqlite3.connect(":memory:")) as forger:
        forger.deserialize(files[name])
        forger.execute("CREATE TRIGGER tt AFTER UPDATE ON trials BEGIN DELETE FROM points; END")
        files[name] = forger.serialize()
    list_again(files, about, name)


@pytest.mark.parametrize("change", [senseless, false_blob, triggered])
def test_what_is_refused_late_leaves_nothing_either(
    trained: tuple[Store, Spec], tmp_path: Path, change: Change
) -> None:
    store, _ = trained
    export(store, "shared", tmp_path / "good.zip")
    changed(tmp_path / "good.zip", tmp_path / "bad.zip", change)
    fresh, used = Store(tmp_path / "fresh"), Store(tmp_path / "used").create()
    before = sorted(used.root.rglob("*"))
    for target in (fresh, used):
        with pytest.raises(BadInput):
            take_in(target, tmp_path / "bad.zip")
    assert not fresh.root.exists()
    assert sorted(used.root.rglob("*")) == before
