"""Which setting of a DataLoader to change, where training waits for it. Law: pure; numbers in, a line out."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Training that waits for data more than this share of its time is told so: below, the best loader gains less than a
#: quarter.
WAITS = 0.2
#: Torch's own ``prefetch_factor``, and the one to try where no more workers fit: it bridges batches that take longer.
PREFETCH, MORE_PREFETCH = 2, 4
#: If more than this share of the waiting is at the ends of passes, starting and ending workers is what takes it.
ENDS = 0.5
#: If more than this share of the waiting is spent computing, another process on the same core gains nothing.
COMPUTES = 0.5


@dataclass(frozen=True, slots=True)
class Fed:
    """How a loader fed the training code.

    name: how the user knows it. share: of the training time, spent waiting for it. total: the same for all loaders.
    workers, prefetch, persistent: its settings. ends: of the waiting, the share where a pass begins or ends. computes:
    of the waiting, the share in which this process computed.
    """

    name: str
    share: float
    total: float
    workers: int = 0
    prefetch: int | None = None
    persistent: bool = False
    ends: float = 0.0
    computes: float = 0.0


def starved(one: Fed, slots: int, cores: int) -> str:
    """A line for the user whose training waits for ``one``. slots: those of the machine in which trials train, 0 if
    not known; cores: those that they share.

    >>> starved(Fed("loader", 0.6, 0.6), 2, 8)
    'training waits 60% of its time for loader: DataLoader(…, num_workers=3) loads batches while the model trains'
    """
    return f"training waits {one.share:.0%} of its time for {one.name}: {setting(one, slots, cores)}"


def setting(one: Fed, slots: int, cores: int) -> str:
    """What to change so that training waits less for ``one``, as a sentence without a stop."""
    room = cores // slots if slots else 1
    # The share in which the loader would not be waited for: so many workers keep up with it, as each loads at the speed
    # of one now.
    trains = max(1.0 - one.total, 0.01)
    if one.workers == 0:
        if room > 1 or (room == 1 and one.computes <= COMPUTES):
            several = min(room, _ceil(one.share / trains) + 1)
            return f"DataLoader(…, num_workers={several}) loads batches while the model trains"
        return f"{_no_room(room)}, so num_workers gains nothing. {_CACHE}"
    if one.ends > ENDS and not one.persistent:
        return (
            f"{one.ends:.0%} of the waiting is where its passes begin and end, and "
            "DataLoader(…, persistent_workers=True) keeps its workers between passes"
        )
    if one.workers < room:
        several = min(room, max(one.workers + 1, _ceil(one.workers * (trains + one.share) / trains)))
        return f"DataLoader(…, num_workers={several}) instead of {one.workers} loads batches faster"
    why = f"its {one.workers} worker{'s use' if one.workers > 1 else ' uses'} the cores of a slot already"
    if (one.prefetch or PREFETCH) <= PREFETCH:
        return f"{why}; DataLoader(…, prefetch_factor={MORE_PREFETCH}) bridges batches that take longer. {_CACHE}"
    return f"{why}. {_CACHE}"


_CACHE = "trial.cached prepares data once, in the set-up, instead of in each pass"


def _ceil(value: float) -> int:
    return math.ceil(value - 1e-6)  # shares are rounded numbers


def _no_room(room: int) -> str:
    return "it computes, and no core of the slot is free" if room else "there are more slots than cores"
