"""The names that hold a trial's state: those of the cell, and the locals of the functions around its loop."""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import sys
import sysconfig
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workbench.trial.discovery import Names
from workbench.trial.looking.names import of_training

_OURS = str(Path(__file__).resolve().parent.parent)


def roots(main: dict[str, Any], frames: list[types.FrameType], hidden: Iterable[str]) -> list[Names]:
    """The roots of surveys: the cell's namespace without ``hidden`` names, then the frames, outermost first."""
    found = [_of_namespace(main, frozenset(hidden))]
    return [*found, *frame_roots(frames, found)]


def frame_roots(frames: Iterable[types.FrameType], beside: Iterable[Names]) -> list[Names]:
    """The locals of ``frames`` (outermost first) as roots, with labels that differ from those of ``beside``."""
    found: list[Names] = []
    labels = {root.label for root in beside}
    for frame in frames:
        label = f"{frame.f_code.co_qualname}():"
        while label in labels:  # a recursive function
            label = f"{label[:-1]}+:"
        labels.add(label)
        found.append(_of_frame(frame, label))
    return found


def frames_around(
    frame: types.FrameType | None, main: dict[str, Any], top: types.CodeType | None
) -> list[types.FrameType]:
    """The frames of the training code's functions from ``frame`` up to the code ``top`` that runs it, outermost first.

    The top level of the cell is not included, nor are frames of installed libraries (a progress bar around the
    steps), except for the library whose function has the loop (a trainer's ``run``).
    """
    found, owner = [], _owner(frame, main)
    while frame is not None and frame.f_code is not top:
        if frame.f_locals is not main and frame.f_code.co_name != "<module>" and _counts(frame, main, owner):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def loop_frame(frame: types.FrameType | None, main: dict[str, Any]) -> types.FrameType | None:
    """The innermost frame of the training code at or above ``frame``: the one that runs the loop."""
    owner = _owner(frame, main)
    while frame is not None and frame.f_locals is not main and not _counts(frame, main, owner):
        frame = frame.f_back
    return frame


def _owner(frame: types.FrameType | None, main: dict[str, Any]) -> str:
    """The package of the installed library whose function has the loop; empty if the loop is the user's.

    Generators and iterators between the loop and its steps only forward them.
    """
    while frame is not None and frame.f_locals is not main and not is_users(frame, main):
        if not _hands_on(frame):
            path = frame.f_code.co_filename
            return "" if path.startswith((_OURS, "<frozen")) or not path.startswith(_libraries()) else _package(frame)
        frame = frame.f_back
    return ""


def _counts(frame: types.FrameType, main: dict[str, Any], owner: str) -> bool:
    """Whether the locals of ``frame`` are state: those of the user's functions and of the library with the loop are."""
    return is_users(frame, main) or (bool(owner) and _package(frame) == owner and not _hands_on(frame))


def _hands_on(frame: types.FrameType) -> bool:
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) or frame.f_code.co_name in ("__next__", "__iter__")


def _package(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__") or "").partition(".")[0]


def is_users(frame: types.FrameType, main: dict[str, Any]) -> bool:
    """Whether the code of ``frame`` is the user's: neither a library's nor ours."""
    if frame.f_globals is main:
        return True
    return not frame.f_code.co_filename.startswith((_OURS, *_installed(), "<frozen"))


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return (*_libraries(), paths["stdlib"], paths["platstdlib"])


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Folders of installed libraries, except Python's own; a user's and the system's too."""
    paths = sysconfig.get_paths()
    found = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    return tuple({paths["purelib"], paths["platlib"], *found})


def _of_namespace(main: dict[str, Any], hidden: frozenset[str]) -> Names:
    def values() -> dict[str, Any]:
        return {name: value for name, value in of_training(main).items() if name not in hidden}

    def put(changed: dict[str, Any], gone: list[str]) -> None:
        main.update(of_training(changed))  # earlier versions saved more
        for name in gone:
            main.pop(name, None)

    return Names("", values, put)


def _of_frame(frame: types.FrameType, label: str) -> Names:
    def values() -> dict[str, Any]:
        return dict(frame.f_locals)

    def put(changed: dict[str, Any], gone: list[str]) -> None:
        # Up to 3.12 `f_locals` is a copy, and fetching it again discards changes: fetched once, then
        # written back. From 3.13 on it writes through.
        names = frame.f_locals
        names.update(changed)
        if sys.version_info < (3, 13):
            for name in gone:
                names.pop(name, None)
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(1))

    return Names(label, values, put, frame)
