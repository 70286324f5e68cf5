"""The secrets of an experiment that others would see. Law: nothing is unpickled, and no secret is ever shown.

Texts are masked and reported. Files that are included unchanged (captured values, checkpoints, data) are searched:
pickles by their opcodes, which are read but not executed, and other files by their readable characters.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import pickletools
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from workbench.snapshot.secrets.masking import BY_NAME, MASK, Heard, found, is_likely, look_alikes, may_hold

#: What happens to a secret: masked in the copy, its file left out of the copy, or included unchanged.
MASKED, LEFT_OUT, CARRIED = "masked", "left out", "carried"
#: Pickles up to this many bytes are read by opcode; larger ones by their readable characters.
_MOST_PICKLE = 256 << 20
#: In a binary file, shorter runs of characters cannot contain a service's key.
_READABLE = re.compile(rb"[\x20-\x7e\t]{16,}")
#: A secret found in a text is searched for in other files if it is at least this long. A shorter one may be a word.
_LEAST_ELSEWHERE = 8
#: The first bytes of a capture's list.
_CAPTURE = b'{"buffers":'
#: The most secrets from texts that are searched for, and the most lines reported per file.
_MOST_KNOWN, _MOST_LINES = 1000, 5


@dataclass(frozen=True, slots=True)
class Finding:
    """Secrets of one kind in one file. place: a description of the file. done: masked, left out or carried."""

    place: str
    kind: str
    count: int
    done: str
    lines: tuple[int, ...] = ()

    def __str__(self) -> str:
        lines = f", line {', '.join(map(str, self.lines))}" if self.lines else ""
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.place}{lines}: {self.kind}{times}, {self.done}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        about = {"place": self.place, "kind": self.kind, "count": self.count, "done": self.done}
        return {**about, "lines": list(self.lines)}


def told(findings: Sequence[Finding]) -> dict[str, Any]:
    """Findings in the form of an answer: as data, and as lines for the user."""
    return {"findings": [one.to_json() for one in findings], "said": [str(one) for one in findings]}


@dataclass(slots=True)
class Findings:
    """The findings in the files of an experiment so far."""

    found: list[Finding] = field(default_factory=list)
    #: Secrets found in texts, to be searched for in other files.
    known: set[bytes] = field(default_factory=set)

    def hear(self, place: str, heard: list[Heard], done: str = MASKED, *, has_lines: bool = False) -> None:
        """Add the secrets reported while the file ``place`` was masked."""
        for kind in sorted({one.kind for one in heard}):
            lines = [one.line for one in heard if one.kind == kind]
            told = tuple(dict.fromkeys(sorted(lines)))[:_MOST_LINES] if has_lines else ()
            self.found.append(Finding(place, kind, len(lines), done, told))
        for one in heard:
            if len(one.secret) >= _LEAST_ELSEWHERE and len(self.known) < _MOST_KNOWN and MASK not in one.secret:
                self.known.add(one.secret.encode(errors="surrogateescape"))

    def add(self, place: str, kinds: list[str], done: str) -> None:
        """Add the kinds of secrets in a file that is not masked."""
        self.found += [Finding(place, kind, 1, done) for kind in kinds]


def place_of(name: str) -> str:
    """A description of a store's file."""
    kind, _, *parts = name.split("/")
    if kind == "blobs":
        return f"a value or file that is kept (blob {name[6:18]})"
    if kind == "snapshots":
        path = "/".join(parts)
        return f"code, {path.removeprefix('code/')}" if path.startswith("code/") else _SNAPSHOT.get(path, path)
    if parts[0] != "trials":
        return _EXPERIMENT.get(parts[0], parts[0])
    trial, *rest = parts[1:]
    if not rest:
        trial, _, ending = trial.partition(".")
        return f"log of {trial}" if ending.startswith("log.txt") else f"checkpoints of {trial}"
    if checkpoint_of(name) is not None:
        return f"checkpoint of {trial}, {rest[1]}"
    return f"log of {trial}" if rest[0].startswith("log.txt") else f"{'/'.join(rest[1:])} of {trial}"


_SNAPSHOT = {"notebook.ipynb": "notebook", "cells.json": "executed cells", "environment.json": "environment",
             "data.json": "names of data", "snapshot.json": "the magic's line and captured names"}  # fmt: skip
_EXPERIMENT = {"spec.json": "train cell and settings", "events.jsonl": "journal", "data.json": "names of kept data",
               "series.db": "errors and reasons of trials"}  # fmt: skip


def carried(names: Iterable[str]) -> dict[str, int]:
    """The number of files of each kind among ``names``."""
    found = dict.fromkeys(("notebook", "code", "values and data", "logs", "checkpoints", "files", "records"), 0)
    for name in names:
        found[_sort(name)] += 1
    return {sort: number for sort, number in found.items() if number}


def _sort(name: str) -> str:
    kind, _, *parts = name.split("/")
    if kind == "blobs":
        return "values and data"
    if kind == "snapshots":
        return (
            "code" if parts[0] == "code" else "notebook" if parts[0] in ("notebook.ipynb", "cells.json") else "records"
        )
    if parts[0] != "trials":
        return "records"
    if len(parts) == 2:
        return "logs" if ".log.txt" in parts[1] else "checkpoints"
    return "logs" if parts[2].startswith("log.txt") else "files" if parts[2] == "files" else "checkpoints"


def checkpoint_of(name: str) -> str | None:
    """The folder of the checkpoint to which a file of a store belongs, or None."""
    parts = name.split("/")
    is_one = len(parts) > 6 and parts[2] == "trials" and parts[4] in ("checkpoints", "passing")
    return "/".join(parts[:6]) if is_one else None


def captured_blobs(files: Iterable[tuple[str, Path]]) -> set[str]:
    """Names of the blobs among ``files`` that contain captured values: lists of captures, their streams and buffers."""
    found: set[str] = set()
    for name, path in files:
        if name.startswith("blobs/"):
            with open(path, "rb") as file:
                is_capture = file.read(len(_CAPTURE)) == _CAPTURE
            if is_capture:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    capture = json.loads(path.read_bytes())
                    found |= {name, *(f"blobs/{digest}" for digest in (capture["stream"], *capture["buffers"]))}
    return found


def kinds_in(path: Path, known: Collection[bytes] = ()) -> list[str]:
    """The kinds of secrets in any file. known: secrets that a text of the experiment contains."""
    if path.stat().st_size == 0:
        return []
    kinds: set[str] = set()
    if path.suffix == ".zip":
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as bundle:
            for member in bundle.namelist():
                with bundle.open(member) as part:
                    if part.read(1) == b"\x80":
                        kinds.update(_in_pickle(part))
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[: len(_CAPTURE)] == _CAPTURE:
            # Besides cells it contains digests by names, which may be names of secrets.
            return sorted({kind for source in _sources(data[:]) for kind in _in_text(source)})
        if data[:1] == b"\x80" and len(data) <= _MOST_PICKLE:
            kinds.update(_in_pickle(file))
        elif (text := _text(data)) is not None:
            kinds.update(_in_text(text))
        for match in _READABLE.finditer(data):
            kinds.update(look_alikes(match[0].decode("ascii")))
        if any(data.find(secret) >= 0 for secret in known):
            kinds.add(BY_NAME)
    return sorted(kinds)


def _sources(capture: bytes) -> list[str]:
    with contextlib.suppress(ValueError, AttributeError):
        return [str(source) for source in json.loads(capture).get("sources", {}).values()]
    return []


def _text(data: mmap.mmap) -> str | None:
    """The text of a file; None for a binary file."""
    if len(data) > _MOST_PICKLE or data.find(b"\0", 0, 4096) >= 0:
        return None
    try:
        return data[:].decode()
    except ValueError:
        return None


def _in_text(text: str) -> list[str]:
    return sorted({one.kind for one in found(text)}) if may_hold(text) else []


# ---------------------------------------------------------------------------------------------------------------------
# Pickles, by their opcodes

#: Where the entries of a tuple, a list or a dictionary start on a pickle's stack.
_MARK = object()
_TEXTS = (str, bytes, bytearray)


def _in_pickle(file: IO[bytes]) -> Iterator[str]:
    """Kinds of secrets in the texts of the pickles in ``file``, and of values given to a secret's name. Each entry of a
    dictionary, and so each attribute of an object, is a name with its value; so is a captured value.
    """
    file.seek(0)
    reader = _Reader()
    try:
        while file.read(1):
            file.seek(-1, 1)
            for opcode, argument, _ in pickletools.genops(file):
                yield from reader.take(opcode, argument)
    except (ValueError, IndexError, KeyError, AttributeError, UnicodeError):
        return  # not a pickle, or a truncated one: its readable characters are searched as well


class _Reader:
    """A pickle's stack that represents only texts, and pairs of them."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def take(self, opcode: Any, argument: Any) -> Iterator[str]:
        """Process one opcode; the kinds of secrets in what it makes."""
        name, stack = opcode.name, self._stack
        if name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[len(self._memo) if argument is None else int(argument)] = stack[-1] if stack else None
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._memo.get(int(argument)))
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            yield from _pair(key, value)
        elif name in ("SETITEMS", "DICT"):
            entries = self._to_mark()
            for key, value in zip(entries[::2], entries[1::2], strict=False):
                yield from _pair(key, value)
            if name == "DICT":
                stack.append(None)
        elif name == "TUPLE2":
            value, key = stack.pop(), stack.pop()
            stack.append((key, value))
        elif name == "STOP":
            top = stack.pop() if stack else None
            if isinstance(top, tuple):
                yield from _pair(*top)
            stack.clear()
        elif isinstance(argument, _TEXTS) and opcode.stack_after:
            stack.append(_short(argument))
            yield from _in_text(_spelled(argument))
        else:
            self._other(opcode)

    def _other(self, opcode: Any) -> None:
        before = opcode.stack_before
        if any(one.name == "mark" for one in before):
            self._to_mark()
            before = before[: next(n for n, one in enumerate(before) if one.name == "mark")]
        for _ in before:
            if self._stack and self._stack[-1] is not _MARK:
                self._stack.pop()
        self._stack += [None] * len(opcode.stack_after)

    def _to_mark(self) -> list[Any]:
        entries: list[Any] = []
        while self._stack and (top := self._stack.pop()) is not _MARK:
            entries.append(top)
        return entries[::-1]


def _spelled(text: str | bytes | bytearray) -> str:
    return text if isinstance(text, str) else text.decode("latin-1")


def _short(text: str | bytes | bytearray) -> str | None:
    """A text as a name or a value; None for one that is too long for both."""
    return _spelled(text) if len(text) <= 4096 else None


def _pair(name: Any, value: Any) -> Iterator[str]:
    """The kind of a secret that is the value of a name."""
    if isinstance(name, str) and isinstance(value, str) and len(name) < 200:
        if is_likely(name, value) and value != MASK:
            yield BY_NAME
    elif isinstance(name, str) and isinstance(value, tuple):
        for one in value:
            yield from _pair(name, one)
