"""A program that waits for a search replaces a killed engine, but not one that exited normally."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from running import engine_pid, engine_process, until

from workbench import asking
from workbench.errors import StoreReadOnly
from workbench.store import Store
from workbench.store.owner.lease import EngineLease


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asking, "time", clock)
    return clock


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> list[float]:
    """When engines were started. None is: this is about the times, which run to minutes on a clock of the test's."""
    times: list[float] = []
    monkeypatch.setattr(asking, "ensure_engine", lambda store, cluster: times.append(clock.now))
    return times


def wait(store: Store, clock: Clock, seconds: float) -> None:
    tend = asking.Tending(store)
    until = clock.now + seconds
    while clock.now < until:
        clock.now += 0.5
        tend()


def kill(store: Store) -> None:
    """Leave the store as a killed engine does: its lease is still written, but no process holds the lock."""
    lease = EngineLease.acquire(store)
    os.close(lease._descriptor)
    lease._descriptor = -1


def test_a_killed_engine_is_replaced(store: Store, clock: Clock, begun: list[float]) -> None:
    kill(store)
    wait(store, clock, 3)
    assert begun == [100.5]


def test_engines_that_die_one_after_the_other_are_replaced_ever_later(
    store: Store, clock: Clock, begun: list[float]
) -> None:
    kill(store)
    wait(store, clock, 100)
    assert begun == [100.5, 104.5, 112.5, 128.5, 160.5]


def test_a_living_engine_is_left_alone(store: Store, clock: Clock, begun: list[float]) -> None:
    with EngineLease.acquire(store):
        wait(store, clock, 10)
    assert begun == []


def test_an_engine_that_left_in_good_order_is_not_replaced(store: Store, clock: Clock, begun: list[float]) -> None:
    EngineLease.acquire(store).release()
    wait(store, clock, 10)
    assert begun == []


def test_who_may_not_write_the_store_only_waits(
    store: Store, clock: Clock, begun: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(store: Store, cluster: str | None) -> None:
        raise StoreReadOnly("it may not be written")

    kill(store)
    monkeypatch.setattr(asking, "ensure_engine", refused)
    wait(store, clock, 10)


def test_an_engine_that_is_ended_while_it_starts_gives_its_lease_back(store: Store) -> None:
    process = engine_process(store)
    until(lambda: engine_pid(store) == process.pid, what="the lease")
    process.send_signal(signal.SIGTERM)  # it is still importing what it needs
    assert process.wait(30) == 0
    assert not store.engine_json.exists()
