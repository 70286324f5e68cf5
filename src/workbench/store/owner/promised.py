"""Free slots that are promised to claims which come first, and why one waits for slots. Law: pure, fields in and words
out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.store.owner.slots import Claimant, Holder


@dataclass(frozen=True, slots=True)
class Promise:
    """So many free slots are kept for a claim that comes first: of an experiment (its label) of a store, or of another
    user, of whom nothing else is known. since: when it began to wait (ISO 8601)."""

    slots: int
    store: str = ""
    experiment: str | None = None
    user: str = ""
    since: str = ""

    def __str__(self) -> str:
        who = self.store or self.experiment or "another search"
        return self.user or f"{who}{f' ({self.experiment})' if self.store and self.experiment else ''}"


@dataclass(frozen=True, slots=True)
class Lack:
    """Why an experiment of an engine waits, in words, and to which other one free slots are promised."""

    why: str
    promised: tuple[Promise, ...] = ()


def promise_of(said: Any) -> Promise:
    """A promise that was read from a file or a wire. Raises KeyError, TypeError, ValueError or OverflowError."""
    if not isinstance(said, Mapping):
        raise TypeError(f"promise {said!r}: expected an object")
    experiment = said.get("experiment")
    return Promise(
        max(0, int(said["slots"])),
        str(said.get("store", "")),
        None if experiment is None else str(experiment),
        str(said.get("user", "")),
        str(said.get("since", "")),
    )


def promises(free: Collection[str], others: Iterable[Claimant], goals: Mapping[str, int]) -> tuple[Promise, ...]:
    """Which of the ``free`` slots are promised to ``others``, who come first in this order.

    goals: how many slots each should have, by name. Slots beyond that are for anyone.
    """
    left, found = set(free), []
    for one in others:
        given = sorted(left & one.wants)[: max(0, min(goals.get(one.name, 0) - one.held, one.lacks))]
        left.difference_update(given)
        if given:
            experiment = one.experiments[0] if one.experiments else None
            found.append(Promise(len(given), one.store, experiment, one.user, one.since))
    return tuple(found)


def lack(
    held: Iterable[Holder],
    names: set[str],
    ours: set[str],
    unused: Collection[str] = (),
    unit: int = 1,
    has: int = 0,
    promised: Sequence[Promise] = (),
) -> str:
    """Why too few of the slots ``names`` are free, this engine's own left out. unused: names of drained slots. unit:
    how many slots a trial needs; has: how many this engine holds. promised: free slots that are for others."""
    taken = {holder.slot: str(holder) for holder in held if holder.slot in names - ours}
    others, words = Counter(taken.values()), []
    total, count = len(names), len(taken)
    if len(others) == 1:
        words.append(f"{count} of {total} {'is' if count == 1 else 'are'} held by {next(iter(others))}")
    elif others:
        words.append(f"{count} of {total} are held, " + ", ".join(f"{count} by {who}" for who, count in others.items()))
    if out := sorted(names.intersection(unused)):
        words.append(f"{', '.join(out)} {'is' if len(out) == 1 else 'are'} drained")
    free = len(names - ours - taken.keys() - set(unused))
    if free and (promised or (unit > 1 and (words or has))):
        words.insert(0, free_words(free, promised))
    if unit > 1 and has:
        words.insert(0, f"it has {has}")
    return f"{waits(unit)}: {'; '.join(words)}" if words else waits(unit)


def waits(unit: int) -> str:
    """That a trial waits for so many slots."""
    return "waits for a slot" if unit == 1 else f"waits for {unit} slots"


def free_words(free: int, promised: Iterable[Promise]) -> str:
    """How many slots are free, and which of these are promised to whom, since when.

    >>> free_words(3, [])
    '3 free'
    """
    parts = [f"{free} free"]
    for one in promised:
        since = clock(one.since)
        parts.append(f"{one.slots} promised to {one}{f' since {since}' if since else ''}")
    return ", ".join(parts)


def clock(since: str, now: datetime | None = None) -> str:
    """The time of day of an ISO 8601 time, here; with its date if it is not of the last day. Empty if it is none."""
    try:
        at = datetime.fromisoformat(since).astimezone()
    except (ValueError, OverflowError):
        return ""
    is_recent = timedelta(0) <= (now or datetime.now().astimezone()) - at < timedelta(hours=24)
    return at.strftime("%H:%M" if is_recent else "%Y-%m-%d %H:%M")
