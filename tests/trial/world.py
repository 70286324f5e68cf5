"""Runners in processes of their own, as their worker sees them, and the orders for their legs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.messages import Hello, Message, plain, read
from workbench.records import PROTOCOL, Spec
from workbench.store import Store
from workbench.trial.process import forkserver
from workbench.trial.process.leg import Legs
from workbench.trial.process.runner import Link
from workbench.trial.process.wire import Connection

SOURCES = str(Path(__file__).resolve().parents[2] / "src")


class Plainly(Connection):
    """A connection that takes and gives messages as plain data, which tests can compare."""

    def send(self, message: dict[str, Any] | Message, fds: Sequence[int] = ()) -> None:
        super().send(read(message) if isinstance(message, dict) else message, fds)

    def receive(self) -> dict[str, Any] | None:
        message = super().receive()
        return None if message is None else plain(message)


class Process:
    """A runner as its worker sees it."""

    def __init__(self, server: Server, number: int) -> None:
        self.server, self.number = server, number
        ours, theirs = socket.socketpair()
        self._read, write = os.pipe()
        server.control.send({"op": "fork", "id": number}, [theirs.fileno(), write])
        theirs.close()
        os.close(write)
        self.connection = Plainly(ours)
        hello = self.connection.receive()
        assert hello is not None
        self.pid = hello["pid"]

    def leg(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """Run one leg; all that it said, up to ``left``, or up to the end of its process."""
        self.connection.send(order)
        return self.until("left")

    def until(self, op: str, **fields: Any) -> list[dict[str, Any]]:
        """What it says up to a message of kind ``op`` with these fields, or up to the end of its process."""
        said = []
        while (message := self.connection.receive()) is not None:
            said.append(message)
            if message["op"] == op and all(message.get(name) == value for name, value in fields.items()):
                break
        return said

    def output(self) -> str:
        """All that it printed. Waits for the end of its process."""
        pieces = []
        while piece := os.read(self._read, 65536):
            pieces.append(piece)
        return b"".join(pieces).decode()

    def kill(self) -> dict[str, Any]:
        """Kill it, and wait until the forkserver says that it is gone."""
        self.server.control.send({"op": "kill", "id": self.number})
        return self.exited()

    def exited(self) -> dict[str, Any]:
        """The forkserver's word of its end."""
        return self.server.expect("exited", self.number)

    def close(self) -> None:
        self.connection.close()
        if self._read >= 0:
            os.close(self._read)
            self._read = -1


class Server:
    """A forkserver with torch imported."""

    def __init__(
        self,
        preload: tuple[str, ...] = ("torch", "numpy"),
        learned: Sequence[str] = (),
        secrets: Sequence[str] = (),
        **env: str,
    ) -> None:
        variables = {**os.environ, **forkserver.environment(1, 0), "PYTHONPATH": SOURCES, **env}
        self.process, sock = forkserver.launch(sys.executable, variables)
        self.control = Plainly(sock)
        self.control.send(
            Hello(
                preload=list(preload),
                learned=list(learned),
                secrets=list(secrets),
                cwd=os.getcwd(),
                path=[],
                threads=1,
            )
        )
        self.ready = self.control.receive()
        self._number = 0
        self._unread: list[dict[str, Any]] = []
        self._runners: list[Process] = []

    def runner(self) -> Process:
        self._number += 1
        runner = Process(self, self._number)
        self._runners.append(runner)
        return runner

    def expect(self, op: str, number: int) -> dict[str, Any]:
        while True:
            for message in self._unread:
                if message["op"] == op and message["id"] == number:
                    self._unread.remove(message)
                    return message
            message = self.control.receive()
            assert message is not None, "the forkserver has gone"
            self._unread.append(message)

    def let_go(self) -> None:
        """End all its runners."""
        while self._runners:
            self._runners.pop().close()

    def close(self) -> None:
        self.let_go()
        self.control.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


class Experiment:
    """A spec in a store, and the orders for its legs."""

    def __init__(self, store: Store, spec: Spec) -> None:
        self.store, self.spec = store, spec
        self.attempt = 0

    def order(
        self, until: int | None = None, *, start: int = 0, trial: int = 0, levels: tuple[int, ...] = (), **changes: Any
    ) -> dict[str, Any]:
        self.attempt += 1
        last = self.spec.scheduler.last
        until = last if until is None else until
        return {
            "op": "legorder",
            "protocol": PROTOCOL,
            "store": str(self.store.root),
            "experiment": self.spec.id,
            "trial": trial,
            "attempt": self.attempt,
            "start": start,
            "until": until,
            "levels": sorted({*levels, until}),
            "max_steps": last,
            "configuration": {},
            "known_step": start,
            "resume": start > 0,
            **changes,
        }

    def paths(self, trial: int = 0) -> Any:
        return self.store.experiment(self.spec.id).trial(trial)


def trained_here(link: Link, order: dict[str, Any]) -> dict[str, Any]:
    """Run one leg in this very process; how it was left."""
    return plain(Legs(link).run(read(order)))


def said(messages: list[dict[str, Any]], op: str) -> list[dict[str, Any]]:
    """The messages of one kind."""
    return [message for message in messages if message["op"] == op]


def points(messages: list[dict[str, Any]]) -> dict[tuple[str, int, int], float]:
    """All points by (name, step, index)."""
    return {(name, step, index): value for m in said(messages, "points") for name, step, index, value, _ in m["rows"]}
