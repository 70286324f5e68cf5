"""How an experiment ends: what replaying it has shown, and what is done although something failed."""

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
    """What training again has shown. It reads both experiments, so it blocks."""
    try:
        return conclusion(store, spec)
    except Exception as error:  # the original may be damaged in any way; this experiment has ended well
        kind = "replay" if spec.replays else "repeat"
        return {kind: {"verdict": "failed", "words": f"failed: no comparison ({error!r})"}}


def later(moment: datetime, seconds: float) -> datetime:
    """So many seconds after ``moment``; the last moment there is, where that lies beyond all dates."""
    try:
        return moment + timedelta(seconds=seconds)
    except (OverflowError, ValueError):  # in a spec or journal that was written before limits were checked
        return datetime.max.replace(tzinfo=UTC)


def as_far_as_it_goes(work: Callable[[], Any]) -> None:
    """Do ``work``; where it raises, the log says so."""
    try:
        work()
    except Exception as error:
        log.error("what has failed is not written: %r", error)
