"""While searches run, checkpoints that the rule does not keep are deleted, but none that could still be needed."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from running import PLAIN, ended, engine, lines, outcome, spec_of, start, state, until

from workbench import asked
from workbench.asking import Waiting, answer, ask
from workbench.errors import InUse, NotFound
from workbench.records import Keep, Scheduler, Spec
from workbench.replay.fork import parent_of
from workbench.share.archive import export, take_in
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.journal import read as read_journal
from workbench.store.keeping import usage
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import Catalog, read_catalog, resolve
from workbench.store.series import Series
from workbench.trial.export.loading import load

SPACE = {"x": uniform(0.0, 1.0)}
SLOW = PLAIN.replace("total = 0.0", "total = 0.0\nimport time").replace("    total", "    time.sleep(0.03)\n    total")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def on_disk(store: Store, spec: Spec) -> dict[int, list[int]]:
    paths = store.experiment(spec.id)
    found = {trial: Checkpoints(paths.trial(trial)).steps() for trial in usage.trials_of(paths)}
    return {trial: steps for trial, steps in found.items() if steps}


def rows(store: Store, spec: Spec) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.trials()


def cleaned(store: Store, spec: Spec, expected: dict[int, list[int]]) -> None:
    try:
        until(lambda: on_disk(store, spec) == expected, 20, f"{expected} on the disk")
    except AssertionError as error:
        raise AssertionError(f"{error}, but there is {on_disk(store, spec)}") from None


def expected_of(store: Store, spec: Spec) -> dict[int, list[int]]:
    """By the default rule: the completed trials keep their newest and their best, the others nothing."""
    expected = {}
    with Series.read(store.experiment(spec.id).series) as series:
        for row in series.trials():
            if row["state"] == "completed":
                values = {step: value for _, _, step, _, value, _ in series.points([row["number"]], ["score"])}
                levels = [step for step in (1, 3, 9) if step in values]
                best = max(levels, key=lambda step: (values[step], step))
                expected[row["number"]] = sorted({best, levels[-1]})
    return expected


def test_a_hyperband_search_ends_with_exactly_the_checkpoints_of_its_rule(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE, seed=3)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        cleaned(store, spec, expected_of(store, spec))
    best = max((row for row in rows(store, spec) if row["level"] == 9), key=lambda row: row["value"])
    loaded = load(store, spec, best["number"], best["configuration"])
    assert loaded.total == best["value"]
    # Nothing that went on missed its checkpoint: no step was trained twice.
    with Series.read(store.experiment(spec.id).series) as series:
        assert sum(leg["step"] - leg["start"] for leg in series.legs()) == 69
    removed = {int(t): s for line in lines(store, spec, "Removed") for t, s in line["trials"].items()}
    assert removed
    loser = next(row for row in rows(store, spec) if row["state"] == "stopped")
    with pytest.raises(NotFound, match=r"the rule experiment=1,best=1,latest=1,stopped=0 removed.*workbench pin"):
        load(store, spec, loser["number"], loser["configuration"])
    with pytest.raises(NotFound, match=r"at step 1.*removed"):
        load(store, spec, loser["number"], loser["configuration"], 1)


def test_pausing_and_changing_the_rule_in_the_middle_changes_no_result(store: Store, tmp_path: Path) -> None:
    calm = spec_of(SLOW, tmp_path, space=SPACE, seed=5, name="calm", keep=Keep.of("all"), verify=False)
    # Both pauses come while it trains, on a busy machine too.
    slower = SLOW.replace("0.03", "0.2")
    disturbed = spec_of(slower, tmp_path, space=SPACE, seed=5, name="disturbed", verify=False)
    start(store, calm)
    with engine(store):
        assert ended(store, calm) == "completed"
        assert sum(map(len, on_disk(store, calm).values())) == 22  # one for each leg
        start(store, disturbed)
        for rule in ("latest=0,best=0", "latest=1,best=1"):
            seen = len(lines(store, disturbed, "Settle"))
            until(lambda seen=seen: len(lines(store, disturbed, "Settle")) > seen + 4, what="some rungs")
            ask(store, asked.Pause(experiment=disturbed.id))
            until(lambda: state(store, disturbed) == "paused", what="the pause")
            ask(store, asked.Keep(experiment=disturbed.id, rule=rule))
            with Series.read(store.experiment(disturbed.id).series) as series:
                losers = {row["number"] for row in series.trials() if row["state"] == "stopped"}
            # The best that trains no more stays as well: it is the best where all that go on diverge.
            until(
                lambda losers=losers: len(losers & on_disk(store, disturbed).keys() - best_of(store, disturbed)) < 2, 20
            )
            ask(store, asked.Resume(experiment=disturbed.id))
            assert ask(store, asked.Gc())["bytes"].keys() >= {"checkpoints", "blobs", "snapshots"}
        assert ended(store, disturbed) == "completed"
        cleaned(store, disturbed, expected_of(store, disturbed))
    assert outcome(store, disturbed) == outcome(store, calm)
    with Series.read(store.experiment(disturbed.id).series) as series:
        assert sum(leg["step"] - leg["start"] for leg in series.legs()) == 69


def best_of(store: Store, spec: Spec) -> set[int]:
    with Series.read(store.experiment(spec.id).series) as series:
        best = series.meta().get("best")
    return {best["trial"]} if best else set()


def rules(store: Store) -> list[str]:
    return [entry.get("keep", "") for entry in read_catalog(store)]


def refused(store: Store, error: type[Exception], words: str, /, **request: Any) -> None:
    with pytest.raises(error, match=words):
        answer(store, Waiting(store, requests.put(store, request)))


def test_what_is_pinned_or_runs_stays_and_what_was_deleted_never_comes_back(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE, seed=3, name="first")
    waiting = spec_of(SLOW.replace("0.03", "0.2"), tmp_path, space=SPACE, name="second")
    store.write_spec(spec)
    child = spec_of(PLAIN, tmp_path, space=SPACE, name="child")
    with engine(store):
        requests.put(store, {"kind": "start", "experiment": spec.id})
        assert ended(store, spec) == "completed"
        until(lambda: on_disk(store, spec) == expected_of(store, spec), 20)
        start(store, waiting)
        until(lambda: state(store, waiting) == "running", what="the second one")
        refused(store, InUse, "a running experiment is not deleted", kind="delete", experiment=waiting.id)
        ask(store, asked.Pause(experiment=waiting.id))

        trial, (step, *_) = next(iter(on_disk(store, spec).items()))
        refused(store, NotFound, "no checkpoint to pin", kind="pin", experiment=spec.id, trial=trial, step=2)
        assert ask(store, asked.Pin(experiment=spec.id, trial=trial, step=step))["pins"]
        refused(store, InUse, "pinned", kind="delete", experiment=spec.id)
        refused(store, InUse, "pinned", kind="delete", experiment=spec.id, trial=trial)
        ask(store, asked.Keep(experiment=spec.id, rule={"latest": 0, "best": 0}))
        assert on_disk(store, spec)[trial] == [step]
        assert len(on_disk(store, spec)) <= 2
        until(lambda: "experiment=1,best=0,latest=0,stopped=0" in rules(store), 10, "the rule in the list")
        assert ask(store, asked.Unpin(experiment=spec.id, trial=trial, step=step))["pins"] == []
        refused(store, NotFound, "not pinned", kind="unpin", experiment=spec.id, trial=trial, step=step)

        child = dataclasses.replace(child, repeats={"experiment": spec.id, "trial": trial})
        store.write_spec(child)
        refused(store, InUse, "child@1 descends", kind="delete", experiment=spec.id)
        requests.put(store, {"kind": "start", "experiment": child.id})
        assert ended(store, child) == "completed"
        ask(store, asked.Delete(experiment=child.id))
        assert ask(store, asked.Delete(experiment=spec.id))["bytes"] > 0
        assert not store.experiment(spec.id).folder.exists()
        refused(store, NotFound, "was deleted", kind="delete", experiment=spec.id)
        ask(store, asked.Stop(experiment=waiting.id))
        assert ended(store, waiting) == "stopped"
    assert [entry["label"] for entry in read_catalog(store)] == ["second@1"]
    Catalog.rebuild(store)
    assert [entry["label"] for entry in read_catalog(store)] == ["second@1"]


def test_a_deletion_that_is_asked_for_twice_at_once_is_carried_out_once_and_seen_at_once(
    store: Store, tmp_path: Path
) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE, scheduler=Scheduler(kind="all", first=1, last=1), trials=1)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
    twice = [Waiting(store, requests.put(store, {"kind": "delete", "experiment": spec.id})) for _ in range(2)]
    with engine(store):
        assert answer(store, twice[0])["bytes"] > 0
        assert read_catalog(store) == []
        with pytest.raises(NotFound, match="was deleted"):
            answer(store, twice[1])
    assert [line["kind"] for line in read_journal(store.journal_path) if line["kind"] == "delete"] == ["delete"]


def test_an_experiment_that_was_renamed_is_found_under_its_name_at_once(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE, scheduler=Scheduler(kind="all", first=1, last=1), trials=1)
    start(store, spec)
    with engine(store):
        assert ended(store, spec) == "completed"
        until(lambda: [entry["label"] for entry in read_catalog(store)] == ["probe@1"], what="its place in the list")
        ask(store, asked.Rename(experiment=spec.id, name="other"))
        assert resolve(store, "other").experiment == spec.id


@pytest.mark.parametrize(
    "way", ["imported", "imported by the next engine", "put back", "put back over an older journal"]
)
def test_what_was_deleted_and_is_there_again_stays_through_the_next_engine(
    store: Store, tmp_path: Path, way: str
) -> None:
    spec = spec_of(PLAIN, tmp_path, space=SPACE, seed=3, name="first")
    store.write_spec(spec)
    folder, copy = store.experiment(spec.id).folder, tmp_path / "copy"
    with engine(store):
        requests.put(store, {"kind": "start", "experiment": spec.id})
        assert ended(store, spec) == "completed"
        until(lambda: on_disk(store, spec) == expected_of(store, spec), 20)
        ask(store, asked.Pin(experiment=spec.id))
        export(store, spec.id, tmp_path / "first.zip")
        shutil.copytree(folder, copy)
        ask(store, asked.Unpin(experiment=spec.id))
        ask(store, asked.Delete(experiment=spec.id))
        assert not folder.exists()
        if way == "imported":
            take_in(store, tmp_path / "first.zip")
    if way == "put back over an older journal":  # which did not say that the folder was gone
        lines = store.journal_path.read_text().splitlines(keepends=True)
        store.journal_path.write_text("".join(line for line in lines if '"removed"' not in line))
    if way.startswith("put back"):
        with engine(store):
            until(lambda: '"removed"' in store.journal_path.read_text(), 20, "its word that the folder is gone")
        shutil.copytree(copy, folder)
    with engine(store):
        if way == "imported by the next engine":
            take_in(store, tmp_path / "first.zip")
        until(lambda: [entry["label"] for entry in read_catalog(store)] == ["first@1"], 20, "its place in the list")
    with engine(store):
        until(lambda: state(store, spec) == "completed", 20, "its state")
        assert on_disk(store, spec) == expected_of(store, spec)
        if way.startswith("imported"):  # the archive has the pin
            ask(store, asked.Unpin(experiment=spec.id))
        ask(store, asked.Delete(experiment=spec.id))
        assert not folder.exists()
    assert read_catalog(store) == []


def test_what_a_fork_or_a_replay_goes_on_from_stays_whatever_the_rule(store: Store, tmp_path: Path) -> None:
    scheduler = Scheduler(kind="all", first=1, last=9)
    wanted = {"space": SPACE, "scheduler": scheduler, "verify": False}
    parent = spec_of(SLOW, tmp_path, **wanted, name="parent", trials=2, keep=Keep.of("all"))
    with engine(store):
        start(store, parent)
        until(lambda: 1 in on_disk(store, parent).get(0, []), what="a checkpoint")
        # Both are written and not started: the fork is to go on from the middle, the replay names a trial as a whole.
        _, origin = parent_of(store, "parent/t0000:1")
        fork = dataclasses.replace(spec_of(PLAIN, tmp_path, **wanted, name="fork", trials=1), parent=origin)
        store.write_spec(fork)
        ask(store, asked.Keep(experiment=parent.id, rule="experiment=1,best=0,latest=0,stopped=0"))
        assert ended(store, parent) == "completed"
        until(lambda: len(lines(store, parent, "Removed")) > 0, what="the work of the rule")
        values = {row["number"]: row["value"] for row in rows(store, parent)}
        best = next(
            one for one in values if not any(parent.goal.better(other, values[one]) for other in values.values())
        )
        left = {best: [9]}
        left[0] = sorted({1, *left.get(0, [])})
        cleaned(store, parent, left)
        ask(store, asked.Gc())
        assert on_disk(store, parent) == left
        ask(store, asked.Start(experiment=fork.id))
        assert ended(store, fork) == "completed"
        assert min(leg["start"] for leg in legs(store, fork)) == 1
        # It has checkpoints of its own, and may still be trained again from its beginning.
        ask(store, asked.Gc())
        assert on_disk(store, parent) == left
        with pytest.raises(InUse, match="descends from it"):
            ask(store, asked.Delete(experiment=parent.id, trial=0))
        replay = spec_of(PLAIN, tmp_path, **wanted, name="again", trials=1)
        named = {"experiment": fork.id, "trial": 0, "label": "fork@1/t0000"}
        store.write_spec(dataclasses.replace(replay, replays=named))
        kept = on_disk(store, fork)
        ask(store, asked.Keep(experiment=fork.id, rule="experiment=1,best=0,latest=0,stopped=0"))
        ask(store, asked.Gc())
        assert on_disk(store, fork) == kept
        with pytest.raises(InUse, match="again@1 descends from"):
            ask(store, asked.Delete(experiment=fork.id))
        ask(store, asked.Start(experiment=replay.id))
        assert ended(store, replay) == "completed"
        for one in (replay, fork):
            until(lambda one=one: ask(store, asked.Gc()) and deleted(store, one), 20, f"the end of {one.label}")
        ask(store, asked.Gc())
        assert on_disk(store, parent) == {best: [9]}


def legs(store: Store, spec: Spec) -> list[dict[str, Any]]:
    with Series.read(store.experiment(spec.id).series) as series:
        return series.legs()


def deleted(store: Store, spec: Spec) -> bool:
    try:
        return bool(ask(store, asked.Delete(experiment=spec.id)))
    except InUse:
        return False  # what descended from it is being deleted


def test_one_clean_up_is_for_all_that_asked_before_it_began(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    waiting = [requests.put(store, {"kind": "gc"}) for _ in range(18)]
    with engine(store, workers=1):
        until(lambda: not requests.pending(store), what="the answers")
        assert ask(store, asked.Gc())["dry_run"] is False
    told = list(read_journal(store.journal_path))
    assert {line["request"] for line in told if line["kind"] == "answer"} >= set(waiting)
    assert sum(line["kind"] == "cleaned" for line in told) == 2
