"""A search whose checkpoints are copied to a URL: what a lost disk then costs, and what a storage that is down does."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest
from engine.test_pause import runners
from running import PLAIN, SLOW, alive, ended, engine, lines, outcome, spec_of, start, state, until
from small import held, lose

from workbench import Experiment, asked, maximize
from workbench.asking import ask
from workbench.errors import BadOption
from workbench.records import Scheduler
from workbench.replay.fork import parent_of
from workbench.space import uniform
from workbench.store import Store
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.keeping.cleaning import history_of, what_stays
from workbench.store.keeping.usage import trials_of
from workbench.store.lists.catalog import read_catalog
from workbench.store.lists.said import said
from workbench.store.owner.adoption import adopt
from workbench.store.series import Series

SETTINGS = {"space": {"x": uniform(0.0, 1.0)}, "scheduler": Scheduler(kind="hyperband", first=1, last=9, eta=3)}

X = uniform(0.0, 1.0)


def word(store: Store, key: str) -> str | None:
    return next((entry.get("storage") for entry in read_catalog(store) if entry["id"] == key), None)


def kept(folder: Path) -> dict[str, bytes]:
    """The files of all checkpoints, while others come and go."""
    found = {}
    for place, _, names in os.walk(folder):
        if "/checkpoints/step-" in place:
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    found[str(Path(place, name).relative_to(folder))] = Path(place, name).read_bytes()
    return found


def place_of(name: str) -> tuple[int, int]:
    """Trial and step of a file that :func:`kept` names."""
    trial, _, step, *_ = Path(name).parts
    return int(trial.removeprefix("t")), int(step.removeprefix("step-"))


def test_trials_whose_disk_was_lost_go_on_from_the_url_as_though_nothing_had_been(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    far = tmp_path / "far"
    source = SLOW.replace("0.05", "0.02")
    calm = spec_of(source, tmp_path, name="calm", verify=False, **SETTINGS)
    slower = SLOW.replace("0.05", "0.1")  # the pause comes while it trains
    spec = spec_of(slower, tmp_path, verify=False, storage=far.as_uri(), **SETTINGS)
    with engine(store):
        start(store, calm)
        start(store, spec)
        experiment = Experiment.of(store, spec.id)
        until(lambda: len(lines(store, spec, "LegStarted")) >= 12, what="twelve legs")
        experiment.pause()
        until(lambda: state(store, spec) == "paused" and not alive(runners(store, spec)), 20, "the end of every runner")
        paths = store.experiment(spec.id)
        until(lambda: kept(far / spec.id) == held(paths), 20, "all that is kept at the URL")
        lost = {number: Checkpoints(paths.trial(number)).steps() for number in trials_of(paths)}
        assert any(lost.values())
        for number in lost:
            lose(paths.trial(number))
        experiment.resume()
        assert ended(store, spec) == "completed"
        assert ended(store, calm) == "completed"

        def is_clean() -> bool:
            """What lies there alone was lost here, and is still among what the rule keeps."""
            stays = what_stays(store, spec, said(store), history_of(store, spec))
            told = {(trial, step): why for trial, steps in stays.items() for step, why in steps.items()}
            return None not in told.values() and {place_of(name) for name in kept(far / spec.id)} == told.keys()

        until(is_clean, 20, "the copies")
        assert held(paths).items() <= kept(far / spec.id).items()
    assert outcome(store, spec) == outcome(store, calm)
    best = experiment.best
    lose(paths.trial(best.number))
    assert len(best.load().history) == best.step
    lose(paths.trial(best.number))
    assert parent_of(store, f"{spec.label}/{best.label}:{best.step}")[1]["step"] == best.step
    with Series.read(paths.series) as series:
        begun = [(leg["trial"], leg["start"]) for leg in series.legs()]
    # Nothing was trained again from its beginning.
    assert len([one for one in begun if one[1] == 0]) == len({trial for trial, _ in begun})


#: What lies between levels is sent more often than it is by default.
EAGER = """
import sys
from workbench.engine import __main__
from workbench.engine.telling import courier
courier.PASSING_S = 0.3
sys.exit(__main__.main(sys.argv[1:]))
"""


def test_a_lost_disk_costs_a_long_level_only_what_was_not_sent_yet(tmp_path: Path) -> None:
    store, far = Store(tmp_path / "store").create(), tmp_path / "far"
    settings = {**SETTINGS, "scheduler": Scheduler(kind="all", first=150, last=150), "trials": 1, "verify": False}
    calm = spec_of(SLOW.replace("0.05", "0.0"), tmp_path, name="calm", **settings)
    # With each step: on a slow disk the rule of cost leaves no checkpoint between the first one and the end.
    spec = spec_of(SLOW, tmp_path, storage=far.as_uri(), save_steps=1, **settings)
    paths, between = store.experiment(spec.id), far / spec.id / "t0000" / "passing"

    def whole() -> list[int]:
        there = sorted(between.glob("step-*/manifest.json")) if between.is_dir() else []
        return [int(one.parent.name.split("-")[1]) for one in there]

    # Without a grace time: what trains is to be gone when the folder goes.
    with engine(store, program=["-c", EAGER], WORKBENCH_GRACE="0") as process:
        start(store, calm)
        assert ended(store, calm) == "completed"
        start(store, spec)
        seen = until(lambda: (found := whole()) and found[-1] >= 5 and found, what="a checkpoint between levels there")
        until(lambda: whole() and whole()[0] > seen[-1], what="a newer one, alone")
        process.kill()
        process.wait()
    until(lambda: not alive(runners(store, spec)), 20, "the end of every runner")
    there = whole()[-1]
    lose(paths.trial(0))
    shutil.rmtree(paths.trial(0).folder)
    with engine(store, program=["-c", EAGER]):
        assert ended(store, spec) == "completed"
        until(lambda: word(store, spec.id) is None and not whole(), 20, "the end of what no one needs")
        assert kept(far / spec.id) == held(paths)
    with Series.read(paths.series) as series:
        assert [leg["start"] for leg in series.legs()] == [0, there]
    assert outcome(store, spec) == outcome(store, calm)


def test_a_storage_that_is_down_all_the_time_stops_nothing_and_it_is_said(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    (tmp_path / "far").write_text("no folder")
    spec = spec_of(
        SLOW.replace("0.05", "0.01"), tmp_path, verify=False, storage=(tmp_path / "far").as_uri(), **SETTINGS
    )
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
        until(lambda: (word(store, spec.id) or "").startswith("waits since "), 20, "a word of the trouble")
        # The storage is available again: a clean-up uses it at once, and does not wait for the next attempt.
        os.unlink(tmp_path / "far")
        ask(store, asked.Gc())
        until(lambda: word(store, spec.id) is None, 20, "the end of the trouble")
        assert kept(tmp_path / "far" / spec.id) == held(store.experiment(spec.id))
    with Series.read(store.experiment(spec.id).series) as series:
        assert any("waits since" in str(leg["detail"].get("storage")) for leg in series.legs())
    assert store.engine_log.read_text().count("is not available") == 1


def test_copies_of_what_was_deleted_go_when_their_storage_is_reached_again(tmp_path: Path) -> None:
    store, far, away = Store(tmp_path / "store").create(), tmp_path / "far", tmp_path / "away"
    spec = spec_of(PLAIN, tmp_path, verify=False, storage=far.as_uri(), **SETTINGS)
    with engine(store) as process:
        start(store, spec)
        assert ended(store, spec) == "completed"
        until(lambda: word(store, spec.id) is None and kept(far), 20, "the copies")
        far.rename(away)
        far.write_text("no folder")
        ask(store, asked.Delete(experiment=spec.id))
        process.kill()
        process.wait()
    far.unlink()
    away.rename(far)
    assert (far / spec.id).is_dir()
    with engine(store):
        until(lambda: not (far / spec.id).exists(), 20, "the end of the copies")
        until(lambda: not said(store).emptying, 20, "the word that they are gone")


def test_what_is_deleted_in_a_copy_of_the_store_stays_at_the_storage_of_the_original(tmp_path: Path) -> None:
    store, far = Store(tmp_path / "store").create(), tmp_path / "far"
    spec = spec_of(PLAIN, tmp_path, verify=False, storage=far.as_uri(), **SETTINGS)
    with engine(store):
        start(store, spec)
        assert ended(store, spec) == "completed"
        until(lambda: word(store, spec.id) is None and kept(far), 20, "the copies")
    before = kept(far)
    shutil.copytree(store.root, tmp_path / "copy")
    copy = Store(tmp_path / "copy")
    adopt(copy)
    with engine(copy):
        ask(copy, asked.Delete(experiment=spec.id))
    assert kept(far) == before
    assert not said(copy).emptying
    # The last one takes them along.
    with engine(store):
        ask(store, asked.Delete(experiment=spec.id))
        until(lambda: not (far / spec.id).exists(), 20, "the end of the copies")


def test_a_bad_storage_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(trial, x=X):
        for _ in trial.steps():
            trial.report(score=x)

    options = {"goal": maximize("score"), "scheduler": SETTINGS["scheduler"], "store": str(tmp_path / "store")}
    with pytest.raises(BadOption, match=r"storage= nowhere://\*\*\*@host/x: fsspec knows no nowhere://"):
        Experiment("bad", train, storage="nowhere://me:s3cr3tpass@host/x", **options)
    monkeypatch.setenv("WORKBENCH_STORAGE", "nowhere://x")
    with pytest.raises(BadOption, match="nowhere"):
        Experiment("bad", train, **options)
    assert not (tmp_path / "store").exists()
