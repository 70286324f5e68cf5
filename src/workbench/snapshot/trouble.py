"""Why a name cannot be sent to training, in words. Law: it finds the part that causes the failure, and says where it is
and what to do."""

from __future__ import annotations

import functools
import io
import types
from collections.abc import Callable, Iterator
from typing import Any

#: A part of an object's path is followed at most this deep, and at most this many parts are tried.
_DEPTH, _PARTS = 12, 300

_LISTED = "Make it in the train cell, or keep its values with list(...)"
_KINDS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("lock", "rlock", "condition", "event", "semaphore", "barrier", "queue", "simplequeue", "local", "thread"),
        "belongs to the threads of this process",
        "Make it in the train cell",
    ),
    (
        ("generator", "async_generator", "coroutine"),
        "is partly consumed",
        "Make it in the train cell, or keep its values with list(...)",
    ),
    (
        ("textiowrapper", "bufferedreader", "bufferedwriter", "bufferedrandom", "fileio", "file", "h5file", "zipfile"),
        "is open in this process",
        "Open it in the train cell, so that every trial has its own",
    ),
    (
        ("socket", "connection", "client", "session", "cursor", "engine", "channel", "pool", "process", "popen"),
        "is a live connection of this process",
        "Connect in the train cell",
    ),
    (("frame", "traceback"), "belongs to code that is running in this process", "Leave it out"),
)


def explain(name: str, value: Any, error: BaseException, pickles: Callable[[Any], bool]) -> tuple[str, str]:
    """Where the failing part is (``loader.dataset.lock``), what it is, and what to do about it.

    pickles: whether a part can be pickled on its own.
    """
    path, part = name, value
    for _ in range(_DEPTH):
        if type(part).__module__ != "__main__" and _known(type(part)) is not None:
            break
        found = next(((step, one) for step, one in _parts(part) if not pickles(one)), None)
        if found is None:
            break
        path += found[0]
        part = found[1]
    kind = type(part)
    plain = kind.__module__ in ("builtins", "_io")
    shown = f"a {kind.__qualname__}" if plain else f"a {kind.__module__}.{kind.__qualname__}"
    reason, do = _known(kind) or (f"cannot be pickled ({_first_line(error)})", "Make it in the train cell")
    if isinstance(part, io.IOBase):
        shown = f"an open file ({getattr(part, 'name', shown)!r})"
    return path, f"is {shown}, which {reason}. {do}" if path == name else f"{path} is {shown}, which {reason}. {do}"


def _known(kind: type) -> tuple[str, str] | None:
    """Why objects of this kind cannot be sent, and what to do, for common kinds."""
    # Its own name and those of its bases: `DaskClient(Client)` is a client.
    names = [base.__name__.lower().lstrip("_") for base in kind.__mro__[:-1]]
    for words, why, what in _KINDS:
        if any(name == word or name.endswith(word) for name in names for word in words):
            return why, what
    return None


def _first_line(error: BaseException) -> str:
    text = (str(error) or type(error).__name__).splitlines()[0]
    return text if len(text) <= 160 else text[:157] + "..."


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of ``value``, each with the expression that reaches it."""
    for count, part in enumerate(_all_parts(value)):
        if count >= _PARTS:
            return
        yield part


def _all_parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, str | bytes | int | float | type(None)):
        return
    if isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield f" → {name}", cell.cell_contents
            except ValueError:
                continue
        yield from ((f"'s default {one!r:.40}", one) for one in value.__defaults__ or ())
        yield from ((f".{name}", one) for name, one in vars(value).items())
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield from ((f".args[{index}]", one) for index, one in enumerate(value.args))
        yield from ((f".keywords[{name!r}]", one) for name, one in value.keywords.items())
    elif isinstance(value, type):
        yield from ((f".{name}", one) for name, one in vars(value).items() if not name.startswith("__"))
    elif isinstance(value, dict):
        yield from ((f"[{key!r:.40}]", one) for key, one in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", one) for index, one in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from ((" → an element", one) for one in value)
    else:
        yield from ((f".{name}", one) for name, one in getattr(value, "__dict__", {}).items())
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, name):
                    yield f".{name}", getattr(value, name)
