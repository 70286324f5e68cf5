"""Secrets on a worker: requested from the engine when a leg first needs them, and held only in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

#: Seconds that an engine has to answer. One that does not is about to end, and the leg with it.
ANSWER_S = 20.0


class Secrets:
    """The secrets that this worker has received. ``want`` requests those of an experiment from the engine."""

    def __init__(self, want: Callable[[str], None]) -> None:
        self._want = want
        self._told: dict[str, dict[str, str]] = {}
        self._waiting: dict[str, asyncio.Future[None]] = {}

    async def of(self, experiment: str, wanted: Mapping[str, str]) -> dict[str, str]:
        """The available values of ``wanted``; missing names are left out."""
        if not wanted.keys() <= self._told.get(experiment, {}).keys():
            if experiment not in self._waiting:
                self._waiting[experiment] = asyncio.get_running_loop().create_future()
                self._want(experiment)
            # Several legs wait for one answer: none may cancel it for the others.
            _, unheard = await asyncio.wait({self._waiting[experiment]}, timeout=ANSWER_S)
            if unheard:
                self._waiting.pop(experiment, None)  # the next leg asks again
        told = self._told.get(experiment, {})
        return {name: told[name] for name in wanted if name in told}

    def ask_again(self) -> None:
        """Repeat the open requests for a new engine, which has not received them."""
        for experiment in self._waiting:
            self._want(experiment)

    async def give(self, experiment: str, values: list[list[bytes]]) -> None:
        """The engine's answer: names and values in the system's encoding."""
        self._told[experiment] = {os.fsdecode(name): os.fsdecode(value) for name, value in values}
        waiting = self._waiting.pop(experiment, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)


def to_wire(values: Mapping[str, str]) -> list[list[Any]]:
    """``values`` in the form of :meth:`Secrets.give`: they need not be UTF-8."""
    return [[os.fsencode(name), os.fsencode(value)] for name, value in values.items()]
