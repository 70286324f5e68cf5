"""The options of a search, besides its goal and its scheduler. Law: each is defined here, once.

A train cell's options (:mod:`workbench.lab.grammar`), the settings of a launch and the spec take their names, types and
defaults from here.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.records import Json, Keep, Spec
from workbench.store.keeping.kept import LIMIT

#: Marks an option that changes no result: the same content with another value shows the earlier result.
_BESIDE = {"beside": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The options that cells, functions and the command line share."""

    trials: int | None = None
    #: The maximum number of slots.
    parallel: int | None = field(default=None, metadata=_BESIDE)
    #: Seconds after which the search is stopped.
    limit_s: float | None = field(default=None, metadata=_BESIDE)
    #: Slots of one trial.
    slots: float = 1
    #: Threads of one trial; None: one, unless a cell has called torch.set_num_threads.
    threads: int | None = None
    seed: int = 0
    deterministic: Literal["off", "seeded", "strict"] = "seeded"
    #: Steps (an int) or seconds (a float) between checkpoints inside levels; None: as often as they are cheap.
    save_every: int | float | None = field(default=None, metadata=_BESIDE)
    #: Seconds without a report after which a trial counts as hung; None: learned.
    hang_s: float | None = field(default=None, metadata=_BESIDE)
    #: Whether the first promotion is checked against an undisturbed turn.
    verify: bool = field(default=True, metadata=_BESIDE)
    #: Which checkpoints are kept.
    keep: Keep = field(default_factory=Keep, metadata=_BESIDE)
    #: Alert rules.
    alerts: tuple[str, ...] = field(default=(), metadata=_BESIDE)
    #: The URL to which checkpoints are copied.
    storage: str | None = field(default=None, metadata=_BESIDE)
    #: Other programs to which each trial is mirrored as a run, in the form of the spec.
    mirror: tuple[Json, ...] = field(default=(), metadata=_BESIDE)
    #: The maximum size in bytes at which a file read by training is kept; 0 keeps none.
    keep_data: int = field(default=LIMIT, metadata=_BESIDE)

    def chosen(self) -> dict[str, Any]:
        """The options by name."""
        return {name: getattr(self, name) for name in CHOICES}

    def recorded(self) -> dict[str, Any]:
        """The options that a spec has under the same name."""
        return {name: getattr(self, name) for name in _RECORDED}


CHOICES = tuple(one.name for one in dataclasses.fields(Choices))
#: Options that change no result.
BESIDES = tuple(one.name for one in dataclasses.fields(Choices) if one.metadata.get("beside"))
_RECORDED = tuple(name for name in CHOICES if name in {one.name for one in dataclasses.fields(Spec)})
