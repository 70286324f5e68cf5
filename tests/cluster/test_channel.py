"""The worker's end of a process's socket: messages as they come, and an end for a process that sends anything else."""

from __future__ import annotations

import asyncio
import socket

import pytest

from workbench.cluster.workers.forking.runners import Channel
from workbench.messages import Kill, Message
from workbench.trial.process.wire import encode


@pytest.mark.parametrize("body", [b'{"op": "left", "outcome": "well"}', b"[]", b"{", b'{"op": "kill", "id": "2"}'])
def test_a_process_that_sends_no_message_loses_its_connection_after_what_was_sound(body: bytes) -> None:
    async def heard() -> list[Message]:
        ours, theirs = socket.socketpair()
        taken: list[Message] = []
        gone = asyncio.Event()
        Channel(ours, taken.append, gone.set)
        with theirs:
            theirs.sendall(encode(Kill(1)) + len(body).to_bytes(4, "big") + body + encode(Kill(3)))
            await asyncio.wait_for(gone.wait(), 10)
        return taken

    assert asyncio.run(heard()) == [Kill(1)]
