"""Space on the disk: before a quota or the disk's end is reached, experiments clean up, or pause and say why.

Law: it pauses while there is still space for the checkpoints that a pause writes, and resumes what it paused once there
is space. Cleaning up starts earlier, when less than three times the possible need is left; paused experiments resume at
twice the need.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.errors import BadOption, StoreFull
from workbench.facts import PauseAsked, ResumeAsked
from workbench.store import Store
from workbench.store.files.space import left_to
from workbench.store.keeping import usage
from workbench.store.lists.said import NO_ROOM, Said, read_bytes, shown_bytes

if TYPE_CHECKING:
    from workbench.engine.loop import ExperimentLoop

log = logging.getLogger("workbench.engine")

#: Seconds between two looks, at least and at most; in between, looking takes this share of the engine's time.
LOOK_S, MOST_S, SHARE = 1.0, 10.0, 0.02
#: The part of the disk left to other programs: this share, and at most so many bytes.
RESERVE, MOST_RESERVE = 0.05, 500_000_000
#: Bytes for the journals and points of all experiments, besides their checkpoints.
LEAST = 1 << 20
#: Seconds between two cleanings for lack of space.
CLEAN_S = 30.0


@dataclass(frozen=True, slots=True)
class Room:
    """The bytes that the store uses and may use. None if unknown or unlimited."""

    used: int | None
    quota: int | None
    free: int | None
    reserve: int

    def lacks(self, need: int) -> str | None:
        """Why there is no space for ``need`` more bytes, in words and numbers; None if there is."""
        if self.quota is not None and self.used is not None and self.used + need > self.quota:
            return (
                f"the store takes {shown_bytes(self.used)} of the {shown_bytes(self.quota)} of its quota, and running "
                f"trials may need {shown_bytes(need)} more. Delete something, keep less (`workbench keep`), or raise "
                "it (`workbench quota`)"
            )
        if self.free is not None and self.free - need < self.reserve:
            return (
                f"the disk has {shown_bytes(self.free)} left, of which {shown_bytes(self.reserve)} are reserved, and "
                f"running trials may need {shown_bytes(need)}. Free some space, or keep less (`workbench keep`)"
            )
        return None


class Rooms:
    """Watches the space of one store for its engine."""

    def __init__(
        self, store: Store, wishes: Said, loops: dict[str, ExperimentLoop], clean: Callable[[], Awaitable[Any]]
    ) -> None:
        """loops: open experiments, by id. clean: frees what can be freed."""
        self._store, self._wishes, self._loops, self._clean = store, wishes, loops, clean
        self._cleaned = -CLEAN_S
        #: The last measurement; the loops count what was written since.
        self._room = Room(None, None, None, 0)
        self._wake = asyncio.Event()
        self._cleaning: asyncio.Future[Any] | None = None
        self._named = _quota_of_surroundings()
        #: Why there is no space, while there is none.
        self.trouble: str | None = None

    async def keep(self) -> None:
        """Watch, until cancelled."""
        while True:
            begun, rest_s = time.monotonic(), MOST_S
            if self._running():
                await self.look()
                rest_s = min(max(LOOK_S, (time.monotonic() - begun) / SHARE), MOST_S)
            else:
                self.trouble = None
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), rest_s)

    def look_soon(self) -> None:
        """The quota has changed, or an experiment starts to run."""
        self._room = replace(self._room, quota=self._quota)
        if self.trouble is not None:
            self.trouble = self._lacks(1.0)
        self._wake.set()

    def heard(self) -> None:
        """Something was written: look at once if space is getting short, and pause if there may be none.

        The estimate may be too high, but never too low; the next look then resumes what was paused.
        """
        if self.trouble is None and self._lacks(2.0) is not None:
            self._wake.set()
            self.trouble = self._lacks(1.0)
            self._pause()

    async def look(self) -> None:
        """Check the space; clean up, pause or resume accordingly."""
        running = self._running()
        await self._measure(False)
        if self._lacks(2.0) is not None:
            for loop in running:
                loop.legbook.heard_bytes = 0
            await self._measure(True)
        self.trouble = self._lacks(1.0)
        if self._lacks(3.0) is not None and time.monotonic() - self._cleaned >= CLEAN_S:
            # In the background: running trials may write faster than checkpoints are removed.
            self._cleaned = time.monotonic()
            self._cleaning = asyncio.ensure_future(self._clean())
        self._pause()
        if self._lacks(2.0) is None:
            for loop in running:
                if loop.life.pause == "room":
                    loop.tell(ResumeAsked("there is room again"))

    def _pause(self) -> None:
        """Pause what runs, if there is no space."""
        for loop in self._running() if self.trouble is not None else ():
            if loop.life.pause is None:
                log.warning("%s pauses: %s", loop.spec.label, self.trouble)
                loop.tell(PauseAsked(f"{NO_ROOM}{self.trouble}", "room"))

    def _lacks(self, times: float) -> str | None:
        """Why there is no space for ``times`` what all running experiments may need; None if there is."""
        return self._room.lacks(int(times * sum(map(need_of, self._running()))))

    def check(self, *, is_held: bool) -> None:
        """Raises StoreFull while there is no space, so that a user who resumes learns why that would not help."""
        if self.trouble is not None:
            after = "It resumes by itself when there is room." if is_held else "Make room, and resume it again."
            raise StoreFull(f"it cannot continue yet: {self.trouble}. {after}")

    def _running(self) -> list[ExperimentLoop]:
        return [loop for loop in self._loops.values() if not loop.finished.is_set()]

    @property
    def _quota(self) -> int | None:
        """Bytes that the store may use; None if unlimited."""
        return (self._wishes.quota if self._wishes.quota is not None else self._named) or None

    async def _measure(self, fresh: bool) -> None:
        measured = await asyncio.to_thread(self._measured, fresh)
        self._room = replace(measured, quota=self._quota)  # the quota may have changed meanwhile

    def _measured(self, fresh: bool) -> Room:
        quota = self._quota
        try:
            disk = os.statvfs(self._store.root)
        except OSError:
            return Room(None, quota, None, 0)
        used, free = None, left_to(os.geteuid(), disk)
        if quota is not None:
            if fresh:
                usage.forget(self._store)
            used = usage.usage(self._store).bytes
        reserve = int(min(RESERVE * disk.f_blocks * disk.f_frsize, MOST_RESERVE))
        return Room(used, quota, free, reserve)


def need_of(loop: ExperimentLoop) -> int:
    """Bytes that an experiment may write before it has paused: for each leg, the checkpoint that it may be writing and
    the one that it pauses with; the journals; and what was reported since the store was measured."""
    # A paused experiment has no legs, but will have some as soon as it resumes.
    legs = max(len(loop.legbook.legs), loop.shown.share)
    return LEAST + (2 * legs + 1) * loop.legbook.largest + loop.legbook.heard_bytes


def _quota_of_surroundings() -> int | None:
    """Bytes of ``WORKBENCH_QUOTA``; None if it is not set, or not a size."""
    try:
        text = os.environ.get("WORKBENCH_QUOTA")
        return read_bytes(text) if text else None
    except BadOption as error:
        log.error("WORKBENCH_QUOTA is ignored: %s", error)
        return None


def wanted_quota(value: Any) -> int | None:
    """The quota that a request sets: bytes, or 0 or None for no quota. Raises BadOption."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise BadOption(f"quota {value!r}: expected bytes, a whole number, or null for none.")
