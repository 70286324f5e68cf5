"""What a leg is told before it begins. Law: data; nothing here decides."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.records import Configuration
from workbench.trial.process.wire import Message


@dataclass(frozen=True, slots=True)
class Order:
    """What the engine wants of one leg."""

    trial: int
    attempt: int
    start: int
    until: int
    levels: frozenset[int]
    max_steps: int
    configuration: Configuration
    known_step: int = 0
    resume: bool = False
    #: The last level whose value the search has.
    told: int = 0

    @classmethod
    def of(cls, message: Message) -> Order:
        """The order in a ``leg`` message."""
        return cls(
            trial=message["trial"],
            attempt=message["attempt"],
            start=message["start"],
            until=message["until"],
            levels=frozenset(message["levels"]),
            max_steps=message["max_steps"],
            configuration=message["configuration"],
            known_step=int(message.get("known_step", message["start"]) or 0),
            resume=bool(message.get("resume", message["start"] > 0)),
            told=int(message.get("told", 0)),
        )


@dataclass(slots=True)
class Place:
    """Where the training code runs: its namespace, the code that called it, and names that are no state of it."""

    main: dict[str, Any]
    top: types.CodeType
    hidden: frozenset[str] = frozenset()
    environment: Callable[[], Mapping[str, Any]] = dict
    #: True where the leg only checks another, whose state is compared with its own.
    compares: bool = False
    #: The files that were read so far, as a message says it; None where nobody looks.
    seen: Callable[[], Message | None] = lambda: None
    #: Which files stand as they were for files that have changed since; None where none do.
    back: Message | None = None
    #: Called when a step has ended.
    stepped: Callable[[], None] = lambda: None
    #: Called when the set-up is done and the first turn begins.
    begins: Callable[[], None] = lambda: None
    #: Whether the globals of the experiment's modules are state: they are where the process is for its trials alone.
    modules: bool = False
