"""Following a series while an engine writes it: what begins, reports and ends during a batch is written as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from running import spec_of

from workbench.exporters.mirrors import following
from workbench.exporters.mirrors.following import Mirroring
from workbench.exporters.mirrors.foreign import Point, Run
from workbench.exporters.mirrors.progress import Progress
from workbench.records import Json, Spec
from workbench.store import Store
from workbench.store.lists.mirrors import Mirror
from workbench.store.series import Series

ENDED_AT = "2026-01-01T00:00:00+00:00"


class Program:
    """A program that notes what is written into it. meanwhile: what the engine does while a batch arrives, by batch."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.meanwhile: list[Callable[[], None]] = []

    def names(self, metrics: Sequence[str]) -> dict[str, str]:
        return {name: name for name in metrics}

    def begin(self, run: Run, known: Json) -> Json:
        self.told.append(("begin", run.name, run.parameters))
        return run.id

    def points(self, run: Run, known: Json, points: Sequence[Point], again: bool) -> Json:
        self.told += [("point", run.name, step) for _, step, _, _ in points]
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return known

    def end(self, run: Run, known: Json) -> Json:
        self.told.append(("end", run.name, run.state))
        return known

    def close(self) -> None: ...


class Engine:
    """Writes trials and points of one experiment, and has them in the file when a method returns."""

    def __init__(self, series: Series) -> None:
        self.series = series
        series.put_meta("state", "running")

    def begin(self, number: int, *steps: int) -> None:
        self.series.put_trial(number, configuration={"x": number / 10}, state="running", step=0)
        self.series.put_leg(number, 1, start=0, until=9, began=1000.0)
        self.report(number, *steps)

    def report(self, number: int, *steps: int) -> None:
        self.series.add_points([(number, "score", step, 0, 0.5, 1000.0 + step) for step in steps])
        self.series.flush()

    def end(self, number: int) -> None:
        self.series.put_trial(number, state="completed", ended=ENDED_AT)
        self.series.flush()


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    made = Program()
    monkeypatch.setattr(following, "writer", lambda mirror, spec: made)
    return made


@pytest.fixture
def place(tmp_path: Path) -> tuple[Store, Spec]:
    store, spec = Store(tmp_path / "store").create(), spec_of("", tmp_path, name="live")
    store.write_spec(spec)
    return store, spec


@pytest.fixture
def engine(place: tuple[Store, Spec]) -> Iterator[Engine]:
    store, spec = place
    with Series.open(store.experiment(spec.id).series) as series:
        yield Engine(series)


@pytest.fixture
def mirroring(place: tuple[Store, Spec], program: Program) -> Mirroring:
    return Mirroring(*place, Mirror("tensorboard", "unused"), Progress(), keeps=True)


def test_a_trial_that_begins_while_a_batch_is_written_has_its_hyperparameters(
    mirroring: Mirroring, engine: Engine, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MOST_POINTS", 1)
    engine.begin(0, 1)
    program.meanwhile = [partial(engine.begin, 1, 1)]
    mirroring.look()
    assert [one for one in program.told if one[0] == "begin"] == [
        ("begin", "live@1/t0000", {"x": 0.0}),
        ("begin", "live@1/t0001", {"x": 0.1}),
    ]


def test_a_trial_that_begins_between_its_rows_and_its_points_has_its_hyperparameters(
    mirroring: Mirroring, engine: Engine, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.begin(0, 1)
    read = Series.trials_after

    def then_one_begins(series: Series, change: int) -> Any:
        found = read(series, change)
        monkeypatch.setattr(Series, "trials_after", read)
        engine.begin(1, 1)
        return found

    monkeypatch.setattr(Series, "trials_after", then_one_begins)
    mirroring.look()
    assert ("begin", "live@1/t0001", {"x": 0.1}) in program.told


def test_points_of_a_series_that_is_being_restored_wait_for_their_trial(
    mirroring: Mirroring, engine: Engine, program: Program
) -> None:
    engine.report(0, 1)
    mirroring.look()
    assert program.told == []
    engine.begin(0)
    mirroring.look()
    assert program.told == [("begin", "live@1/t0000", {"x": 0.0}), ("point", "live@1/t0000", 1)]


def test_an_end_is_written_behind_the_trials_last_point_although_others_go_on(
    mirroring: Mirroring, engine: Engine, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MOST_POINTS", 2)
    engine.begin(0, 1, 2, 3)
    engine.begin(1)
    engine.end(0)
    program.meanwhile = [partial(engine.report, 1, 2 * step, 2 * step + 1) for step in range(9)]
    mirroring.look()
    order = [(what, name[-1]) for what, name, _ in program.told]
    ended = order.index(("end", "0"))
    assert order[:ended].count(("point", "0")) == 3
    assert ("point", "1") in order[ended:], "it did not wait until the experiment was idle"


def test_a_look_ends_although_points_go_on_arriving(mirroring: Mirroring, engine: Engine, program: Program) -> None:
    engine.begin(0, 0)
    program.meanwhile = [partial(engine.report, 0, step) for step in range(1, 9)]
    assert not mirroring.look()
    assert program.told[1:] == [("point", "live@1/t0000", 0)]
