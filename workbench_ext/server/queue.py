"""The queue of this machine's slots, and draining them. Law: it belongs to no store; a shell shows the same."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from workbench.status import load
from workbench.status.queue import queue, told, use
from workbench_ext.server.asking import body_of
from workbench_ext.server.base import Handler, Refused, bad, to_json

Json = Any

#: The most bytes of a request's body: one word.
_MOST = 1 << 10


class Queue(Handler):
    """Who trains in which slot, what it uses, and who waits."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.say(await self.aside(lambda: to_json(now())))


class Slot(Handler):
    """Drains a slot, or lets trials use it again."""

    @web.authenticated
    @authorized
    async def post(self, slot: str) -> None:
        is_used = _used(body_of(self, _MOST))
        free = await self.aside(lambda: use(slot, is_used))
        await self.say({"slot": slot, "used": is_used, "free": free})


def now() -> Json:
    """The queue now. It takes a fifth of a second if a slot is held, in which its processor time is measured."""
    found = queue()
    return told(found, load.read(one.holder for one in found.held))


def _used(body: Json) -> bool:
    if not isinstance(body, dict) or body.keys() != {"used"}:
        raise Refused(HTTPStatus.BAD_REQUEST, 'expected {"used": false} to drain the slot, or {"used": true}.')
    if not isinstance(body["used"], bool):
        raise bad("used", body["used"], "true or false")
    return body["used"]
