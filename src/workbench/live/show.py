"""Showing an experiment: live, in a terminal, or in a log. Law: showing decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import html
import sys
import threading
import uuid
from collections.abc import Generator
from typing import Any, Literal, Protocol

from workbench.live.plain import OneLine, Progress
from workbench.status.board import Board, sentence
from workbench.status.waiting import Pauses, interrupted
from workbench.store import Store

#: Seconds between looks while a cell waits; an interrupt is noticed within them.
LOOK_S = 0.1

Face = Literal["live", "batch", "terminal", "log"]
#: Of an output whose live view has ended: the view's names (workbench_ext/frontend/src/notebook/viewed.ts).
FINISHED = "application/vnd.workbench.finished+json"


class Watched(Protocol):
    """What is shown: an experiment in a person's hands, which takes what the view's buttons ask."""

    store: Store

    @property
    def id(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def changed(self) -> list[str]: ...

    def stop(self, trial: int | None) -> None: ...


def face(shell: Any) -> Face:
    """How to show it: in a notebook with a person (*live*) or without (*batch*), in a terminal, or in a log.

    With each cell, a notebook's frontend says that it can ask the user for input. Programs that execute notebooks
    unattended (nbclient, and so papermill, nbconvert and ``jupyter execute``) say that they cannot.
    """
    if shell is None or getattr(shell, "kernel", None) is None:
        return "terminal" if sys.stdin is not None and sys.stdin.isatty() else "log"
    parent = shell.get_parent() if hasattr(shell, "get_parent") else shell.parent_header
    return "live" if parent.get("content", {}).get("allow_stdin", False) else "batch"


class Shown:
    """An experiment on a notebook's page: live while it runs, then a static figure."""

    def __init__(self, experiment: Watched) -> None:
        from IPython.display import display

        from workbench.asking import Tending
        from workbench.live.view import LiveView

        self.experiment = experiment
        self._display_id = f"workbench-{uuid.uuid4().hex}"
        # The view of an experiment that has ended leaves at once, from its own thread: not before it is there.
        self._is_displayed = threading.Event()
        board = self._board = Board(experiment.store, experiment.id)
        self.view = LiveView(board, self._asked, experiment.changed, self._leave, self._kept, Tending(experiment.store))
        display(self.view, display_id=self._display_id, metadata=named(experiment))
        self._is_displayed.set()

    def _asked(self, kind: str, trial: int | None) -> None:
        if kind == "stop":
            self.experiment.stop(trial)
        else:
            getattr(self.experiment, kind)()

    def _kept(self, board: Board) -> dict[str, Any]:
        """:func:`result`; with curves also the live view, which JupyterLab shows instead while the kernel has it."""
        return {**({FINISHED: self.view.names} if board.curves else {}), **result(board)}

    def _leave(self, board: Board) -> None:
        """Replace the live view by what stays."""
        from IPython.display import update_display

        self._is_displayed.wait()
        kept, told = self._kept(board), _described(self.experiment, board)
        update_display(kept, raw=True, display_id=self._display_id, metadata=told)

    async def until_end(self) -> None:
        """Wait, without blocking the kernel's loop, until the figure is shown. Raises Paused; the view stays."""
        pauses = Pauses(self.experiment.label)
        while not self.view.left.is_set():
            if not self._board.is_ended:
                pauses.check(self._board.meta)
            await asyncio.sleep(LOOK_S)


def result(board: Board) -> dict[str, Any]:
    """What the notebook keeps: the figure, or a sentence if no trial reported anything."""
    from workbench.status import figure

    if board.curves:
        return figure.bundle(board)
    error = next((row["error"] for row in board.trials.values() if row.get("error")), None)
    trace = str(error.get("traceback") or error.get("message") or "") if isinstance(error, dict) else str(error or "")
    words = sentence(board)
    return {
        "text/plain": f"{words}\n{trace}".rstrip(),
        "text/html": f"<div>{html.escape(words)}</div>" + (f"<pre>{html.escape(trace)}</pre>" if trace else ""),
    }


def named(experiment: Watched) -> dict[str, Any]:
    """What a saved notebook keeps beside the figure, so that the panel finds the experiment of a cell."""
    return {"workbench": {"experiment": experiment.id}}


def _described(experiment: Watched, board: Board) -> dict[str, Any]:
    """:func:`named`, with the picture in words for people who do not see it; nbconvert writes them into its pages."""
    return {**named(experiment), "image/png": {"alt": sentence(board)}}


def show_result(experiment: Watched) -> None:
    """The figure of an experiment that has ended."""
    from IPython.display import display

    board = Board(experiment.store, experiment.id)
    board.look()
    display(result(board), raw=True, metadata=_described(experiment, board))
    board.close()


async def follow(experiment: Watched, looker: Face) -> None:
    """Show progress in plain lines until it has ended, without blocking the kernel's loop. Raises Paused."""
    with contextlib.closing(_looks(experiment, looker)) as looks:
        for _ in looks:
            await asyncio.sleep(LOOK_S)


def watch(experiment: Watched) -> None:
    """Show it live in a notebook; elsewhere print lines until it has ended, or raise Paused."""
    import time

    from IPython import get_ipython

    looker = face(get_ipython())
    if looker == "live":
        Shown(experiment)
        return
    try:
        with contextlib.closing(_looks(experiment, looker)) as looks:
            for _ in looks:
                time.sleep(LOOK_S)
    except KeyboardInterrupt:
        raise interrupted(experiment.label) from None


def _looks(experiment: Watched, looker: Face) -> Generator[None, None, None]:
    """Show progress in plain lines until it has ended; the caller waits between steps of the generator. Raises
    Paused."""
    from workbench.asking import Tending

    board, tend = Board(experiment.store, experiment.id), Tending(experiment.store)
    lines = Progress(board, OneLine() if looker == "batch" else say)
    pauses = Pauses(experiment.label, say)
    try:
        while not board.is_settled:
            lines.look()
            if not board.is_ended:
                pauses.check(board.meta)
            if not board.is_settled:
                tend()
                yield
    finally:
        board.close()


def say(line: str) -> None:
    """Print one whole line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
