"""Stores that earlier versions wrote open for ever: every reader finds in them what stands beside them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import engine

import workbench as wb
from workbench.cli import main
from workbench.errors import NotAdopted
from workbench.snapshot import read_snapshot
from workbench.store import Store
from workbench.store.journal import Damage, Journal
from workbench.store.journal import read as read_journal
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import Catalog, read_catalog, resolve
from workbench.store.series import Series

FIXTURES = Path(__file__).parent / "fixtures" / "stores"
WRITTEN = sorted(path.name for path in FIXTURES.glob("v*") if path.is_dir())


@pytest.fixture(params=WRITTEN)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a store as one version wrote it, which may be written to."""
    return Path(shutil.copytree(FIXTURES / request.param, tmp_path / request.param))


@pytest.fixture
def adopted(written: Path) -> Path:
    """The same after its owner adopted it, which those made before there was a list need once."""
    assert main(["adopt", str(written), "--yes"]) == 0
    return written


@pytest.fixture
def expected(written: Path) -> dict[str, Any]:
    """What is in it, as the version that wrote it told."""
    return json.loads((FIXTURES / f"{written.name}.json").read_text(encoding="utf-8"))


@pytest.fixture(params=["writable", "read-only"])
def store(request: pytest.FixtureRequest, written: Path) -> Iterator[Store]:
    """The store, in a folder that may be written, and in one that may not. Reading changes nothing in either."""
    before = content(written)
    if request.param == "read-only":
        for folder, _, files in os.walk(written):
            for name in files:
                os.chmod(Path(folder, name), 0o400)
            os.chmod(folder, 0o500)
    yield Store(written, readonly=request.param == "read-only")
    for folder, _, _ in os.walk(written):
        os.chmod(folder, 0o700)
    assert content(written) == before


def content(root: Path) -> dict[str, str]:
    """Digests of all files; SQLite's shared memory and log beside a database are a reader's as well."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def test_there_is_one_of_each_schema() -> None:
    from workbench.records import SCHEMA

    assert [f"v{number}" for number in range(1, SCHEMA + 1)] == WRITTEN


def test_the_list_of_experiments(store: Store, expected: dict[str, Any]) -> None:
    (entry,) = read_catalog(store)
    assert entry.items() >= expected["entry"].items()
    assert resolve(store, "tiny").experiment == expected["experiment"]


def test_the_list_made_again_from_specs_and_journals(written: Path, expected: dict[str, Any]) -> None:
    store = Store(written)
    # When the catalog's line was written, and not the journal's last, is all that is lost with it.
    wanted = {name: value for name, value in expected["entry"].items() if name != "ended"}
    store.catalog_path.unlink()
    (in_memory,) = read_catalog(store)
    assert in_memory.items() >= wanted.items()
    (entry,) = Catalog.rebuild(store).experiments()
    assert entry.items() >= wanted.items()
    assert store.catalog_path.is_file()


def test_curves_trials_and_legs(store: Store, expected: dict[str, Any]) -> None:
    with Series.read(store.experiment(expected["experiment"]).series) as series:
        points = [[*point[:4], str(point[4])] for point in sorted(series.points())]
        cursor, again = series.points_after(0)
        trials, legs = series.trials(), series.legs()
        state = series.meta()["state"]
        assert series.damage == []
    assert points == expected["points"]
    assert len(again) == len(points)
    assert cursor > 0
    assert all(row.items() >= told.items() for row, told in zip(trials, expected["trials"], strict=True))
    assert [[leg[name] for name in ("trial", "attempt", "start", "step", "outcome")] for leg in legs] == (
        expected["legs"]
    )
    assert state == expected["entry"]["state"]


def test_journals(store: Store, expected: dict[str, Any]) -> None:
    damage: list[Damage] = []
    told = read_journal(store.experiment(expected["experiment"]).journal, damage=damage)
    assert [[line["n"], line["kind"]] for line in told] == expected["journal"]
    told = read_journal(store.journal_path, damage=damage)
    assert [[line["n"], line["kind"]] for line in told] == expected["events"]
    assert damage == []


def test_the_spec_the_snapshot_and_what_was_captured(store: Store, expected: dict[str, Any]) -> None:
    spec = store.read_spec(expected["experiment"])
    assert spec.label == expected["entry"]["label"]
    assert hashlib.sha256(spec.program.source.encode()).hexdigest() == expected["source"]
    assert spec.training.versions["python"] == expected["python"]
    assert spec.snapshot == expected["snapshot"]
    snapshot = read_snapshot(store, expected["snapshot"])
    assert snapshot["environment"]["python"]["version"] == expected["python"]
    assert snapshot["cells"]["cells"][-1]["source"] == spec.program.source
    assert snapshot["capture"]["digest"] == spec.program.capture
    for path in store.blobs.iterdir():
        assert store.get_blob(path.name, verify=True)


def test_checkpoints(store: Store, expected: dict[str, Any]) -> None:
    paths = store.experiment(expected["experiment"])
    for trial, steps in expected["checkpoints"].items():
        checkpoints = Checkpoints(paths.trial(int(trial)))
        assert [found.step for found in checkpoints.all(verify="digest")] == steps
        assert checkpoints.skipped == []


def test_the_best_trial_comes_home(adopted: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(adopted)
    experiment = wb.open("tiny", store=Store(adopted))
    best = expected["entry"]["best"]
    assert (experiment.best.number, experiment.best.value) == (best["trial"], best["value"])
    home = experiment.best.load()
    assert home.total == home.history[-1] == best["value"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ls"], "tiny@1"),
        (["show", "tiny"], "this trial fails"),
        (["show", "tiny@1/t0004"], "seen enough"),
        (["best", "tiny"], "t0002"),
        (["logs", "tiny@1/t0002"], "turn 2 with x=0.720"),
    ],
)
def test_the_command_line(store: Store, words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--store", str(store.root), *words]) == 0
    assert told in capsys.readouterr().out


def test_nothing_of_it_is_loaded_before_it_is_adopted(store: Store) -> None:
    with pytest.raises(NotAdopted, match=f"workbench adopt {store.root}"):
        wb.open("tiny", store=store).best.load()


def test_an_engine_finds_nothing_to_do(adopted: Path, expected: dict[str, Any]) -> None:
    written, store, before = adopted, Store(adopted), content(adopted)
    with engine(store, workers=1, idle=0.5) as process:
        assert process.wait(60) == 0
    engines = {"engine.log", "engine.lock", "catalog.json", "cluster.json"}
    assert {file for file in content(written).items() if file[0] not in engines} == {
        file for file in before.items() if file[0] not in engines
    }
    (entry,) = read_catalog(store)
    assert entry.items() >= {name: value for name, value in expected["entry"].items() if name != "ended"}.items()


def test_its_journals_can_be_continued(written: Path, expected: dict[str, Any]) -> None:
    with Journal.open(Store(written).journal_path) as journal:
        assert journal.n == expected["events"][-1][0]
        assert journal.append({"kind": "note"}) == journal.n
