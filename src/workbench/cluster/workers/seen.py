"""Digests of the files that runners read, computed once for each machine. Law: in parallel to training; on the event
loop only a file's size and time are read, never its content.

A runner reports which files it has read. Known digests (by path, size and time) are sent at once, with the message that
named the files; the others once they are computed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from workbench.cluster.workers.keeping import Keeper
from workbench.messages import Plain
from workbench.snapshot.surroundings.data import DataFile, content_of_folder, describe, mark, opened_mark
from workbench.store import Store

#: Seconds that the end of a leg waits at most for digests and for files that are still being kept.
WAIT_S = 1.0
#: Seconds before a folder is read again: its time does not show changes inside its files.
FOLDER_S = 30.0
#: The most files that are remembered.
_REMEMBERED = 20_000


class Digests:
    """The known digests of files on this machine."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], float, Plain]] = {}
        #: By keeper and path: a digest, and the result of keeping the file with that content.
        self._kept: dict[tuple[Keeper, str], tuple[str, Plain]] = {}
        self._keepers: dict[tuple[str, int], Keeper] = {}
        self._thread = ThreadPoolExecutor(1, "workbench-digests")

    def keeper(self, store: str, most: int) -> Keeper:
        """The keeper for files of at most ``most`` bytes in the store at ``store``."""
        found = self._keepers.get((store, most))
        if found is None:
            found = self._keepers[store, most] = Keeper(Store(store), most)
        return found

    def kept(self, path: str, found: Plain, keeper: Keeper) -> Plain | None:
        """The result of keeping the content that ``found`` describes; None if it was not tried yet."""
        known = self._kept.get((keeper, path))
        if known is None or known[0] != found["digest"] or not keeper.has(known[1]):
            return None
        return known[1]

    async def keep(self, path: str, found: Plain, keeper: Keeper) -> Plain:
        """Keep the file if it still is what ``found`` describes."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._keep, path, found, keeper)

    def _keep(self, path: str, found: Plain, keeper: Keeper) -> Plain:
        known = self.kept(path, found, keeper)
        if known is None:
            known = keeper.keep(path, found)
            if len(self._kept) >= _REMEMBERED:
                self._kept.clear()
            self._kept[keeper, path] = (found["digest"], known)
        return known

    def known(self, path: str) -> Plain | None:
        """The description of the file at ``path`` when it was last read, if it has not changed since; empty if there is
        no file; None if it must be read."""
        try:
            status = os.stat(path)
        except OSError:
            return {}
        found = self._known.get(path)
        if found is None or found[0] != _signature(status):
            return None
        return found[2] if not path.endswith("/") or time.monotonic() - found[1] < FOLDER_S else None

    async def read(self, path: str, without: Collection[str] = ()) -> Plain:
        """The same, but read the file if needed. without: files that are not part of a folder's content."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, path, without)

    def close(self) -> None:
        """Read no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _read(self, path: str, without: Collection[str]) -> Plain:
        known = self.known(path)
        if known is not None:
            return known
        try:
            status = os.stat(path)
            found = {**told(describe(path)), "mark": list(mark(status))}
            if path.endswith("/"):
                found["content"] = content_of_folder(path, without)
        except OSError:
            return {}
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[path] = (_signature(status), time.monotonic(), found)
        return dict(found)


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_size, *mark(status))


def told(file: DataFile) -> Plain:
    """``file`` in the form of a leg's page, without its path."""
    found = {"size": file.size, "modified": file.modified, "digest": file.digest}
    more = {"files": file.files if file.files != 1 else None, "sampled": file.sampled or None, "rows": file.rows}
    return {**found, **{name: value for name, value in more.items() if value is not None}}


#: Parts of a runner's report that are converted file by file.
_OF_FILES = ("paths", "named", "copies", "marks", "absent")
#: What is told of a file that has changed since the leg opened it: what the leg has read is not known.
_CHANGED: Plain = {"mixed": True, "not_kept": "changing"}


def _source(seen: Plain, path: str) -> str:
    """Where the bytes read at ``path`` are: there, or in a copy that replaced it."""
    source: str = seen.get("copies", {}).get(path, path)
    return source


def _is_as_read(seen: Plain, path: str, found: Plain) -> bool:
    """Whether ``found`` describes the file that the leg has opened, as far as its mark tells."""
    marks = seen.get("marks", {})
    if path.endswith("/"):
        inside = [(opened_mark(file), before) for file, before in marks.items() if file.startswith(path)]
        return all(now is None or [*now] == before for now, before in inside)  # what is gone has no digest either
    return path not in marks or marks[path] == [found["size"], *found["mark"][:2]]


def _marked(seen: Plain, path: str) -> Plain:
    """What is known of a file when it was opened."""
    size, *before = seen.get("marks", {}).get(path) or (None,)
    return {"size": size, "mark": before} if before else {}


class Sight:
    """The files that one leg has read. tell: reports later findings. keeper: keeps their bytes."""

    def __init__(self, digests: Digests, tell: Callable[[Plain], None], keeper: Keeper | None = None) -> None:
        self._digests, self._tell, self._keeper = digests, tell, keeper
        self._reading: asyncio.Task[None] | None = None
        #: The first look at each file counts: it is the closest to when the leg read it.
        self._found: dict[str, Plain] = {}

    def first(self, seen: Plain) -> Plain:
        """What is known of the files that ``seen`` names, in place of their names; reading the others starts now."""
        self._look(seen)
        return self._told(seen)

    async def left(self, seen: Plain | None) -> None:
        """Report what the leg has read until its end, and wait a short time until all is reported."""
        if seen is not None:
            self._look(seen)
            self._tell(self._told(seen))
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=WAIT_S)

    def _look(self, seen: Plain) -> None:
        missing = []
        for path in seen["paths"]:
            if path not in self._found:
                known = self._digests.known(_source(seen, path))
                if known:
                    self._found[path] = {**known, **(self._kept(seen, path, known) or {})}
                if known is None or (known and self._kept(seen, path, known) is None):
                    missing.append(path)
        if missing:
            self._reading = asyncio.get_running_loop().create_task(self._read(missing, seen, self._reading))

    def _kept(self, seen: Plain, path: str, found: Plain) -> Plain | None:
        if not _is_as_read(seen, path, found):
            return _CHANGED
        return {} if self._keeper is None else self._digests.kept(_source(seen, path), found, self._keeper)

    async def _read(self, paths: list[str], seen: Plain, before: asyncio.Task[None] | None) -> None:
        """Digests first, which are fastest; then the bytes."""
        if before is not None:
            await before
        for path in paths:
            found = await self._digests.read(_source(seen, path), seen.get("made", ()))
            if found:
                self._found.setdefault(path, {**found, **({} if _is_as_read(seen, path, found) else _CHANGED)})
        self._tell(self._told(seen))
        for path in paths:
            if self._keeper is not None and not self._found.get(path, _CHANGED).get("mixed"):
                self._found[path] |= await self._digests.keep(_source(seen, path), self._found[path], self._keeper)
        if self._keeper is not None:
            self._tell(self._told(seen))

    def _told(self, seen: Plain) -> Plain:
        """A file whose digest is not ready has only its mark, so that it is not left out."""
        files: dict[str, Plain] = {}
        absent = [*seen.get("absent", ())]
        for path in seen["paths"]:
            if os.path.exists(_source(seen, path)):
                files[path] = dict(self._found.get(path) or _marked(seen, path))
            elif path not in self._found and path not in absent:
                absent.append(path)
        for path in seen.get("named", ()):
            if path in files:
                files[path]["named"] = True
        rest = {key: value for key, value in seen.items() if key not in _OF_FILES}
        return {"files": files, **({"absent": absent} if absent else {}), **rest}
