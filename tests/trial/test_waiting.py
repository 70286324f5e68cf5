"""A loop that waits for its data: the share is measured, and the user is told once, with the setting to change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset
from trial.world import said

from workbench.trial import iterators
from workbench.trial.profile.advice import Fed, setting, starved
from workbench.trial.profile.waiting import Waiting


class Slow(Dataset):
    """Eight samples that take ``seconds`` each, slept or computed."""

    def __init__(self, seconds: float, computes: bool = False) -> None:
        self.seconds, self.computes = seconds, computes

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> float:
        begun = time.thread_time()
        if self.computes:
            while time.thread_time() - begun < self.seconds:
                pass
        else:
            time.sleep(self.seconds)
        return float(index)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Callable[..., tuple[Waiting, list[str]]]]:
    def watch(least_s: float = 0.05, reports: bool = True, begun: bool = True) -> tuple[Waiting, list[str]]:
        lines: list[str] = []
        waiting = Waiting(1, tmp_path / "starved.told", lines.append, lambda: reports, least_s=least_s)
        iterators.watch(None, waiting)
        if begun:
            waiting.begin()
        return waiting, lines

    yield watch
    iterators.watch()


def passed(loader: Any, seconds: float = 0.0) -> None:
    """One pass whose steps take ``seconds``."""
    for _ in loader:
        time.sleep(seconds)


@pytest.mark.parametrize(
    ("one", "slots", "cores", "words"),
    [
        (Fed("a", 0.5, 0.5), 1, 8, "DataLoader(…, num_workers=2) loads"),
        (Fed("a", 0.8, 0.8), 1, 8, "DataLoader(…, num_workers=5) loads"),
        # No more than the cores of a slot.
        (Fed("a", 0.8, 0.8), 4, 8, "DataLoader(…, num_workers=2) loads"),
        # The other loader's waiting goes on.
        (Fed("a", 0.3, 0.6), 1, 8, "DataLoader(…, num_workers=2) loads"),
        # On a slot of one core, a worker helps if it reads.
        (Fed("a", 0.8, 0.8), 8, 8, "DataLoader(…, num_workers=1) loads"),
        (Fed("a", 0.8, 0.8, computes=0.9), 8, 8, "it computes, and no core of the slot is free"),
        (Fed("a", 0.8, 0.8, computes=0.9), 0, 8, "it computes, and no core of the slot is free"),
        (Fed("a", 0.8, 0.8), 8, 4, "there are more slots than cores"),
        (Fed("a", 0.5, 0.5, 2, ends=0.8), 1, 8, "80% of the waiting is where its passes begin and end"),
        (Fed("a", 0.5, 0.5, 2, 2, True, ends=0.8), 1, 8, "DataLoader(…, num_workers=4) instead of 2"),
        (Fed("a", 0.25, 0.25, 2, 2), 1, 8, "DataLoader(…, num_workers=3) instead of 2"),
        (Fed("a", 0.9, 0.9, 2, 2), 1, 8, "DataLoader(…, num_workers=8) instead of 2"),
        (Fed("a", 0.9, 0.9, 8, 2), 1, 8, "its 8 workers use the cores of a slot already; DataLoader(…, prefetch"),
        (Fed("a", 0.9, 0.9, 1, 4), 8, 8, "its 1 worker uses the cores of a slot already. trial.cached"),
    ],
)  # fmt: skip
def test_the_setting_follows_from_what_is_there(one: Fed, slots: int, cores: int, words: str) -> None:
    assert setting(one, slots, cores).startswith(words)
    assert starved(one, slots, cores).startswith(f"training waits {one.share:.0%} of its time for a: ")


def test_the_share_is_that_of_the_waiting_and_the_longest_loader_is_named(watched: Any) -> None:
    waiting, lines = watched(least_s=0.4)
    train, val = DataLoader(Slow(0.02), 2), DataLoader(Slow(0.005), 4)
    begun = time.perf_counter()
    for _ in range(3):
        passed(val, 0.01)
        passed(train, 0.02)
    elapsed = time.perf_counter() - begun
    slept = 3 * 8 * (0.02 + 0.005)
    assert slept / elapsed <= waiting.share() <= 1 - 3 * (4 * 0.02 + 2 * 0.01) / elapsed
    (line,) = lines
    assert line.startswith("training waits ")
    assert " of its time for `train`: DataLoader(…, num_workers=" in line


def test_the_loader_that_is_waited_for_longest_is_named_although_another_is_asked_first(watched: Any) -> None:
    _, lines = watched(least_s=2.0)
    train, val = DataLoader(Slow(0.16)), DataLoader(Slow(0.001))
    passed(train)
    time.sleep(1.2)
    passed(val)
    assert lines == []
    passed(train)
    (line,) = lines
    assert " for `train`: " in line


def test_it_is_told_once_for_all_legs_of_an_experiment(watched: Any) -> None:
    told = []
    for _ in range(2):
        _, lines = watched()
        for _ in range(3):
            passed(DataLoader(Slow(0.01), 2))
        told += lines
    assert len(told) == 1
    assert "for `loader`: " in told[0]


def test_a_loader_without_a_name_is_named_by_its_data_set(watched: Any) -> None:
    _, lines = watched()
    for _ in range(3):
        for _ in DataLoader(Slow(0.01), 2):
            pass
    (line,) = lines
    assert "for the DataLoader of Slow: " in line


def test_nothing_is_told_before_enough_was_measured_or_where_little_is_waited(watched: Any) -> None:
    waiting, lines = watched(least_s=30)
    passed(DataLoader(Slow(0.02)))
    assert waiting.share() > 0.9
    assert lines == []
    waiting, lines = watched()
    for _ in range(3):
        passed(DataLoader(Slow(0), 4), 0.1)
    assert 0 < waiting.share() < 0.2
    assert lines == []


def test_passes_of_the_set_up_do_not_count(watched: Any) -> None:
    waiting, lines = watched(reports=False, begun=False)
    passed(DataLoader(Slow(0.02)))
    assert waiting.share() is None
    waiting.begin()
    time.sleep(0.01)
    assert waiting.share() == 0
    assert lines == []


def test_a_loop_that_counts_its_own_steps_is_measured_from_its_reports_on(watched: Any) -> None:
    waiting, lines = watched(begun=False)
    for _ in range(3):
        passed(DataLoader(Slow(0.02)))
    assert waiting.share() > 0.9
    assert len(lines) == 1


def test_the_time_between_legs_does_not_count(watched: Any) -> None:
    waiting, _ = watched()
    passed(DataLoader(Slow(0.01)))
    before = waiting.share()
    waiting.without(time.sleep)(1.0)
    assert abs(waiting.share() - before) < 0.1


def test_requests_inside_of_others_and_in_other_threads_are_counted_once_or_not(watched: Any) -> None:
    class Nested(Slow):
        def __getitem__(self, index: int) -> float:
            return sum(float(x) for x in DataLoader(Slow(0.002)))

    waiting, _ = watched()
    begun = time.perf_counter()
    passed(DataLoader(Nested(0)))
    took = time.perf_counter() - begun
    time.sleep(took)  # what is counted twice is more than all of the time otherwise, which is never told
    _, waited = waiting.so_far()
    assert 8 * 8 * 0.002 <= waited <= took
    waiting, _ = watched()
    reader = threading.Thread(target=passed, args=(DataLoader(Slow(0.01)),))
    reader.start()
    reader.join()
    assert waiting.share() == 0


def test_starting_workers_is_where_passes_begin_and_persistent_ones_wait_less(watched: Any) -> None:
    waiting, _ = watched(least_s=30)
    data = Slow(0.0)
    loader = DataLoader(data, 4, num_workers=1)
    for _ in range(2):
        passed(loader, 0.05)
    fed = waiting.fed(iter(loader))
    assert fed.ends > 0.5
    assert (fed.workers, fed.prefetch, fed.persistent) == (1, 2, False)
    assert "persistent_workers=True" in setting(fed, 1, 8)


def test_computing_is_told_from_reading(watched: Any) -> None:
    waiting, _ = watched(least_s=30)
    passed(reads := DataLoader(Slow(0.02)))
    passed(computes := DataLoader(Slow(0.02, computes=True)))
    # On a busy machine, a request takes longer than it computes.
    assert waiting.fed(iter(computes)).computes > 3 * waiting.fed(iter(reads)).computes


def test_an_error_of_the_data_set_is_raised_as_it_is_and_the_next_request_is_measured(watched: Any) -> None:
    class Broken(Slow):
        def __getitem__(self, index: int) -> float:
            raise LookupError("no such sample")

    waiting, _ = watched()
    with pytest.raises(LookupError, match="no such sample"):
        passed(DataLoader(Broken(0)))
    with pytest.raises(ValueError, match="multiprocessing_context"):
        iter(DataLoader(Slow(0), num_workers=1, multiprocessing_context="no such"))
    passed(DataLoader(Slow(0.02)))
    assert waiting.share() > 0.5


def test_a_request_costs_some_microseconds(watched: Any) -> None:
    waiting, _ = watched(least_s=1e9)
    iterator = iter(DataLoader(Slow(0)))
    next(iterator)

    def cost(count: int = 1000) -> float:
        begun = time.perf_counter()
        for _ in range(count):
            waiting.enter()
            waiting.leave(iterator, time.perf_counter(), False)
        return (time.perf_counter() - begun) / count

    assert min(cost() for _ in range(20)) < 10e-6


CELL = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self):
        return 10
    def __getitem__(self, index):
        time.sleep(0.05)
        return torch.tensor(float(index))
batches = DataLoader(Slow(), 5, shuffle=True)
total = 0.0
for epoch in trial.steps():
    for x in batches:
        total += x.sum().item() * torch.rand(()).item()
        time.sleep(0.1)
    trial.report(score=total)
"""


def test_a_leg_that_waits_for_ten_seconds_says_so_once_and_its_numbers_stay(server: Any, experiment: Any) -> None:
    cell = experiment(CELL, steps=16)
    runner = server.runner()
    told = runner.leg(cell.order(16, slots=1))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    (line,) = [one["text"] for one in said(told, "says")]
    assert line.startswith("training waits ")
    assert " of its time for `batches`: DataLoader(…, num_workers=" in line
    assert 60 <= int(line.split()[2].rstrip("%")) <= 80  # 0.5 s of 0.7 s a step
    without = experiment(CELL.replace("time.sleep(0.05)", "pass").replace("time.sleep(0.1)", "pass"), steps=16)
    quick = runner.leg(without.order(16, slots=1))
    assert said(quick, "says") == []
    assert quick[-1]["metrics"] == told[-1]["metrics"]


STARVED = CELL.replace("time.sleep(0.05)", "time.sleep(0.1)").replace("        time.sleep(0.1)\n    trial", "    trial")


def test_points_travel_with_how_long_the_leg_has_trained_and_waited(server: Any, experiment: Any) -> None:
    cell = experiment(STARVED, steps=4)
    told = server.runner().leg(cell.order(2))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    pairs = [one["waited"] for one in said(told, "points")]
    assert len(pairs) == 2, "a step each, told at once"
    for step, (seconds, waited) in enumerate(pairs, 1):
        assert step * 1.0 <= waited <= seconds
    plain = server.runner().leg(experiment("for epoch in trial.steps():\n    trial.report(score=1.0)\n").order(2))
    assert all("waited" not in one for one in said(plain, "points")), "it asked no loader"
