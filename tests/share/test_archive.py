"""Archives that an attacker crafted or a disk damaged, and stores that change meanwhile: all of it, or nothing."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from running import ended, engine, spec_of, start, until

from workbench import asked
from workbench.asking import ask
from workbench.errors import BadInput, NotFound, StoreError
from workbench.records import Scheduler, Spec
from workbench.share import archive, export, publish, take_in
from workbench.store import Store
from workbench.store.files import packed as packing
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.keeping.cleaning import sweep
from workbench.store.lists.catalog import read_catalog
from workbench.store.lists.said import Said, said

SOURCE = """
weights = [0.5]
for epoch in trial.steps():
    weights.append(weights[-1] * 0.9)
    print("epoch", epoch)
    trial.report(score=weights[-1])
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Spec, Path]:
    """Two trials that have ended, in a store without an engine, and their archive."""
    folder = tmp_path_factory.mktemp("home")
    store = Store(folder / "store").create()
    blob = store.put_blob(b"captured " * 100)
    scheduler = Scheduler("all", 1, 3, 3)
    spec = spec_of(f"# {blob}\n{SOURCE}", folder, scheduler=scheduler, trials=2, name="sent", verify=False)
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
    export(store, "sent", folder / "sent.zip")
    return store, spec, folder / "sent.zip"


def left(store: Store) -> list[Path]:
    """What an import has left of experiments, blobs and snapshots."""
    return [path for folder in (store.experiments, store.blobs, store.snapshots) for path in folder.iterdir()]


Change = Callable[[dict[str, Any]], object]


def written(good: Path, bad: Path, change: Change = lambda about: None, *, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Copy the archive ``good`` to ``bad`` with a changed manifest, which is compressed by ``method``."""
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            data = source.read(name)
            if name == archive.MANIFEST:
                about = json.loads(data)
                changed = change(about)
                text = changed if isinstance(changed, str) else json.dumps(about)
                target.writestr(name, text, compress_type=method)
            else:
                target.writestr(name, data)
    return bad


def test_an_export_is_compressed_and_what_shrinks_too_much_for_an_import_is_not(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path
) -> None:
    _, spec, good = trained
    store = Store(shutil.copytree(trained[0].root, tmp_path / "copy"))
    trials = store.experiment(spec.id).trials
    texts = {
        "t0000.log.txt": "".join(f"epoch {number}: loss {1 / (number + 1)}\n" for number in range(400_000)).encode(),
        "t0001.log.txt": b"0" * 40_000_000,
    }
    trials.mkdir(exist_ok=True)
    for name, text in texts.items():
        (trials / name).write_bytes(text)
    export(store, "sent", tmp_path / "sent.zip")
    with zipfile.ZipFile(tmp_path / "sent.zip") as packed:
        found = {Path(info.filename).name: info for info in packed.infolist()}
    assert found["t0000.log.txt"].compress_size < found["t0000.log.txt"].file_size / 2
    assert found["t0001.log.txt"].compress_type == zipfile.ZIP_STORED
    assert found["events.jsonl"].compress_size < found["events.jsonl"].file_size
    take_in(other, tmp_path / "sent.zip")
    for number, text in enumerate(texts.values()):
        assert packing.read(other.experiment(spec.id).trial(number).log) == text
    assert good.stat().st_size < sum(info.file_size for info in zipfile.ZipFile(good).infolist()) / 2


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_zipfile_unpacks_without_a_limit_are_refused_unread(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path, method: int
) -> None:
    bad = written(trained[2], tmp_path / "bad.zip", method=method)
    with pytest.raises(BadInput, match=r"manifest\.json' is encrypted, or compressed in a way"):
        take_in(other, bad)
    assert left(other) == []


@pytest.mark.parametrize("which", [archive.MANIFEST, "spec.json"])
def test_encrypted_members_are_refused(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path, which: str
) -> None:
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(trained[2]) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
            target.filelist[-1].flag_bits |= 1 if name.endswith(which) else 0
    with pytest.raises(BadInput, match="is encrypted"):
        take_in(other, bad)
    assert left(other) == []


def test_a_manifest_that_unpacks_to_too_much_is_refused(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path
) -> None:
    bad = written(trained[2], tmp_path / "bad.zip", lambda about: json.dumps(about) + " " * (20 << 20))
    with pytest.raises(BadInput, match="would unpack to more than it should"):
        take_in(other, bad)


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.update(labels=["x"]),
        lambda about: about.update(labels={"tags": "x"}),
        lambda about: about.update(labels={"note": 5}),
        lambda about: about.update(label=["x"]),
        lambda about: about.update(experiment=["x"]),
        lambda about: about.update(experiment="../x"),
        lambda about: about.update(schema="new"),
        lambda about: about["files"][0].update(bytes=float("inf")),
        lambda about: about["files"].append({"name": "x", "bytes": 1}),
        lambda about: about["files"].append("x"),
        lambda about: "[" * 200_000,
        lambda about: '{"schema": ' + "9" * 5000 + "}",
        lambda about: "[]",
    ],
)
def test_a_malformed_manifest_is_refused_and_leaves_nothing(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path, change: Change
) -> None:
    bad = written(trained[2], tmp_path / "bad.zip", change)
    with pytest.raises(BadInput, match="its manifest cannot be read"):
        take_in(other, bad)
    assert left(other) == []


def test_a_member_whose_compressed_bytes_are_damaged_is_refused(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path
) -> None:
    bad = written(trained[2], tmp_path / "bad.zip")
    with zipfile.ZipFile(bad) as source:
        info = next(info for info in source.infolist() if info.filename.endswith("events.jsonl"))
    data = bytearray(bad.read_bytes())
    begin = info.header_offset + 30 + sum(struct.unpack_from("<HH", data, info.header_offset + 26))
    data[begin : begin + 16] = b"\xff" * 16
    bad.write_bytes(data)
    with pytest.raises(BadInput, match="cannot be unpacked"):
        take_in(other, bad)
    assert left(other) == []


def test_an_import_that_is_interrupted_leaves_no_experiment(
    trained: tuple[Store, Spec, Path], other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Ctrl-C does while the engine is asked: no signal from outside hits this moment for certain.
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        take_in(other, trained[2])
    assert list(other.experiments.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------------------
# Stores of another user


@pytest.fixture
def theirs(trained: tuple[Store, Spec, Path], tmp_path: Path) -> Store:
    """A copy of the store at another path, which is not this user's."""
    return Store(shutil.copytree(trained[0].root, tmp_path / "theirs"))


def out(store: Store, spec: Spec, way: str, folder: Path) -> None:
    if way == "export":
        export(store, spec.id, folder / "sent.zip")
    else:
        publish(store, spec.id, str(folder / "page"))


def linked_blob(store: Store, spec: Spec, private: Path) -> None:
    (blob,) = store.blobs.iterdir()
    blob.unlink()
    blob.symlink_to(private / "key")


def linked_snapshot(store: Store, spec: Spec, private: Path) -> None:
    path = store.experiment(spec.id).spec
    path.write_text(json.dumps({**json.loads(path.read_text()), "more": "ab" * 16}))
    (store.snapshots / ("ab" * 16)).symlink_to(private)


def linked_experiment(store: Store, spec: Spec, private: Path) -> None:
    folder = store.experiment(spec.id).folder
    folder.rename(private / "experiment")
    folder.symlink_to(private / "experiment")


def linked_series(store: Store, spec: Spec, private: Path) -> None:
    path = store.experiment(spec.id).series
    path.rename(private / "series.db")
    path.symlink_to(private / "series.db")


def linked_snapshots(store: Store, spec: Spec, private: Path) -> None:
    store.snapshots.rmdir()
    store.snapshots.symlink_to(private)


@pytest.mark.parametrize("way", ["export", "publish"])
@pytest.mark.parametrize("change", [linked_blob, linked_snapshot, linked_experiment, linked_series, linked_snapshots])
def test_a_link_in_somebody_elses_store_is_not_followed(
    trained: tuple[Store, Spec, Path], theirs: Store, tmp_path: Path, change: Callable[..., None], way: str
) -> None:
    private, goal = tmp_path / "private", tmp_path / "goal"
    private.mkdir()
    goal.mkdir()
    (private / "key").write_text("my private key")
    change(theirs, trained[1], private)
    with pytest.raises(StoreError, match="is a link"):
        out(theirs, trained[1], way, goal)
    assert list(goal.iterdir()) == []


@pytest.mark.parametrize("way", ["export", "publish"])
def test_a_damaged_blob_is_not_given_to_others(
    trained: tuple[Store, Spec, Path], theirs: Store, tmp_path: Path, way: str
) -> None:
    goal = tmp_path / "goal"
    goal.mkdir()
    (blob,) = theirs.blobs.iterdir()
    blob.write_bytes(b"other bytes")
    with pytest.raises(StoreError, match=f"blobs/{blob.name} does not match its name"):
        out(theirs, trained[1], way, goal)
    assert list(goal.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------------------
# Others at the same time

#: An import that waits before its last step until a file is there.
IMPORT = """
import sys, time
from pathlib import Path
from workbench.errors import WorkbenchError
from workbench.share import archive
from workbench.store import Store
place = archive._place
def placed(*given):
    print("placing", flush=True)
    while not Path(sys.argv[3]).exists():
        time.sleep(0.01)  # asked by a process that has nothing else to do
    place(*given)
archive._place = placed
print("asking", flush=True)
try:
    print(archive.take_in(Store(Path(sys.argv[1])), Path(sys.argv[2]))["label"])
except WorkbenchError as error:
    print(error)
"""


def test_two_imports_of_one_archive_bring_it_once_and_whole(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", IMPORT, str(other.root), str(trained[2]), str(tmp_path / "go")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as another,
    ):
        streams = [process.stdout for process in (one, another) if process.stdout is not None]
        assert [stream.readline() for stream in streams] == ["asking\n"] * 2
        (tmp_path / "go").touch()
        said = sorted(stream.read() for stream in streams)
    assert said[0] == "placing\nsent@1\n"
    assert said[1].startswith("sent@1 is already in")
    assert [path.name for path in other.blobs.iterdir()] == [path.name for path in trained[0].blobs.iterdir()]
    assert other.read_spec(trained[1].id) == trained[1]


def test_an_import_mends_a_damaged_blob_and_a_clean_up_spares_it(
    trained: tuple[Store, Spec, Path], other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = [path.name for path in trained[0].blobs.iterdir()]
    (other.blobs / name).write_bytes(b"captu")
    os.utime(other.blobs / name, (0, 0))

    # A real engine lists whatever is whole: its refusal is the only way in which the last step fails alone.
    def refused(*_: object) -> None:
        raise BadInput("the engine refuses it")

    monkeypatch.setattr(archive, "ask", refused)
    with pytest.raises(BadInput):
        take_in(other, trained[2])
    assert (other.blobs / name).read_bytes() == (trained[0].blobs / name).read_bytes()
    assert sweep(other, Said()).things["blobs"] == 0, "it is as new as the import"
    assert (other.blobs / name).exists(), "another experiment may need it by now"


def test_an_import_is_on_disk_before_it_is_listed_and_leaves_a_good_blob_alone(
    trained: tuple[Store, Spec, Path], other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = [path.name for path in trained[0].blobs.iterdir()]
    shutil.copy(trained[0].blobs / name, other.blobs / name)
    before, imported = (other.blobs / name).stat().st_ino, other.experiment(trained[1].id).folder
    early, late, fsync, asks = set(), set(), os.fsync, archive.ask

    def synced(descriptor: int) -> None:
        (late if imported.exists() else early).add(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def asked_last(*given: Any) -> Any:
        assert other.experiments in late
        return asks(*given)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(archive, "ask", asked_last)
    take_in(other, trained[2])
    assert (other.blobs / name).stat().st_ino == before
    names = {"spec.json", "events.jsonl", "series.db", packing.PACKED}
    assert names <= {path.name for path in early if path.parent.name == trained[1].id}
    assert {other.blobs, other.snapshots} <= early


def test_a_snapshot_that_is_there_is_as_new_as_the_import(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    there, brought = store.snapshots / ("ab" * 16), tmp_path / "import" / "snapshots" / ("ab" * 16)
    for folder in (there, brought):
        folder.mkdir(parents=True)
        (folder / "snapshot.json").write_text("{}")
    os.utime(there, (0, 0))
    archive._place_snapshot(brought, there)
    assert sweep(store, Said()).things["snapshots"] == 0
    assert brought.is_dir()
    shutil.rmtree(there)
    archive._place_snapshot(brought, there)
    assert not brought.exists()
    assert there.is_dir()


@pytest.mark.parametrize("moment", ["while it is listed", "while it is packed", "before its last file"])
def test_an_experiment_that_is_deleted_while_it_is_exported_leaves_no_file(
    trained: tuple[Store, Spec, Path], theirs: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    goal, folder = tmp_path / "goal", theirs.experiment(trained[1].id).folder
    goal.mkdir()
    # The moments between two of the export's own steps: a deletion from outside would hit any of them by chance.
    look, pack = archive.look, archive._pack

    def deleted(first: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any) -> Any:
            folder.rename(tmp_path / "deleted")
            return first(*given)

        return wrapped

    def nearly(file: Any, files: Any, *given: Any) -> Any:
        listed = pack(file, files, *given)
        folder.rename(tmp_path / "deleted")
        return listed

    if moment == "while it is listed":
        monkeypatch.setattr(archive, "look", deleted(look))
    else:
        monkeypatch.setattr(archive, "_pack", deleted(pack) if moment == "while it is packed" else nearly)
    with pytest.raises(NotFound, match="was removed while experiment"):
        export(theirs, trained[1].id, goal / "sent.zip")
    assert list(goal.iterdir()) == []


def test_a_checkpoint_that_is_removed_while_it_is_exported_is_left_out(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if it were removed between the list and the copy.
    pack = archive._pack

    def removed(file: Any, files: Any, *given: Any) -> Any:
        assert any(name.endswith("t0001.zip") for name, _ in files)
        gone = [(name, tmp_path / "gone" if name.endswith("t0001.zip") else path) for name, path in files]
        return pack(file, gone, *given)

    monkeypatch.setattr(archive, "_pack", removed)
    export(trained[0], "sent", tmp_path / "sent.zip")
    assert take_in(other, tmp_path / "sent.zip")["label"] == "sent@1"


# ---------------------------------------------------------------------------------------------------------------------
# Publications that are imported


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("change", [Path.unlink, cut])
@pytest.mark.parametrize("which", ["blobs/*", "experiments/*/series.db", "experiments/*/trials/t0000.zip"])
def test_a_publication_that_was_copied_in_part_is_refused(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path, change: Callable[[Path], None], which: str
) -> None:
    publish(trained[0], "sent", str(tmp_path / "page"))
    (path,) = (tmp_path / "page").glob(which)
    change(path)
    with pytest.raises(BadInput, match=r"is missing or not as it was published.*Copy the whole folder"):
        take_in(other, tmp_path / "page")
    assert left(other) == []


def test_a_publication_of_an_earlier_version_lists_no_files(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path
) -> None:
    publish(trained[0], "sent", str(tmp_path / "page"))
    about = json.loads((tmp_path / "page" / "published.json").read_text())
    assert {"experiments", "blobs"} == {one["name"].split("/")[0] for one in about["files"]}
    del about["files"], about["labels"]
    (tmp_path / "page" / "published.json").write_text(json.dumps(about))
    (tmp_path / "page" / "blobs" / ("f" * 64)).symlink_to(tmp_path)
    assert take_in(other, tmp_path / "page")["label"] == "sent@1"


# ---------------------------------------------------------------------------------------------------------------------
# What protects checkpoints


@pytest.mark.parametrize("way", ["export", "publish"])
def test_rules_and_pins_go_along(trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path, way: str) -> None:
    source, key = Store(tmp_path / "source").create(), trained[1].id
    with engine(source):
        take_in(source, trained[2])
        ask(source, asked.Keep(key, "experiment=1,best=0,latest=9"))
        ask(source, asked.Pin(key, 1, 1))
        ask(source, asked.Pin(key, 0))
        there = steps(source, key)
        assert 1 in there[1]
        out(source, trained[1], way, tmp_path)
    take_in(other, tmp_path / ("sent.zip" if way == "export" else "page"))
    ask(other, asked.Gc())
    assert steps(other, key) == there
    wishes = said(other)
    assert str(wishes.rules[key]) == "experiment=1,best=0,latest=9,stopped=0"
    assert wishes.pins_of(key) == ["t0000", "t0001:1"]
    (entry,) = until(lambda: [one for one in read_catalog(other) if one.get("pins")], 10, "the list")
    assert (entry["pins"], entry["keep"]) == (["t0000", "t0001:1"], str(wishes.rules[key]))


def steps(store: Store, experiment_id: str) -> list[list[int]]:
    return [Checkpoints(store.experiment(experiment_id).trial(trial)).steps() for trial in range(2)]


@pytest.mark.parametrize("labels", [{"pins": ["t1:x"]}, {"pins": ["t1:-1"]}, {"keep": "everything"}, {"pins": "t0001"}])
def test_rules_and_pins_without_a_meaning_are_refused(
    trained: tuple[Store, Spec, Path], other: Store, tmp_path: Path, labels: dict[str, Any]
) -> None:
    bad = written(trained[2], tmp_path / "bad.zip", lambda about: about.update(labels=labels))
    with pytest.raises(BadInput, match="its manifest cannot be read"):
        take_in(other, bad)
    assert left(other) == []
