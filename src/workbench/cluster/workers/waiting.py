"""Training code that waits at its level for the trial's next leg. Law: it holds no slot, and makes room at once.

A leg that has reached its level has left, for the engine: its slot is free. Its process keeps the trial for a moment,
in case the search promotes the trial at once: then the next leg continues there, without a set-up and without reading
a checkpoint. If another leg comes instead, or none, the process leaves its training code first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from workbench.cluster.workers.forking.forkserver import Forkserver
from workbench.cluster.workers.forking.runners import Runner
from workbench.messages import Left, Message, Order

#: Seconds for which training code waits. A promotion at once takes some milliseconds, more on a busy machine; the
#: memory of the trial is in use until then.
WAIT_S = 0.5
#: Seconds that a runner which said it is done gets to end its process.
LEAVE_S = 2.0


@dataclass(eq=False, slots=True)
class _AtLevel:
    """A trial at its level, in its process."""

    order: Order
    step: int
    secrets: Mapping[str, str]
    forkserver: Forkserver
    runner: Runner
    #: Whether the process may train other legs of its experiment afterwards.
    is_kept: bool
    #: The runner's last message; None if it has died.
    ended: asyncio.Future[Left | None]
    timer: asyncio.TimerHandle | None = field(default=None)


class Waiting:
    """What waits at levels on one worker."""

    def __init__(self, give_back: Callable[[Forkserver, Runner], bool]) -> None:
        """give_back: takes back a clean runner; False if it is no longer useful."""
        self._give_back = give_back
        self._here: list[_AtLevel] = []
        #: Those that were told to leave, and the part of a slot of each.
        self._leaving: dict[asyncio.Task[None], Fraction] = {}

    def add(
        self, order: Order, step: int, secrets: Mapping[str, str], forkserver: Forkserver, runner: Runner, is_kept: bool
    ) -> None:
        """``runner`` waits with the trial of ``order`` at ``step``."""
        loop = asyncio.get_running_loop()
        one = _AtLevel(order, step, secrets, forkserver, runner, is_kept, loop.create_future())

        def take(message: Message | None) -> None:
            if message is None or isinstance(message, Left):
                if not one.ended.done():
                    one.ended.set_result(message)
                if message is None and one in self._here:
                    self._take(one)

        runner.listen(take)
        one.timer = loop.call_later(WAIT_S, self._make_leave, one)
        self._here.append(one)

    def continued(self, order: Order, secrets: Mapping[str, str]) -> tuple[Forkserver, Runner] | None:
        """The process in which the trial of ``order`` waits at the step where that leg starts; None if there is
        none."""
        for one in self._here:
            if _continues(order, one) and one.secrets == secrets:
                self._take(one)
                one.runner.end_of_leg()
                return one.forkserver, one.runner
        return None

    async def make_room(self, most: Fraction | int) -> None:
        """Have all leave but those of ``most`` slots, those that have waited longest first. Returns when their memory
        is free."""
        while self._here and self._size > most:
            self._make_leave(self._here[0])
        if self._leaving and self._size + sum(self._leaving.values()) > most:
            await asyncio.wait(self._leaving)

    @property
    def _size(self) -> Fraction:
        """Of how many slots the trials are that wait here."""
        return sum((_size(one) for one in self._here), Fraction())

    def _take(self, one: _AtLevel) -> None:
        self._here.remove(one)
        if one.timer is not None:
            one.timer.cancel()

    def _make_leave(self, one: _AtLevel) -> None:
        if one in self._here:
            self._take(one)
            task = asyncio.get_running_loop().create_task(self._leave(one))
            self._leaving[task] = _size(one)
            task.add_done_callback(self._leaving.pop)

    async def _leave(self, one: _AtLevel) -> None:
        """Have it leave its training code, whose ``finally`` blocks still run."""
        runner = one.runner
        runner.stop("", keep=False)
        try:
            left = await asyncio.wait_for(one.ended, max(one.order.grace_s, LEAVE_S))
        except TimeoutError:
            runner.kill()
            await runner.exited.wait()
            left = None
        runner.end_of_leg()
        is_kept = left is not None and left.reusable and one.is_kept
        if not (is_kept and self._give_back(one.forkserver, runner)):
            await see_out(runner)


async def see_out(runner: Runner) -> None:
    """Wait until the process is gone: only then is the slot free and its memory back."""
    runner.dismiss()
    try:
        await asyncio.wait_for(runner.exited.wait(), LEAVE_S)
    except TimeoutError:
        runner.kill()
        await runner.exited.wait()


def _size(one: _AtLevel) -> Fraction:
    return Fraction(1, one.order.leg.parts)


def _continues(order: Order, one: _AtLevel) -> bool:
    """Whether the leg of ``order`` can continue the one that waits: the same trial, step and surroundings."""
    new, old = order.leg, one.order.leg
    return (
        (new.store, new.experiment, new.trial) == (old.store, old.experiment, old.trial)
        and new.start == one.step < new.until
        and new.attempt == old.attempt + 1
        and (new.max_steps, new.configuration) == (old.max_steps, old.configuration)
        and order.training == one.order.training
        and new.check is None
        and not order.data_back
        and not one.ended.done()
    )
