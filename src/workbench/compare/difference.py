"""One thing that has changed since an experiment was trained. Law: it is data, with one way to put it into words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from workbench.records import Json


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that has changed.

    how: one word, if there are no values (``content``, ``gone``, ``new``); before, after: otherwise its values.
    """

    kind: Literal["file", "module", "package", "variable", "setting"]
    name: str
    how: str = ""
    before: Json = None
    after: Json = None

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return asdict(self)

    def __str__(self) -> str:
        if self.how:
            return f"{self.name} ({self.how})"
        if self.before is None and self.after is None:
            return self.name
        return f"{self.name} {_value(self.before)} → {_value(self.after)}"


def _value(value: Json) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 40 else text[:39] + "…"
