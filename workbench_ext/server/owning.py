"""The store's owner, and adopting the store. Law: a request to adopt names the folder that was shown, or is refused."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from workbench.store import Store
from workbench.store.owner import ownership
from workbench.store.owner.adoption import adopt, offer
from workbench_ext.server.asking import body_of
from workbench_ext.server.base import Handler, Refused, bad

Json = Any

#: The most bytes of a request's body: a path.
_MOST = 1 << 16


class Ownership(Handler):
    """Shows whether the store is this user's and what adopting it would do; adopts it."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.answer(owned)

    @web.authenticated
    @authorized
    async def post(self) -> None:
        await self.answer(adopted, body_of(self, _MOST))


def owned(store: Store) -> Json:
    """The store's owner, the reason, and what adopting it would do. A store that does not exist yet holds nothing."""
    found = ownership.ownership(store)
    about = {
        "is_ours": found.is_ours,
        "reason": found.reason,
        "remedy": "" if found.is_ours else ownership.remedy(store, found),
    }
    if store.exists:
        return {**about, **dataclasses.asdict(offer(store))}
    nothing: Json = {"experiments": 0, "unfinished": [], "requests": 0, "tells": False, "is_kept": True}
    return {**about, "root": str(store.root), "owner": found.owner, "why": found.why, **nothing}


def adopted(store: Store, body: Json) -> Json:
    """Adopt the store. Returns what was done. ``body`` names its folder as the page showed it."""
    if not isinstance(body, dict) or body.keys() != {"root"}:
        raise Refused(HTTPStatus.BAD_REQUEST, 'expected {"root": …}: the folder of the store to adopt.')
    if not isinstance(body["root"], str):
        raise bad("root", body["root"], "a text")
    if body["root"] != str(store.root):
        said = f"the store here is {store.root}, and {body['root'][:200]!r} was to be adopted. Reload the page."
        raise Refused(HTTPStatus.CONFLICT, said, "root")
    done = adopt(store)
    return {**owned(store), **dataclasses.asdict(done)}
