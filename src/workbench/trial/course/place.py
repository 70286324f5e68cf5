"""Where a leg trains. Law: data; nothing here decides."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.messages import Plain


@dataclass(slots=True)
class Place:
    """Where the training code runs: its namespace, the code that called it, and names that are not its state."""

    main: dict[str, Any]
    top: types.CodeType
    hidden: frozenset[str] = frozenset()
    environment: Callable[[], Mapping[str, Any]] = dict
    #: True if the leg only checks another, whose state is compared with its own.
    compares: bool = False
    #: The files read so far, as a message lists them; None if reads are not recorded.
    seen: Callable[[], Plain | None] = lambda: None
    #: Which changed files are replaced by copies of their earlier content; None if none are.
    back: Plain | None = None
    #: Called when a step ends.
    stepped: Callable[[], None] = lambda: None
    #: Called when the set-up is done, and puts back what it has emptied; with False where the trial begins again from
    #: its start, and nothing is put back.
    made: Callable[[bool], None] = lambda _: None
    #: What that could not put back, and why.
    lost: Mapping[str, str] = field(default_factory=dict)
    #: Called then too, when the first turn of ``trial.steps()`` starts.
    begins: Callable[[], None] = lambda: None
    #: Called when what precedes the first turn is done too: the state is surveyed and restored.
    turns: Callable[[], None] = lambda: None
    #: The module of ``workbench`` whose framework runs the training loop, once it does.
    framework: str | None = None
    #: Whether the globals of the experiment's modules are state: they are if the process runs only its trials.
    modules: bool = False
