"""The list of experiments, which is sent again only if it has changed. Law: states of files say whether it has; no
series is opened for that.

A page asks every few seconds, and a list of a thousand experiments has about a megabyte.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from http import HTTPStatus

from jupyter_server.auth.decorator import authorized
from tornado import web

from workbench.status import RESTING, Around
from workbench.store import Store
from workbench.store.files.database import state_of
from workbench.store.lists.catalog import read_catalog
from workbench_ext.server import experiments as lists
from workbench_ext.server.base import Handler, to_json

#: Another process may have another version of Workbench, which may write the lines in another way.
_PROCESS = os.urandom(8).hex()


class Experiments(Handler):
    """All experiments, newest first."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        # Before the list is read: if something changes in between, the next answer has another tag and is sent.
        tag = await self.read(tag_of)
        if tag is not None:
            self.set_header("Etag", tag)
            if self.check_etag_header():
                self.set_status(HTTPStatus.NOT_MODIFIED)
                await self.finish()
                return

        def read(store: Store) -> tuple[bytes, bool]:
            answer = lists.experiments(store)
            return to_json(answer), "more" in answer

        answer, has_more = await self.read(read)
        if has_more:  # the next one has more of it, so Tornado makes a tag from the bytes of this one
            self.clear_header("Etag")
        await self.say(answer)


def tag_of(store: Store) -> str | None:
    """A tag that changes when the list of ``store`` may have changed; None if that cannot be known cheaply.

    An experiment that rests changes with its line in the catalog, and a paused one also with its series. What is said
    of one that trains also changes with time, so that its list is read each time.
    """
    try:
        stat = os.stat(store.catalog_path)
    except OSError:  # the list is read from journals
        return None
    rows = read_catalog(store)
    others = [row for row in rows if row.get("state") not in RESTING]
    if any(row.get("state") != "paused" for row in others):
        return None
    paused = [str(row["id"]) for row in others]
    state = (
        _PROCESS,
        str(store.root),
        (stat.st_ino, stat.st_size, stat.st_mtime_ns),
        Around.of(store),
        sorted(lists.deleting(store).items()),
        [(key, state_of(store.experiment(key).series)) for key in paused],
    )
    return f'"{blake2b(repr(state).encode(), digest_size=16).hexdigest()}"'
