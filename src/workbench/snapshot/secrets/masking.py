"""Masking secrets in everything that is stored: arguments, cells, logs, notebooks. Law: text without secrets is not
changed; the time is linear in the text.

A secret is recognised by the name to which it is assigned (:mod:`secret_names`), or by its form (:mod:`detector`, which
uses detect-secrets): only a key begins with ``ghp_``. All of Workbench uses :func:`found` and :func:`masked`.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.snapshot.secrets.secret_names import MASK, WORDS, given, is_likely, is_secret, may_name, small

__all__ = ["BY_NAME", "HEADS", "MASK", "Found", "Heard", "found", "hearing", "is_likely", "is_secret"]
__all__ += ["look_alikes", "masked", "may_hold", "replaced", "tell"]

#: The beginnings of services' keys, in lower case. A test compares them with the heads of the detector, which is not
#: imported for a text without any of them.
_BEGINNINGS = (
    "a3t", "abia", "acca", "akia", "asia", "aiza", "aws", "xox", "xapp-", "eyj", "sk-", "sk_", "rk_", "pk_", "whsec_",
    "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glft-", "glsoat-", "glrt-",
    "gr1348941", "glcbt-", "glimt-", "glptt-", "glagent-", "gloas-", "npm_", "pypi-", "sg.", "sq0csp-", "dckr_pat_",
    "wandb_v1_", "dapi", "lsv2_", "gsk_", "r8_", "shpat_", "dop_v1_", "nvapi-", "ya29.", "sig=", "accountkey=",
    "-----begin ", "---- begin ssh2", "putty-user-key-file", "bearer", "basic ",
)  # fmt: skip
#: Parts of an address, after its scheme, that only webhooks have.
_WEBHOOKS = ("hook", "notify", "logic.azure", "chat.google", "api.telegram", "pagerduty", "ifttt")
#: Every text with a secret contains one of these, except credentials in an address and keys without a fixed prefix.
HEADS = (*WORDS, *_BEGINNINGS, *_WEBHOOKS)
#: Keys without a fixed prefix are at least this long, or are followed by a colon or a region.
_LONG = re.compile(r"[A-Za-z0-9_-]{26}")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
#: The kind of secrets recognised only by their name.
BY_NAME = "Value of a secret's name"


class Found(NamedTuple):
    """A secret in a text: its beginning and end, its replacement, and its kind."""

    start: int
    end: int
    shown: str
    kind: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A masked secret: its kind, its line in the text, and its value, which is never shown."""

    kind: str
    line: int
    secret: str = field(repr=False)


#: The list to which masked secrets are added, while :func:`hearing` is active.
_heard: ContextVar[list[Heard] | None] = ContextVar("heard", default=None)


@contextmanager
def hearing() -> Iterator[list[Heard]]:
    """A context with a list of all secrets that are masked inside it, in this thread."""
    heard: list[Heard] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


def tell(secret: str, kind: str = BY_NAME, line: int = 1) -> None:
    """Add a masked secret to the list of :func:`hearing`."""
    heard = _heard.get()
    if heard is not None:
        heard.append(Heard(kind, line, secret))


def masked(text: str) -> str:
    """``text`` with the values of keys, tokens and passwords, and credentials in addresses, replaced by ``***``.

    If there is a secret, a terminal's colour codes are removed too: they may be between a name and its value.
    """
    if not may_hold(text):
        return text
    plain = _COLOURS.sub("", text) if "\x1b[" in text else text
    secrets = found(plain)
    return replaced(plain, secrets) if secrets else text


def replaced(text: str, secrets: Iterable[Found]) -> str:
    """``text`` with each of ``secrets``, in order, replaced."""
    parts, told, line = [], 0, 1
    for one in secrets:
        line += text.count("\n", told, one.start)
        tell(text[one.start : one.end].strip("\"'"), one.kind, line)
        line += text.count("\n", one.start, one.end)
        parts += [text[told : one.start], one.shown]
        told = one.end
    return "".join([*parts, text[told:]])


def may_hold(text: str) -> bool:
    """Whether ``text`` may contain a secret, by a fast check."""
    lowered = text.lower()
    return may_name(lowered) or _may_look(text, lowered)


def _may_look(text: str, lowered: str) -> bool:
    if any(head in lowered for head in _BEGINNINGS):
        return True
    if "://" in lowered and ("@" in text or any(word in lowered for word in _WEBHOOKS)):
        return True
    return _LONG.search(text) is not None


def found(text: str) -> list[Found]:
    """The secrets in ``text``, in order, without overlaps."""
    lowered = small(text)
    secrets = [Found(*one, BY_NAME) for one in given(text, lowered)] if may_name(lowered) else []
    if _may_look(text, lowered):
        secrets += [Found(start, end, MASK, kind) for start, end, kind in _seen()(text, lowered)]
    return _united(secrets)


def look_alikes(text: str) -> list[str]:
    """The kinds of secrets recognised by their form in ``text``, whatever names precede them."""
    lowered = small(text)
    if not _may_look(text, lowered):
        return []
    alike = [Found(start, end, MASK, kind) for start, end, kind in _seen()(text, lowered)]
    return sorted({one.kind for one in _united(alike)})


@functools.cache
def _seen() -> Callable[[str, str], Iterable[tuple[int, int, str]]]:
    """Import the detector when a text first needs it, without the warning filters that it sets for the process."""
    with warnings.catch_warnings():
        from workbench.snapshot.secrets.detector import seen
    return seen


def _united(secrets: list[Found]) -> list[Found]:
    """Remove matches inside others, and merge overlapping ones."""
    united: list[Found] = []
    for one in sorted(secrets, key=lambda one: (one.start, -one.end)):
        last = united[-1] if united else None
        if last is None or one.start >= last.end:
            united.append(one)
        elif one.end > last.end:
            united[-1] = Found(last.start, one.end, MASK, one.kind)
    return united
