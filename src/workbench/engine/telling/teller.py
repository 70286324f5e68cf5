"""One experiment's notifications: alerts while it trains, a digest at its end. Law: nothing that it does or fails to do
changes the search.

A notification is journaled before it is sent (``Telling``), and its delivery as soon as it is known (``Notified``): a
restarted engine sends what is left, and nothing twice. Only a notification that was being delivered when the engine was
killed may be sent again; its ``id`` is then the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workbench.engine.shown import Shown
from workbench.engine.telling.alerts import Watch, digest, rules
from workbench.engine.telling.notify import EVENTS, Messenger
from workbench.engine.telling.notify import read as read_notify
from workbench.records import Spec
from workbench.store import Store
from workbench.store.files import packed
from workbench.store.series import Series

#: Alerts that viewers see, and bytes of a log that are read at once.
MOST_SHOWN, MOST_BYTES = 20, 1 << 20

log = logging.getLogger("workbench.engine")


@dataclass(slots=True)
class _Telling:
    """A notification, and the ways by which it must still be sent. message: None for the digest until the search has
    ended."""

    ways: set[str]
    event: str
    message: dict[str, Any] | None
    is_under_way: bool = False


class Teller:
    """Watches metrics, logs and silence of one experiment. note: journals a line."""

    def __init__(
        self, store: Store, spec: Spec, series: Series, note: Callable[[dict[str, Any]], None], now: Callable[[], str]
    ) -> None:
        self._store, self._spec, self._series, self._note, self._now = store, spec, series, note, now
        self._paths = store.experiment(spec.id)
        self._watch = Watch(spec.goal, rules(spec.alerts), time.monotonic())
        self._alerts: list[dict[str, Any]] = []
        self._offsets: dict[int, int] = {}
        self._pending: dict[int, _Telling] = {}
        self._messenger = Messenger()
        #: The number of the newest notification.
        self.newest = 0

    def recall(self, line: dict[str, Any]) -> bool:
        """Read a line that an earlier engine journaled. Returns whether it is about notifications."""
        if line["kind"] == "Alert":
            self._alerts.append({key: value for key, value in line.items() if key not in ("n", "schema", "kind")})
            self._watch.recall(line)
        elif line["kind"] == "Telling":
            self.newest = max(self.newest, line["id"])
            self._pending[line["id"]] = _Telling(set(line["ways"]), line["event"], line.get("message"))
        elif line["kind"] == "Notified":
            self._settle(line.get("id"), line.get("way"))  # older lines have neither field
        else:
            return False
        return True

    def recall_points(self) -> None:
        """Read again when each trial has improved, in a restarted engine."""
        if self._watch.counts_steps:
            for trial, _, step, index, value, _ in self._series.points(names=[self._spec.goal.metric]):
                if index == 0:
                    self._watch.improves(trial, step, value)

    def put_back(self) -> None:
        """Write the alerts again, after the series was lost."""
        if self._alerts:
            self._series.put_meta("alerts", self._alerts[-MOST_SHOWN:])

    @property
    def is_pending(self) -> bool:
        """Whether a notification is waiting or being sent."""
        return bool(self._pending)

    def ended(self, state: str) -> dict[str, Any] | None:
        """The search ends in ``state``. Returns the journal line for its digest; None if there is no recipient."""
        return self._due("fail" if state == "failed" else "end", None)

    def points(self, trial: int, rows: Iterable[list[Any]]) -> None:
        """Metrics that a trial reported or logged: rows of name, step, index, value and time."""
        values = ((name, step, index, value) for name, step, index, value, _ in rows)
        self._alert(self._watch.points(trial, values, time.monotonic()))

    def look(self, trials: Iterable[int], *, trains: bool) -> None:
        """Called about once a second: check these trials' logs, and whether any trial reports at all."""
        clock = time.monotonic()
        if not trains:
            self._watch.busy(clock)
        self._alert(self._watch.stalled(clock))
        self._look_at_logs(trials)

    def end(self, trials: Iterable[int], shown: Shown, state: str, reason: str, **facts: Any) -> None:
        """Complete the digest. started (or None) and over: when the search began and ended; retries: legs that were
        retried."""
        self._look_at_logs(trials)
        began = facts.pop("started")
        over = facts.pop("over")
        seconds = (datetime.fromisoformat(over) - datetime.fromisoformat(began)).total_seconds() if began else None
        known = {"counts": shown.counts, "seconds": seconds, **facts}
        message = digest(self._spec.label, self._spec.goal, state, reason, shown.best, known)
        for telling in self._pending.values():
            telling.message = telling.message or message

    def tell(self, newest: int) -> None:
        """Send notifications up to number ``newest``: the journal has them on disk."""
        for number, telling in list(self._pending.items()):
            if telling.message is None or telling.is_under_way or number > newest:
                continue
            telling.is_under_way = True
            message = {**telling.message, "id": f"{self._spec.id}-{number}"}
            ways = self._ways(telling.event)
            for way in sorted(telling.ways):
                if way in ways:
                    self._messenger.tell(ways[way], message, self._done(number, way))
                else:
                    self._told(
                        {"event": telling.event, "to": way, "error": "notifications are turned off"}, number, way
                    )

    def _look_at_logs(self, trials: Iterable[int]) -> None:
        if self._watch.reads_logs:
            for trial in list(trials):
                self._alert(self._watch.log(trial, self._printed(trial)))

    def _alert(self, alerts: list[dict[str, Any]]) -> None:
        """Keep alerts where viewers see them, and notify the recipients."""
        for alert in alerts:
            self._alerts.append({**alert, "at": self._now()})
            self._series.put_meta("alerts", self._alerts[-MOST_SHOWN:])
            self._note({"kind": "Alert", **alert})
            line = self._due(alert["event"], {"experiment": self._spec.label, **alert})
            if line is not None:
                self._note(line)

    def _printed(self, trial: int) -> str:
        """The trial's output since the last look."""
        try:
            with packed.opened(self._paths.trial(trial).log) as file:
                file.seek(self._offsets.get(trial, 0))
                data = file.read(MOST_BYTES)
        except OSError:
            return ""
        self._offsets[trial] = self._offsets.get(trial, 0) + len(data)
        return data.decode(errors="replace")

    def _ways(self, event: str) -> dict[str, dict[str, Any]]:
        """The recipients of an event, by way: one webhook or command each."""
        found = {}
        for whose, notify in (("experiment", self._spec.notify), ("store", read_notify(self._store))):
            if notify and event in (notify.get("on") or EVENTS):
                for way in ("webhook", "command"):
                    if notify.get(way):
                        found[f"{whose}'s {way}"] = {way: notify[way]}
        return found

    def _due(self, event: str, message: dict[str, Any] | None) -> dict[str, Any] | None:
        ways = sorted(self._ways(event))
        if not ways:
            return None
        self.newest += 1
        self._pending[self.newest] = _Telling(set(ways), event, message)
        told = {} if message is None else {"message": message}
        return {"kind": "Telling", "id": self.newest, "event": event, "ways": ways, **told}

    def _done(self, number: int, way: str) -> Callable[[str, str | None], None]:
        loop, event = asyncio.get_running_loop(), self._pending[number].event

        def done(whom: str, error: str | None) -> None:
            line = {"event": event, "to": whom, "error": error}
            with contextlib.suppress(RuntimeError):  # the engine has ended meanwhile
                loop.call_soon_threadsafe(self._told, line, number, way)

        return done

    def _told(self, line: dict[str, Any], number: int, way: str) -> None:
        self._settle(number, way)
        self._note({"kind": "Notified", "id": number, "way": way, **line})
        if line["error"]:
            log.warning("%s: telling %s failed: %s", self._spec.label, line["to"], line["error"])

    def _settle(self, number: int | None, way: str | None) -> None:
        telling = self._pending.get(number or 0)
        if telling is not None:
            telling.ways.discard(way or "")
            if not telling.ways:
                del self._pending[number or 0]
