"""Waiting until an experiment has ended. Law: a killed engine is replaced, and a pause that never ends is an error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from workbench.asking import Tending
from workbench.status.board import Board
from workbench.status.waiting import LOOK_S, Pauses, interrupted


def wait(board: Board, look: Callable[[], Board], timeout: float | None) -> None:
    """Return once it has ended. look: reads what is new. Raises TimeoutError after ``timeout`` seconds, and Paused."""
    label = board.label
    deadline, tend = None if timeout is None else time.monotonic() + timeout, Tending(board.store)
    pauses = Pauses(label)
    try:
        while not (board := look()).is_resting:
            pauses.check(board.meta)
            tend()
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{label} has not ended within {timeout:g} s; it continues.")
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        raise interrupted(label) from None


async def wait_beside(board: Board, look: Callable[[], Board]) -> None:
    """The same while the event loop stays free."""
    pauses, tend = Pauses(board.label), Tending(board.store)
    while not (board := look()).is_resting:
        pauses.check(board.meta)
        await asyncio.to_thread(tend)  # to start an engine may take a second
        await asyncio.sleep(LOOK_S)
