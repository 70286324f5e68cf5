"""Texts as records hold them. Law: pure; a text that is UTF-8 stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def written(name: str) -> str:
    """A name as it is recorded. What is not UTF-8 in it, which Python reads as halves of pairs of characters and no
    record can hold, becomes an escape: ``caf\\udce9.png``."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def escaped(value: Any) -> Any:
    """Plain data in which each text can be written as UTF-8: with escapes for what cannot."""
    match value:
        case str():
            return written(value)
        case Mapping():
            return {escaped(key): escaped(one) for key, one in value.items()}
        case list() | tuple():
            return [escaped(one) for one in value]
    return value
