"""Errors of training code for users: with the lines of their code, not Workbench's."""

from __future__ import annotations

import linecache
import traceback
import types
from pathlib import Path
from typing import Any

from workbench.errors import BadMetric, CannotResume, StaleAttempt, StoreError
from workbench.trial.api.trial import LegLeft
from workbench.trial.process.devices import device_memory

_OURS = str(Path(__file__).resolve().parent.parent)


def show_source(filename: str, source: str) -> None:
    """Have tracebacks show the lines of ``source`` under ``filename``, which does not exist as a file."""
    # Without a modification time, `linecache.checkcache` keeps the entry.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)


def describe(error: BaseException, filename: str, *, missing_goal: bool = False) -> dict[str, Any]:
    """Type, message, traceback (without Workbench's frames), cell line and cause of an error of training code."""
    frames = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith((_OURS, "<frozen"))
    ]
    lines = [line for frame, line in frames if frame.f_code.co_filename == filename]
    if isinstance(error, SyntaxError) and error.filename == filename and error.lineno:
        lines.append(error.lineno)
    why = cause(error, missing_goal=missing_goal)
    memory = device_memory() if why == "cuda_out_of_memory" else None
    return {
        "type": type(error).__name__,
        "message": _message(error),
        "traceback": "".join(_lines(error)),
        "line": lines[-1] if lines else None,
        "cause": why,
        **({"device_memory": memory} if memory else {}),
    }


def cause(error: BaseException, *, missing_goal: bool = False) -> str:
    """The kind of failure: it decides about retries and hints."""
    if missing_goal:
        return "missing_goal"
    if isinstance(error, SystemExit):
        return "exit"
    if isinstance(error, BadMetric):
        return "bad_metric"
    if isinstance(error, CannotResume):
        return "cannot_resume"
    if isinstance(error, StaleAttempt):
        return "stale_attempt"
    if isinstance(error, StoreError):
        return "store"
    if type(error).__name__ == "OutOfMemoryError" and type(error).__module__.startswith("torch"):
        return "cuda_out_of_memory"
    if isinstance(error, RuntimeError) and "CUDA" in str(error) and "out of memory" in str(error):
        return "cuda_out_of_memory"
    return "exception"


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return (
            f"the training code called exit({error.code!r}); the end of its log may say why. A trial ends when its "
            "code does: leave the loop with break, or raise an error that says what is wrong."
        )
    if isinstance(error, EOFError) and "reading a line" in str(error):
        return (
            "input() was called, but a trial has no keyboard input. Give the value in a cell above, or make it a "
            "hyperparameter."
        )
    if isinstance(error, LegLeft):
        return "the leg was left"
    return str(error)


def _lines(error: BaseException) -> list[str]:
    summary = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
    _trim(summary)
    return list(summary.format())


def _trim(summary: traceback.TracebackException) -> None:
    """Drop Workbench's frames: those that run the cell, and those inside ``trial`` below a call of the cell."""
    kept = [frame for frame in summary.stack if not frame.filename.startswith((_OURS, "<frozen runpy>"))]
    summary.stack = traceback.StackSummary.from_list(kept)
    for other in (summary.__cause__, summary.__context__):
        if other is not None:
            _trim(other)


def forget_frames(error: BaseException) -> None:
    """Release the frames that an error holds, and everything that their locals hold."""
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None:
            tb: types.TracebackType | None = one.__traceback__
            traceback.clear_frames(tb)
            one.__traceback__ = None
            waiting += [one.__cause__, one.__context__]
            one.__cause__ = one.__context__ = None
