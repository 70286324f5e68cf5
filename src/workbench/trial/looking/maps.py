"""Arrays mapped from files: ``numpy.memmap``. Law: after a resume, training writes into the same file as before.

NumPy pickles such an array as a copy, which no file belongs to.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from workbench.snapshot.imported import loaded
from workbench.trial.kinds import Array, IsLeft, See, Token, base_of, buffer_of_array, offset_of
from workbench.trial.looking import memory
from workbench.trial.looking.digests import digest_of_buffer

_WRITES = ("r+", "w+")
#: Whether maps that the loop made are made again as copies, and whether a map of the set-up, given its file, keeps what
#: that holds.
_copies = False
_keeps: Callable[[str], bool] | None = None


class Map(Array):
    """The map that the set-up has made again gets its content, and so does its file."""

    def look(self, obj: Any, see: See) -> Token:
        if not obj.flags.writeable or obj.dtype.hasobject or base_of(obj) is not None:
            return super().look(obj, see)
        # What training writes counts whole, also where it is large.
        return (obj.dtype.str, obj.shape, obj.strides, digest_of_buffer(buffer_of_array(obj)))

    def content(self, obj: Any, left: IsLeft) -> Any:
        content = super().content(obj, left)
        return None if content is None else loaded("numpy").asarray(content)

    def put(self, obj: Any, content: Any) -> None:
        if content is not None and obj.flags.writeable and not (_keeps and _keeps(str(obj.filename))):
            obj[...] = content


MAP = Map()


@contextlib.contextmanager
def files_as_they_are(is_copied: Callable[[str], bool] | None = None, *, is_fork: bool = False) -> Iterator[None]:
    """Within it, maps that the loop made are made again as copies, and no file of a trained trial is written.

    is_copied: whether the set-up has a copy instead of this file, which gets what the trial had. is_fork: the set-up's
    maps are another trial's own, and get what its parent had.
    """
    global _copies, _keeps
    before = _copies, _keeps  # a set-up that is loaded may load another trial
    _copies, _keeps = True, None if is_fork else (lambda file: is_copied is None or not is_copied(file))
    try:
        yield
    finally:
        _copies, _keeps = before


def is_loaded() -> bool:
    """Whether a trial is only loaded: nothing is trained."""
    return _keeps is not None


def is_fork() -> bool:
    """Whether a fork goes on from another trial's checkpoint."""
    return _copies and _keeps is None


def reduced(array: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """The function that makes a map, or a view of one, again, and its arguments; None for what NumPy does itself."""
    base, dtype = base_of(array), array.dtype
    if dtype.hasobject or array._mmap is None or array.mode not in _WRITES:
        return None
    if base is not None:
        return memory.array_on, (base, dtype, array.shape, array.strides, offset_of(array, base), array.flags.writeable)
    if array.filename is None:
        return None
    order = "C" if array.flags.c_contiguous else "F"
    return mapped, (str(array.filename), dtype, array.offset, array.shape, order, loaded("numpy").array(array))


def mapped(path: str, dtype: Any, offset: int, shape: tuple[int, ...], order: Any, content: Any) -> Any:
    """A map of the file, with this content."""
    if _copies:
        return content
    numpy = loaded("numpy")
    try:
        made = numpy.memmap(path, dtype, "r+", offset, shape, order)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        made = numpy.memmap(path, dtype, "w+", offset, shape, order)
    made[...] = content
    return made
