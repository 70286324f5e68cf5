"""What may be asked of an engine: a class for each kind of request, one table, one check. Law: data; it does nothing.

Any program that can write into the store's ``requests`` folder may write anything there. What passes :func:`read` has
the types that the engine's answers work with; whether it can be done, they decide.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

import workbench.records as records
from workbench.errors import BadField, BadInput, BadOption, NotFound
from workbench.records import Json
from workbench.records.names import checked_name, trial_number

#: Numbers beyond this mean nothing here: of trials, steps, seconds.
MOST = 10**9
#: Characters of a note and of a tag, at most.
LONGEST_NOTE, LONGEST_TAG = 10_000, 100
#: Bytes that a quota may name: more than any disk has.
MOST_BYTES = 10**18


@dataclass(frozen=True, slots=True)
class Reading:
    """What a type cannot say of a field. text: how a text becomes its value, where it is written in two ways. check:
    raises BadInput for a value without a meaning, or returns it as it counts."""

    text: Callable[[str], Any] | None = None
    check: Callable[[Any], Any] | None = None


def _plain_tags(tags: list[str]) -> list[str]:
    return sorted({tag.strip() for tag in tags} - {""})


def _rule(rule: str | dict[str, int]) -> str | dict[str, int]:
    records.Keep.of(rule)
    return rule


def pin_of(pin: str) -> tuple[int | None, int | None]:
    """The trial and the step of ``t0007:27``, ``t0007``, or an empty text for all of an experiment. Raises BadInput."""
    trial, _, step = pin.partition(":")
    if not re.fullmatch(r"|t\d{1,9}(:\d{1,10})?", pin) or int(step or 0) > MOST:
        raise BadOption(f"{pin!r} is not a pin: expected a trial or a step of it. For example: t0007 or t0007:27.")
    return trial_number(trial) if trial else None, int(step) if step else None


def _pinned(pins: list[str]) -> list[str]:
    for pin in pins:
        pin_of(pin)
    return pins


# The description of a type is what a refusal says was expected.
_Id = Annotated[str, Meta(max_length=64, description="an experiment's id")]
_Trial = Annotated[
    int, Meta(ge=0, le=MOST, description="a trial's number, or its label such as t0007"), Reading(text=trial_number)
]
_Step = Annotated[int, Meta(ge=0, le=MOST, description="a step")]
_Steps = Annotated[int, Meta(ge=1, le=MOST, description="a number of steps")]
_Trials = Annotated[int, Meta(ge=0, le=10**7, description="a number of trials")]
_Seconds = Annotated[float, Meta(gt=0, le=MOST, description="a number of seconds above 0")]
_Bytes = Annotated[int, Meta(ge=0, le=MOST_BYTES, description="a number of bytes, or null for none")]
_Reason = Annotated[str, Meta(max_length=10_000, description="text of at most 10,000 characters")]
_Name = Annotated[str, Meta(description="an experiment's name"), Reading(check=checked_name)]
_Note = Annotated[str, Meta(max_length=LONGEST_NOTE, description="text of at most 10,000 characters")]
_Tags = Annotated[
    list[Annotated[str, Meta(max_length=LONGEST_TAG)]],
    Meta(max_length=50, description="a list of at most 50 tags of at most 100 characters"),
    Reading(check=_plain_tags),
]
#: What an archive of an earlier version may contain: it was written when there was no limit.
_OldNote = Annotated[str, Meta(max_length=100_000, description="text of at most 100,000 characters")]
_OldTags = Annotated[
    list[Annotated[str, Meta(max_length=1000)]], Meta(max_length=1000, description="a list of at most 1,000 tags")
]
_Count = Annotated[int, Meta(ge=0, le=MOST)]
_Rule = Annotated[
    Annotated[str, Meta(max_length=200)] | Annotated[dict[str, _Count], Meta(max_length=10)],
    Meta(description="a rule such as experiment=1,best=1, or an object with the same fields"),
    Reading(check=_rule),
]
_Pins = Annotated[
    list[Annotated[str, Meta(max_length=30)]],
    Meta(max_length=100_000, description="a list of pins such as t0007:27, t0007, or an empty text for all"),
    Reading(check=_pinned),
]
_Yes = Annotated[bool, Meta(description="true or false")]


@dataclass(frozen=True, slots=True)
class Start:
    """Train an experiment whose spec is written."""

    experiment: _Id


@dataclass(frozen=True, slots=True)
class Ping:
    """Answer how many slots there are."""


@dataclass(frozen=True, slots=True)
class Mend:
    """Rebuild the lost series of ended experiments."""


@dataclass(frozen=True, slots=True)
class End:
    """End the engine. ``only_idle``: it is refused while an experiment is under way."""

    only_idle: _Yes | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop an experiment, or one trial of it."""

    experiment: _Id
    trial: _Trial | None = None
    reason: _Reason | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause an experiment, or one trial of it."""

    experiment: _Id
    trial: _Trial | None = None
    reason: _Reason | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume a paused experiment, with the packages that are installed now, or one trial that was paused or stopped."""

    experiment: _Id
    trial: _Trial | None = None
    reason: _Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Make a search longer: by trials, to a last step, by seconds."""

    experiment: _Id
    trials: _Trials | None = None
    last: _Steps | None = None
    seconds: _Seconds | None = None
    reason: _Reason | None = None


@dataclass(frozen=True, slots=True)
class Verify:
    """Train a trial again from its checkpoint before ``step``, and compare."""

    experiment: _Id
    trial: _Trial
    step: _Step | None = None
    reason: _Reason | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """Train a trial again, as an experiment of its own; the best one by default."""

    experiment: _Id
    trial: _Trial | None = None


@dataclass(frozen=True, slots=True)
class Rename:
    """Give an experiment another name."""

    experiment: _Id
    name: _Name


@dataclass(frozen=True, slots=True)
class Tag:
    """Set an experiment's tags."""

    experiment: _Id
    tags: _Tags


@dataclass(frozen=True, slots=True)
class Note:
    """Set an experiment's note."""

    experiment: _Id
    note: _Note


@dataclass(frozen=True, slots=True)
class Adopt:
    """List an experiment that was imported, with what it is called here, and what protects its checkpoints."""

    experiment: _Id
    name: _Name | None = None
    tags: _OldTags | None = None
    note: _OldNote | None = None
    keep: _Rule | None = None
    pins: _Pins | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """Keep checkpoints, whatever the rule says: of an experiment, a trial, or one step."""

    experiment: _Id
    trial: _Trial | None = None
    step: _Step | None = None


@dataclass(frozen=True, slots=True)
class Unpin:
    """Remove a pin."""

    experiment: _Id
    trial: _Trial | None = None
    step: _Step | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    """Change which checkpoints an experiment keeps."""

    experiment: _Id
    rule: _Rule


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an experiment, or the checkpoints and files of one trial."""

    experiment: _Id
    trial: _Trial | None = None


@dataclass(frozen=True, slots=True)
class Gc:
    """Remove unreferenced files; with ``dry_run``, only list them."""

    dry_run: _Yes | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """Limit the bytes of the store."""

    bytes: _Bytes | None = None


Request: TypeAlias = (
    Start | Ping | Mend | End | Stop | Pause | Resume | Extend | Verify | Replay | Rename | Tag | Note | Adopt | Pin
    | Unpin | Keep | Delete | Gc | Quota
)  # fmt: skip

#: By the word under ``kind``.
KINDS: Mapping[str, type] = {kind.__name__.lower(): kind for kind in typing.get_args(Request)}


def kind_of(request: Request) -> str:
    """The word under ``kind`` in the request's file, and in the journal."""
    return type(request).__name__.lower()


def plain(request: Request) -> dict[str, Json]:
    """``request`` as plain data, without the fields that are left out."""
    given = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    return {"kind": kind_of(request), **{name: value for name, value in given.items() if value is not None}}


def read(data: Mapping[str, Any]) -> Request:
    """The request that ``data`` is. Raises NotFound for an unknown kind, and BadField for a field of another type.

    Fields that its kind does not have are ignored: a later Workbench may have written them.
    """
    word = data.get("kind")
    kind = KINDS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise NotFound(f"request kind {word!r} is not known; expected {', '.join(sorted(KINDS))}.")
    request: Request = kind(**{name: _value(str(word), name, data) for name in fields(kind)})
    return request


@functools.cache
def fields(kind: type) -> Mapping[str, Any]:
    """The fields of a kind of request, each with its annotated type."""
    return typing.get_type_hints(kind, include_extras=True)


def _value(word: str, name: str, data: Mapping[str, Any]) -> Any:
    given, hint = data.get(name), fields(KINDS[word])[name]
    reading = _annotation(hint, Reading) or Reading()
    try:
        if reading.text is not None and isinstance(given, str):
            given = reading.text(given)
        value = msgspec.convert(given, hint)
    except (msgspec.ValidationError, OverflowError, RecursionError, BadInput):
        shown = repr(given)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        expected = _annotation(hint, Meta).description
        raise BadField(f"request {word}: {name} is {shown}; expected {expected}. Ask again with that.", name) from None
    if reading.check is None or value is None:
        return value
    try:
        return reading.check(value)
    except BadInput as error:
        raise BadField(str(error), name) from error


def _annotation(hint: Any, kind: type) -> Any:
    """The annotation of ``kind`` in a field's type: of the type itself, or of the one that may be left out."""
    for part in (hint, *typing.get_args(hint)):
        for note in getattr(part, "__metadata__", ()):
            if isinstance(note, kind):
                return note
    return None
