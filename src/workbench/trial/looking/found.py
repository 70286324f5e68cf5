"""What a survey found, as the trial's page lists it. Law: plain data, without the objects themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Found:
    """The result of a survey, as the trial's page lists it."""

    objects: list[str]
    names: list[str]
    left_out: list[dict[str, str]]
    #: How exactly the trial resumes, in words.
    resumes: str = ""
    #: Names that the set-up does not make again: every checkpoint holds them.
    kept: list[str] = field(default_factory=list)
    #: What this leg lost when it resumed: names with reasons.
    inexact: list[dict[str, str]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a message."""
        return {
            "objects": self.objects,
            "names": self.names,
            "left_out": self.left_out,
            "resumes": self.resumes,
            **({"kept": self.kept} if self.kept else {}),
            **({"inexact": self.inexact} if self.inexact else {}),
        }
