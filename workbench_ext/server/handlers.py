"""Who asks, may they, and in which words they are answered. Law: HTTP only; what is said comes from ``views``.

A reading takes a thread: a slow disk must not hold up the notebooks that the same server serves.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from tornado import web

from workbench.errors import BadInput, NewerSchema, NotFound, StoreError
from workbench.store import Store
from workbench_ext.server import views

#: Whose fault an error is, as HTTP says it. The first match counts.
STATUS: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (BadInput, HTTPStatus.BAD_REQUEST),
    (NewerSchema, HTTPStatus.CONFLICT),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
)


class Handler(APIHandler):
    """A question about the store, answered as JSON; so are errors, each with the status that says whose fault it is."""

    auth_resource = "workbench"
    # An open panel asks every second: that is no person at work, and must not keep an idle server alive.
    _track_activity = False

    async def answer(self, read: Callable[..., Any], *arguments: Any) -> None:
        """Say what ``read(store, *arguments)`` returns."""

        def reading() -> Any:
            return read(Store.find(cwd=self.settings["workbench_root"]), *arguments)

        try:
            answer = await asyncio.to_thread(reading)
        except tuple(kind for kind, _ in STATUS) as error:
            raise refusal(error) from error
        self.set_header("Cache-Control", "no-store")
        await self.finish(json.dumps(answer, allow_nan=False, separators=(",", ":")))

    def number(self, name: str, default: int) -> int:
        """A whole number of zero or more from the query."""
        given = self.get_query_argument(name, str(default))
        if not (given.isascii() and given.isdecimal() and len(given) <= 18):
            raise bad(name, given, "a whole number of 0 or more")
        return int(given)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """``{"message": …}``: Workbench's own words where there are any, and never a traceback."""
        _, error, _ = kwargs.get("exc_info", (None, None, None))
        message = error.message if isinstance(error, Refused) else HTTPStatus(status_code).phrase
        self.finish(json.dumps({"message": message}))


class Health(Handler):
    """Whether there is a store, and whether its engine lives."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.answer(views.health)


class Experiments(Handler):
    """All experiments, newest first."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.answer(views.experiments)


class Experiment(Handler):
    """One experiment and its spec."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        await self.answer(views.experiment, experiment)


class Trials(Handler):
    """Its trials that changed after a cursor."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        await self.answer(views.trials, experiment, self.number("after", 0))


class Points(Handler):
    """Its metric points that came after a cursor."""

    @web.authenticated
    @authorized
    async def get(self, experiment: str) -> None:
        after, limit = self.number("after", 0), self.number("limit", views.MOST_POINTS)
        if not 1 <= limit <= views.MOST_POINTS:
            raise bad("limit", str(limit), f"1 to {views.MOST_POINTS}")
        await self.answer(views.points, experiment, after, limit)


class Nothing(Handler):
    """Every other address under ``api/``: a 404 in JSON."""

    @web.authenticated
    async def get(self) -> None:
        raise Refused(HTTPStatus.NOT_FOUND, f"Nothing is at {self.request.path}.")


class Plotly(JupyterHandler, web.StaticFileHandler):
    """Plotly's own plotly.min.js, once for all live views, so that no page asks the internet for it."""

    def initialize(self) -> None:  # type: ignore[override]
        spec = find_spec("plotly")
        assert spec is not None
        assert spec.origin is not None
        super().initialize(path=str(Path(spec.origin).parent / "package_data"))

    @web.authenticated
    async def get(self, include_body: bool = True) -> None:  # type: ignore[override]
        await super().get("plotly.min.js", include_body)

    @web.authenticated
    async def head(self) -> None:  # type: ignore[override]
        await super().get("plotly.min.js", include_body=False)

    def set_extra_headers(self, path: str) -> None:
        """Kept for a day by the person's browser, and by nobody between: the address wants a login."""
        self.set_header("Cache-Control", "private, max-age=86400")


class Refused(web.HTTPError):
    """An error in words for the person who asked. (Tornado's own ``log_message`` is a format string.)"""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(status, message)
        self.message = message


def refusal(error: Exception) -> Refused:
    """The answer that says whose fault ``error`` is, in its own words."""
    return Refused(next(status for kind, status in STATUS if isinstance(error, kind)), str(error))


def bad(field: str, given: str, wanted: str) -> Refused:
    """A query's field that makes no sense."""
    return Refused(HTTPStatus.BAD_REQUEST, f"{field}={given[:40]!r}: wanted {wanted}.")
