"""The options of a search, besides its goal and its scheduler.

A train cell's options (:mod:`workbench.experiment.grammar`), the settings of a launch and the spec take their names,
types and defaults from here, and from :class:`workbench.records.Recorded`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from workbench.records import BESIDE, Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices(Recorded):
    """The options that cells, functions and the command line share: a spec's own, and two that it keeps in another
    form."""

    #: Threads of one trial; None: one, unless a cell has called torch.set_num_threads.
    threads: int | None = None
    #: Steps (an int) or seconds (a float) between checkpoints inside levels; None: as often as they are cheap.
    save_every: int | float | None = field(default=None, metadata=BESIDE)

    def chosen(self) -> dict[str, Any]:
        """The options by name."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(Choices)}


#: Options that change no result.
BESIDES = tuple(one.name for one in dataclasses.fields(Choices) if one.metadata.get("beside"))
