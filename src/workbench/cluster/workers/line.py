"""A stream between an engine and one worker of its own cluster, both ways. Law: what arrives, arrives in order.

Past Dask's scheduler a message makes one hop instead of two, without an answer; what is said in one turn of the loop
goes together. What was sent just before it breaks may be lost, and its user has to assume that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from distributed.comm import connect

log = logging.getLogger("workbench.cluster")


class Line:
    """One end. ``comm``: a connection of Dask's, over which nothing else is said from now on."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._unsent: list[Any] = []
        self._has_more = asyncio.Event()

    @classmethod
    async def opened(cls, address: str, operation: str, **options: Any) -> Line:
        """The engine's end of a new line, once the worker uses its end. Raises OSError if it does not take the call.

        operation: the name of the worker's handler, which serves the other end. options: Dask's, for a connection.
        """
        comm = await connect(address, **options)
        await comm.write({"op": operation, "reply": False})
        await comm.read()
        return cls(comm)

    async def answer(self) -> None:
        """Tell the engine that this end is used."""
        await self._comm.write("open")

    def send(self, message: Any) -> None:
        """Send what msgpack can write; never waits."""
        self._unsent.append(message)
        self._has_more.set()

    async def serve(self, take: Callable[[Any], object]) -> None:
        """Call ``take`` with each message from the other end, until that is gone or this is closed."""
        writing = asyncio.get_running_loop().create_task(self._write())
        try:
            while (messages := await self._read()) is not None:
                for message in messages:
                    try:
                        take(message)
                    except Exception:  # the next message may be about another leg
                        log.exception("what came by a line could not be taken")
                await asyncio.sleep(0)  # more may be there already, and others wait as well
        finally:
            writing.cancel()
            self.close()

    def close(self) -> None:
        """End the line."""
        self._comm.abort()

    async def _read(self) -> list[Any] | None:
        try:
            messages: list[Any] = await self._comm.read()
        except OSError:
            return None  # the other end is gone
        except Exception:  # what follows on this connection means nothing
            log.exception("what came by a line cannot be read: it is closed")
            return None
        return messages

    async def _write(self) -> None:
        try:
            while True:
                await self._has_more.wait()
                self._has_more.clear()
                batch, self._unsent = self._unsent, []
                await self._comm.write(batch)
        except OSError:
            pass  # the other end is gone
        except Exception:  # msgpack does not take it: the other end would wait for it
            log.exception("a message could not be sent by a line")
        finally:
            self.close()  # the reader, and the other end, hear of it
