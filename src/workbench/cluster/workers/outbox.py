"""What a worker tells the engine. Law: every message has a number, and a leg's are kept until they are on the disk.

Messages travel in batches, by the engine's line to this worker, or as events of Dask where it has none. Ends of legs
and levels do not wait, nor do points after a rest.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from workbench.cluster.workers.line import Line
from workbench.cluster.workers.unheard import Unheard
from workbench.messages import FromLeg, FromWorker, Points, packed, plain, read
from workbench.pace import BATCH_S, PASS_S, Pace
from workbench.records.texts import escaped

Said = TypeVar("Said", bound=FromLeg)


class Outbox:
    """The way from a Dask worker back to the engine that listens to ``topic``."""

    def __init__(self, worker: Any, topic: str) -> None:
        self._worker, self._topic = worker, topic
        self._loop = asyncio.get_running_loop()
        self._unsent: list[bytes] = []
        self._pace = Pace(PASS_S)
        self._timer: asyncio.TimerHandle | None = None
        #: The engine's line to this worker, while it has one.
        self.line: Line | None = None
        #: The number of messages so far.
        self.count = 0
        #: Those of legs that the engine does not have on its disk.
        self.unheard = Unheard()

    def tell(self, key: str, message: Said, *, now: bool) -> Said:
        """Tell the engine what the leg of ``key`` says, and keep it for the next engine. Returns what was told: with
        escapes for what cannot be written."""
        data = {**plain(message), "key": key}
        try:
            frame = packed(data)
        except UnicodeEncodeError:
            data = escaped(data)
            message, frame = read(data), packed(data)
        self.unheard.take(self.count + 1, key, message)
        self._send(frame, self._wait_s(message, now))
        return message

    def say(self, message: FromWorker) -> None:
        """Tell the engine at once what concerns the worker itself."""
        self._send(packed(plain(message)), 0.0)

    def _wait_s(self, message: FromLeg, now: bool) -> float:
        if now:
            return 0.0
        # The runner has gathered points already. All else may wait for the next batch.
        return self._pace.wait_s(self._loop.time()) if isinstance(message, Points) else BATCH_S

    def _send(self, frame: bytes, wait_s: float) -> None:
        self._unsent.append(frame)
        self.count += 1
        if not wait_s:
            self._flush()
        elif self._timer is None or self._timer.when() > self._loop.time() + wait_s:
            self._set_timer(wait_s)

    def _set_timer(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(wait_s, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._unsent = self._unsent, []
        told = {"worker": self._worker.address, "n": self.count, "batch": batch}
        if self.line is not None:
            self.line.send(told)
        else:
            self._worker.log_event(self._topic, told)
        self._pace.gone(self._loop.time())
