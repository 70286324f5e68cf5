"""Python's collector of cycles while a state is looked at. Law: it is afterwards as it was before."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Inside, the collector does not run by itself: it would find nothing among many small objects, again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
