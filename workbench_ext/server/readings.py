"""What each address reads. Law: a reading gets the parts of the address and the query, and returns a function that
reads.

The query is checked before a thread starts: errors in it are refused at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from workbench.store import Store
from workbench.store.files.samples import MEASURES
from workbench.store.lists import ladder as ladders
from workbench_ext.server import curves as drawn
from workbench_ext.server import disk as disks
from workbench_ext.server import experiments as lists
from workbench_ext.server import files as kept
from workbench_ext.server import importance as ranked
from workbench_ext.server import logs, pages, snapshots
from workbench_ext.server.base import Handler, bad, trial

#: Reads from a store, in a thread.
Reads: TypeAlias = Callable[[Store], Any]
#: Takes the handler and the parts of its address.
Reading: TypeAlias = Callable[..., Reads]

#: Columns of pixels of the widest possible screen.
_WIDEST = 16_384


def health(_: Handler) -> Reads:
    """Whether there is a store, and its engine's state."""
    return lists.health


def experiment(_: Handler, name: str) -> Reads:
    """One experiment and its spec."""
    return _of(lists.experiment, name)


def trials(query: Handler, name: str) -> Reads:
    """Its trials that changed after a cursor."""
    return _of(lists.trials, name, query.number("after", 0), query.flag("engine"))


def points(query: Handler, name: str) -> Reads:
    """Its metric points that came after a cursor."""
    after, limit = query.number("after", 0), query.number("limit", lists.MOST_POINTS, 1, lists.MOST_POINTS)
    return _of(lists.points, name, after, limit, query.get_query_argument("name", None), query.trials())


def metrics(query: Handler, name: str) -> Reads:
    """Its metrics, the goal first."""
    return _of(lists.metrics, name, query.trials())


def measures(query: Handler, name: str) -> Reads:
    """What was measured of its trials that changed after a cursor."""
    return _of(lists.measures, name, query.number("after", 0))


def curves(query: Handler, name: str) -> Reads:
    """Its curves of one metric, thinned to what pixels can show."""
    metric = query.get_query_argument("metric", None)
    low, high = query.real("low"), query.real("high")
    if low is not None and high is not None and low > high:
        raise bad("high", high, f"{low:g} or more, as low is")
    options: dict[str, Any] = {
        "trials": query.trials(),
        "low": low,
        "high": high,
        "width": query.number("width", 800, 1, _WIDEST),
        "x": query.one_of("x", ("step", "time")),
        "draft": query.one_of("draft", ("0", "1")) == "1",
    }
    measure = query.get_query_argument("system", None)
    if measure is not None and measure not in MEASURES:
        raise bad("system", measure, f"one of {', '.join(MEASURES)}")

    def read(store: Store) -> Any:
        experiment_id, spec = lists.found(store, name)
        path = store.experiment(experiment_id).series
        if not path.exists():
            return {"cursor": 0, "x": options["x"], "draft": False, "curves": []}
        if measure is not None:
            return drawn.system_curves(path, measure, options["trials"], low, high, options["width"])
        return drawn.curves(path, spec.goal.metric if metric is None else metric, **options)

    return read


def timeline(query: Handler, name: str) -> Reads:
    """Its legs that changed after a cursor: which slot ran which trial when."""
    return _of(lists.timeline, name, query.number("after", 0))


def ladder(query: Handler, name: str) -> Reads:
    """The changes of its ladder of rungs after a line of its journal, and the events since."""
    after = query.number("after", 0)
    return lambda store: ladders.ladder(store, lists.found(store, name)[0], after)


def importance(query: Handler, name: str) -> Reads:
    """Which hyperparameters matter for a metric at a level."""
    level = query.number("level", -1)
    return _of(ranked.importance, name, query.get_query_argument("metric", None), None if level < 0 else level)


def snapshot(_: Handler, name: str) -> Reads:
    """What the experiment froze when it was started."""
    return _of(snapshots.snapshot, name)


def notebook(query: Handler, name: str) -> Reads:
    """One of its recorded notebooks."""
    return _of(snapshots.notebook, name, query.one_of("which", snapshots.WHICH))


def page(_: Handler, name: str, number: str) -> Reads:
    """One trial's page."""
    return _of(pages.page, name, trial(number))


def files(_: Handler, name: str, number: str) -> Reads:
    """The files that a trial kept."""
    return _of(kept.listed, name, trial(number))


def log(query: Handler, name: str, number: str) -> Reads:
    """A trial's output, from an offset on."""
    tail = query.get_query_argument("offset", None) == "-1"
    offset = -1 if tail else query.number("offset", 0)
    return _of(logs.log, name, trial(number), offset, query.number("limit", 1 << 16, 64, logs.MOST))


def cluster(_: Handler) -> Reads:
    """The engine's cluster: workers, slots with their trials, memory."""
    return lists.cluster


def compare(query: Handler) -> Reads:
    """What differs between two trials or experiments, and from which step on they differ."""
    a, b = _reference(query, "a"), _reference(query, "b")

    def read(store: Store) -> Any:
        from workbench.compare import compare  # takes half a second, so not at the server's start

        return compare(store, a, b)

    return read


def disk(_: Handler) -> Reads:
    """The store's disk usage, and what cleaning up would free."""
    return disks.disk


def _reference(query: Handler, name: str) -> str:
    """One side of a comparison: an experiment, a trial, or a trial at a step."""
    given = query.get_query_argument(name, "")
    if not given:
        raise bad(name, given, "what to compare, such as digits@2 or digits@2/t0007:27")
    return str(given)


def _of(read: Callable[..., Any], *arguments: Any) -> Reads:
    """A function that calls ``read(store, *arguments)``."""
    return lambda store: read(store, *arguments)
