"""One reading of an experiment: from what the catalog and the series tell, whether the engine lives or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mounts import may_mount, with_a_disk_of_its_own

from workbench.standing import Best
from workbench.status import NO_ENGINE, NOT_TAKEN, Around, Progress, Status, setups_words

HERE, GONE = Around(True), Around(False, NO_ENGINE)
RUNS = {"state": "running", "reason": "training"}
ENDS = {"state": "completed", "reason": "3 trials, 3 completed"}
PAUSED = {"state": "paused", "reason": "six 1.16.0 → 1.17.0 was installed"}


@pytest.mark.parametrize(
    ("entry", "meta", "around", "state", "reason"),
    [
        ({}, {}, HERE, "waiting", NOT_TAKEN),
        ({}, {}, GONE, "waiting", NOT_TAKEN),
        ({}, RUNS, HERE, "running", "training"),
        (RUNS, {}, HERE, "running", "training"),
        # Nothing runs without an engine.
        (RUNS, RUNS, GONE, "waiting", NO_ENGINE),
        ({}, {"state": "stopping", "reason": "asked to stop"}, GONE, "waiting", NO_ENGINE),
        ({}, {"state": "waiting", "reason": "it waits for a slot"}, GONE, "waiting", NO_ENGINE),
        # What is paused keeps no engine, and still says why.
        (PAUSED, PAUSED, GONE, "paused", PAUSED["reason"]),
        # The series tell of an end, and of an extension, before the catalog does.
        (RUNS, ENDS, HERE, "completed", ENDS["reason"]),
        (ENDS, {"state": "waiting", "reason": "it was extended"}, HERE, "waiting", "it was extended"),
        # An engine that could no longer write the series wrote the state to the catalog.
        ({"state": "failed", "reason": "disk"}, RUNS, GONE, "failed", "disk"),
        ({"state": "unreadable", "reason": "line 3"}, RUNS, HERE, "unreadable", "line 3"),
        (ENDS, {}, GONE, "completed", ENDS["reason"]),
    ],
)
def test_state_and_reason(entry: dict[str, Any], meta: dict[str, Any], around: Around, state: str, reason: str) -> None:
    found = Status.of(entry, meta, around)
    assert (found.state, found.reason) == (state, reason)
    assert found.is_ended == (state in ("completed", "failed"))


@pytest.mark.parametrize(
    ("state", "begun", "counts", "planned", "said", "share"),
    [
        ("running", 20, {"completed": 8, "stopped": 10, "running": 2}, 49, "18 of 49 trials ended", 18 / 49),
        ("running", 5, {"running": 5}, None, "0 of 5 trials ended", None),
        ("waiting", None, None, 49, "0 of 49 trials ended", 0.0),
        ("waiting", None, None, None, "0 of 0 trials ended", None),
        # Trials that were not needed are planned, and never begin.
        ("completed", 40, {"completed": 1, "stopped": 39}, 49, "40 of 49 trials ended", 1.0),
        ("stopped", 12, None, 49, "12 of 49 trials ended", 12 / 49),
        # An extension may bring more trials than the plan that is known knows.
        ("running", 60, {"stopped": 60}, 49, "60 of 49 trials ended", 1.0),
    ],
)
def test_progress(
    state: str, begun: int | None, counts: dict[str, int] | None, planned: int | None, said: str, share: float | None
) -> None:
    found = Progress.read(state, begun, counts, planned)
    assert (str(found), found.share) == (said, share)


def test_series_know_more_than_the_catalog() -> None:
    entry = {**RUNS, "best": {"trial": 1, "value": 0.5}, "counts": {"running": 1}, "trials": 1}
    meta = {**RUNS, "best": {"trial": 4, "value": 0.75}, "counts": {"running": 2, "stopped": 3}, "seconds_left": 9.0}
    found = Status.of(entry, meta, HERE, trials=9)
    assert (found.best, found.progress.ended, found.progress.planned, found.seconds_left) == (Best(4, 0.75), 3, 9, 9.0)
    assert Status.of(entry, meta, GONE).seconds_left is None


def test_a_disk_that_tells_no_sizes_is_not_full(tmp_path: Path) -> None:
    if not may_mount():
        pytest.skip("this machine lets nobody mount a file system")
    done = with_a_disk_of_its_own(Path(__file__).with_name("unsized_disk.py"), tmp_path)
    assert done.stdout == "ok\n", done.stderr


def test_a_trial_without_an_engine_waits() -> None:
    row = {"number": 7, "state": "running", "reason": "training", "step": 3}
    assert HERE.trial(row) == {**row, "label": "t0007"}
    assert GONE.trial(row) == {**row, "label": "t0007", "state": "waiting", "reason": NO_ENGINE}
    assert GONE.trial({**row, "state": "setting up", "since": "2026-11-23T14:05:00+00:00"})["state"] == "waiting"
    assert GONE.trial({**row, "state": "paused", "reason": "rank 4 of 9"})["reason"] == "rank 4 of 9"


def test_trials_that_set_up_are_counted_while_an_engine_lives() -> None:
    counts = {"setting up": 2, "waiting": 1, "completed": 3}
    assert setups_words(HERE.counts(counts)) == "2 trials setting up"
    assert setups_words({"setting up": 1}) == "1 trial setting up"
    assert (GONE.counts(counts), setups_words(GONE.counts(counts))) == ({"waiting": 3, "completed": 3}, "")
