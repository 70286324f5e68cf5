"""Which code is the user's. Law: neither Python's, nor an installed package's, nor Workbench's."""

from __future__ import annotations

import functools
import os
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path

from workbench.interpreter import PACKAGE

_NOT_OWN = tuple(
    os.path.join(folder, "")
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(PACKAGE))
)
_INSTALLED = frozenset({"site-packages", "dist-packages"})


@functools.cache
def is_own(filename: str) -> bool:
    """Whether code from ``filename`` is the user's: a cell, a script, a module of a project.

    >>> is_own("<digits@1>"), is_own("/home/me/train.py"), is_own("/opt/venv/lib/python3.11/site-packages/torch/a.py")
    (True, True, False)
    """
    if filename.startswith(("<frozen", "<string", "<__array", *_NOT_OWN)):
        return False
    return _INSTALLED.isdisjoint(Path(filename).parts)


def own_frames(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """``frame`` and its callers, the innermost first, as far as they run the user's code."""
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back
