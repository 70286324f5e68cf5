"""Writes a trial's log file from its process's output. Law: redraws (carriage returns) keep only their last line.

Output that a full disk does not accept is dropped: no leg ends or is lost because of its log.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from workbench.store.files import packed
from workbench.store.files.inside import make_inside

#: Bytes after which a log is rotated; KEPT older ones are kept.
ROTATE_BYTES = 8 * 1024 * 1024
KEPT = 3
#: A line longer than this is written in pieces, so that a program without newlines cannot fill the memory.
LONGEST_LINE = 64 * 1024

_MARKS = re.compile(rb"[\r\n]")


class LogWriter:
    """Writes one trial's output. A line still being redrawn is shown, and replaced when it changes."""

    def __init__(self, path: Path, head: bytes = b"") -> None:
        """head: a line to write before the output, if there is any output."""
        self._path = path
        self._head = head
        #: Opened with the first output: a trial that prints nothing has no file.
        self._file = -1
        #: Offset after the last complete line; what follows it in the file may still be redrawn.
        self._settled = 0
        self._line = bytearray()
        #: Whether a carriage return came last: the next output replaces the line, unless it is a newline.
        self._returned = False
        self._shown = False

    def feed(self, data: bytes) -> None:
        """Take output; complete lines are in the file when this returns."""
        whole = bytearray()
        start = 0
        for mark in _MARKS.finditer(data):
            self._take(data[start : mark.start()])
            start = mark.end()
            if mark.group() == b"\r":
                self._returned = True
                continue
            whole += self._line + b"\n"
            self._line.clear()
            self._returned = False
        self._take(data[start:])
        if len(self._line) > LONGEST_LINE:
            whole += self._line + b"\n"
            self._line.clear()
        if whole:
            self._write(bytes(whole))

    def show(self) -> None:
        """Write the unfinished line too (a progress bar, a prompt); the next feed replaces it."""
        if self._line and not self._shown:
            self._shown = True
            with contextlib.suppress(OSError):
                self._open()
                os.pwrite(self._file, bytes(self._line), self._settled)
                os.ftruncate(self._file, self._settled + len(self._line))

    def close(self) -> None:
        """Write the rest as a line of its own, and close."""
        if self._line:
            self._write(bytes(self._line) + b"\n")
            self._line.clear()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _take(self, piece: bytes) -> None:
        if not piece:
            return
        if self._returned:
            self._line.clear()
            self._returned = False
        self._line += piece
        self._shown = False

    def _write(self, lines: bytes) -> None:
        self._shown = False
        with contextlib.suppress(OSError):
            self._open()
            if self._settled > ROTATE_BYTES:
                self._rotate()
            # If only a part is written, that part is cut off.
            whole = os.pwrite(self._file, lines, self._settled) == len(lines)
            self._settled += len(lines) if whole else 0
            os.ftruncate(self._file, self._settled)

    def _open(self) -> None:
        if self._file >= 0:
            return
        make_inside(self._path.parent)
        packed.unpack(self._path)
        self._begin()
        if self._head:
            self._settled += os.pwrite(self._file, self._head, self._settled)
            self._head = b""

    def _begin(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._settled = os.lseek(self._file, 0, os.SEEK_END)

    def _rotate(self) -> None:
        os.ftruncate(self._file, self._settled)
        os.close(self._file)
        self._file = -1
        for number in range(KEPT, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number - 1}")
            if newer.exists():
                os.replace(newer, older)
        self._begin()
