"""A runner's second thread: it sends what waits for company, however the thread rests when it begins to wait."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import NoReturn

import pytest
from running import until

from workbench.messages import Begun, LegOrder
from workbench.trial.process.runner import Runner, _Leg
from workbench.trial.process.wire import Connection


def order(*, is_short: bool) -> LegOrder:
    return LegOrder(
        store="", experiment="", trial=1, attempt=1, start=0, until=1, levels=frozenset({1}), max_steps=1,
        configuration={}, known_step=0, resume=False, is_short=is_short,
    )  # fmt: skip


class WorkerGone(Exception):
    """The worker's end is closed."""


class OneThread(Runner):
    """A runner that ends its second thread where another ends its process."""

    def _gone(self) -> NoReturn:
        raise WorkerGone

    def keep_in_touch(self) -> None:
        with contextlib.suppress(WorkerGone):
            self._keep_in_touch()


@pytest.fixture
def linked() -> Iterator[tuple[Runner, Connection]]:
    """A runner whose second thread runs, and the worker's end of its connection."""
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    runner = OneThread(Connection(theirs))
    thread = threading.Thread(target=runner.keep_in_touch)
    thread.start()
    yield runner, Connection(ours)
    ours.close()
    runner._busy.set()
    thread.join()
    runner.connection.close()


@pytest.mark.parametrize("before", [None, order(is_short=False), order(is_short=True)])
def test_the_beginning_of_a_short_leg_is_sent_soon(linked: tuple[Runner, Connection], before: LegOrder | None) -> None:
    """Also if the main thread received its order before the other thread, asleep since the leg before, saw it."""
    runner, worker = linked
    runner._running = None if before is None else _Leg(before)
    runner._busy.set()
    until(lambda: runner._rests, what="a resting thread")
    runner._running = _Leg(order(is_short=True))
    runner.send(Begun(step=0))
    assert worker.receive() == Begun(step=0)
