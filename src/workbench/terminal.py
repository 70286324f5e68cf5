"""How words reach a person's terminal. Law: it imports no other room; names never act on a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def say(*lines: str) -> None:
    """Print lines to whatever standard output is now (a cell's, under ``%workbench``)."""
    write("".join(f"{line}\n" for line in lines))


def write(text: str) -> None:
    """Write to whatever standard output is now; what its encoding lacks becomes a question mark."""
    out = sys.stdout
    try:
        out.write(text)
    except UnicodeEncodeError:
        encoding = getattr(out, "encoding", None) or "ascii"
        out.write(text.encode(encoding, "replace").decode(encoding))
    with contextlib.suppress(AttributeError):
        out.flush()


def is_terminal() -> bool:
    """True where standard output is a person's terminal now."""
    try:
        return bool(sys.stdout.isatty())
    except (AttributeError, ValueError):
        return False


def clean(text: Any) -> str:
    """``text`` on one line, in which nothing acts on a terminal: control and invisible characters are spelled out."""
    shown = str(text)
    if shown.isprintable():  # nearly always, and some lists are long
        return shown
    return "".join(letter if letter.isprintable() else _spelled(letter) for letter in shown)


def _spelled(letter: str) -> str:
    return " " if letter == "\n" or letter.isspace() else letter.encode("unicode_escape").decode("ascii")
