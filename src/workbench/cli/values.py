"""Values of options and arguments. Law: an invalid word is refused with what was expected."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterable, Sequence


def nearest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean …?`` if a known word is similar to ``word``, else nothing."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    starts = [name for name in names if len(word.lstrip("-")) > 1 and name.startswith(word)]
    return f" Did you mean {(near or starts)[0]}?" if near or starts else ""


def among(choices: Sequence[str]) -> Callable[[str], str]:
    """One of these words; the error suggests the nearest one."""

    def read(text: str) -> str:
        if text in choices:
            return text
        wanted = f"expected {', '.join(choices[:-1])} or {choices[-1]}"
        raise argparse.ArgumentTypeError(f"{text!r} was given, {wanted}.{nearest(text, choices)}".rstrip("."))

    return read


def whole(least: int) -> Callable[[str], int]:
    """A whole number of at least ``least``."""

    def read(text: str) -> int:
        if not (text.isascii() and text.lstrip("+-").isdigit() and len(text) < 19 and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} was given, expected a whole number of {least} or more")
        return int(text)

    return read


def seconds(text: str) -> float:
    """A span in seconds."""
    return _number(text, 1e9, "seconds, such as 600")


def days(text: str) -> float:
    """A span in days, above 0."""
    value = _number(text, 36_500.0, wanted := "days, such as 1 or 0.5")
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r} was given, expected {wanted}")
    return value


def share(text: str) -> float:
    """A part of a whole, 0 ≤ x < 1."""
    return _number(text, 1.0, "a number, 0 ≤ x < 1, such as 1e-4")


def _number(text: str, below: float, wanted: str) -> float:
    """A number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < below:
        raise argparse.ArgumentTypeError(f"{text!r} was given, expected {wanted}")
    return value


def steps(text: str) -> tuple[int, int]:
    """First and last rung, as in ``1-27``; a single number is the last."""
    first, dash, last = text.rpartition("-")
    try:
        read = whole(1)
        found = (read(first) if dash else 1, read(last))
        if found[0] > found[1]:
            raise argparse.ArgumentTypeError("")
    except argparse.ArgumentTypeError:
        wanted = "the steps of the first and the last rung, 1 ≤ first ≤ last, such as 1-27"
        raise argparse.ArgumentTypeError(f"{text!r} was given, expected {wanted}") from None
    return found
