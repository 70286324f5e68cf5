"""The options of a search, besides its goal and its scheduler.

A train cell's options (:mod:`workbench.experiment.grammar`), the settings of a launch and the spec take their names,
types and defaults from here, and from :class:`workbench.records.Recorded`.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal, get_args, get_origin, get_type_hints

from workbench.errors import BadOption
from workbench.records import BESIDE, Recorded
from workbench.records.sizes import MOST_PER_SLOT


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


def check_words(given: Any, written: str = "--") -> None:
    """Raise BadOption for a field of the settings or the scheduler that is not one of the words that its type lists.

    written: empty for the function form, which has ``deterministic="strict"``.
    """
    for name, kind in get_type_hints(Recorded if isinstance(given, Recorded) else type(given)).items():
        words, value = get_args(kind), getattr(given, name)
        if get_origin(kind) is Literal and value not in words:
            flag = f"--{name} {value}" if written else f"{name}={value!r}"
            example = f"--{name} {words[-1]}" if written else f"{name}={words[-1]!r}"
            raise BadOption(f"{flag}: expected one of {', '.join(map(repr, words))}. For example: {example}.")


def seed_of(given: Any, written: str = "--") -> int:
    """The seed as a whole number. Raises BadOption for others: 1.0 and True would draw another search than 1."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < 0:
        flag, example = (f"--seed {given}", "--seed 0") if written else (f"seed={given!r}", "seed=0")
        raise BadOption(f"{flag}: expected a whole number of 0 or more. For example: {example}.")
    return int(given)


#: Options that change no result.
BESIDES = tuple(one.name for one in dataclasses.fields(Choices) if one.metadata.get("beside"))
#: The most slots of one trial.
MOST_SLOTS = 100_000
#: As many trials share a slot as fit.
AUTO = "auto"
#: What ``slots`` may be, in words.
SLOTS = (
    "a whole number of slots (cores or GPUs) for each trial, from 1 on, or a part of one slot from 1/16 to 1/2, such "
    "as 0.25, with which 4 trials train in each slot at the same time, or the fewest and the most, such as 2-8, or "
    "auto, with which as many trials train in each slot as one's measured memory and processor time allow"
)


def is_slots(given: Any) -> bool:
    """Whether a trial can have so many slots, or such a part of one."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= MOST_SLOTS:
        return False
    return given == int(given) if given >= 1 else 1 / MOST_PER_SLOT <= given <= 0.5


def slots_of(given: Any, written: str = "--") -> dict[str, Any]:
    """The settings that ``--slots`` stands for: a number as it is, ``2-8`` or ``auto``. Raises BadOption for a range
    that is none.

    >>> slots_of("2-8"), slots_of("auto"), slots_of(0.25)
    ({'slots_least': 2, 'slots': 8}, {'packs': True, 'slots': 1}, {'slots': 0.25})
    """
    if given == AUTO:
        return {"packs": True, "slots": 1}
    if isinstance(given, str) and "-" in given:
        least, most = slots_range(given, written)
        return {"slots_least": least, "slots": most}
    return {"slots": given}


def slots_range(text: str, written: str = "--") -> tuple[int, int]:
    """The fewest and the most slots of one trial, from ``2-8``. Raises BadOption.

    written: empty for the function form, which has ``slots="2-8"``.
    """
    match = re.fullmatch(r"(\d{1,6})-(\d{1,6})", text)
    least, most = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= least <= most <= MOST_SLOTS:
        low, high = sorted((max(least, 1), most)) if 1 <= most <= MOST_SLOTS else (2, 8)
        given, write = f"--slots {text}", f"--slots {low}-{high}"
        if not written:
            given, write = f"slots={text!r}", f'slots="{low}-{high}"'
        raise BadOption(
            f"{given}: expected the fewest and the most slots of one trial, two whole numbers, 1 ≤ fewest ≤ most ≤ "
            f"{MOST_SLOTS}. For example: {write}."
        )
    return least, most
