"""What may be asked of an engine: a class for each kind of request, one table, one check. Law: data; it does nothing.

Any program that can write into the store's ``requests`` folder may write anything there. What passes :func:`read` has
the types that the engine's answers work with; whether it can be done, they decide.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from workbench.errors import BadInput, NotFound
from workbench.records import Json

#: Numbers beyond this mean nothing here: of trials, steps, seconds.
MOST = 10**9
#: Bytes that a quota may name: more than any disk has.
MOST_BYTES = 10**18

# The description of a type is what a refusal says was expected.
_Id = Annotated[str, Meta(max_length=64, description="an experiment's id")]
_Trial = Annotated[int, Meta(ge=0, le=MOST, description="a trial's number")]
_Step = Annotated[int, Meta(ge=0, le=MOST, description="a step")]
_Steps = Annotated[int, Meta(ge=1, le=MOST, description="a number of steps")]
_Trials = Annotated[int, Meta(ge=0, le=10**7, description="a number of trials")]
_Seconds = Annotated[float, Meta(gt=0, le=MOST, description="a number of seconds above 0")]
_Bytes = Annotated[int, Meta(ge=0, le=MOST_BYTES, description="a number of bytes, or null for none")]
_Reason = Annotated[str, Meta(max_length=10_000, description="text of at most 10,000 characters")]
_Text = Annotated[str, Meta(max_length=100_000, description="text of at most 100,000 characters")]
_Tag = Annotated[str, Meta(max_length=1000)]
_Tags = Annotated[list[_Tag], Meta(max_length=1000, description="a list of at most 1,000 texts")]
_Count = Annotated[int, Meta(ge=0, le=MOST)]
_Rule = Annotated[
    Annotated[str, Meta(max_length=200)] | Annotated[dict[str, _Count], Meta(max_length=10)],
    Meta(description="a rule such as experiment=1,best=1"),
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
    """End the engine."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop an experiment, or one trial of it."""

    experiment: _Id
    trial: _Trial | None = None
    reason: _Reason | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause an experiment."""

    experiment: _Id
    reason: _Reason | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume a paused experiment, with the packages that are installed now."""

    experiment: _Id
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
    name: _Reason


@dataclass(frozen=True, slots=True)
class Tag:
    """Set an experiment's tags."""

    experiment: _Id
    tags: _Tags


@dataclass(frozen=True, slots=True)
class Note:
    """Set an experiment's note."""

    experiment: _Id
    note: _Text


@dataclass(frozen=True, slots=True)
class Adopt:
    """List an experiment that was imported, with what it is called here."""

    experiment: _Id
    name: _Reason | None = None
    tags: _Tags | None = None
    note: _Text | None = None


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
    fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    return {"kind": kind_of(request), **{name: value for name, value in fields.items() if value is not None}}


def read(data: Mapping[str, Any]) -> Request:
    """The request that ``data`` is. Raises NotFound for an unknown kind, and BadInput for a field of another type.

    Fields that its kind does not have are ignored: a later Workbench may have written them.
    """
    word = data.get("kind")
    kind = KINDS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise NotFound(f"request kind {word!r} is not known; expected {', '.join(sorted(KINDS))}.")
    fields = {}
    for name, hint in _fields(kind).items():
        try:
            fields[name] = msgspec.convert(data.get(name), hint)
        except (msgspec.ValidationError, OverflowError, RecursionError):
            shown = repr(data.get(name))
            given = shown if len(shown) <= 60 else f"{shown[:57]}..."
            expected = _description(hint)
            raise BadInput(f"request {word}: {name} is {given}; expected {expected}. Ask again with that.") from None
    request: Request = kind(**fields)
    return request


@functools.cache
def _fields(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _description(hint: Any) -> str:
    for part in (hint, *typing.get_args(hint)):
        for meta in getattr(part, "__metadata__", ()):
            if meta.description:
                return str(meta.description)
    raise TypeError(f"{hint} has no description.")
