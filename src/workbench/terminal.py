"""Printing to a terminal. Law: it imports no other room; names cannot send control characters."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def say(*lines: str) -> None:
    """Print lines to the current standard output (a cell's, under ``%workbench``)."""
    write("".join(f"{line}\n" for line in lines))


def write(text: str) -> None:
    """Write to the current standard output; characters that its encoding lacks become question marks."""
    out = sys.stdout
    try:
        out.write(text)
    except UnicodeEncodeError:
        encoding = getattr(out, "encoding", None) or "ascii"
        out.write(text.encode(encoding, "replace").decode(encoding))
    with contextlib.suppress(AttributeError):
        out.flush()


def is_terminal() -> bool:
    """True if standard output is a terminal now."""
    try:
        return bool(sys.stdout.isatty())
    except (AttributeError, ValueError):
        return False


def clean(text: Any) -> str:
    """``text`` on one line, safe for a terminal: control and invisible characters are escaped."""
    shown = str(text)
    if shown.isprintable():  # the common case; keep it fast for long lists
        return shown
    return "".join(letter if letter.isprintable() else _spelled(letter) for letter in shown)


def _spelled(letter: str) -> str:
    return " " if letter == "\n" or letter.isspace() else letter.encode("unicode_escape").decode("ascii")
