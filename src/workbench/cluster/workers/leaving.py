"""How a leg leaves. Law: a leg that is told to leave gets its time, and then is killed.

So is one whose set-up takes longer than its limit; time in which this machine was asleep does not count.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

from workbench.cluster.workers.forking.runners import Runner
from workbench.cluster.workers.legs import Leg
from workbench.cluster.workers.trouble import how_it_died
from workbench.messages import Left

#: Seconds between two looks at a set-up that has a limit, and from which on the machine was asleep between them.
LOOK_S, NAP_S = 1.0, 3.0


class SetupTime:
    """What is left of the time that a set-up may take, in seconds."""

    def __init__(self, limit_s: float) -> None:
        self.left_s = limit_s
        self._looked = time.monotonic()

    def look(self) -> None:
        """Count the time since the last look."""
        before, self._looked = self._looked, time.monotonic()
        past = self._looked - before
        if past < NAP_S:
            self.left_s -= past


async def until_left(leg: Leg, runner: Runner, ended: asyncio.Future[Left | None]) -> Left | None:
    """The last message of ``leg``; None if its process ended without one."""
    loop, grace, limit_s = asyncio.get_running_loop(), None, leg.order.setup_limit_s
    setup = SetupTime(limit_s) if limit_s is not None else None
    while True:
        asked = loop.create_task(leg.stop_asked.wait())
        waited: set[asyncio.Future[Any]] = {ended, asked}
        look_s = None if setup is None else min(LOOK_S, max(setup.left_s, 0.0))
        timeout = look_s if grace is None else grace
        done, _ = await asyncio.wait(waited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not done and grace is None and setup is not None:
            setup.look()
            if leg.has_begun:
                setup = None
            elif setup.left_s <= 0:
                leg.where = await runner.where()
                leg.overran = True
                runner.kill()
                return await ended
            continue
        if not done:
            leg.killed = True
            runner.kill()
        if not done or ended.done():
            return await ended
        leg.stop_asked.clear()  # it may be asked once more, with less time
        runner.stop(leg.stop_reason or "", leg.keep_s is not None, leg.preempted)
        grace = leg.order.grace_s if leg.keep_s is None else leg.keep_s


def gone(leg: Leg, runner: Runner, out_of_memory: bool) -> Left:
    """The end of ``leg``, whose process has said none."""
    if leg.overran:
        return _too_long(leg)
    if leg.killed or leg.stop_reason is not None:
        return replace(leg.told_to_leave(), cut_s=leg.keep_s if leg.killed and leg.keep_s else None)
    if runner.why_not:
        reason = (
            f"its process could not be started: {runner.why_not}. Check how many processes this user (`ulimit -u`) and "
            "the container (`pids.max`) may have, and the free memory"
        )
        return Left(outcome="died", cause="cluster", step=leg.order.start, reason=reason)
    ended = (runner.status, runner.signal, out_of_memory)
    cause, reason = how_it_died(*ended, has_begun=leg.has_begun)
    return Left(outcome="died", cause=cause, reason=reason)


def _too_long(leg: Leg) -> Left:
    words = (
        f"its set-up took longer than {leg.order.setup_limit_s:g} s (--setup-limit): by then its first step had not "
        "started. The end of its log shows where it was. Give it more time, or keep what all trials share by "
        "trial.cached (docs/set-ups.md)"
    )
    error = {"type": "TimeoutError", "message": words, "traceback": leg.where or words}
    return Left(outcome="failed", cause="setup", step=leg.order.start, reason=words, error=error)
