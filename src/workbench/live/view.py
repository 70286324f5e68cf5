"""The live view: one widget, one follower thread. Law: the store is read outside the kernel's loop, and reading never
waits for that loop.

The page gets everything once (the synced ``snapshot``, and again whenever it asks) and from then on only changes, in
numbered messages. A page that misses one says hello and gets everything, so the view is complete after a reload.
"""

from __future__ import annotations

import contextvars
import logging
import queue
import threading
import time
import uuid
from array import array
from collections.abc import Callable, Iterable
from datetime import datetime
from importlib.resources import files
from typing import Any

import anywidget
import traitlets

from workbench.errors import WorkbenchError
from workbench.records.names import name_of
from workbench.status import setups_words
from workbench.status.board import Board, Change, progress, sentence

log = logging.getLogger("workbench.live")

#: Of an output with a live view: the view's names. Our extension shows the view as soon as the page has its model
#: (workbench_ext/frontend/src/notebook/viewed.ts).
LIVE = "application/vnd.workbench.live+json"

#: The page's side. Its scripts are joined to one module, since a widget is one module and there is no build step.
PAGE = files("workbench.live").joinpath("page")
MODULE = ("board.js", "plotly.js", "words.js", "curves.js", "view.js")
#: Seconds between checks of the files' times (microseconds each); between looks while much is written; and the longest
#: time between looks, whatever the files' times are.
LOOK_S = 0.02
PACE_S = 0.05
IDLE_S = 1.0
#: Points of a whole snapshot, shared by all curves. A screen cannot show more, and they take 480 KB.
SNAPSHOT_POINTS = 20_000
#: Points read while the cell still runs; the follower reads the rest.
FIRST_POINTS = 20_000
#: Points in one message; if more arrive at once, the page gets all curves thinned instead.
MESSAGE_POINTS = 40_000
#: Seconds between refreshes of the synced snapshot, which a page without a kernel shows.
SYNC_S = 15.0
#: Fields of a trial that the page shows.
SHOWN = ("number", "configuration", "state", "since", "reason", "step", "value", "error")


class LiveView(anywidget.AnyWidget):
    """One experiment, live. It sends requests through ``asked(kind, trial)``, which raises WorkbenchError if one is
    refused."""

    _esm = "\n".join(PAGE.joinpath(name).read_text("utf-8") for name in MODULE)
    _css = PAGE.joinpath("live.css").read_text("utf-8")
    uid = traitlets.Unicode().tag(sync=True)
    snapshot = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        board: Board,
        asked: Callable[[str, int | None], None],
        changed: Iterable[str] = (),
        on_end: Callable[[Board], None] | None = None,
        figure: Callable[[Board], dict[str, Any]] | None = None,
        tend: Callable[[], None] | None = None,
    ) -> None:
        self._board, self._asked, self._on_end, self._figure = board, asked, on_end, figure
        self._changed = list(changed)
        #: Called repeatedly until the experiment has ended: it keeps an engine running.
        self._tend = tend
        #: The cell's context, in which everything is sent. A kernel with subshells (ipykernel 7) gives a page's message
        #: to the subshell whose request was the parent of the last message to the page. A thread without a context has
        #: the newest request as its parent, maybe that of a subshell that ended with its page: the next page's messages
        #: would be lost.
        self._cell = contextvars.copy_context()
        self._serial = 0
        self._orders: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._wake = threading.Event()
        #: Set once the experiment has ended and ``on_end`` has returned.
        self.left = threading.Event()
        self._closing = threading.Event()
        #: Guards board and serial: the follower changes them, and the kernel's loop reads them for a new page.
        self._lock = threading.RLock()
        board.look(FIRST_POINTS)
        super().__init__(uid=uuid.uuid4().hex, snapshot=self._whole())
        self.on_msg(self._heard)
        self._thread = threading.Thread(target=self._follow, name=f"workbench-{board.spec.label}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        """One line, for frontends that show no widgets."""
        return sentence(self._board) if self._board.is_ended else progress(self._board)

    @property
    def names(self) -> dict[str, str]:
        """What an output says of it, so that a page finds it: the widget's model, and its own name on the page."""
        return {"model_id": self.model_id, "uid": self.uid}

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """For our extension also under :data:`LIVE`: ipywidgets' own renderer may look a moment before the page has
        the model, and looks once."""
        data, metadata = super()._repr_mimebundle_() or ({}, {})
        return {LIVE: self.names, **data}, metadata

    # -- what the page gets -------------------------------------------------------------------------------------------

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """The widget's state for a page, with a new snapshot."""
        if key is None or key == "snapshot" or (not isinstance(key, str) and "snapshot" in key):
            with self._lock:
                self._trait_values["snapshot"] = self._whole()
        state: dict[str, Any] = super().get_state(key, drop_defaults)
        return state

    def _whole(self) -> dict[str, Any]:
        board = self._board
        budget = max(6, SNAPSHOT_POINTS // max(1, len(board.curves)))
        points = array("d")
        for trial, curve in board.curves.items():
            for x, y in zip(*curve.thinned(budget), strict=True):
                points.extend((trial, x, y))
        return {
            "serial": self._serial,
            "header": self._header(),
            "parameters": board.parameters,
            "rows": [self._row(row) for row in board.trials.values()],
            "metric": board.metric,
            "points": points.tobytes(),
        }

    def _header(self) -> dict[str, Any]:
        board, meta, status = self._board, self._board.meta, self._board.status
        spec, best, progress = board.spec, status.best, status.progress
        return {
            "id": spec.id,
            "label": board.label,
            "name": name_of(board.label),
            "version": spec.version,
            "goal": {"metric": spec.goal.metric, "mode": spec.goal.mode},
            "last": meta.get("last") or spec.scheduler.last,
            "state": status.state,
            "reason": status.reason,
            "progress": {**progress.numbers, "share": progress.share},
            "setups": setups_words(status.counts),
            "best": {**best.to_json(), "value": plain(best.value)} if best else None,
            "slots": status.slots,
            "seconds_left": status.seconds_left,
            "told": time.time(),
            "started": seconds(status.started),
            "ended": seconds(status.ended),
            "names": board.names,
            "changed": [*self._changed, *board.notes],
        }

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        shown = {key: row.get(key) for key in SHOWN}
        error = shown["error"]
        if isinstance(error, dict):
            shown["error"] = f"{error.get('type', 'error')}: {error.get('message', '')}"[:500]
        shown["since"] = seconds(shown["since"])
        shown["value"] = plain(shown["value"])
        shown["configuration"] = {key: plain(value) for key, value in (shown["configuration"] or {}).items()}
        return shown

    def send(self, content: Any, buffers: Any = None) -> None:
        """Send the page a message in the cell's context."""
        self._cell.copy().run(super().send, content, buffers)

    def send_state(self, key: Any = None) -> None:
        """Send the page the synced state in the cell's context."""
        self._cell.copy().run(super().send_state, key)

    # -- what the page asks -------------------------------------------------------------------------------------------

    def _heard(self, _: Any, message: dict[str, Any], __: Any) -> None:
        kind = message.get("kind")
        if kind in ("hello", "metric", "figure"):
            self._orders.put((kind, message))
            self._wake.set()
        elif kind in ("stop", "pause", "resume"):
            trial = message.get("trial")
            # Not on the kernel's loop: the answer may require starting an engine.
            threading.Thread(target=self._ask, args=(kind, trial), daemon=True).start()
        elif kind == "plotly":
            self.send({"kind": "plotly"}, [plotly_source()])

    def _ask(self, kind: str, trial: int | None) -> None:
        error = None
        try:
            self._asked(kind, trial)
        except WorkbenchError as refused:
            error = str(refused)
        except Exception as unexpected:
            log.exception("%s %s", kind, trial)
            error = repr(unexpected)
        self._say({"kind": "said", "trial": trial, "error": error})
        self._wake.set()

    # -- following ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the follower, and remove the view from the page."""
        self._closing.set()
        self._wake.set()
        super().close()

    def _follow(self) -> None:
        stamp: tuple[int, ...] | None = None
        looked = synced = time.monotonic()
        told_end = False
        while not self._closing.is_set():
            clock, now = time.monotonic(), self._board.stamp()
            change = Change()
            if now != stamp or clock - looked > IDLE_S or not self._orders.empty():
                stamp, looked = now, clock
                change = self._look()
            if change and clock - synced > SYNC_S:
                self._sync()
                synced = clock
            if self._board.is_settled and not told_end and not change:
                told_end = True
                self._end()
            if self._tend is not None and not told_end:
                self._tend()
            # A running trial may be quiet for an hour, and its next point must still be on the screen at once.
            self._wake.wait(IDLE_S if told_end else LOOK_S if not change else PACE_S)
            self._wake.clear()

    def _look(self) -> Change:
        try:
            with self._lock:
                change = self._board.look()
                if change:
                    self._tell(change)
                self._carry_out()
            return change
        except Exception as error:  # a viewer that cannot read must neither die silently nor kill the kernel
            log.debug("the live view of %s waits: %r", self._board.spec.label, error)
            return Change()

    def _end(self) -> None:
        self._sync()
        try:
            if self._on_end is not None:
                self._on_end(self._board)
        except Exception:
            log.exception("the static figure of %s could not be saved", self._board.spec.label)
        finally:
            self.left.set()

    def _tell(self, change: Change) -> None:
        self._serial += 1
        if len(change.points) > MESSAGE_POINTS or change.anew:
            self._anew()
            return
        message: dict[str, Any] = {"kind": "more", "serial": self._serial, "header": self._header()}
        if change.trials:
            message["rows"] = [self._row(self._board.trials[number]) for number in change.trials]
            message["parameters"] = self._board.parameters
        points = array("d")
        for point in change.points:
            points.extend(point)
        self._say(message, [points.tobytes()] if points else [])

    def _carry_out(self) -> None:
        while not self._orders.empty():
            kind, message = self._orders.get()
            if kind == "metric" and message.get("name") in self._board.names:
                self._board.choose(message["name"])
                self._serial += 1
                self._anew()
            elif kind == "figure" and self._figure is not None:
                self._say({"kind": "figure", "bundle": self._figure(self._board)})
            elif kind == "hello" and message.get("serial") != self._serial:
                self._anew()

    def _anew(self) -> None:
        whole = self._whole()
        points = whole.pop("points")
        self._say({"kind": "anew", "snapshot": whole}, [points])

    def _sync(self) -> None:
        if self.comm is not None:
            self.send_state("snapshot")

    def _say(self, message: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        if self.comm is not None:
            self.send(message, buffers or [])


def plain(value: Any) -> Any:
    """``value`` for the page's JSON: a number that is not finite becomes text."""
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def seconds(text: str | None) -> float | None:
    """Seconds since 1970 of a UTC time as the store writes it."""
    return datetime.fromisoformat(text).timestamp() if text else None


def plotly_source() -> bytes:
    """Plotly's JavaScript, as installed with the plotly package: for pages that are not served by the Jupyter
    server."""
    return files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
