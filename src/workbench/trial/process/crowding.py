"""What goes wrong because trials train side by side. Law: the user is told once for each experiment.

torch warns about a loader with more workers than cores, but does not know that other trials train on the same cores.
A file that each set-up writes is emptied by one trial while another reads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workbench.store.files.atomic import FILE_MODE


def crowded(workers: int, slots: int, cores: int, parts: int = 1) -> str:
    """A line for the user if loaders with ``workers`` workers, one in each of ``slots`` slots of a machine, start more
    processes than it has ``cores``; empty if they do not. With several ``parts``, ``slots`` counts parts of slots.

    >>> crowded(8, 4, 8)
    'DataLoader(num_workers=8) in each of 4 slots: 32 worker processes on 8 cores. num_workers=2 uses the machine fully'
    """
    if workers * slots <= cores:
        return ""
    where = f" in each of {slots} {_places(parts)}" if slots > 1 else ""
    there = "1 core" if cores == 1 else f"{cores} cores"
    return (
        f"DataLoader(num_workers={workers}){where}: {workers * slots} worker processes on {there}. "
        f"num_workers={cores // slots} uses the machine fully"
    )


def _places(parts: int) -> str:
    return "slots" if parts == 1 else f"parts of slots ({parts} a slot)"


def shares_files(paths: Sequence[str], slots: int, parts: int = 1) -> str:
    """A line for the user if the set-ups of trials in ``slots`` slots write and read the files ``paths``; or empty.

    >>> shares_files(["/home/me/nlp/tokens.bin"], 1)
    ''
    """
    if not paths or slots < 2:
        return ""
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return (
        f"each set-up writes {', '.join(map(os.path.basename, paths[:3]))}{more} and reads it, while trials train in "
        f"{slots} {_places(parts)}: one may read what another has written in part. Write it in a cell before, keep it "
        "by trial.cached, or put it into trial.folder"
    )


class Crowding:
    """Looks at the loaders and files of one leg."""

    def __init__(self, slots: int, told: Path, says: Callable[[str], None], parts: int = 1) -> None:
        """slots: those of this machine in which trials train, or their parts, if they are divided into ``parts``; 0 if
        that is not known. told: exists once the user was told. says: tells the user."""
        self._slots, self._told, self._says, self._parts = slots, told, says, parts
        # Processes forked from this one are loaders' workers, or run the set-up a second time.
        self._pid = os.getpid()
        self._most = 0

    def look(self, loader: Any) -> None:
        """A pass over ``loader`` starts."""
        workers = loader.num_workers
        if workers <= self._most or not self._slots or os.getpid() != self._pid:
            return
        self._most = workers
        words = crowded(workers, self._slots, cores(), self._parts)
        if words and is_first(self._told):
            self._says(words)

    def look_at_files(self, paths: Sequence[str]) -> None:
        """A set-up is done that wrote and read these files."""
        words = shares_files(paths, self._slots, self._parts) if os.getpid() == self._pid else ""
        if words:
            self._says(words)


def is_first(told: Path) -> bool:
    """Whether the caller is the first leg of its experiment to ask about the file ``told``, which exists afterwards."""
    try:
        os.close(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except FileExistsError:
        return False
    except OSError:  # on a full disk the user is told by each leg
        return True
    return True


def cores() -> int:
    """The cores of this machine that its slots share."""
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        # dask-cuda binds each worker to the cores near its GPU, and other slots have the others.
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(0))
