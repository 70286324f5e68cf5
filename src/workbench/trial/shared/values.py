"""``trial.cached`` and ``trial.shared``: a function is called once for all trials. Law: a trial's numbers do not depend
on which trial made a result; each trial gets a value of its own.

The trial that makes a result keeps it and then loads it as all others do. The function draws random numbers from a seed
that is derived from its name and arguments; the trial's own generators stand afterwards where they stood before.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from workbench.errors import BadInput, StoreError, WorkbenchError
from workbench.snapshot.modules import is_project
from workbench.snapshot.originals import Originals
from workbench.snapshot.surroundings.seen import Seen
from workbench.store import Store
from workbench.store.keeping import cached
from workbench.store.keeping.cached import File, Result
from workbench.trial import current_or_none, make_current
from workbench.trial.api.files import fingerprint, listing, stamp
from workbench.trial.generators import seeds
from workbench.trial.shared import value
from workbench.trial.shared.key import Call, key_of, parts_of, seed_of, versions

#: Where training reads the files of the project: small ones of a package in the copy of its code.
_originals = Originals()


class _Found(NamedTuple):
    value: Any


class _Keys(NamedTuple):
    """The keys of a call: by which its result is kept if it read nothing below the working folder, and if it did. A
    relative path means another file in another folder."""

    anywhere: str
    here: str


class Values:
    """The results that one trial asks for.

    experiment: the trial's, which uses them. namespace: that of the training code. seen: records which files are read.
    copies: files that training sees with an earlier content, each with the copy that holds it; results made from these
    are for such trials only. writes: whether results are kept that are not there yet.
    """

    def __init__(
        self,
        store: Store,
        experiment: str,
        namespace: dict[str, Any],
        seen: Seen | None = None,
        *,
        copies: Mapping[str, str] | None = None,
        writes: bool = True,
    ) -> None:
        self._store, self._experiment, self._namespace = store, experiment, namespace
        self._seen, self._writes = seen, writes
        self._copies = {os.path.realpath(path): copy for path, copy in (copies or {}).items()}

    def result(self, call: Call) -> Any:
        """The result of ``call``: kept, or made now. Raises BadInput for a call that cannot be kept."""
        found = self._result(call)
        seeds.was_given()
        return found

    def _result(self, call: Call) -> Any:
        parts = parts_of(call, self._namespace)
        keys = _keys(call, parts)
        found = self._found(keys)
        if found is None and self._copies:
            keys = _keys(call, {**parts, **self._copies})
            found = self._found(keys, of_copies=True)
        if found is None and not self._writes:
            return made(call, seed_of(call, parts))
        if found is None:
            with cached.held(self._store, keys.anywhere):
                # Another trial may have made it meanwhile.
                found = self._found(keys, of_copies=bool(self._copies)) or self._make(call, keys, parts)
        return found.value

    def _found(self, keys: _Keys, *, of_copies: bool = False) -> _Found | None:
        """The kept result, if it is still right. of_copies: it was made from what these copies hold."""
        return next((found for key in keys if (found := self._found_at(key, of_copies)) is not None), None)

    def _found_at(self, key: str, of_copies: bool) -> _Found | None:
        result = cached.read(self._store, key)
        if result is None or not _is_of_here(result) or versions(result.modules) != result.modules:
            return None
        if not all(map(_is_same, result.files)):
            return None
        if not of_copies and any(os.path.realpath(path) in self._copies for path, *_ in result.files):
            return None
        try:
            found = _Found(value.load(self._store, result, self._namespace))
        except WorkbenchError:
            return None  # cleaned up or damaged: make it again
        if self._seen is not None:
            places = [_originals.present(path) for path, *_ in result.files]
            self._seen.note(place for place in places if not place.endswith("/"))
            self._seen.asks(place for place in places if place.endswith("/"))
        if self._writes:
            cached.use(self._store, result, self._experiment)
        return found

    def _make(self, call: Call, keys: _Keys, parts: dict[str, str]) -> _Found:
        begun, clock = time.time_ns(), time.monotonic()
        nothing: list[str] = []
        imported = {*sys.modules}
        reading = contextlib.nullcontext(nothing) if self._seen is None else self._seen.apart()
        with reading as read:
            found = made(call, seed_of(call, parts))
        seconds = time.monotonic() - clock
        after = parts_of(call, self._namespace)
        changed = [name for name in {**parts, **after} if parts.get(name) != after.get(name)]
        if changed:
            raise BadInput(
                f"{call}: the function changes {' and '.join(changed)}, which trials that load its result would miss. "
                "Let it work on a copy, and return all that it makes."
            )
        try:
            fields = value.keep(self._store, call, found, self._namespace)
            del found  # before it is mapped: large values lie in memory once
            files = tuple(_file(path, begun) for path in dict.fromkeys([*read, *_code_since(imported)]))
            folder = os.getcwd() if any(_is_here(path) for path, *_ in files) else ""
            key = keys.here if folder else keys.anywhere
            users = (self._experiment,)
            result = Result(
                key, call.name, **fields, files=files, seconds=round(seconds, 3), users=users, folder=folder
            )
            cached.write(self._store, result)
        except OSError as error:
            raise StoreError(
                f"{call}: its result cannot be written to {self._store.root} ({error}). Free some space there, or call "
                "the function without the trial."
            ) from error
        print(f"[workbench] {call}: made in {seconds:.1f} s, and kept for the other trials")  # noqa: T201 - its log
        return _Found(value.load(self._store, result, self._namespace))


def _keys(call: Call, parts: Mapping[str, str]) -> _Keys:
    return _Keys(key_of(call, parts), key_of(call, {**parts, "the working folder": os.getcwd()}))


def _is_here(path: str) -> bool:
    return path.startswith(os.path.join(os.getcwd(), ""))


def _is_of_here(result: Result) -> bool:
    """Whether a result belongs to this working folder, or to any."""
    if result.folder is None:
        return all(_is_here(path) for path, *_ in result.files)
    return result.folder in ("", os.getcwd())


def made(call: Call, seed: int) -> Any:
    """The result of ``call``, made now, with the random numbers of ``seed``."""
    with seeds.lent(seed), _without_trial(call):
        found = call.made()
    return value.freeze(found) if call.method == "shared" else found


def made_here(call: Call) -> Any:
    """The result of ``call`` outside of Workbench: made at each call, with the numbers that trials get."""
    code = getattr(call.function, "__func__", call.function)
    home = getattr(code, "__globals__", {})
    # Code that is tried has a namespace of its own beside the kernel's.
    namespace = home if home.get("__name__") == "__main__" else vars(sys.modules["__main__"])
    return made(call, seed_of(call, parts_of(call, namespace)))


class _NoTrial:
    """Takes the place of the current trial inside a function whose result all trials share."""

    def __init__(self, call: Call) -> None:
        self.__dict__["call"] = call

    def __getattr__(self, name: str) -> Any:
        raise BadInput(
            f"{self.__dict__['call']}: the function uses trial.{name}, but its result is shared by all trials. Use the "
            "trial outside of the function, and give the function what it needs as arguments."
        )


@contextlib.contextmanager
def _without_trial(call: Call) -> Iterator[None]:
    before = current_or_none()
    make_current(_NoTrial(call))  # type: ignore[arg-type]
    try:
        yield
    finally:
        make_current(before)


def _code_since(before: Collection[str]) -> list[str]:
    """The files of the project's modules that were imported since: their names may be computed, and in no code."""
    found = []
    for name in sys.modules.keys() - before:
        path = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(path, str) and is_project(name, path):
            found.append(_originals.of(os.path.realpath(path)) or path)
    return sorted(found)


def _file(path: str, begun: int) -> File:
    """A file or folder that a function read, which began to read at ``begun`` (ns since 1970)."""
    place = _originals.present(path)
    if path.endswith("/"):
        return (path, *stamp(place), listing(place))
    size, changed = stamp(place)
    if changed >= begun:
        return path, 0, 0, ""  # changed while it was read: the next trial makes the result again
    return path, size, changed, str(fingerprint(Path(place))["digest"])


def _is_same(file: File) -> bool:
    path, size, changed, digest = file
    place = _originals.present(path)
    if stamp(place) == (size, changed):
        return True
    try:
        return bool(digest) and (listing(place) if path.endswith("/") else fingerprint(Path(place))["digest"]) == digest
    except OSError:
        return False
