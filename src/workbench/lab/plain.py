"""Progress as plain lines, for logs and for notebooks that run without a person. Law: whole lines, and few of them."""

from __future__ import annotations

import time
from collections.abc import Callable

from workbench.lab.board import Board, duration, number
from workbench.lab.figure import sentence
from workbench.records import trial_label

#: Seconds between two lines at least, while only numbers change.
LINE_S = 5.0


class Progress:
    """Says how an experiment goes: a line when its state changes, and at most one every ``every`` seconds besides."""

    def __init__(
        self,
        board: Board,
        say: Callable[[str], None],
        every: float = LINE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board, self._say, self._every, self._clock = board, say, every, clock
        self._state = ""
        self._said_at = -every
        self._line = ""

    def look(self) -> None:
        """Look at the store, and say a line if there is something to say."""
        board = self._board
        board.look()
        if board.is_ended:
            if self._state != board.state:
                self._state = board.state
                self._say(sentence(board))
            return
        now = self._clock()
        line = progress(board)
        if board.state != self._state or (now - self._said_at >= self._every and line != self._line):
            self._state, self._said_at, self._line = board.state, now, line
            self._say(line)


def progress(board: Board) -> str:
    """``digits@1 running: 12 of 143 trials ended, best val_acc 0.9123 (t0007), 2 slots, about 42 s left``."""
    parts = []
    if board.trials or board.planned_trials:
        parts.append(f"{board.ended_trials} of {board.planned_trials or len(board.trials)} trials ended")
    if board.best is not None:
        parts.append(f"best {board.spec.goal.metric} {number(board.best[1])} ({trial_label(board.best[0])})")
    slots = board.meta.get("slots") or {}
    if slots.get("used"):
        parts.append(f"{slots['used']} slot{'s' * (slots['used'] != 1)}")
    left = board.meta.get("seconds_left")
    if left is not None:
        parts.append(f"about {duration(left)} left")
    return f"{board.spec.label} {board.state}" + (": " + ", ".join(parts) if parts else "")
