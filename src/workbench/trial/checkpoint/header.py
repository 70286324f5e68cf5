"""What a checkpoint says about itself. Law: it is read without anything that comes behind it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from workbench.records import SCHEMA, check_schema
from workbench.store.keeping.checkpoints import Folder
from workbench.trial import graph

#: The file with the header and all that is no tensor.
GRAPH = "graph.pkl"


@dataclass(slots=True)
class Header:
    """What a checkpoint says about itself.

    ended: the loop was over; resuming runs only the code after it, unless the trial is longer now than ``length``.
    """

    step: int
    ended: bool = False
    #: Reported values by step, so that a resumed leg can tell them again.
    history: dict[int, dict[str, float]] = field(default_factory=dict)
    #: Digests of the files that ``trial.data`` named.
    data: dict[str, Any] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    #: Where in a turn it was taken, if not at its end: see ``batches.py``.
    inside: dict[str, Any] | None = None
    #: What the set-up gave each optimizer: see :attr:`workbench.trial.state.State.options`.
    options: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    #: Steps of a whole trial when it was taken.
    length: int = 0
    #: What the set-up made, and the checkpoint does not hold: see :class:`workbench.trial.course.made.Made`.
    made: dict[str, Any] | None = None
    #: Names that the next turn gives anew before it reads them: noted where a check compares states.
    anew: list[str] = field(default_factory=list)
    #: Size and time of change of the files that the first set-up read, by path.
    read: dict[str, tuple[int, int]] = field(default_factory=dict)
    schema: int = SCHEMA

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> Header:
        """The header among what a graph begins with. Raises NewerSchema."""
        check_schema(saved, "this checkpoint")
        return cls(**{name: value for name, value in saved.items() if name in cls.__dataclass_fields__})


def read_header(folder: Folder) -> Header:
    """The header of the checkpoint in ``folder``."""
    with opened(folder) as file:
        return Header.of(graph.read_header(file))


def opened(folder: Folder) -> BinaryIO:
    """The graph of the checkpoint in ``folder``, which is read piece by piece."""
    file = folder / GRAPH
    return open(file, "rb") if isinstance(file, Path) else io.BytesIO(file.read_bytes())
