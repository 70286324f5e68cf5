"""Messages between engine, worker, forkserver and runner. Law: a class for each kind, one table, one codec.

On a wire a message is plain data (JSON, or what Dask's events carry) with its class's name in small letters as ``op``.
`msgspec <https://jcristharif.com/msgspec/>`_ checks each incoming field before any other code sees it.
Only rows of points are not checked: there may be a hundred thousand a second.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from workbench.errors import BadMessage
from workbench.messages.forking import Exited, Fork, Forked, Hello, Join, Kill, Ready, Soon, Stamp, Unfit
from workbench.records import PROTOCOL, Configuration, Metrics, Training

# Those of the other module.
__all__ = ["Exited", "Fork", "Forked", "Hello", "Join", "Kill", "Ready", "Soon", "Stamp", "Unfit"]

#: Plain data that a page or a record keeps unchanged: its own module documents its content.
Plain = dict[str, Any]
#: How a leg ends.
Outcome = Literal["reached", "completed", "stopped", "failed", "died"]


# Sent about a leg: by runner to worker, and by worker to engine with the leg's key. -----------------------------------


@dataclass(frozen=True, slots=True)
class Skip:
    """A checkpoint that was skipped because it is damaged."""

    step: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The set-up is done, and the first turn starts. The worker adds where it trains.

    found: the leg's state, as from ``Found.to_json``. seen, back: files that were read, and copies that replace files
    which have changed. architecture, data: sent once in a trial's life. in_place: the trial continues in the process
    in which it reached its level, without a checkpoint.
    """

    step: int
    in_place: bool = False
    found: Plain | None = None
    environment: Plain = field(default_factory=dict)
    setup_s: float = 0.0
    skipped: list[Skip] = field(default_factory=list)
    architecture: Any = None
    data: Any = None
    seen: Plain | None = None
    back: Plain | None = None
    #: Names of the notebook's secrets that were not available.
    lacks: list[str] = field(default_factory=list)
    worker: str | None = None
    pid: int | None = None
    #: The time (UTC seconds).
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Points:
    """Rows of name, step, index (0: the step's reported value; 1, 2, …: logged within it), value, UTC seconds.

    waited: the seconds of the training so far, and those of them in which its loop waited for data; None if it has
    asked no loader for any.
    """

    rows: list[Any]
    waited: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A level was reached, with the metrics that were reported there."""

    step: int
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint is on the disk.

    seconds, stall: how long it took, and how much of that training waited. passing: it lies between levels and is
    replaced by the next. inside: batches done of the current turn. found: the state that it contains, if that is new.
    """

    step: int
    bytes: int
    seconds: float
    stall: float
    passing: bool = False
    inside: int = 0
    found: Plain | None = None


@dataclass(frozen=True, slots=True)
class Unsaved:
    """A checkpoint could not be written; training continues."""

    step: int
    error: str


@dataclass(frozen=True, slots=True)
class Says:
    """A sentence for the trial's page."""

    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Files that the leg has read, with their digests."""

    seen: Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a leg's processes have used until the end of ``step``. Sizes are in bytes; None: they cannot be read here.

    memory: their peak. machine: the memory that all processes there may have together. busy: processor seconds a second
    in the first step. cores: those that the machine's slots share. has_device: whether the slot is a GPU. device,
    context, device_total: the peak on the GPU that it uses most, what CUDA itself needs there, and the GPU's memory.
    """

    step: int
    memory: int | None
    machine: int | None
    busy: float
    cores: int
    has_device: bool = False
    device: int | None = None
    context: int = 0
    device_total: int = 0


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a leg's processes used, as their worker saw it: rows of a measure's name, since when and until when (UTC
    seconds), and its value then. :mod:`workbench.store.files.samples` has the measures."""

    rows: list[tuple[str, float, float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The leg is over: its last message.

    cause: why it was lost, if known. error: type, message, line and traceback. why: why the runner cannot take
    another leg. cut_s: seconds after which it was stopped inside a turn. touched: files that it wrote, for a check.
    waits: its training code waits at its level for a moment; the trial's next leg may continue it there.
    device_peak: the most bytes of a GPU's memory that torch has reserved for it. rank: in a leg of several ranks, the
    one whose process died, if no other did; None: not known.
    """

    outcome: Outcome
    step: int | None = None
    metrics: Metrics = field(default_factory=dict)
    error: Plain | None = None
    reason: str | None = None
    cause: str | None = None
    cut_s: float | None = None
    seconds: float | None = None
    reusable: bool = False
    why: str | None = None
    seen: Plain | None = None
    touched: dict[str, list[str]] | None = None
    waits: bool = False
    device_peak: int | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """The result of a Dask future: the ends of its legs, by key. n: the number of its worker's newest message then."""

    n: int = 0
    lefts: dict[str, Left] = field(default_factory=dict)


FromLeg: TypeAlias = Begun | Points | Level | Saved | Unsaved | Says | Seen | Measured | Sampled | Left


# Sent by a worker about itself. --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wants:
    """A worker needs the secrets of an experiment."""

    experiment: str
    worker: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A worker's machine has announced that it shuts down."""

    worker: str


FromWorker: TypeAlias = Wants | Notice


# Sent to a runner, and its first message. ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Check:
    """The leg only checks another. keeps: its checkpoints are kept, for comparison with the trial's."""

    keeps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One of the processes that train a trial together.

    index: from 0 to ``size`` - 1; the first one reports, saves and decides. here, here_size: the same among the ranks
    of its machine. host: the first rank's machine, as the others reach it. meeting: a name by which the ranks of this
    leg find each other, in the trial's folder.
    """

    index: int
    size: int
    here: int
    here_size: int
    host: str
    meeting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LegOrder:
    """Train one leg: from step ``start`` (or its newest checkpoint) until step ``until``."""

    store: str
    experiment: str
    trial: int
    attempt: int
    start: int
    until: int
    levels: frozenset[int]
    max_steps: int
    configuration: Configuration
    #: The step up to which the engine knows its points.
    known_step: int
    resume: bool
    #: The last level whose value the search received.
    told: int = 0
    #: At its level the training code waits for a moment, so that the trial's next leg can continue it in place.
    may_wait: bool = False
    #: At levels below ``until`` it waits for the search's verdict, which stops most trials there.
    asks: bool = False
    #: It probably takes a fraction of a second: it trains in a lane, and sends what is not urgent with what is.
    is_short: bool = False
    #: How many slots of its machine, or parts of slots, trials may train in at the same time, its own included; 0 if
    #: that is not known.
    slots: int = 0
    #: Into how many parts its slot is divided; it trains in one of them.
    parts: int = 1
    #: It trains as a gang, even if that has one rank: a later leg of its trial may have more.
    is_gang: bool = False
    #: Which rank of the leg this order is for; None if it has only one.
    rank: Rank | None = None
    check: Check | None = None
    protocol: int = PROTOCOL
    #: Added by the worker: the notebook's secrets, and copies that replace files which have changed since.
    secrets: dict[str, str] = field(default_factory=dict)
    back: Plain | None = None


@dataclass(frozen=True, slots=True)
class StopOrder:
    """The leg must end at its next turn. ``keep``: with a checkpoint of the current turn."""

    reason: str
    keep: bool
    #: The order comes from no engine: the machine announced its shutdown.
    is_notice: bool = False


@dataclass(frozen=True, slots=True)
class GoOn:
    """The search does not stop the leg at the level ``step``."""

    step: int


@dataclass(frozen=True, slots=True)
class Exit:
    """End the runner's process."""


@dataclass(frozen=True, slots=True)
class Awake:
    """A runner has started."""

    pid: int
    protocol: int = PROTOCOL


Message: TypeAlias = (
    FromLeg
    | FromWorker
    | LegOrder
    | StopOrder
    | GoOn
    | Exit
    | Awake
    | Hello
    | Join
    | Fork
    | Soon
    | Kill
    | Ready
    | Unfit
    | Forked
    | Exited
)

#: The classes by their value of ``op``.
KINDS: Mapping[str, type] = {kind.__name__.lower(): kind for kind in typing.get_args(Message)}


def plain(message: Message) -> Plain:
    """``message`` as plain data."""
    kind = type(message).__name__.lower()
    if type(message) is Points:
        waited = {} if message.waited is None else {"waited": message.waited}
        return {"op": kind, "rows": message.rows, **waited}
    return {"op": kind, **msgspec.to_builtins(message, enc_hook=_plainer)}


def _plainer(value: object) -> object:
    """Convert subclasses of numbers and texts, such as NumPy's, to the plain type. Raises TypeError for any other."""
    for kind in (float, int, str):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a message")


def read(data: Any) -> Any:
    """Decode ``data`` to a message. Raises BadMessage if it is not one."""
    op = data.get("op") if isinstance(data, dict) else None
    kind = KINDS.get(op) if isinstance(op, str) else None
    if kind is None:
        raise BadMessage(f"a message of kind {repr(op)[:80]}: expected one of {', '.join(KINDS)}.")
    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadMessage(f"a message of kind {kind.__name__} is not valid: {error}") from error


def packed(data: Plain) -> bytes:
    """``data`` as bytes, which Dask need not look into. Raises UnicodeEncodeError for a text that is not
    UTF-8."""
    return msgspec.msgpack.encode(data)


def unpacked(data: bytes) -> Plain:
    """What :func:`packed` was given."""
    found: Plain = msgspec.msgpack.decode(data)
    return found


# Sent by an engine to a worker, and by a worker to a new engine: Dask carries both. ----------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Train a leg in the environment ``training``.

    experiment: the one whose runner trains it (for a check: a name of its own). grace_s: how long it may take to leave.
    setup_limit_s: how long its set-up may take, in seconds; None: there is no limit. strict: its runner is used for no
    other leg. keep_data: the size in bytes up to which files are kept. data_back: files that training sees with their
    earlier content.
    """

    key: str
    experiment: str
    label: str
    attempt: int
    start: int
    grace_s: float
    strict: bool
    log: str
    training: Training
    leg: LegOrder
    keep_data: int = 0
    data_back: Mapping[str, Mapping[str, Any]] | None = None
    setup_limit_s: float | None = None
    #: The Dask task that stands for it (named by the first of its legs, or a lane), and the proof of the engine's
    #: identity.
    task: str = ""
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """A leg's story for a new engine: its order, whether it has ended, and its messages, oldest first.

    rank, ranks: which of how many ranks of the leg it is. parts: into how many its slot is divided.
    """

    key: str
    experiment: str
    trial: int
    attempt: int
    start: int
    until: int
    is_check: bool
    is_over: bool
    messages: tuple[FromLeg, ...]
    rank: int = 0
    ranks: int = 1
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Greeting:
    """A worker's answer to a new engine: its legs, and the number of its newest message."""

    stories: list[Story]
    n: int
