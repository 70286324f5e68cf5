"""Messages to and from a forkserver. Law: data only; :mod:`workbench.messages` has the table and the codec."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.records import PROTOCOL

#: A file's identity: when its content changed (nanoseconds), its size, its inode.
Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first message to a forkserver: what to import ahead, and the surroundings of the imports.

    Every version of Workbench must be able to read it, so that both sides can report a difference.

    learned: modules that training was seen to import; they are imported ahead only if that leaves nothing behind.
    secrets: names of variables that only legs have.
    """

    cwd: str
    path: list[str]
    threads: int
    preload: list[str] = field(default_factory=list)
    learned: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class Join:
    """The first message to a forkserver that another process has started: it answers with :class:`Ready`."""

    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class Fork:
    """Start a runner; its socket and its output are passed beside this message, as descriptors.

    cover: pairs of a file and the copy that is mounted over it, in that process alone.
    """

    id: int
    cover: list[tuple[str, str]] = field(default_factory=list)

    #: The number of descriptors beside it.
    DESCRIPTORS = 2


@dataclass(frozen=True, slots=True)
class Soon:
    """A kernel that holds the forkserver executes a train cell, so a leg comes in some tens of milliseconds. The
    forkserver tells all others that are connected."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill a runner's whole process group."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The forkserver can fork. failed: modules that could not be imported, and why. files: those of all modules.

    For those that did not start it: preload, learned, secrets as in :class:`Hello`, with all packages that were
    imported; values: of the variables that its imports looked up; stamps: of the files, and folders: of the packages'
    folders, when it began; seconds: that it took.
    """

    pid: int
    versions: dict[str, str | None]
    failed: dict[str, str]
    threads: int
    looks_up: list[str]
    files: list[str]
    preload: list[str] = field(default_factory=list)
    learned: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    values: dict[str, str | None] = field(default_factory=dict)
    stamps: list[Stamp | None] = field(default_factory=list)
    folders: dict[str, Stamp | None] = field(default_factory=dict)
    seconds: float = 0.0
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class Unfit:
    """A package to import ahead leaves more behind than its modules."""

    package: str
    why: str


@dataclass(frozen=True, slots=True)
class Forked:
    """A runner's process has started, after this many seconds."""

    id: int
    pid: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Exited:
    """A runner's process has ended, with an exit status or by a signal.

    why: the system's words, if the process could not be started; pid is 0 then.
    """

    id: int
    pid: int
    status: int | None
    signal: int | None
    why: str = ""
