"""The legs of one worker, and those that the engine started before Dask brought their task. Law: none starts twice.

The order to start and the order to stop may overtake each other: a leg that was stopped before it came never starts.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Generic, TypeVar

from workbench.cluster.workers.forking.runners import Runner
from workbench.errors import ClusterError, StoreNotShared, VersionsDiffer
from workbench.messages import Left, Order
from workbench.trial.process.runner import NOTICE

Begun = TypeVar("Begun")

log = logging.getLogger("workbench.cluster")

#: The number of tasks that are remembered. Each comes within milliseconds, or never, if its future was cancelled.
KNOWN = 1000
#: Names the engine's topic in the annotations of its legs' Dask tasks: others of a cluster have tasks there, too.
TOPIC = "workbench-topic"
#: Why a leg stops about which nothing else was said.
CANCELLED = "its future was cancelled"
#: The end of a leg that was ordered when its lane had been given up.
NO_LANE = Left(outcome="died", cause="cluster", reason="its lane was given up before it came")
#: Seconds that legs get to leave with a checkpoint when the machine gave notice: clouds and queues give 30 or more.
NOTICE_S = 25.0


class Leg:
    """One leg on this worker, from the task's start to its end."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.stop_reason: str | None = None
        #: Seconds that it has to come to the end of its turn and leave with a checkpoint; None: it leaves without one.
        self.keep_s: float | None = None
        self.preempted = False
        self.stop_asked = asyncio.Event()
        self.runner: Runner | None = None
        self.killed = False
        #: Whether its first step has begun, and the seconds that its set-up took.
        self.has_begun = False
        self.setup_s = 0.0
        #: It was killed because its set-up took longer than its limit; the stacks of its threads at that time.
        self.overran = False
        self.where = ""

    def stop(self, reason: str, keep_s: float | None = None) -> None:
        """Ask the leg to leave; only the first reason counts, unless a later order leaves it no time."""
        if self.stop_reason is None or (self.keep_s is not None and keep_s is None):
            self.stop_reason, self.keep_s = reason, keep_s
            self.stop_asked.set()

    def notice(self) -> None:
        """Its machine is about to go: it leaves with a checkpoint, and goes on elsewhere."""
        if self.stop_reason is None:
            self.preempted = True
            self.stop(NOTICE, NOTICE_S)

    def told_to_leave(self) -> Left:
        """Its end, if it was told to stop and said nothing of its own."""
        if self.preempted:
            return Left(outcome="died", cause="preempted", reason=self.stop_reason)
        return Left(outcome="stopped", reason=self.stop_reason)


def ended_by(error: Exception, order: Order) -> Left:
    """The end of a leg that could not be trained here. The engine must hear of it, also where the fault is ours."""
    if not isinstance(error, ClusterError):
        log.error("the leg %s: %r", order.key, error, exc_info=error)
    cause = "refused" if isinstance(error, VersionsDiffer | StoreNotShared) else "cluster"
    told = {"type": type(error).__name__, "message": str(error)}
    return Left(outcome="died", cause=cause, step=order.start, error=told)


class Lane:
    """A lane on its worker: the legs in it, and until when its Dask task lasts."""

    def __init__(self) -> None:
        self.legs: dict[str, Leg] = {}
        self.given_up = asyncio.Event()


class Early(Generic[Begun]):
    """What was started, by task."""

    def __init__(self) -> None:
        self._begun: dict[str, Begun] = {}
        self._forbidden: dict[str, str] = {}

    def may_start(self, task: str) -> bool:
        """Whether ``task`` was neither started nor stopped here."""
        return task not in self._begun and task not in self._forbidden

    def add(self, task: str, begun: Begun) -> None:
        """``task`` was started."""
        self._begun[task] = begun
        if len(self._begun) > KNOWN:
            del self._begun[next(iter(self._begun))]

    def forbid(self, task: str, why: str) -> None:
        """``task`` was stopped: it must not start any more."""
        self._forbidden[task] = why
        if len(self._forbidden) > KNOWN:
            del self._forbidden[next(iter(self._forbidden))]

    def why_not(self, task: str) -> str | None:
        """Why ``task`` was stopped before it came; None if it was not."""
        return self._forbidden.get(task)

    def take(self, task: str) -> Begun | None:
        """What was started for ``task``, which Dask has brought now."""
        return self._begun.pop(task, None)
