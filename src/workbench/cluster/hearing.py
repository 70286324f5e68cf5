"""How far each worker of a cluster has been heard. Law: every message is taken once, in its worker's order.

A worker numbers its messages. An engine that comes to a cluster that was there before it first gets what each worker
still has to tell, up to some number; events that arrive meanwhile wait, and those up to that number are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.messages import Plain


class Hearing:
    """By worker, the number of the newest message that was heard."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        #: Events of workers that have not told yet how far they are.
        self._early: dict[str, list[Mapping[str, Any]]] = {}
        #: Numbers up to which the workers know that all is on the disk.
        self._kept: dict[str, int] = {}

    def take(self, event: Mapping[str, Any]) -> list[Plain]:
        """The messages of ``event`` that are new; none yet where its worker was not greeted."""
        worker, number, batch = event["worker"], event["n"], event["batch"]
        if worker not in self._numbers:
            self._early.setdefault(worker, []).append(event)
            return []
        new = min(number - self._numbers[worker], len(batch))
        if new <= 0:
            return []
        self._numbers[worker] = number
        return list(batch[len(batch) - new :])

    def greeted(self, worker: str, number: int) -> list[Plain]:
        """``worker`` was heard up to ``number``; what it has said since."""
        self._numbers[worker] = number
        return [message for event in self._early.pop(worker, ()) for message in self.take(event)]

    def knows(self, worker: str) -> bool:
        """Whether ``worker`` was greeted."""
        return worker in self._numbers

    def forget(self, worker: str) -> None:
        """``worker`` is gone."""
        for numbers in (self._numbers, self._kept, self._early):
            numbers.pop(worker, None)

    def marks(self) -> dict[str, int]:
        """Workers that have said something since it was kept, with its number."""
        return {worker: n for worker, n in self._numbers.items() if n > self._kept.get(worker, 0)}

    def kept(self, worker: str, number: int) -> None:
        """``worker`` knows that all up to ``number`` is on the disk."""
        if worker in self._numbers:
            self._kept[worker] = number
