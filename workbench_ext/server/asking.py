"""The addresses for requests. Law: HTTP only; an engine is started if none is running, without blocking the server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from workbench.asking import Waiting, ensure_engine
from workbench.errors import StoreError
from workbench.store import Store
from workbench_ext.server import actions
from workbench_ext.server.base import Handler, Refused

#: Seconds to wait for an answer; a newly started engine answers within about three.
ANSWER_S = 20.0
#: Seconds between looks at the journal.
_LOOK_S = 0.02
#: The most bytes of a request's body.
_MOST = 1 << 20


class Requests(Handler):
    """Send a request to the engine."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        body = body_of(self, _MOST)
        waiting, told = await self.read(actions.ask, body)
        if told is not None:
            await self.read(awake)
            await self.say({"request": waiting.number, **told}, HTTPStatus.ACCEPTED)
            return
        line = await self._answer(waiting)
        if line is None:
            await self.say({"request": waiting.number, "state": "waiting"}, HTTPStatus.ACCEPTED)
            return
        await self.say(actions.said(line))

    async def _answer(self, waiting: Waiting) -> Any:
        deadline = time.monotonic() + self.settings.get("workbench_answer_s", ANSWER_S)
        while True:
            line = await self.read(looked, waiting)
            if line is not None or time.monotonic() > deadline:
                return line
            await asyncio.sleep(_LOOK_S)


class Request(Handler):
    """One request's state; it can be taken back until the engine has taken it."""

    @web.authenticated
    @authorized
    async def get(self, request: str) -> None:
        await self.answer(actions.state, request)

    @web.authenticated
    @authorized
    async def delete(self, request: str) -> None:
        await self.answer(actions.withdraw, request)


def looked(store: Store, waiting: Waiting) -> Any:
    """The line with the answer, or None; then an engine is started if none is running. Raises StoreError."""
    line = waiting.look()
    if line is None:
        started(store, waiting.tend)
    return line


def awake(store: Store) -> None:
    """Start an engine if none is running. Raises StoreError if that is not possible."""
    started(store, lambda: ensure_engine(store))


def started(store: Store, start: Callable[[], None]) -> None:
    """Call ``start``, which may start an engine. Raises StoreError if that is not possible."""
    try:
        start()
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"no engine could be started for {store.root}: {error}. Look at {store.engine_log}."
        ) from error


def body_of(handler: Handler, most: int) -> Any:
    """The JSON of a request's body, of at most ``most`` bytes."""
    data = handler.request.body
    if len(data) > most:
        said = f"the body has {len(data)} bytes: expected at most {most}."
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said)
    try:
        # NaN and the infinities are not valid JSON, though Python would read them.
        return json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not valid JSON ({error}).") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")
