"""What was published is shown, compared, loaded and replayed from where it lies; nothing runs unasked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import ended, engine, spec_of, start, until

import workbench as wb
from workbench import asked
from workbench.asking import ask
from workbench.errors import NotFound, Untrusted
from workbench.records import Scheduler
from workbench.share import publish
from workbench.space import uniform
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner.lease import read_engine

SOURCE = """
x = uniform(0.0, 1.0)
import random
weights = [x]
for epoch in trial.steps():
    weights.append(weights[-1] * 0.9 + x + random.random())
    trial.report(score=weights[-1])
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """The publisher's store, and the folder of the publication."""
    folder = tmp_path_factory.mktemp("theirs")
    store = Store(folder / "store").create()
    scheduler = Scheduler("all", 1, 3, 3)
    spec = spec_of(SOURCE, folder, space={"x": uniform(0.0, 1.0)}, scheduler=scheduler, trials=2, name="far", seed=3)
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
    publish(store, "far", str(folder / "page"))
    return store, folder / "page"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Store]:
    """Another person's store, which is not there yet; the engine that a replay starts ends with the test."""
    store = Store(tmp_path / "home")
    yield store
    if (info := read_engine(store)) is not None and info.alive:
        ask(store, asked.End())
        until(lambda: (found := read_engine(store)) is None or not found.alive, 30, "the engine's end")


def test_a_publication_is_replayed_at_home_once_its_author_is_trusted(there: tuple[Store, Path], home: Store) -> None:
    _, page = there
    read = wb.open(str(page))
    with pytest.raises(Untrusted, match="published by someone else"):
        read.replay("t0001", store=home)
    with pytest.raises(Untrusted, match="--trust"):
        wb.replay(f"{page}#t0001", store=home)
    assert not home.exists
    before = {path: path.stat().st_mtime_ns for path in page.rglob("*")}
    made = wb.open(str(page), trust=True).replay("t0001", store=home)
    assert made.verdict == "identical"
    # The engine writes its list a moment after the end.
    both = {"far@1", "far-replay@1"}
    until(lambda: {entry["label"] for entry in read_catalog(home)} == both, 10, "both on the list")
    # It is there now, and is taken again without being taken in again.
    again = wb.replay(f"{page.as_uri()}#t0000", store=home, trust=True)
    assert again.verdict == "identical"
    assert {path: path.stat().st_mtime_ns for path in page.rglob("*")} == before
    assert wb.open("far", store=home).best.load().weights


def test_a_publication_is_compared_with_what_is_at_home(there: tuple[Store, Path], tmp_path: Path) -> None:
    theirs, page = there
    assert wb.compare(f"{page}#t0001", "far/t0001", store=theirs).same
    found = wb.compare("far/t0001", f"{page}#t0000", store=theirs)
    assert found.parts_at == 1
    assert found.sections[0]["kind"] == "configuration"
    words = ["--store", str(tmp_path / "none"), "diff", f"{page}#t0000", f"{page.as_uri()}#t0001", "--json"]
    done = subprocess.run([sys.executable, "-m", "workbench", *words], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["results"]["metrics"][0]["parts_at"] == 1, done.stderr
    with pytest.raises(NotFound, match="not written by `workbench publish`"):
        wb.compare(f"{tmp_path}#t0000", "far", store=theirs)
    with pytest.raises(NotFound):
        wb.replay(f"{page}#t0077", store=theirs, trust=True)


OPEN = """
import os, sys
import workbench as wb
exp = wb.open(sys.argv[1])
print(exp.store.root, exp.best.value, flush=True)
sys.stdin.read()
"""


def test_what_was_fetched_goes_with_whoever_fetched_it(there: tuple[Store, Path], tmp_path: Path) -> None:
    _, page = there
    env = {**os.environ, "TMPDIR": str(tmp_path)}

    def person() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", OPEN, page.as_uri()]
        return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with person() as killed:
        first = Path(killed.stdout.readline().split()[0])
        assert first.is_dir()
        killed.send_signal(signal.SIGKILL)
    assert first.is_dir()
    with person() as calm:
        second = Path(calm.stdout.readline().split()[0])
        assert second.is_dir()
        assert not first.exists()
        calm.communicate("")
    assert not list(tmp_path.glob("workbench-opened-*"))
