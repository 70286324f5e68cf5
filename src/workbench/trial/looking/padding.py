"""The gaps between the fields of structured arrays. Law: nothing sets them, so they are no content.

Where a library fills such an array in C, they hold what was in that memory before: other bytes in each process.
"""

from __future__ import annotations

import functools
from typing import Any

from workbench.snapshot.imported import loaded


def cleared(array: Any) -> Any:
    """A copy with zeros in the gaps; the array itself if it has none, or has objects in it."""
    dtype = array.dtype
    if not dtype.names or dtype.hasobject or (gaps := _gaps(dtype)) is None:
        return array
    is_turned = array.flags.f_contiguous and not array.flags.c_contiguous
    made = array.copy("F" if is_turned else "C")
    flat = (made.T if is_turned else made).reshape(-1)
    flat.view("u1").reshape(-1, dtype.itemsize)[:, gaps] = 0
    return made


@functools.lru_cache(maxsize=256)
def _gaps(dtype: Any) -> Any:
    """Which bytes of an item belong to no field, as an array of booleans; None if all belong to one."""
    used = _used(dtype)
    return None if used.all() else ~used


def _used(dtype: Any) -> Any:
    numpy: Any = loaded("numpy")
    if dtype.subdtype is not None:
        part, shape = dtype.subdtype
        return numpy.tile(_used(part), int(numpy.prod(shape)))
    found = numpy.full(dtype.itemsize, not dtype.names)
    for name in dtype.names or ():
        part, offset = dtype.fields[name][:2]
        found[offset : offset + part.itemsize] |= _used(part)
    return found
