"""What was lost of a series and put back, over several engines, and where checkpoints are packed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import PLAIN, spec_of

from workbench.engine.tending.lost import Loss
from workbench.records import Spec
from workbench.store import ExperimentPaths, Store
from workbench.store.files import packed
from workbench.store.journal import Journal, read
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.series import Series


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return spec_of(PLAIN, tmp_path)


@pytest.fixture
def paths(tmp_path: Path, spec: Spec) -> ExperimentPaths:
    store = Store(tmp_path / ".workbench").create()
    store.write_spec(spec)
    return store.experiment(spec.id)


@pytest.fixture
def journal(paths: ExperimentPaths) -> Iterator[Journal]:
    with Journal.open(paths.journal) as journal:
        journal.append({"kind": "LegStarted", "trial": 0, "attempt": 1, "start": 0, "until": 3})
        journal.append({"kind": "Reached", "trial": 0, "step": 3, "value": 0.3})
        journal.commit()
        yield journal


def loss(spec: Spec, paths: ExperimentPaths, series: Series, journal: Journal) -> Loss:
    return Loss(spec, paths, series, journal, lambda: "2026-11-22T10:00:00.000+00:00")


def test_the_next_engine_knows_what_was_lost_and_looks_again_at_the_end(
    spec: Spec, paths: ExperimentPaths, journal: Journal
) -> None:
    with Series.open(paths.series) as series:
        first = loss(spec, paths, series, journal)
        assert first.look(list(read(paths.journal)))
        journal.commit()
    assert first.said is not None
    assert (first.said["points"], first.said["put_back"]) == (3, 1)
    journal.append({"kind": "Reached", "trial": 0, "step": 4, "value": 0.4})
    journal.commit()
    with Series.open(paths.series) as series:
        series.add_points([(0, "score", 4, 0, 0.4, 1.0)])
        series.flush()
        following = loss(spec, paths, series, journal)
        assert not following.look(list(read(paths.journal))), "nothing was lost since"
        assert following.said == first.said
        following.look_again()
        series.flush()
        told = series.meta()["lost"]
    assert (told["points"], told["put_back"], told["before"]) == (4, 2, first.said["before"])


def test_a_packed_checkpoint_gives_its_reports_though_its_trial_has_no_folder(
    spec: Spec, paths: ExperimentPaths, journal: Journal
) -> None:
    history = {str(step): {"score": step / 10, "noise": step / 7} for step in (1, 2, 3)}
    Checkpoints(paths.trial(0)).put({"own.json": json.dumps({"history": history}).encode()}, 3, 1, settled=True)
    packed.pack(paths.trials)
    assert not list(paths.trials.glob("t0000*"))
    with Series.open(paths.series) as series:
        found = loss(spec, paths, series, journal)
        assert found.look(list(read(paths.journal)))
        points = {(name, step): value for _, name, step, _, value, _ in series.points()}
    assert points == {(name, int(step)): value for step, row in history.items() for name, value in row.items()}
    assert found.said is not None
    assert found.said["put_back"] == found.said["points"] == 3
    assert found.said["sources"] == ["the journal", "checkpoints"]
