"""What a search leaves on the disk: few files while it runs, fewer when it has ended, and all of it readable."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from running import ended, engine, lines, spec_of, start, until
from small import held

from workbench import Experiment
from workbench.records import Scheduler, Spec
from workbench.share.archive import export, take_in
from workbench.space import uniform
from workbench.store import Store
from workbench.store.files import packed
from workbench.store.layout import ExperimentPaths

SPACE = {"x": uniform(0.0, 1.0)}
TALKS = """
x = uniform(0.0, 1.0)
total, seen = 0.0, []
for epoch in trial.steps():
    total += x
    seen.append(total)
    print("epoch", epoch)
    trial.report(score=total)
"""


def searched(store: Store, tmp_path: Path, source: str = TALKS, trials: int = 30, **more: object) -> Spec:
    scheduler = Scheduler(kind="asha", first=1, last=9, eta=3)
    spec = spec_of(source, tmp_path, space=SPACE, seed=3, scheduler=scheduler, trials=trials, **more)
    start(store, spec)
    return spec


def entries(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_an_ended_search_lies_in_few_files_and_goes_on_from_them(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    with engine(store):
        spec = searched(store, tmp_path)
        assert ended(store, spec) == "completed"
        paths = store.experiment(spec.id)
        wanted = ["attempts"]
        until(lambda: entries(paths.trials) == wanted, 20, "one file for the small files of all trials")
        until(lambda: not list(paths.folder.glob("series.db-*")), 20, "the series at rest")
        experiment = Experiment.of(store, spec.id)
        best = experiment.best
        assert [line for line in best.log.splitlines() if line.startswith("epoch")] == [f"epoch {n}" for n in range(9)]
        assert best.load().seen == best.load().seen[:9]
        kept = held(paths)
        assert kept
        told = export(store, spec.label, tmp_path / "out.zip")
        assert told["files"] < 3 * 30
        experiment.extend(trials=10).wait(60)
        assert len(experiment.records) == 40
        until(lambda: entries(paths.trials) == wanted, 20, "what it wrote since packed as well")
        assert experiment.best.load().total > 0
    other = Store(tmp_path / "other").create()
    with engine(other):
        taken = take_in(other, tmp_path / "out.zip")
        there = other.experiment(taken["experiment"])
        assert held(there) == kept
        assert entries(there.trials) == ["attempts"]
        assert packed.read(there.trial(best.number).log) is not None


def test_a_short_trial_has_at_most_one_file_while_its_search_runs(tmp_path: Path) -> None:
    """Nothing is packed yet: the search is paused with all its trials on the disk."""
    store = Store(tmp_path / "store").create()
    quiet = TALKS.replace('    print("epoch", epoch)\n', "    import time; time.sleep(0.01)\n")
    with engine(store):
        spec = searched(store, tmp_path, quiet, verify=False)
        experiment = Experiment.of(store, spec.id)
        until(lambda: len(lines(store, spec, "Saved")) >= 12, what="some checkpoints")
        experiment.pause()
        paths = store.experiment(spec.id)
        begun = {line["trial"] for line in lines(store, spec, "LegStarted")}
        until(
            lambda: len([name for name in entries(paths.trials) if name != "attempts"]) <= len(begun), 10, "few files"
        )
        assert not [path for path in paths.trials.iterdir() if path.is_dir()]


def test_an_engine_that_died_at_the_end_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    with engine(store) as process:
        spec = searched(store, tmp_path, verify=False)
        until(lambda: lines(store, spec, "Finish"), what="the end of the search")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    paths = store.experiment(spec.id)
    with engine(store):
        until(lambda: not list(paths.folder.glob("series.db-*")), 30, "the series at rest")
        packs(paths)
        assert "epoch 0\n" in Experiment.of(store, spec.id).best.log


def packs(paths: ExperimentPaths) -> None:
    """Wait until an engine has packed the small files; name those that it has not."""
    try:
        until(lambda: entries(paths.trials) == ["attempts"], 30, "the small files packed")
    except AssertionError as error:
        error.add_note(f"still there: {entries(paths.trials)}")
        raise


def test_an_engine_that_died_while_it_packed_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    with engine(store):
        spec = searched(store, tmp_path, verify=False)
        assert ended(store, spec) == "completed"
        paths = store.experiment(spec.id)
        until(lambda: entries(paths.trials) == ["attempts"], 20, "the small files packed")
        until(lambda: not list(paths.folder.glob("series.db-*")), 20, "the series at rest")
    # As it lies where the series is at rest, and a trial is not packed yet.
    log = paths.trial(3).log
    packed.unpack(log)
    assert log.exists()
    # And as an engine leaves it that is killed while it writes a trial's file again.
    (paths.trials / ".t0002.zip.0a1b2c3d.writing").write_bytes(b"half")
    with engine(store):
        until(lambda: entries(paths.trials) == ["attempts"], 30, "what was left packed as well")
    assert b"epoch 0" in (packed.read(log) or b"")
