"""The digests of files that runners read, made once on a machine. Law: beside the training; on the event loop a
file's size and time are asked for, and none is read.

A runner says which files it has read; here they are looked at. What is known (by path, size and time) is told at once,
with the message that named it; the rest when it was read.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from workbench.snapshot.data import DataFile, content_of_folder, describe

Message = dict[str, Any]

#: Seconds that the end of a leg waits at most for digests.
WAIT_S = 1.0
#: Seconds for which a folder is not gone through again: no time tells of changes inside its files.
FOLDER_S = 30.0
#: Most files that are remembered.
_REMEMBERED = 20_000


class Digests:
    """What is known of files on this machine."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], float, Message]] = {}
        self._thread = ThreadPoolExecutor(1, "workbench-digests")

    def known(self, path: str) -> Message | None:
        """What the file at ``path`` was when it was read, if nothing tells of a change since; empty where none is."""
        try:
            status = os.stat(path)
        except OSError:
            return {}
        found = self._known.get(path)
        if found is None or found[0] != _mark(status):
            return None
        return found[2] if not path.endswith("/") or time.monotonic() - found[1] < FOLDER_S else None

    async def read(self, path: str, without: Collection[str] = ()) -> Message:
        """The same, read where it must be. without: files that are not part of a folder's content."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, path, without)

    def close(self) -> None:
        """Read no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _read(self, path: str, without: Collection[str]) -> Message:
        known = self.known(path)
        if known is not None:
            return known
        try:
            mark = _mark(os.stat(path))
            found = {**told(describe(path)), "mark": [mark[0], mark[2]]}
            if path.endswith("/"):
                found["content"] = content_of_folder(path, without)
        except OSError:
            return {}
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[path] = (mark, time.monotonic(), found)
        return found


def _mark(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def told(file: DataFile) -> Message:
    """``file`` as a leg's page has it, without its path."""
    found = {"size": file.size, "modified": file.modified, "digest": file.digest}
    more = {"files": file.files if file.files != 1 else None, "sampled": file.sampled or None, "rows": file.rows}
    return {**found, **{name: value for name, value in more.items() if value is not None}}


class Sight:
    """The files that one leg has read. tell: how what is found later is said."""

    def __init__(self, digests: Digests, tell: Callable[[Message], None]) -> None:
        self._digests, self._tell = digests, tell
        self._reading: asyncio.Task[None] | None = None
        #: The first look at each file counts: it is the nearest to when it was read.
        self._found: dict[str, Message] = {}

    def begun(self, message: Message) -> None:
        """Put what is known of the files that ``message`` names in place of their names, and have the others read."""
        seen = message.get("seen")
        if seen is not None:
            self._look(seen)
            message["seen"] = self._told(seen)

    async def left(self, message: Message | None) -> None:
        """Take out of the leg's last message what it has read, and wait until all is told, though not for long."""
        seen = message.pop("seen", None) if message is not None else None
        if seen is not None:
            self._look(seen)
            self._tell({"op": "seen", "seen": self._told(seen)})
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=WAIT_S)

    def _look(self, seen: Message) -> None:
        missing = []
        for path in seen["paths"]:
            if path not in self._found:
                known = self._digests.known(path)
                if known is None:
                    missing.append(path)
                elif known:
                    self._found[path] = known
        if missing:
            self._reading = asyncio.get_running_loop().create_task(self._read(missing, seen, self._reading))

    async def _read(self, paths: list[str], seen: Message, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        for path in paths:
            found = await self._digests.read(path, seen.get("made", ()))
            if found:
                self._found.setdefault(path, found)
        self._tell({"op": "seen", "seen": self._told(seen)})

    def _told(self, seen: Message) -> Message:
        """A file whose digest is still being made has its name only, so that it is not passed over."""
        files, absent = {}, []
        for path in seen["paths"]:
            if os.path.exists(path):
                files[path] = self._found.get(path, {})
            elif path not in self._found:
                absent.append(path)
        rest = {key: value for key, value in seen.items() if key != "paths"}
        return {"files": files, **({"absent": absent} if absent else {}), **rest}
