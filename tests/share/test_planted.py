"""A file that brings a snapshot under another one's name: whose code runs is what its person trusts, or has written."""

from __future__ import annotations

import hashlib
import json
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import ended, engine, spec_of, start

from workbench.errors import BadInput
from workbench.records import Scheduler
from workbench.share import export, take_in
from workbench.snapshot import Snapshot, take
from workbench.store import Store

THEIRS = b"raise SystemExit('somebody else')\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module that a cell imports, and data beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "planted_helpers.py").write_text("def good(): return 1\n")
    (folder / "patients.csv").write_text("name\nsomebody\n")
    monkeypatch.syspath_prepend(str(folder))
    __import__("planted_helpers")
    yield folder
    del sys.modules["planted_helpers"]


def taken(store: Store, project: Path) -> Snapshot:
    cell = types.SimpleNamespace(imports=("planted_helpers",), content="c", source="import planted_helpers")
    return take(store, cell=cell, cells=["import planted_helpers"], folder=project)  # type: ignore[arg-type]


def carried(store: Store, snapshot: Snapshot, project: Path, path: Path) -> Path:
    """The file of an experiment with that snapshot."""
    spec = spec_of(
        "for _ in trial.steps():\n    trial.report(score=1)\n",
        project,
        scheduler=Scheduler("all", 1, 1),
        trials=1,
        verify=False,
        snapshot=snapshot.digest,
    )
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
    export(store, spec.id, path)
    return path


def planted(good: Path, bad: Path) -> Path:
    """The same as another experiment, with other code under the same name."""
    with zipfile.ZipFile(good) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    about = json.loads(files.pop("manifest.json"))
    old, new = about["experiment"], "20200101-000000-planted"
    files = {name.replace(old, new): data.replace(old.encode(), new.encode()) for name, data in files.items()}
    files = {name: data for name, data in files.items() if "/trials/" not in name and not name.endswith("series.db")}
    files = {name: THEIRS if name.endswith("helpers.py") else data for name, data in files.items()}
    digests = [{"name": n, "bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in files.items()]
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("manifest.json", json.dumps({**about, "experiment": new, "files": digests}))
    return bad


def test_a_planted_snapshot_is_nobody_elses(project: Path, tmp_path: Path) -> None:
    theirs, mine = Store(tmp_path / "theirs").create(), Store(tmp_path / "mine").create()
    snapshot = taken(theirs, project)
    good = carried(theirs, snapshot, project, tmp_path / "good.zip")
    bad = planted(good, tmp_path / "bad.zip")
    place = mine.snapshot(snapshot.digest) / "code" / "planted_helpers.py"
    with engine(mine):
        take_in(mine, bad)
        assert place.read_bytes() == THEIRS
        with pytest.raises(BadInput, match="with other content"):
            take_in(mine, good)
        own = taken(mine, project)
        assert (own.digest, own.code) == (snapshot.digest, place.parent)
        assert place.read_text() == "def good(): return 1\n"
        take_in(mine, good)
        assert place.read_text() == "def good(): return 1\n"
    assert [path.name for path in mine.snapshots.iterdir()] == [snapshot.digest]


def test_data_beside_a_module_does_not_go_along(project: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    snapshot = taken(store, project)
    assert (snapshot.path / "code" / "patients.csv").read_text() == "name\nsomebody\n"
    with zipfile.ZipFile(carried(store, snapshot, project, tmp_path / "good.zip")) as archive:
        code = {Path(name).name for name in archive.namelist() if "/code/" in name}
    assert "planted_helpers.py" in code
    assert "patients.csv" not in code
