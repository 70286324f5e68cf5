"""How an experiment ends: the verdict of a replay, and work whose errors are only logged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from workbench.compare.verdict import conclusion
from workbench.records import Spec
from workbench.store import Store

log = logging.getLogger("workbench.engine")


def concluded(store: Store, spec: Spec) -> dict[str, Any]:
    """The verdict of training again. It reads both experiments, so it blocks."""
    try:
        return conclusion(store, spec)
    except Exception as error:  # the original may be damaged in any way, but this experiment has ended well
        kind = "replay" if spec.replays else "repeat"
        return {kind: {"verdict": "failed", "words": f"failed: no comparison ({error!r})"}}


def later(moment: datetime, seconds: float) -> datetime:
    """The time ``seconds`` after ``moment``, or the latest possible one."""
    try:
        return moment + timedelta(seconds=seconds)
    except (OverflowError, ValueError):  # a spec or journal written before limits were checked
        return datetime.max.replace(tzinfo=UTC)


def as_far_as_it_goes(work: Callable[[], Any]) -> None:
    """Do ``work``; log its error, if any."""
    try:
        work()
    except Exception as error:
        log.error("what has failed is not written: %r", error)
