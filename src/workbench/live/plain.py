"""Progress as plain lines, for logs and unattended notebooks. Law: whole lines, and few; a notebook keeps one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from workbench.status.board import Board, progress, sentence

#: Minimum seconds between two lines while only numbers change.
LINE_S = 5.0


class Progress:
    """Prints an experiment's progress: a line when its state changes, and otherwise at most one every ``every``
    seconds."""

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
        """Look at the store, and print a line if there is something new."""
        board = self._board
        board.look()
        state = board.status.state
        if board.is_ended:
            if self._state != state and board.is_settled:
                self._state = state
                self._say(sentence(board))
            return
        now = self._clock()
        line = progress(board)
        if state != self._state or (now - self._said_at >= self._every and line != self._line):
            self._state, self._said_at, self._line = state, now, line
            self._say(line)


class OneLine:
    """Shows a line as an output of the cell, in place of the one before: the executed notebook has only the newest."""

    def __init__(self) -> None:
        self._id = f"workbench-{uuid.uuid4().hex}"
        self._is_shown = False

    def __call__(self, line: str) -> None:
        from IPython.display import display

        display({"text/plain": line}, raw=True, display_id=self._id, update=self._is_shown)
        self._is_shown = True
