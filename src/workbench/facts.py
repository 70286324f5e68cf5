"""What the search core is told and what it orders, and both as lines of a journal. Law: data only; nothing decides.

Facts are past (*Reached*), instructions are imperative (*Run*).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from workbench.records import Json, plain_value, value_of

# ---------------------------------------------------------------------------------------------------------------------
# Facts: what the search core is told


@dataclass(frozen=True, slots=True)
class CapacityChanged:
    """The number of slots this experiment may fill from now on."""

    slots: int


@dataclass(frozen=True, slots=True)
class Reached:
    """A trial's goal metric at a level, as reported (sign not applied). nan, infinities and None rank last."""

    trial: int
    step: int
    value: float | None


@dataclass(frozen=True, slots=True)
class Ended:
    """The training code ended by itself after ``step`` turns (max_steps, or a ``break``). Its slot is free.

    value: the goal's newest; None where it was never reported.
    """

    trial: int
    step: int
    value: float | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The trial failed for good, by its own fault. Its slot is free."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A leg went away without an outcome, and the trial goes on. Its slot is free."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class Left:
    """A leg that was told to stop is gone. Its slot is free."""

    trial: int


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A person (or a time limit) asked to stop one trial, or with ``trial=None`` the whole experiment.

    ``then`` is what the whole experiment becomes: *failed* where it cannot be trained at all.
    """

    trial: int | None
    reason: str
    then: Literal["stopped", "failed"] = "stopped"


#: Why a search pauses: a person asked, the disk or the quota has no room, packages changed where it trains, the folder
#: in which it trains is gone, or a person has paused all trials that are left.
PauseCause = Literal["person", "room", "packages", "folder", "trials"]
#: Those of them that the engine ends by itself: there is room again, or the folder is there again.
ENDS_BY_ITSELF: frozenset[str] = frozenset({"room", "folder"})


@dataclass(frozen=True, slots=True)
class PauseAsked:
    """It was asked, by a person or by the engine, that no new leg starts and that running ones save and leave.

    ``trial``: a person asked it of this trial only. The others go on, and its place in its rung stays taken.
    """

    reason: str
    cause: PauseCause = "person"
    trial: int | None = None


@dataclass(frozen=True, slots=True)
class RoomAsked:
    """The engine asked that a running trial saves, leaves its slot to another experiment, and continues later."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class ResumeAsked:
    """A person asked that a paused experiment goes on.

    ``trial``: that only this trial goes on, which a person has paused or stopped.
    """

    reason: str
    trial: int | None = None


@dataclass(frozen=True, slots=True)
class Extended:
    """A person made the search longer: ``trials`` more of them, ``last`` steps for each (None: as many as before).

    A search that had ended, or had been stopped, goes on; what was decided stays. ``seconds``: of a new time limit, or
    more of the one there is. ``request``: the one that asked for it, which is carried out once.
    """

    reason: str
    trials: int = 0
    last: int | None = None
    seconds: float | None = None
    request: str = ""


Fact = (
    CapacityChanged
    | Reached
    | Ended
    | Failed
    | Lost
    | Left
    | StopAsked
    | PauseAsked
    | RoomAsked
    | ResumeAsked
    | Extended
)

# ---------------------------------------------------------------------------------------------------------------------
# Instructions: what the search core orders


@dataclass(frozen=True, slots=True)
class Run:
    """Train ``trial`` from ``start`` turns done to ``until``; it takes one slot from now on."""

    trial: int
    start: int
    until: int
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the running leg of ``trial``; the slot is free when ``Left`` (or another end) comes back.

    ``then`` is the state the trial has afterwards.
    """

    trial: int
    reason: str
    then: Literal["stopped", "paused"] = "stopped"


@dataclass(frozen=True, slots=True)
class Settle:
    """``trial`` holds no slot and is now in ``state``, for ``reason`` (in words and numbers)."""

    trial: int
    state: Literal["paused", "completed", "stopped", "failed"]
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to run: the experiment is now in ``state``."""

    state: Literal["completed", "stopped", "failed"]
    reason: str


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing can run until a person resumes one of the trials that a person has paused."""

    reason: str


Instruction = Run | Stop | Settle | Finish | Rest

_FACTS: dict[str, type] = {kind.__name__: kind for kind in get_args(Fact)}
_INSTRUCTIONS: dict[str, type] = {kind.__name__: kind for kind in (Run, Stop, Settle, Finish, Rest)}

# ---------------------------------------------------------------------------------------------------------------------
# Lines


def to_line(record: Fact | Instruction) -> dict[str, Json]:
    """The record as a journal line's content: its fields, and its kind under ``kind``."""
    line = {"kind": type(record).__name__, **{f.name: getattr(record, f.name) for f in dataclasses.fields(record)}}
    if "value" in line:
        line["value"] = plain_value(line["value"])
    return line


def fact_from_line(line: Mapping[str, Json]) -> Fact | None:
    """The fact that a journal line holds, or None if the line is not for the search core."""
    fact: Fact | None = _from_line(_FACTS, line)
    if isinstance(fact, PauseAsked) and "cause" not in line:
        return PauseAsked(fact.reason, former_cause(fact.reason))
    return fact


def former_cause(reason: str) -> PauseCause:
    """The cause of a pause of which only the reason is known: early versions wrote no more, always in these words."""
    if reason.startswith("no room: "):
        return "room"
    return "packages" if reason.endswith(" since the search began. To go on with it, resume.") else "person"


def instruction_from_line(line: Mapping[str, Json]) -> Instruction | None:
    """The instruction that a journal line holds, or None where the line is none."""
    instruction: Instruction | None = _from_line(_INSTRUCTIONS, line)
    return instruction


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _from_line(kinds: Mapping[str, type], line: Mapping[str, Json]) -> Any:
    kind = kinds.get(line.get("kind", ""))
    if kind is None:
        return None
    given = {name: line[name] for name in _names(kind) if name in line}
    if "value" in given:
        given["value"] = value_of(given["value"])
    return kind(**given)
