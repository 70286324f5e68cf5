"""What the end of a process says about its cause."""

from __future__ import annotations

import signal

import pytest

from workbench.cluster.workers.trouble import how_it_died


@pytest.mark.parametrize(
    ("status", "number", "out_of_memory", "has_begun", "cause"),
    [
        (None, signal.SIGKILL, True, True, "memory"),
        (None, signal.SIGKILL, False, True, "cluster"),
        (None, signal.SIGSEGV, False, True, "signal"),
        (1, None, False, True, "exit"),
        # The training code ended itself in this way.
        (143, None, False, True, "exit"),
        (None, signal.SIGTERM, False, True, "signal"),
        # An idle runner heard of the machine's shutdown while a leg was on its way there, or did not listen yet.
        (143, None, False, False, "preempted"),
        (None, signal.SIGTERM, False, False, "preempted"),
        (1, None, False, False, "exit"),
    ],
)
def test_the_cause_of_an_end(
    status: int | None, number: int | None, out_of_memory: bool, has_begun: bool, cause: str
) -> None:
    assert how_it_died(status, number, out_of_memory, has_begun=has_begun)[0] == cause
