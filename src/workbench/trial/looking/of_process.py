"""What a process holds beside the names of the training code, and a resume lacks. Law: only what the loop has made or
changed counts; what the set-up makes again does not.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.snapshot.imported import loaded

LOG = (
    'the loop opened this log with mode="w": where it opens it again, what earlier steps logged is gone; open it '
    "before the loop"
)
FOLDER = (
    "a temporary folder goes with its process, and what the steps wrote there is in no checkpoint: use trial.folder"
)
#: Of a folder with more entries than this, only the time counts at which entries came or went.
MOST = 1000
AUTOCAST = (
    "it stays open over the steps, and torch goes on with weights as they were when it first converted them, which no "
    "checkpoint holds: open it in each step"
)


@dataclass(frozen=True, slots=True)
class OfProcess:
    """What there was at one moment: the handlers of log files by id, and temporary folders with what they held."""

    handlers: frozenset[int]
    folders: dict[str, dict[str, int]]

    @classmethod
    def now(cls) -> OfProcess:
        """What there is now."""
        return cls(frozenset(id(one) for one in _handlers()), {path: _inside(path) for path, _ in folders()})


def logs(before: OfProcess) -> Iterator[str]:
    """The log files that the loop has opened with ``"w"`` and holds open."""
    for handler in _handlers():
        if id(handler) not in before.handlers and handler.stream is not None and handler.mode.startswith("w"):
            yield os.path.basename(handler.baseFilename)


def is_written(before: OfProcess, path: str) -> bool:
    """Whether the steps have written into the temporary folder at ``path``."""
    return _inside(path) != before.folders.get(path, {})


def keeps_converted() -> bool:
    """Whether torch keeps weights that it has converted for ``torch.autocast``, since one stays open."""
    torch = loaded("torch")
    if torch is None or not torch.is_autocast_cache_enabled():
        return False
    return any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda"))


def _handlers() -> Iterable[Any]:
    logging = loaded("logging")
    held = () if logging is None else [reference() for reference in logging._handlerList]
    return [one for one in held if one is not None and isinstance(one, logging.FileHandler)]


def folders() -> list[tuple[str, Any]]:
    """Each ``tempfile.TemporaryDirectory`` that is there, by its path."""
    tempfile = loaded("tempfile")
    if tempfile is None:
        return []
    ends = list(weakref.finalize._registry.items())  # type: ignore[attr-defined]  # the objects themselves have no list
    found = [(info.args, info.weakref()) for _, info in ends]
    return [(os.fspath(args[0]), one) for args, one in found if type(one) is tempfile.TemporaryDirectory]


def _inside(path: str) -> dict[str, int]:
    try:
        with os.scandir(path) as entries:
            found = list(itertools.islice(entries, MOST + 1))
            if len(found) > MOST:
                return {os.curdir: os.stat(path).st_mtime_ns}
            return {one.name: one.stat(follow_symlinks=False).st_mtime_ns for one in found}
    except OSError:
        return {}
