"""Formatting for a terminal: numbers, spans, tables. Law: text in, text out; names cannot send control characters."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from workbench.records import SCHEMA, numbers
from workbench.terminal import clean as clean  # the commands import all formatting functions from here
from workbench.terminal import is_terminal as is_terminal
from workbench.terminal import say as say
from workbench.terminal import write

if TYPE_CHECKING:
    from workbench.store.owner.lease import EngineInfo

#: The colour of each state in a terminal (ANSI).
_COLOURS = {"setting up": "36", "running": "36", "completed": "32", "failed": "31", "stopping": "33", "paused": "33",
            "problem": "31", "warning": "33", "unreadable": "31", "ok": "32", "+": "32", "-": "31"}  # fmt: skip
#: The width if the terminal does not report one.
_WIDTH = 100
#: Seconds without a heartbeat after which a live engine is called silent; it writes one every second.
SILENT_S = 10.0


def say_json(data: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """Print one JSON object. Its schema number comes first; numbers that JSON lacks are words (nan, inf, -inf)."""
    write(json.dumps({"schema": SCHEMA, **finite(data)}, indent=indent, default=str) + "\n")


def agreed(question: str) -> bool:
    """Whether the user at the terminal says yes to ``question``."""
    if not (is_terminal() and sys.stdin is not None and sys.stdin.isatty()):
        return False
    say(question)
    sys.stdout.write("Type yes to continue: ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def finite(data: Any) -> Any:
    """``data`` with each number that JSON lacks replaced by a word."""
    if isinstance(data, float) and not math.isfinite(data):
        return "nan" if math.isnan(data) else "inf" if data > 0 else "-inf"
    if isinstance(data, Mapping):
        return {str(key): finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return data


def who(info: EngineInfo) -> str:
    """An engine's identity, in words."""
    closing = " (it is closing)" if info.state == "closing" else ""
    return f"the engine is process {info.pid} on {clean(info.host)}{closing}"


def number(value: Any) -> str:
    """A value for people, numbers as everywhere (:mod:`workbench.records.numbers`); text unchanged, None as a dash."""
    if value is None:
        return "–"
    return numbers.shown(value) if isinstance(value, float) else clean(value)


def configured(configuration: Mapping[str, Any] | None) -> str:
    """A configuration on one line: ``lr=0.01 hidden=64``. Inactive hyperparameters are left out."""
    return " ".join(f"{clean(k)}={number(v)}" for k, v in (configuration or {}).items() if v is not None)


def span(seconds: float) -> str:
    """A span of time: ``42 s``, ``3 min``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds < 59.5:
        return f"{max(seconds, 0):.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"


def moment(text: str | None) -> datetime | None:
    """The time as parsed from the store, or None if there is none."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def between(start: str | None, end: str | None) -> float | None:
    """Seconds from ``start`` to ``end`` (to now if there is no end)."""
    first, last = moment(start), moment(end) if end else datetime.now(UTC)
    return None if first is None or last is None else max(0.0, (last - first).total_seconds())


def age(text: str | None) -> str:
    """How long ago: ``3 min ago``."""
    seconds = between(text, None)
    return "–" if seconds is None else f"{span(seconds)} ago"


def coloured(text: str, state: str) -> str:
    """``text`` in the colour of ``state``, in a terminal."""
    colour = _COLOURS.get(state) if is_terminal() else None
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, states: int | None = None) -> list[str]:
    """Aligned columns; the last one is cut to the terminal's width. ``states``: the column that has colours."""
    every = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    room = shutil.get_terminal_size((_WIDTH, 24)).columns if is_terminal() else None
    before = sum(widths[:-1]) + 2 * (len(widths) - 1)
    lines = []
    for place, row in enumerate(every):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if room is not None:
            cells[-1] = cut(row[-1], max(room - before, 8))
        if states is not None and place:
            cells[states] = coloured(cells[states], row[states])
        lines.append("  ".join(cells).rstrip())
    return lines


def cut(text: str, width: int) -> str:
    """``text`` cut to at most ``width`` letters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def facts(rows: Iterable[tuple[str, str | None]]) -> list[str]:
    """Two columns, names and values; empty values are left out."""
    kept = [(word, what) for word, what in rows if what]
    width = max((len(word) for word, _ in kept), default=0)
    return [f"  {word:{width}}  {what}" for word, what in kept]
