"""Lists in sentences. Law: pure; words in, words out."""

from __future__ import annotations

from collections.abc import Sequence


def few(words: Sequence[str], most: int) -> list[str]:
    """The first ``most`` of ``words``, and instead of the others their number: ``3 more``."""
    rest = len(words) - most
    return [*words] if rest <= 0 else [*words[:most], f"{rest} more"]


def enumerated(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
