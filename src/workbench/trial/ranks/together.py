"""Waiting for the other ranks. Law: a wait that cannot end is an error within a minute, on every rank that waits.

A collective ends when all ranks have joined it. A rank that leaves the loop alone joins another one, or none. So a wait
looks up after each :data:`LOOK_S`: it says in the ranks' store where this rank waits, and reads where the others do. If
all ranks wait, at different places, and none has moved for :data:`PATIENCE_S`, none ever will. Each place has a process
group of its own: in one group, collectives of different sizes would meet, which ends a process without a reason.

A wait for a tensor on a GPU is not looked after: torch queues it, and the process goes on until it reads a value.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import TrialFailed
from workbench.snapshot.imported import loaded

#: Seconds between two looks at the others, and for which no rank may have moved. A collective may be stalled for longer
#: than ten seconds, and a rank whose part is done is elsewhere meanwhile.
LOOK_S, PATIENCE_S = 2.0, 30.0


class Place(enum.Enum):
    """Where a rank is, as shown to the user."""

    BACKWARD = "waits in a backward pass"
    NORM = "waits in BatchNorm in a forward pass"
    COMPARISON = "waits before a step of an optimizer"
    REPORT = "waits in trial.report"
    ENDED = "has left the loop"


@dataclass(frozen=True, slots=True)
class _Wait:
    """A rank's wait. number: how many it had before. looks: how often it has looked up in this one."""

    place: Place
    number: int
    looks: int = 0

    def to_json(self) -> str:
        """For the ranks' store. Nothing that comes from there may be code: it asks for no password."""
        return json.dumps([self.place.name, self.number, self.looks])

    @classmethod
    def from_json(cls, text: bytes) -> _Wait:
        """The inverse of :meth:`to_json`."""
        name, number, looks = json.loads(text)
        return cls(Place[name], number, looks)


class Together:
    """This rank among the others, from the start to the end of a gang."""

    def __init__(self, store: Any) -> None:
        distributed = loaded("torch").distributed
        self._store = store
        self._rank, self._size = distributed.get_rank(), distributed.get_world_size()
        self._groups = {place: distributed.new_group() for place in (Place.NORM, Place.COMPARISON, Place.REPORT)}
        self._number = 0

    def group(self, place: Place) -> Any:
        """The process group of a place; None for the default one."""
        return self._groups.get(place)

    def leave(self, is_failed: bool) -> None:
        """Tell the others that this rank waits no more."""
        with contextlib.suppress(RuntimeError):  # the first rank, which has the store, may be gone
            if not is_failed:
                self._store.set(f"waits/{self._rank}", _Wait(Place.ENDED, self._number).to_json())
            elif not self._read("failed"):
                self._store.set("failed", f"rank {self._rank} failed. Its own error says why.")
        self._groups.clear()

    def wait(self, work: Any, place: Place) -> None:
        """Wait for a collective. Raises TrialFailed if it fails, or cannot end."""
        self._number += 1
        mine = _Wait(place, self._number)
        first: Mapping[int, _Wait] = {}
        since = time.monotonic()
        while not _is_done(work):
            mine = replace(mine, looks=mine.looks + 1)
            now = self._look(mine)
            if any(rank not in first or not _is_same(one, first[rank]) for rank, one in now.items()):
                first, since = now, time.monotonic()
            elif time.monotonic() - since >= PATIENCE_S and self._is_stuck(first, now):
                self._refuse(now)
        try:
            work.wait()
        except RuntimeError as error:
            raise TrialFailed(self._why_lost(place, error)) from error

    def _look(self, mine: _Wait) -> dict[int, _Wait]:
        try:
            self._store.set(f"waits/{self._rank}", mine.to_json())
            if text := self._read("failed"):
                raise TrialFailed(text.decode())
            found = {rank: self._read(f"waits/{rank}") for rank in range(self._size)}
        except RuntimeError:
            # The rank that has the store is gone. It may have done its part; if not, the collective fails by itself.
            return {}
        return {rank: _Wait.from_json(one) for rank, one in found.items() if one}

    def _read(self, key: str) -> bytes:
        return bytes(self._store.get(key)) if self._store.check([key]) else b""

    def _is_stuck(self, first: Mapping[int, _Wait], now: Mapping[int, _Wait]) -> bool:
        """No rank moves: each has looked up since ``first``, or has left."""
        return (
            len(now) == self._size
            and len({one.place for one in now.values()}) > 1
            and all(one.looks > first[rank].looks or one.place is Place.ENDED for rank, one in now.items())
        )

    def _refuse(self, now: Mapping[int, _Wait]) -> None:
        listed = ", ".join(f"rank {rank} {one.place.value}" for rank, one in sorted(now.items()))
        text = f"{listed}. {_ADVICE}"
        self._store.set("failed", text)
        raise TrialFailed(text)

    def _why_lost(self, place: Place, error: Exception) -> str:
        """Why a collective failed: what another rank has said, else what torch says."""
        others = ""
        with contextlib.suppress(RuntimeError):
            if text := self._read("failed"):
                return text.decode()
            for rank in range(self._size):
                found = self._read(f"waits/{rank}")
                if found and _Wait.from_json(found).place is Place.ENDED:
                    others += f", rank {rank} {Place.ENDED.value}"
        if not others:
            others = f", and another rank has ended, cannot be reached or did not come ({str(error).splitlines()[0]})"
        return f"rank {self._rank} {place.value}{others}. {_ADVICE}"


_ADVICE = (
    "Every rank must do the same: no break, return or branch may depend on the rank or on its own samples. Decide by "
    "values that are the same on all ranks, such as those of an evaluation, or use --slots 1."
)
_current: Together | None = None


def begin(store: Any) -> None:
    """From now on, waits are looked after. All ranks must call this. store: what the ranks share."""
    global _current
    _current = Together(store)


def end(is_failed: bool) -> None:
    """This rank waits no more. is_failed: it has an error of its own."""
    global _current
    if _current is not None:
        _current.leave(is_failed)
    _current = None


def wait(work: Any, place: Place, tensor: Any) -> None:
    """Wait for a collective over ``tensor``. Raises TrialFailed if it fails, or cannot end because ranks have left."""
    if _current is None or tensor.device.type != "cpu":
        work.wait()
    else:
        _current.wait(work, place)


def all_reduce(tensor: Any, place: Place) -> None:
    """Add up in place over all ranks."""
    work = loaded("torch").distributed.all_reduce(tensor, group=_group(place), async_op=True)
    wait(work, place, tensor)


def broadcast(tensor: Any, place: Place, group: Any = None) -> None:
    """Give all ranks the first one's values, in place. group: another one than that of the place."""
    work = loaded("torch").distributed.broadcast(tensor, src=0, group=group or _group(place), async_op=True)
    wait(work, place, tensor)


def all_gather(mine: Any, place: Place) -> list[Any]:
    """The tensors of all ranks, which have one shape."""
    distributed = loaded("torch").distributed
    everyones = [mine.new_empty(mine.shape) for _ in range(distributed.get_world_size())]
    wait(distributed.all_gather(everyones, mine, group=_group(place), async_op=True), place, mine)
    return everyones


def gather(mine: Any, place: Place) -> list[Any]:
    """The objects of all ranks: plain JSON."""
    torch = loaded("torch")
    data = torch.frombuffer(bytearray(json.dumps(mine).encode()), dtype=torch.uint8)
    sizes = [int(one) for one in all_gather(torch.tensor(len(data)), place)]
    padded = torch.nn.functional.pad(data, (0, max(sizes) - len(data)))
    everyones = all_gather(padded, place)
    return [json.loads(one[:size].numpy().tobytes()) for one, size in zip(everyones, sizes, strict=True)]


def _group(place: Place) -> Any:
    return None if _current is None else _current.group(place)


def _is_done(work: Any) -> bool:
    """Wait for a look's time."""
    try:
        work.wait(dt.timedelta(seconds=LOOK_S))
    except RuntimeError:
        return bool(work.is_completed())
    return True


def _is_same(one: _Wait, other: _Wait) -> bool:
    return (one.place, one.number) == (other.place, other.number)
