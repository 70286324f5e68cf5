"""The addresses by which people ask. Law: HTTP only; an engine is started where none lives, and waited for apart."""

from __future__ import annotations

import asyncio
import json
import time
from http import HTTPStatus
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from workbench.engine.asking.ask import ensure_engine
from workbench.errors import StoreError
from workbench.store import Store
from workbench_ext.server import actions
from workbench_ext.server.base import Handler, Refused

#: Seconds for which an answer is waited for; an engine that must be started has one within about three.
ANSWER_S = 20.0
#: Seconds between looks at the journal, and at whether the engine lives.
_LOOK_S, _ENGINE_S = 0.02, 2.0
#: Bytes of a request's body.
_MOST = 1 << 20


class Requests(Handler):
    """Ask the engine for something."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        body = body_of(self, _MOST)
        request, after, told = await self.read(actions.ask, body)
        if told is not None:
            await self.read(awake)
            await self.say({"request": request, **told}, HTTPStatus.ACCEPTED)
            return
        line = await self._answer(request, after)
        if line is None:
            await self.say({"request": request, "state": "waiting"}, HTTPStatus.ACCEPTED)
            return
        await self.say(actions.said(line))

    async def _answer(self, request: str, after: int) -> Any:
        deadline, checked = time.monotonic() + self.settings.get("workbench_answer_s", ANSWER_S), 0.0
        while True:
            after, line = await self.read(actions.answer, request, after)
            now = time.monotonic()
            if line is not None or now > deadline:
                return line
            if now - checked > _ENGINE_S:
                await self.read(awake)  # none lived, it was leaving, or it died before it took the request
                checked = now
            await asyncio.sleep(_LOOK_S)


class Request(Handler):
    """Where one request stands; it can be taken back until the engine has taken it."""

    @web.authenticated
    @authorized
    async def get(self, request: str) -> None:
        await self.answer(actions.state, request)

    @web.authenticated
    @authorized
    async def delete(self, request: str) -> None:
        await self.answer(actions.withdraw, request)


def awake(store: Store) -> None:
    """Start an engine where none lives. Raises StoreError where that cannot be done."""
    try:
        ensure_engine(store)
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
        # NaN and its kin are no JSON, though Python would read them.
        return json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not valid JSON ({error}).") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")
