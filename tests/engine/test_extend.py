"""A search that has ended goes on: more trials, more steps, more time; whatever dies on the way."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import PLAIN, copied, end, ended, engine, engine_process, lines, outcome, spec_of, start, until

from workbench.asking import Waiting, answer
from workbench.engine.engine import Engine
from workbench.engine.legs.inline import InlineBackend
from workbench.errors import BadOption
from workbench.experiment import Experiment
from workbench.facts import Extended
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists.catalog import Catalog, read_catalog
from workbench.store.owner.lease import EngineLease
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
SLOW = PLAIN + "    __import__('time').sleep(0.05)\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Shared:
    """The store of most of these tests, and what its engine found there when it started."""

    store: Store
    #: A search that had ended before.
    over: Spec
    #: Searches with two requests each that the engine takes in one go, by the first one's kind; and the requests.
    asked: dict[str, tuple[Spec, list[str]]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    store = Store(folder / "store").create()
    over = spec_of(PLAIN, folder, name="over", **small(3, trials=3))
    start(store, over)
    with EngineLease.acquire(store) as lease:
        asyncio.run(Engine(store, lease, InlineBackend, idle_s=0.1).run())
    asked = {}
    for before in ("extend", "stop"):
        spec = spec_of(SLOW, folder, name=before, **small(3, trials=3))
        start(store, spec)
        kinds = (before, "extend")
        asked[before] = spec, [requests.put(store, {"kind": kind, "experiment": spec.id, "last": 9}) for kind in kinds]
    with engine(store):
        yield Shared(store, over, asked)


@pytest.fixture
def store(shared: Shared) -> Store:
    """A store whose engine runs."""
    return shared.store


@pytest.fixture
def idle_store(tmp_path: Path) -> Store:
    """A store of the test's own, without an engine."""
    return Store(tmp_path / "store").create()


def small(last: int, **fields: Any) -> dict[str, Any]:
    return {"space": SPACE, "scheduler": Scheduler(kind="all", first=1, last=last), "verify": False, **fields}


def undisturbed(store: Store, tmp_path: Path, source: str, **fields: Any) -> dict[str, Any]:
    spec = spec_of(source, tmp_path, name="calm", **fields)
    start(store, spec)
    assert ended(store, spec) == "completed"
    return outcome(store, spec)


def finishes(store: Store, spec: Spec) -> int:
    return len(lines(store, spec, "Finish"))


def ended_at(store: Store, spec: Spec) -> str:
    with Series.read(store.experiment(spec.id).series) as series:
        return str(series.meta()["ended"])


def test_a_kill_after_the_extension_costs_nothing_but_time(idle_store: Store, tmp_path: Path) -> None:
    store = idle_store
    geometry = Scheduler(kind="hyperband", first=1, last=3, eta=3)
    calm = spec_of(SLOW, tmp_path, space=SPACE, scheduler=geometry, verify=False, name="calm")
    spec = spec_of(SLOW, tmp_path, space=SPACE, scheduler=geometry, verify=False)
    start(store, calm)
    start(store, spec)
    process = engine_process(store)
    try:
        for one in (calm, spec):
            assert ended(store, one) == "completed"
        Experiment.of(store, calm.id).extend(max_steps=9, trials=3).wait(60)
        # A trial whose weights were lost since then trains again from the beginning.
        with Series.read(store.experiment(spec.id).series) as series:
            best = max((row for row in series.trials() if row["state"] == "completed"), key=lambda row: row["value"])
        Checkpoints(store.experiment(spec.id).trial(best["number"])).drop()
        Experiment.of(store, spec.id).extend(max_steps=9, trials=3)
        until(lambda: any(line["until"] == 9 for line in lines(store, spec, "LegStarted")), what="a longer leg")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process = engine_process(store)
        until(lambda: finishes(store, spec) == 2, what="the second end")
        assert ended(store, spec) == "completed"
    finally:
        end(process)
    assert outcome(store, spec) == outcome(store, calm)
    assert len(lines(store, spec, "Extended")) == 1


def test_more_steps_and_trials_are_bit_for_bit_the_longer_search(store: Store, tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tmp_path, name="longer", **small(3, trials=3))
    start(store, spec)
    assert ended(store, spec) == "completed"
    experiment = Experiment.of(store, spec.id)
    first_end = ended_at(store, spec)
    words = [sys.executable, "-m", "workbench", "--store", str(store.root), "extend", "longer", "--steps", "9"]
    asked = subprocess.run([*words, "--trials", "2"], capture_output=True, text=True, timeout=60, check=False)
    assert asked.stdout == "longer@1 continues: 5 trials of 9 steps in all.\n", asked
    # Who asked never sees the former end: it goes on, or has ended once more.
    assert not experiment.is_ended or ended_at(store, spec) > first_end
    experiment.wait(60)
    longer = undisturbed(store, tmp_path, PLAIN, **small(9, trials=5))
    with pytest.raises(BadOption, match="takes 9 steps already"):
        experiment.extend(max_steps=9)
    with pytest.raises(BadOption, match="more time changes nothing"):
        experiment.extend(limit_s=60)
    assert experiment.state == "completed"
    assert outcome(store, spec) == longer
    with Series.read(store.experiment(spec.id).series) as series:
        legs = series.legs()
        assert series.meta()["planned"]["trials"] == 5
        assert series.meta()["ended"] > first_end
    # Trials that had trained three steps trained six more, not nine.
    assert sorted(leg["start"] for leg in legs) == [0, 0, 0, 0, 0, 3, 3, 3]
    assert finishes(store, spec) == 2
    # The catalog says the same after it is rebuilt from the journals.
    before = in_catalog(store, spec)
    rebuilt = copied(store, spec, tmp_path / "rebuilt")
    Catalog.rebuild(rebuilt)
    after = in_catalog(rebuilt, spec)
    assert {key: after[key] for key in ("state", "ended", "trials", "counts")} == {
        key: before[key] for key in ("state", "ended", "trials", "counts")
    }


def in_catalog(store: Store, spec: Spec) -> dict[str, Any]:
    """The experiment's entry, as soon as it has ended there too."""
    entries = until(
        lambda: [one for one in read_catalog(store) if one["id"] == spec.id and one["state"] == "completed"],
        what=f"{spec.label} in the catalog",
    )
    return entries[0]


def test_trials_that_had_ended_before_an_extension_count(shared: Shared) -> None:
    store, spec = shared.store, shared.over  # its engine has not seen these trials end
    experiment = Experiment.of(store, spec.id)
    experiment.extend(trials=2)
    experiment.wait(60)
    with Series.read(store.experiment(spec.id).series) as series:
        assert series.meta()["counts"] == {"completed": 5}
    until(lambda: in_catalog(store, spec)["counts"] == {"completed": 5}, what="its trials in the catalog")


def test_a_stopped_search_goes_on_with_more_time(store: Store, tmp_path: Path) -> None:
    spec = spec_of(SLOW, tmp_path, **small(9, trials=16, limit_s=1.0))  # 3.6 s of training on two slots
    start(store, spec)
    assert ended(store, spec) == "stopped"
    experiment = Experiment.of(store, spec.id)
    assert "time limit of 1 s" in experiment.reason
    experiment.extend(limit_s=100).wait(60)
    assert experiment.state == "completed"
    assert {trial.status for trial in experiment.records} == {"completed"}
    assert outcome(store, spec) == undisturbed(store, tmp_path, PLAIN, **small(9, trials=16))


def test_a_stopped_search_goes_on_between_two_levels(store: Store, tmp_path: Path) -> None:
    """The stop of a whole search decides about no trial: what it had trained since its level is not lost."""
    settings = small(120, trials=2) | {"scheduler": Scheduler(kind="all", first=120, last=120)}
    spec = spec_of(SLOW, tmp_path, save_steps=1, **settings)
    start(store, spec)
    between = [Checkpoints(store.experiment(spec.id).trial(number).passing) for number in (0, 1)]
    until(lambda: all(max(one.steps(), default=0) >= 5 for one in between), what="steps between levels")
    experiment = Experiment.of(store, spec.id)
    experiment.stop(1)
    until(lambda: experiment[1].status == "stopped", what="the end of one trial")
    experiment.stop()
    assert ended(store, spec) == "stopped"
    until(lambda: between[1].is_empty, 10, "the removal of what nobody goes on from")
    kept = max(between[0].steps())
    experiment.extend(limit_s=100).wait(60)
    until(lambda: between[0].is_empty, 10, "the removal of what nobody goes on from any more")
    with Series.read(store.experiment(spec.id).series) as series:
        assert [leg["start"] for leg in series.legs() if leg["trial"] == 0] == [0, kept]
    calm = undisturbed(store, tmp_path, PLAIN, **settings)
    assert outcome(store, spec)["trials"][0] == calm["trials"][0]


@pytest.mark.parametrize(("before", "words"), [("extend", "is being extended"), ("stop", "is being stopped")])
def test_what_an_extension_is_asked_for_with_counts_already(
    shared: Shared, tmp_path: Path, before: str, words: str
) -> None:
    """Requests that lie there together are taken in one go: the search has heard of none when the next is judged."""
    store, (spec, (first, second)) = shared.store, shared.asked[before]
    assert answer(store, Waiting(store, first))["accepted"]
    with pytest.raises(BadOption, match=f"{words}; expected .* Try again in a moment"):
        answer(store, Waiting(store, second))
    assert ended(store, spec) == {"extend": "completed", "stop": "stopped"}[before]
    if before == "stop":
        Experiment.of(store, spec.id).extend(max_steps=9).wait(60)
    assert len(lines(store, spec, "Extended")) == 1
    assert outcome(store, spec) == undisturbed(store, tmp_path, PLAIN, **small(9, trials=3))


def test_an_extension_that_makes_no_sense_any_more_ends_nobody(idle_store: Store, tmp_path: Path) -> None:
    store = idle_store
    spec = spec_of(PLAIN, tmp_path, **small(3, trials=3))
    start(store, spec)

    async def trained() -> None:
        engine = Engine(store, lease, InlineBackend, idle_s=0.1)
        running = asyncio.create_task(engine.run())
        while spec.id not in engine.loops:  # noqa: ASYNC110 - the next turn of the loop, before it has ended
            await asyncio.sleep(0)
        engine.loops[spec.id].tell(Extended("one", last=9, seconds=1e12), Extended("the same", last=9))
        await running

    with EngineLease.acquire(store) as lease:
        asyncio.run(trained())
    assert ended(store, spec) == "completed"
    assert [line["reason"] for line in lines(store, spec, "Extended")] == ["one"]
    assert {row[3] for row in outcome(store, spec)["trials"].values()} != {None}


def test_no_time_limit_is_beyond_all_dates(store: Store, tmp_path: Path) -> None:
    """An endless limit is rejected where it is given. An older spec may have one, which must not stop the engine."""
    endless = spec_of(PLAIN, tmp_path, name="endless", **small(3, trials=2, limit_s=math.inf))
    far = spec_of(PLAIN, tmp_path, name="far", **small(3, trials=2, limit_s=3.6e11))
    for spec in (endless, far):
        start(store, spec)
    for spec in (endless, far):
        assert ended(store, spec) == "completed"
    experiment = Experiment.of(store, endless.id)
    for given in (math.inf, math.nan, 3.6e11, 0.0, -1.0):
        with pytest.raises(BadOption, match=r"more than 0 and at most 1000000000 .* Give, for example, 3600"):
            experiment.extend(trials=1, limit_s=given)
    experiment.extend(trials=1, limit_s=100).wait(60)
    assert len(lines(store, endless, "Extended")) == 1
