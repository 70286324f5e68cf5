"""One section of a comparison, as plain data. Law: there are no empty sections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.records import Json, numbers
from workbench.words import few

Kind = Literal[
    "data",
    "configuration",
    "arguments",
    "code",
    "architecture",
    "libraries",
    "seeds",
    "settings",
    "environment",
    "hardware",
]

#: The order of sections: what most often explains a difference comes first. Data grows and flags are passed by hand far
#: more often than a library's arithmetic changes, and other hardware mostly moves the last digits only.
LIKELY: tuple[Kind, ...] = (
    *("data", "configuration", "arguments", "code", "architecture"),
    *("libraries", "seeds", "settings", "environment", "hardware"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """One difference: its name, its value on each side (None: missing), and a note for the user."""

    name: str
    a: Json
    b: Json
    note: str = ""

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {"name": self.name, "a": self.a, "b": self.b, "note": self.note}


@dataclass(slots=True)
class Section:
    """The differences of one kind.

    short: the words for the title, the most telling first. cells: texts side by side, for code. causes: False if
    nothing in it can make results differ. known: what could not be compared, in words.
    """

    kind: Kind
    items: list[Item]
    short: list[str] = field(default_factory=list)
    cells: list[dict[str, Json]] | None = None
    causes: bool = True
    known: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """One line."""
        return listed(self.short)

    def to_json(self) -> dict[str, Json]:
        """Plain data; :mod:`comparison` adds its rank among the likely causes."""
        found: dict[str, Json] = {
            "kind": self.kind,
            "title": self.kind.capitalize(),
            "summary": self.summary,
            "items": [item.to_json() for item in self.items],
        }
        if self.cells is not None:
            found["cells"] = self.cells
        return found


def listed(words: list[str], most: int = 3) -> str:
    """The first of ``words``, separated by dots, and the number of the others."""
    return " · ".join(few(words, most))


def number(value: Any) -> str:
    """A value as a short text."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return numbers.shown(value)
    text = str(value)
    return text if len(text) <= 40 else text[:39] + "…"


def change(name: str, a: Any, b: Any) -> str:
    """``lr 0.01 → 0.02``, with enough digits to tell the two apart."""
    one, other = number(a), number(b)
    if one == other and isinstance(a, float) and isinstance(b, float):
        one, other = repr(a), repr(b)
    return f"{name} {one} → {other}"


def size(count: float) -> str:
    """Bytes as text."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def counted(count: int, thing: str) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
