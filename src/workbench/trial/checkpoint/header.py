"""A checkpoint's header. Law: it can be read without the rest of the file."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from workbench.records import check_schema
from workbench.store.keeping.checkpoints import Folder
from workbench.trial.checkpoint import reading
from workbench.trial.looking import digests

#: The file with the header and everything except tensors.
GRAPH = "graph.pkl"
#: The schema of the graph: in the first, all of the header was in one pickle, and references were tuples.
SCHEMA = 2
#: Fields outside its plain part: the schema, which is read first, and what may hold more than numbers, texts, bytes and
#: containers of these.
_OTHERS = ("schema", "inside")


@dataclass(slots=True)
class Header:
    """A checkpoint's header.

    ended: the loop was over; resuming runs only the code after it, unless the trial is now longer than ``length``.
    """

    step: int
    ended: bool = False
    #: Reported values by step, so that a resumed leg can send them again.
    history: dict[int, dict[str, float]] = field(default_factory=dict)
    #: Digests of the files that ``trial.data`` named.
    data: dict[str, Any] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    #: Where in a turn it was taken, unless at its end: see ``batches.py``.
    inside: dict[str, Any] | None = None
    #: The options that the set-up gave each optimizer: see :attr:`workbench.trial.state.State.options`.
    options: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    #: Steps of the whole trial when it was taken.
    length: int = 0
    #: What the set-up made and the checkpoint does not contain: see :class:`workbench.trial.course.made.Made`.
    made: dict[str, Any] | None = None
    #: Names that the next turn assigns before it reads them: recorded when a check compares states.
    anew: list[str] = field(default_factory=list)
    #: Size and modification time of the files that the first set-up read, by path.
    read: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Of one of several ranks: what the order of later batches depends on, pickled.
    ranks: bytes | None = None
    #: The way in which objects were looked at for ``made``.
    way: int = digests.SAMPLES
    schema: int = SCHEMA

    def parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its entries for a graph: plain ones, and others. ``found`` is not saved."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "found"}
        return plain, {name: plain.pop(name) for name in _OTHERS}

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Header:
        """The header, from the entries at the start of a graph. Raises NewerSchema."""
        check_schema(saved, "this checkpoint", SCHEMA)
        return cls(**{name: value for name, value in saved.items() if name in cls.__dataclass_fields__})


def read_header(folder: Folder) -> Header:
    """The header of the checkpoint in ``folder``."""
    with opened(folder) as file:
        return Header.of(reading.read_header(file))


def opened(folder: Folder) -> BinaryIO:
    """The graph of the checkpoint in ``folder``, for reading in pieces."""
    file = folder / GRAPH
    return open(file, "rb") if isinstance(file, Path) else io.BytesIO(file.read_bytes())
