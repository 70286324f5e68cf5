"""A search whose folder is moved away pauses, names the folder, and continues by itself once it is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from cli.stored import typed
from running import ended, engine, lines, meta, spec_of, start, until

from workbench import asked
from workbench.asking import ask
from workbench.engine.judging.faults import MOST_BACKOFF_S, STORE_S, Faults
from workbench.engine.tending import folders
from workbench.errors import BadOption
from workbench.facts import Fact, PauseAsked, ResumeAsked
from workbench.records import Scheduler
from workbench.search.life import Life
from workbench.space import uniform
from workbench.store import Store

if TYPE_CHECKING:
    from workbench.cluster.backend import Backend
    from workbench.engine.loop import ExperimentLoop

#: It reads a file of its folder by a relative path, also when it is resumed.
READING = """
x = uniform(0.0, 1.0)
import time
scale = float(open("scale.txt").read())
total = 0.0
for epoch in trial.steps():
    time.sleep(0.05)  # it still trains when the folder is moved
    total += scale * x
    trial.report(score=total)
"""


def test_a_search_whose_folder_is_moved_away_pauses_and_loses_no_trial(tmp_path: Path) -> None:
    store, there, moved = Store(tmp_path / "store").create(), tmp_path / "project", tmp_path / "moved"
    there.mkdir()
    (there / "scale.txt").write_text("2.0")
    scheduler = Scheduler(kind="hyperband", first=1, last=9, eta=3)
    spec = spec_of(READING, there, space={"x": uniform(0.0, 1.0)}, scheduler=scheduler)
    start(store, spec)
    with engine(store):
        until(lambda: lines(store, spec, "Reached"), what="a level")
        there.rename(moved)
        until(lambda: meta(store, spec).get("state") == "paused", what="the pause")
        pause = meta(store, spec)["pause"]
        assert pause["cause"] == "folder"
        assert pause["reason"].startswith(f"the folder {there}, in which it trains, is gone. Put it back, or link it")
        assert pause["reason"].endswith("it then continues by itself")
        with pytest.raises(BadOption, match=r"cannot continue: the folder .* is gone"):
            ask(store, asked.Resume(spec.id))
        assert "it then continues by itself" in typed("show", spec.id, store=store).out
    with engine(store):  # another engine knows why it was paused, and that it may go on by itself
        there.symlink_to(moved)
        assert ended(store, spec) == "completed"
    assert [line["reason"] for line in lines(store, spec, "ResumeAsked")] == ["its folder is there again"]
    assert not [line for line in lines(store, spec) if line["kind"] == "TrialFailed"]
    assert meta(store, spec)["counts"].get("failed", 0) == 0


def test_what_a_person_paused_is_not_resumed_by_its_folder(tmp_path: Path) -> None:
    store, there, moved = Store(tmp_path / "store").create(), tmp_path / "project", tmp_path / "moved"
    there.mkdir()
    (there / "scale.txt").write_text("2.0")
    spec = spec_of(READING, there, space={"x": uniform(0.0, 1.0)})
    other = spec_of(READING, there, space={"x": uniform(0.0, 1.0)}, name="other")
    with engine(store):
        start(store, spec)
        start(store, other)
        until(lambda: lines(store, spec, "Reached") and lines(store, other, "Reached"), what="levels of both")
        there.rename(moved)
        for one in (spec, other):
            until(lambda one=one: (meta(store, one).get("pause") or {}).get("cause") == "folder", what="the pause")
        ask(store, asked.Pause(spec.id))
        moved.rename(there)
        assert ended(store, other) == "completed"
        assert meta(store, spec)["pause"]["cause"] == "person"


class _Loop:
    """What is looked at of an experiment. told: the facts that it was told, which its life follows."""

    def __init__(self, folder: Path) -> None:
        self.spec = SimpleNamespace(training=SimpleNamespace(cwd=str(folder)), id="e", label="digits@1")
        self.store = SimpleNamespace(root=folder.parent / "store")
        self.finished, self.life, self.told = asyncio.Event(), Life(), asyncio.Queue()

    def tell(self, fact: Fact) -> None:
        self.life = self.life.after(fact, "now")
        self.told.put_nowait(fact)


#: Other processes may not be trained with by this one: its folders are looked at.
HERE = cast("Backend", SimpleNamespace(most_slots=4))


def test_only_a_folder_that_does_not_exist_is_gone(tmp_path: Path) -> None:
    folder, beside = tmp_path / "project", tmp_path / "beside"
    loop = cast("ExperimentLoop", _Loop(folder))
    assert folders.is_there(loop, HERE) is False
    beside.mkdir()
    folder.symlink_to(beside)
    assert folders.is_there(loop, HERE) is True
    beside.rmdir()
    assert folders.is_there(loop, HERE) is False  # the link leads nowhere
    assert "`ln -sfn " in str(folders.gone(loop, HERE))
    folder.unlink()
    folder.write_text("a file in its place")
    assert folders.is_there(loop, HERE) is False
    folder.unlink()
    folder.symlink_to(folder)  # a file system that does not say: for root, nothing else is an error of another kind
    assert folders.is_there(loop, HERE) is None
    assert folders.gone(loop, HERE) is None


def test_a_folder_that_is_missing_for_a_moment_pauses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "LOOK_S", 0.0)  # the moment is told by looks, not by time
    looks, folder, loop = [0], tmp_path / "project", _Loop(tmp_path / "project")
    stat = folders.is_there

    def looked(one: ExperimentLoop, backend: Backend) -> bool | None:
        looks[0] += 1
        if looks[0] in (3, 7):
            folder.mkdir()
        elif looks[0] == 4:
            folder.rmdir()
        return stat(one, backend)

    monkeypatch.setattr(folders, "is_there", looked)  # the real look, at a folder that comes and goes between two

    async def watched() -> list[Fact]:
        at_work = asyncio.Event()
        at_work.set()
        watching = asyncio.ensure_future(folders.watch({"e": cast("ExperimentLoop", loop)}, at_work, HERE))
        try:
            async with asyncio.timeout(20):
                return [await loop.told.get(), await loop.told.get()]
        finally:
            watching.cancel()

    paused, resumed = asyncio.run(watched())
    # Missing at looks 1 and 2, there at 3, missing from 4 to 6, there at 7.
    assert isinstance(paused, PauseAsked)
    assert paused.cause == "folder"
    assert isinstance(resumed, ResumeAsked)
    assert looks[0] >= 7


def test_a_trial_whose_folder_is_not_reachable_is_tried_until_it_is() -> None:
    faults, error = Faults(max_restarts=0), {"type": "FolderUnreachable", "line": None}
    waits = [faults.judge(0, "exception", 3, error, "FolderUnreachable: …") for _ in range(8)]
    assert all(verdict.again for verdict in waits)
    assert [verdict.wait_s for verdict in waits[:3]] == [STORE_S, 2 * STORE_S, 4 * STORE_S]
    assert waits[-1].wait_s == MOST_BACKOFF_S


def test_a_trial_that_cannot_enter_its_folder_waits_once_and_then_fails() -> None:
    faults, error = Faults(max_restarts=0), {"type": "FolderGone", "line": None}
    first = faults.judge(0, "exception", 3, error, "FolderGone: …")
    assert (first.again, first.wait_s) == (True, STORE_S)
    assert not faults.judge(0, "exception", 3, error, "FolderGone: …").again
