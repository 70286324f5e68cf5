"""What ends a wait: a pause, or an interrupt. Law: nothing waits for a person who may not know that it does.

| paused | goes on | a wait |
|---|---|---|
| by a person, here or elsewhere | when a person resumes it | ends |
| since a package that training uses has changed | when a person resumes it | ends |
| since the disk or the quota has no room | by itself, when there is some | says it once, and goes on |
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from workbench.errors import Paused
from workbench.facts import ENDS_BY_ITSELF

#: Seconds between looks while a user waits.
LOOK_S = 0.1


class Pauses:
    """The pauses of one experiment, as those who wait for it see them. say: what becomes of a line."""

    def __init__(self, label: str, say: Callable[[str], None] | None = None) -> None:
        self._label, self._say = label, say or _on_standard_error
        self._said = ""

    def check(self, meta: Mapping[str, Any]) -> None:
        """Raises Paused if waiting would never end. meta: the facts of the experiment's series."""
        pause = pause_of(meta)
        if pause is None:
            self._said = ""
        elif pause["cause"] not in ENDS_BY_ITSELF:
            raise paused(self._label, pause)
        elif not self._said:
            self._said = str(pause["reason"])
            more = " It resumes by itself when there is room." if pause["cause"] == "room" else ""
            self._say(f"{self._label} is paused: {self._said.rstrip('.')}.{more}")


def pause_of(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """Why an experiment is paused: the ``cause`` and the ``reason``; None where it is not."""
    if "pause" in meta:
        found: dict[str, Any] | None = meta["pause"]
        return found
    # As an earlier version left it.
    return {"cause": "person", "reason": meta.get("reason") or ""} if meta.get("state") == "paused" else None


def paused(label: str, pause: Mapping[str, Any]) -> Paused:
    """The error with which a wait ends, with the command that goes on."""
    reason = str(pause["reason"]).rstrip(".")
    error = Paused(
        f"{label} is paused{': ' if reason else ''}{reason}. Nothing is lost. To continue it, press Resume in its "
        f"cell or on its page, or use wb.open({label!r}).resume(), or `workbench resume {label}` in a terminal."
    )
    error.cause = str(pause["cause"])
    return error


def interrupted(label: str) -> KeyboardInterrupt:
    """What an interrupted wait raises: it says that the experiment goes on."""
    words = f"Waiting was interrupted; {label} continues. wb.open({label!r}).stop() ends it."
    error = KeyboardInterrupt(words)
    error._render_traceback_ = lambda: [words]  # type: ignore[attr-defined]  # IPython's own way: no traceback
    return error


def _on_standard_error(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
