"""Slot-hours: the table of outcomes, what a series is read as, and real searches whose trials are killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli.stored import Answering, Said, typed
from running import end, ended, engine, engine_process, lines, processes_below, spec_of, start, until

from workbench.cluster.own import end_found
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.status.usage import Leg, _leg, in_turn, seconds, usage
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.owner import ownership, trust
from workbench.store.owner.listed import person
from workbench.store.series import Series

HOUR = timedelta(hours=1)
#: Steps of 0.1 s, of which the sixth waits until a file appears.
STEPS = """
x = uniform(0.0, 1.0)
import pathlib, time
for epoch in trial.steps():
    while epoch == 5 and not pathlib.Path("go").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    trial.report(score=x)
"""


def leg(attempt: int = 1, **fields: Any) -> Leg:
    """A leg of the trial 0 of ``a`` that held a slot from 100 to 200 and trained the steps 0 to 10 in all of it."""
    told: dict[str, Any] = {"experiment": "a", "trial": 0, "slot": "", "placed": 100.0, "began": 100.0, "left": 200.0}
    return Leg(**{**told, "attempt": attempt, "start": 0, "step": 10, "died": False, "saved": None, **fields})


#: The second leg of a trial, from 300 to 350.
SECOND = {"attempt": 2, "placed": 300.0, "began": 300.0, "left": 350.0, "step": 20}


@pytest.mark.parametrize(
    ("legs", "state", "found"),
    [
        ([leg()], "completed", {"completed": 100}),
        ([leg()], "stopped", {"stopped early": 100}),
        ([leg()], "paused", {"stopped early": 100}),
        ([leg()], "failed", {"lost": 100}),
        ([leg()], "running", {"running": 100}),
        ([leg()], "waiting", {"running": 100}),
        ([leg()], None, {"running": 100}),
        ([leg(), leg(**SECOND, start=10)], "completed", {"completed": 150}),
        # A leg that died: its steps are trained again from where the next leg started.
        ([leg(died=True), leg(**SECOND, start=0)], "completed", {"lost": 100, "completed": 50}),
        ([leg(died=True), leg(**SECOND, start=8)], "completed", {"lost": 20, "completed": 130}),
        ([leg(died=True), leg(**SECOND, start=10)], "completed", {"completed": 150}),
        ([leg(died=True), leg(**SECOND, start=8)], "failed", {"lost": 150}),
        # Its set-up is lost as well, and all of it if it had not trained a step.
        ([leg(died=True, began=150.0), leg(**SECOND, start=10)], "completed", {"lost": 50, "completed": 100}),
        ([leg(died=True, began=150.0), leg(**SECOND, start=5)], "completed", {"lost": 75, "completed": 75}),
        ([leg(died=True, began=None, step=0), leg(**SECOND, start=0)], "completed", {"lost": 100, "completed": 50}),
        # Before there is a next leg, the newest checkpoint counts.
        ([leg(died=True, saved=8)], "waiting", {"lost": 20, "running": 80}),
        ([leg(died=True)], "waiting", {"lost": 100}),
        # A leg that had to leave within a step, and one that left without a checkpoint.
        ([leg(), leg(**SECOND, start=9)], "completed", {"lost": 10, "completed": 140}),
        ([leg(began=None, step=0), leg(**SECOND, start=0)], "completed", {"completed": 150}),
        # The clock was set back: the leg ended before it started, or its first step began before it was placed.
        ([leg(left=50.0)], "completed", {}),
        ([leg(left=50.0, began=40.0, died=True)], "completed", {}),
        ([leg(began=40.0)], "completed", {"completed": 100}),
        ([leg(began=900.0, died=True)], "completed", {"lost": 100}),
    ],
)
def test_the_outcome_of_each_second(legs: list[Leg], state: str | None, found: dict[str, float]) -> None:
    states = {} if state is None else {("a", 0): state}
    told = seconds(legs, states, 0.0, 1000.0)
    assert told == {("a", outcome): pytest.approx(spent) for outcome, spent in found.items()}


@pytest.mark.parametrize(
    ("since", "until_", "found"),
    [
        (100.0, 200.0, {"completed": 80, "lost": 20}),
        (150.0, 1000.0, {"completed": 30, "lost": 20}),
        (0.0, 150.0, {"completed": 50}),
        (185.0, 190.0, {"lost": 5}),
        (200.0, 300.0, {}),
        (0.0, 100.0, {}),
    ],
)
def test_only_the_part_within_the_period_counts(since: float, until_: float, found: dict[str, float]) -> None:
    legs = [leg(died=True), leg(2, placed=2000.0, began=2000.0, left=2001.0, start=8, step=9)]
    told = seconds(legs, {("a", 0): "completed"}, since, until_)
    assert told == {("a", outcome): pytest.approx(spent) for outcome, spent in found.items()}


def test_time_in_which_a_leg_was_queued_does_not_count() -> None:
    legs = [leg(slot="s/0"), leg(trial=1, slot="s/0", placed=150.0, began=201.0, left=300.0)]
    assert seconds(legs, {("a", 0): "completed", ("a", 1): "completed"}, 0.0, 1000.0) == {("a", "completed"): 200}


def test_a_leg_with_a_part_of_a_slot_counts_with_that_part_beside_the_others() -> None:
    row = {"trial": 0, "attempt": 1, "slot": "s/0", "began": 100.0, "start": 0, "step": 10, "outcome": "completed"}
    times = {"started": "1970-01-01T00:01:40+00:00", "ended": "1970-01-01T00:03:20+00:00"}
    rows = [{**row, **times, "trial": number, "parts": 4} for number in (0, 1)]
    legs = [_leg("a", one, 1000.0, False, 1000.0, lambda _: []) for one in rows]
    states = {("a", 0): "completed", ("a", 1): "completed"}
    assert seconds(legs, states, 0.0, 1000.0) == {("a", "completed"): pytest.approx(50)}


def test_experiments_and_trials_are_told_apart() -> None:
    legs = [leg(), leg(trial=1, died=True, saved=5), leg(experiment="b", died=True), leg(2, experiment="b", start=5)]
    states = {("a", 0): "completed", ("a", 1): "stopped", ("b", 0): "completed"}
    assert seconds(legs, states, 0.0, 1000.0) == {
        ("a", "completed"): 100, ("a", "stopped early"): 50, ("a", "lost"): 50, ("b", "completed"): 150,
        ("b", "lost"): 50,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("legs", "placed"),
    [
        # (slot, placed, began, left) of each
        ([("s/0", 0, 0, 10), ("s/0", 2, 10.5, 20)], [0, 10]),
        ([("s/0", 0, 0, 10), ("s/1", 2, 2.5, 20)], [0, 2]),
        ([("s/0", 0, 0, 10), ("s/0", 2, 9, 20)], [0, 9]),
        ([("s/0", 0, 0, 10), ("s/0", 2, None, 12)], [0, 10]),
        ([("s/0", 0, 0, 10), ("s/0", 30, 31, 40)], [0, 30]),
        ([("", 0, 0, 10), ("", 2, 9, 20)], [0, 2]),
        # The clock was set back by 90 after the first.
        ([("s/0", 100, 101, 110), ("s/0", 25, 26, 40)], [25, 100]),
        ([("s/0", 10, 11, 900), ("s/0", 25, 26, 40)], [10, 26]),
    ],
)
def test_a_leg_that_is_queued_behind_another_holds_no_slot_yet(
    legs: list[tuple[str, float, float | None, float]], placed: list[float]
) -> None:
    given = [
        leg(number, slot=slot, placed=at, began=began, left=left) for number, (slot, at, began, left) in enumerate(legs)
    ]
    assert [one.placed for one in in_turn(given)] == placed


# ---------------------------------------------------------------------------------------------------------------------
# Stores as an engine leaves them


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of stores of its own, and a runtime folder."""
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


NOW = datetime.now(UTC)


def at(hours: float) -> str:
    """So many hours ago, as the engine writes it."""
    return (NOW - timedelta(hours=hours)).isoformat(timespec="milliseconds")


def written(folder: Path, name: str, state: str, *legs: dict[str, Any], trial: dict[str, Any] | None = None) -> Store:
    """A store with an experiment of one trial in ``state``, and these legs of it."""
    store = Store(folder / ".workbench").create()
    spec = spec_of("", folder, name=name)
    store.write_spec(spec)
    with Series.open(store.experiment(spec.id).series) as series:
        series.put_meta("goal", {"metric": "score", "mode": "max"})
        series.put_trial(0, state=state, **{"attempt": len(legs), **(trial or {})})
        for number, fields in enumerate(legs, 1):
            series.put_leg(0, number, **fields)
    catalog = Catalog(store)
    entry = {"name": name, "version": 1, "label": f"{name}@1", "created": at(9), "state": "running"}
    catalog.upsert_experiment(spec.id, entry)
    catalog.close()
    return store


def rows(folder: Path, hours: float = 24) -> list[tuple[str, str, str, float]]:
    """Folder, experiment, outcome and hours of the usage of the last hours."""
    found = usage(NOW - hours * HOUR, NOW)
    assert {row.user for row in found.rows} <= {person(os.geteuid())}
    assert not found.unread
    return [
        (row.store.parent.relative_to(folder).as_posix(), row.experiment, row.outcome, round(row.seconds / 3600, 3))
        for row in found.rows
    ]


def test_all_known_stores_are_counted_and_the_gone_ones_left_out(machine: Path) -> None:
    reached = {"outcome": "reached", "start": 0, "step": 9}
    written(machine / "nlp", "bert", "completed", {"started": at(5), "ended": at(3), **reached})
    written(machine / "vision", "vit", "stopped", {"started": at(30), "ended": at(23), **reached})
    gone = written(machine / "old", "old", "completed", {"started": at(5), "ended": at(3), **reached})
    os.rename(gone.root, machine / "elsewhere")
    assert [path.parent.name for path in ownership.known()] == ["nlp", "vision"]
    assert rows(machine) == [("nlp", "bert@1", "completed", 2.0), ("vision", "vit@1", "stopped early", 1.0)]
    assert rows(machine, 4) == [("nlp", "bert@1", "completed", 1.0)]


def test_a_copied_store_that_was_adopted_does_not_count_twice(machine: Path) -> None:
    first = written(machine / "a", "bert", "completed", {"started": at(5), "ended": at(3), "outcome": "reached"})
    shutil.copytree(first.root, machine / "b" / ".workbench")
    assert typed("adopt", str(machine / "b" / ".workbench"), "--yes").code == 0
    assert [path.parent.name for path in ownership.known()] == ["a", "b"]
    assert rows(machine) == [("a", "bert@1", "completed", 2.0)]


def test_an_imported_experiment_that_is_not_trusted_does_not_count(machine: Path) -> None:
    store = written(machine / "nlp", "bert", "completed", {"started": at(5), "ended": at(3), "outcome": "reached"})
    (experiment,) = store.experiment_ids()
    trust.mark(store, experiment)
    assert rows(machine) == []


def test_an_experiment_that_ended_before_the_period_is_not_opened(machine: Path) -> None:
    store = written(machine / "nlp", "bert", "completed", {"started": at(5), "ended": at(3), "outcome": "reached"})
    (experiment,) = store.experiment_ids()
    catalog = Catalog(store)
    catalog.upsert_experiment(experiment, {"state": "completed", "ended": at(3)})
    catalog.close()
    assert rows(machine, 4) == [("nlp", "bert@1", "completed", 1.0)]
    store.experiment(experiment).series.write_bytes(b"no database" * 1000)
    assert len(usage(NOW - 4 * HOUR, NOW).unread) == 1
    assert rows(machine, 2) == []


def test_a_leg_that_ends_in_the_future_does_not_count(machine: Path) -> None:
    """The clock was ahead, and was set back since."""
    ahead, reached = {"started": at(5), "ended": at(-900)}, {"outcome": "reached", "start": 0, "step": 9}
    late = {"started": at(3), "ended": at(-0.01), **reached}
    written(machine / "a", "bert", "completed", {**ahead, **reached}, {**late, "start": 9, "step": 18})
    assert rows(machine) == [("a", "bert@1", "completed", 3.0)]


def test_an_experiment_whose_first_leg_waits(machine: Path) -> None:
    written(machine / "nlp", "bert", "waiting")
    assert rows(machine) == []


def test_a_leg_without_an_end_ended_with_its_last_report(machine: Path) -> None:
    """Engine and trials were killed together: four hours later another engine went on from step 3."""
    cut = {"started": at(9), "began": (NOW - 8.5 * HOUR).timestamp(), "start": 0, "slot": "s/0"}
    goes_on = {"started": at(4), "ended": at(3), "outcome": "completed", "start": 3, "step": 9, "slot": "r/0"}
    store = written(machine / "nlp", "bert", "completed", cut, goes_on)
    (experiment,) = store.experiment_ids()
    with Series.open(store.experiment(experiment).series) as series:
        for trial, step, ago in ((0, 1, 8.0), (0, 4, 7.5), (0, 5, 3.5), (1, 1, 6.0)):
            series.add_points([(trial, "score", step, 0, 0.5, (NOW - ago * HOUR).timestamp())])
    # Half an hour of set-up, and one of four steps in an hour, were lost.
    assert rows(machine) == [("nlp", "bert@1", "completed", 1.75), ("nlp", "bert@1", "lost", 0.75)]


def test_a_leg_without_an_end_trains_only_if_its_engine_lives_and_no_newer_leg_waits(machine: Path) -> None:
    store = written(machine / "nlp", "bert", "running", {"started": at(9), "start": 0})
    assert rows(machine) == []
    with Answering(store):
        assert rows(machine) == [("nlp", "bert@1", "running", 9.0)]
        (experiment,) = store.experiment_ids()
        for fields, counts in (({"state": "stopped"}, False), ({"state": "waiting"}, True), ({"attempt": 2}, False)):
            with Series.open(store.experiment(experiment).series) as series:
                series.put_trial(0, **fields)
            assert bool(rows(machine)) == counts, fields


def test_what_cannot_be_read_is_named_and_the_rest_counts(machine: Path) -> None:
    leg = {"started": at(5), "ended": at(3), "outcome": "reached"}
    written(machine / "a", "bert", "completed", leg)
    broken = written(machine / "b", "vit", "completed", leg)
    (experiment,) = broken.experiment_ids()
    broken.experiment(experiment).series.write_bytes(b"no database" * 1000)
    found = usage(NOW - 24 * HOUR, NOW)
    assert [(row.store.parent.name, row.seconds) for row in found.rows] == [("a", pytest.approx(7200, abs=1))]
    ((store, name, why),) = [(one.store, one.experiment, one.why) for one in found.unread]
    assert (store, name) == (broken.root, "vit@1")
    assert "series.db" in why
    assert "not counted: vit@1 in ~/b: " in typed("usage").out


# ---------------------------------------------------------------------------------------------------------------------
# Real searches


def one_trial(machine: Path, name: str, **fields: Any) -> tuple[Store, Spec]:
    """A search of one trial with ten steps."""
    whole = Scheduler(kind="all", first=10, last=10)
    space = {"x": uniform(0.0, 1.0)}
    spec = spec_of(STEPS, machine, name=name, space=space, scheduler=whole, trials=1, verify=False, **fields)
    return Store(machine / name / ".workbench"), spec


def trained_pid(store: Store, spec: Spec, step: int, attempt: int = 1) -> int | None:
    """The process that trains the attempt, once it has reported that step."""
    path = store.experiment(spec.id).series
    if not path.exists():
        return None
    with Series.read(path) as series:
        pids = [row.get("pid") for row in series.legs() if row["attempt"] == attempt]
        return pids[0] if pids and any(point[2] >= step for point in series.points()) else None


def saved(store: Store, spec: Spec) -> int | None:
    """The step of the newest checkpoint that the engine knows."""
    with Series.read(store.experiment(spec.id).series) as series:
        return series.legs()[-1].get("checkpoint")


def spent(found: Said) -> dict[str, float]:
    """Seconds by outcome."""
    assert (found.code, found.err) == (0, "")
    return {row["outcome"]: row["slot_hours"] * 3600 for row in found.json["rows"]}


def test_a_trial_killed_by_kill_9_lost_the_steps_that_it_trains_again(machine: Path) -> None:
    # No checkpoint before the tenth step.
    store, spec = one_trial(machine, "lost", checkpoint_s=1000.0, save_s=1000.0)
    with engine(store, workers=1):
        begun = time.monotonic()
        start(store, spec)
        pid = until(lambda: trained_pid(store, spec, 5), what="five steps")
        running = spent(typed("usage", "--json"))
        assert running.keys() == {"running"}
        assert 0.5 < running["running"] < time.monotonic() - begun
        time.sleep(0.3)
        later = spent(typed("usage", "--json"))["running"] - running["running"]
        assert 0.3 <= later < 60
        os.kill(pid, signal.SIGKILL)
        until(lambda: lines(store, spec, "LegLeft"), what="the end of the leg")
        # While it sets up again, and after.
        until(lambda: trained_pid(store, spec, 5, attempt=2), what="the second attempt")
        found = spent(typed("usage", "--json"))
        assert found.keys() == {"lost", "running"}
        (machine / "go").touch()
        assert ended(store, spec) == "completed"
        found = spent(typed("usage", "--json"))
    started = [datetime.fromisoformat(line["at"]) for line in lines(store, spec, "LegStarted")]
    left = [datetime.fromisoformat(line["at"]) for line in lines(store, spec, "LegLeft")]
    assert len(started) == len(left) == 2
    # The journal's times are those of the orders, which come before the placing: a retry waits a moment.
    for outcome, steps_s, first, last in zip(("lost", "completed"), (0.5, 1.0), started, left, strict=True):
        assert steps_s < found[outcome] < (last - first).total_seconds() + 0.1
    shown = typed("usage").out.splitlines()
    assert shown[0] == "slot-hours of the last 24 h:"
    assert shown[2].split()[:4] == ["user", "store", "experiment", "slot-hours"]
    assert shown[3].split() == [person(os.geteuid()), "~/lost", "lost@1", "<0.01", "100%", "<0.01", "–", "<0.01", "–"]
    assert shown[4].split() == ["all", "<0.01", "100%", "<0.01", "–", "<0.01", "–"]


def test_with_checkpoints_a_kill_loses_little(machine: Path) -> None:
    store, spec = one_trial(machine, "kept", save_steps=1)
    with engine(store, workers=1):
        start(store, spec)
        pid = until(lambda: trained_pid(store, spec, 5), what="five steps")
        until(lambda: saved(store, spec) == 5, what="a checkpoint of the fifth step")
        os.kill(pid, signal.SIGKILL)
        (machine / "go").touch()
        assert ended(store, spec) == "completed"
        (first,) = (leg for leg in lines(store, spec, "LegLeft") if leg["outcome"] == "died")
        assert first["step"] == 5
    with Series.read(store.experiment(spec.id).series) as series:
        one, two = series.legs()
    assert two["start"] == 5
    setup = one["began"] - datetime.fromisoformat(one["started"]).timestamp()
    assert spent(typed("usage", "--json"))["lost"] == pytest.approx(setup, abs=0.2)


def test_stopped_by_the_search_and_completed(machine: Path) -> None:
    (machine / "go").touch()
    halving = Scheduler(kind="hyperband", first=1, last=3, eta=3)
    spec = spec_of(STEPS, machine, name="many", space={"x": uniform(0.0, 1.0)}, scheduler=halving, verify=False)
    store = Store(machine / "many" / ".workbench")
    with engine(store, workers=2):
        start(store, spec)
        assert ended(store, spec) == "completed"
    with Series.read(store.experiment(spec.id).series) as series:
        states = {row["number"]: row["state"] for row in series.trials()}
    assert set(states.values()) == {"completed", "stopped"}
    found = spent(typed("usage", "--json"))
    assert found.keys() == {"completed", "stopped early"}
    held: dict[str, float] = {"completed": 0.0, "stopped": 0.0}
    begun = {}
    for line in lines(store, spec):
        moment = datetime.fromisoformat(line["at"]).timestamp()
        if line["kind"] == "LegStarted":
            begun[line["trial"]] = moment
        elif line["kind"] == "LegLeft":
            held[states[line["trial"]]] += moment - begun[line["trial"]]
    # The orders wait for the two slots: they come earlier than the placing.
    assert 0.9 * found["completed"] <= held["completed"]
    assert 0.9 * found["stopped early"] <= held["stopped"]
    assert found["stopped early"] >= 0.1 * sum(state == "stopped" for state in states.values())
    assert found["completed"] >= 0.3 * sum(state == "completed" for state in states.values())
    # Two slots were held at most.
    whole = max(datetime.fromisoformat(line["at"]) for line in lines(store, spec)) - datetime.fromisoformat(
        lines(store, spec)[0]["at"]
    )
    assert sum(found.values()) <= 2 * whole.total_seconds()


def test_an_engine_killed_with_its_trials_counts_until_the_last_report(machine: Path) -> None:
    store, spec = one_trial(machine, "cut")
    store.create()
    process = engine_process(store, workers=1)
    family: list[int] = []
    try:
        start(store, spec)
        until(lambda: trained_pid(store, spec, 5), what="five steps")
        family = [process.pid, *processes_below(process.pid)]
        for pid in family:
            with contextlib.suppress(ProcessLookupError):  # some end with those that started them
                os.kill(pid, signal.SIGKILL)
        process.wait()
        end_found(store.root)
        first = until(lambda: spent(typed("usage", "--json")), what="a usage")
        time.sleep(0.5)
        assert spent(typed("usage", "--json")) == first
        with Series.read(store.experiment(spec.id).series) as series:
            (leg,) = series.legs()
            last = max(point[5] for point in series.points())
        assert leg.get("ended") is None
        whole = last - datetime.fromisoformat(leg["started"]).timestamp()
        assert sum(first.values()) == pytest.approx(whole, abs=0.01)
    finally:
        end(process)
        end_found(store.root)


# ---------------------------------------------------------------------------------------------------------------------
# The command


@pytest.mark.parametrize("days", ["0", "-1", "x", "nan", "inf", "1e9"])
def test_days_that_are_not_a_period(machine: Path, days: str) -> None:
    found = typed("usage", "--days", days)
    assert (found.code, found.out) == (2, "")
    assert "expected days, such as 1 or 0.5" in found.err


def test_a_user_who_has_trained_nothing(machine: Path) -> None:
    assert typed("usage").out == "no trial of yours has held a slot in the last 24 h.\n"
    found = typed("usage", "--json", "--days", "0.5").json
    assert found.pop("schema") == 1
    since, until_ = (datetime.fromisoformat(found.pop(name)) for name in ("since", "until"))
    assert until_ - since == timedelta(hours=12)
    assert found == {
        "rows": [], "totals": {"completed": 0, "stopped early": 0, "lost": 0, "running": 0}, "slot_hours": 0,
        "unread": [],
    }  # fmt: skip


def test_the_largest_comes_first_and_one_store_counts_alone(machine: Path) -> None:
    leg = {"outcome": "reached", "start": 0, "step": 9}
    written(machine / "a", "bert", "completed", {**leg, "started": at(3), "ended": at(2)})
    b = written(machine / "b", "vit\x1b[31m", "failed", {**leg, "started": at(9), "ended": at(6)})
    shown = typed("usage").out.splitlines()
    me = person(os.geteuid())
    assert [line.split() for line in shown[3:]] == [
        [me, "~/b", "vit\\x1b[31m@1", "3.00", "75%", "–", "–", "3.00", "–"],
        [me, "~/a", "bert@1", "1.00", "25%", "1.00", "–", "–", "–"],
        ["all", "4.00", "100%", "1.00", "–", "3.00", "–"],
    ]
    found = typed("usage", "--json").json
    assert [(row["experiment"], row["share"]) for row in found["rows"]] == [
        ("bert@1", pytest.approx(0.25)), ("vit\x1b[31m@1", pytest.approx(0.75))
    ]  # fmt: skip
    assert found["totals"] == pytest.approx({"completed": 1, "stopped early": 0, "lost": 3, "running": 0})
    assert found["slot_hours"] == pytest.approx(4)
    for number in range(20):
        written(machine / f"s{number}", f"many{number}", "stopped", {**leg, "started": at(1), "ended": at(0.95)})
    shown = typed("usage").out.splitlines()
    assert len(shown) == 3 + 20 + 1 + 1
    assert shown[-2].split() == ["2", "others", "0.10", "2%", "–", "0.10", "–", "–"]
    assert shown[-1].split() == ["all", "5.00", "100%", "1.00", "1.00", "3.00", "–"]
    assert len(typed("usage", "--json").json["rows"]) == 22
    alone = typed("usage", "--json", store=b).json
    assert [row["store"] for row in alone["rows"]] == [str(b.root)]
