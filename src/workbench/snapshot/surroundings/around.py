"""What training gets from the process that launches it: variables, settings, threads. Law: all are read at one
moment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import BadOption
from workbench.records import Json
from workbench.snapshot.imported import imported
from workbench.snapshot.settings import settings
from workbench.snapshot.surroundings import variables
from workbench.snapshot.surroundings.variables import Variables

_CALL = re.compile(r"\bset_num_threads\s*\(")
#: Variables that set libraries' number of threads.
_TOLD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Around:
    """The surroundings of one launch. notes: what is not passed on, in words."""

    variables: Variables = field(default_factory=Variables)
    settings: dict[str, Json] = field(default_factory=dict)
    threads: int = 1
    hash_seed: int = 0
    notes: tuple[str, ...] = ()

    @classmethod
    def here(cls, wanted: int | None = None, texts: Iterable[str] = ()) -> Around:
        """Those of this process now. ``wanted``: the number of threads that the user gave. texts: the executed cells.

        Raises BadSetting for a setting that cannot be passed on.
        """
        threads, notes = threads_of(imported("torch"), wanted, texts)
        return cls(variables.here(), settings.here(), threads, _hash_seed(), notes)


def threads_of(torch: Any, wanted: int | None, texts: Iterable[str]) -> tuple[int, tuple[str, ...]]:
    """How many threads a trial uses, and a note for the user.

    It is 1, so that results do not depend on the machine, unless the user gave another number or a cell has called
    ``torch.set_num_threads``: then ``torch`` (None: not imported) has a number different from its initial one, or the
    call is in one of ``texts``.
    """
    if wanted is not None:
        return wanted, ()
    now = int(torch.get_num_threads()) if hasattr(torch, "get_num_threads") else None
    if now is not None and (now not in usual_threads() or any(_CALL.search(text) for text in texts)):
        return now, ()
    told = next((f"{name}={os.environ[name]}" for name in _TOLD if os.environ.get(name, "1") not in ("", "1")), None)
    if told is None:
        return 1, ()
    return 1, (f"{told} is not passed on: a trial uses 1 thread; set another number with --threads",)


def usual_threads() -> frozenset[int]:
    """The possible initial numbers of torch's threads in this process."""
    cores = {os.cpu_count() or 1, len(os.sched_getaffinity(0)), _physical_cores()}
    told = {int(os.environ[name]) for name in _TOLD if os.environ.get(name, "").isdecimal()}
    return frozenset(cores | told)


def checked_threads(given: Any, option: str = "--threads") -> int:
    """``given``, if a trial can use that many threads. Raises BadOption."""
    cores = len(os.sched_getaffinity(0))
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= cores:
        sign = "" if option.endswith("=") else " "
        raise BadOption(
            f"{option}{sign}{given}: expected a whole number from 1 to {cores}, the cores that this machine lets us "
            f"use. For example: {option}{sign}{min(2, cores)}."
        )
    return given


def _physical_cores() -> int:
    """The number of physical cores; some builds of torch start with this many threads."""
    found = set()
    for cpu in os.sched_getaffinity(0):
        try:
            found.add(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            return os.cpu_count() or 1
    return len(found)


def _hash_seed() -> int:
    """The value of ``PYTHONHASHSEED``, or 0: hashes are never random."""
    told = os.environ.get("PYTHONHASHSEED", "")
    return int(told) if told.isdecimal() and int(told) < 2**32 else 0
