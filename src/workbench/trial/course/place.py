"""Where a leg trains. Law: data; nothing here decides."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.messages import Plain


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
    seen: Callable[[], Plain | None] = lambda: None
    #: Which files stand as they were for files that have changed since; None where none do.
    back: Plain | None = None
    #: Called when a step has ended.
    stepped: Callable[[], None] = lambda: None
    #: Called when the set-up is done and the first turn begins.
    begins: Callable[[], None] = lambda: None
    #: Whether the globals of the experiment's modules are state: they are where the process is for its trials alone.
    modules: bool = False
