"""The base of all handlers: authorization, queries and error messages. Law: HTTP only; it knows no experiment.

Reading runs in a thread: a slow disk must not block the notebooks that the same server serves.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from jupyter_server.base.handlers import APIHandler
from tornado import web
from tornado.iostream import StreamClosedError

from workbench.errors import BadInput, ClusterError, InUse, NewerSchema, NotFound, StoreError, Untrusted
from workbench.records.names import trial_number

if TYPE_CHECKING:
    from workbench_ext.server.stores import Stores

Json = Any

#: The HTTP status for each kind of error, which says who caused it. The first match counts.
STATUS: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (InUse, HTTPStatus.CONFLICT),
    (BadInput, HTTPStatus.BAD_REQUEST),
    (NewerSchema, HTTPStatus.CONFLICT),
    (ClusterError, HTTPStatus.CONFLICT),
    (Untrusted, HTTPStatus.FORBIDDEN),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
)
_DIGITS = 18


class Refused(web.HTTPError):
    """An error with a message for the user. (Tornado's own ``log_message`` is a format string.)

    field: the wrong field of the request. more: further fields of the answer.
    """

    def __init__(self, status: HTTPStatus, message: str, field: str | None = None, **more: Json) -> None:
        super().__init__(status, message)
        self.said = {"message": message, **({} if field is None else {"field": field}), **more}


class Handler(APIHandler):
    """Answers a request about a store as JSON, errors too, each with the status that says who caused it."""

    auth_resource = "workbench"
    # An open panel sends a request each second: that is not user activity and must not keep an idle server alive.
    _track_activity = False

    @property
    def stores(self) -> Stores:
        """All stores that this server shows."""
        stores: Stores = self.settings["workbench_stores"]
        return stores

    async def read(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """The result of ``read(store, *arguments)``, run in a thread; its errors become refusals.

        ``?store=ID`` names the store; without it, it is the default one. From now on the store counts as shown.
        """
        given = self.get_query_argument("store", None)

        def found() -> Any:
            known = self.stores.known(given)
            self.stores.attend(known)
            return read(known.store, *arguments)

        return await self.aside(found)

    async def aside(self, read: Callable[[], Any]) -> Any:
        """The result of ``read()``, run in a thread; its errors become refusals."""
        try:
            return await asyncio.to_thread(read)
        except tuple(kind for kind, _ in STATUS) as error:
            raise refusal(error) from error

    async def answer(self, read: Callable[..., Any], *arguments: Any) -> None:
        """Send the result of ``read(store, *arguments)``. It is converted to JSON in the thread too, which may take as
        long."""
        await self.say(await self.read(lambda store: to_json(read(store, *arguments))))

    async def say(self, answer: Json, status: HTTPStatus = HTTPStatus.OK) -> None:
        """Send ``answer`` and finish: bytes are JSON already."""
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        with contextlib.suppress(StreamClosedError):  # the page was closed meanwhile
            await self.finish(to_json(answer))

    def number(self, name: str, default: int, least: int = 0, most: int = 10**_DIGITS) -> int:
        """A whole number from the query, within bounds."""
        given = self.get_query_argument(name, None)
        if given is None:
            return default
        if (number := whole(given)) is None or not least <= number <= most:
            wanted = f"{least} to {most}" if most < 10**_DIGITS else f"{least} or more"
            raise bad(name, given, f"a whole number, {wanted}")
        return number

    def real(self, name: str) -> float | None:
        """A finite number from the query, or None if it is missing."""
        given = self.get_query_argument(name, None)
        if given is None:
            return None
        try:
            number = float(given)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise bad(name, given, "a number")
        return number

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words from the query; by default the first."""
        given = self.get_query_argument(name, choices[0])
        if given not in choices:
            raise bad(name, given, " or ".join(choices))
        return given

    def flag(self, name: str) -> bool | None:
        """``true`` or ``false`` from the query; None if it is missing."""
        given = self.get_query_argument(name, None)
        return None if given is None else self.one_of(name, ("true", "false")) == "true"

    def trials(self) -> list[int] | None:
        """``trials=1,2,3`` or ``trials=t0001,t0002``; None if it is missing."""
        given = self.get_query_argument("trials", None)
        return None if given is None else [trial(one, "trials") for one in given.split(",") if one]

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """``{"message": …}``: Workbench's own message if there is one, and never a traceback."""
        _, error, _ = kwargs.get("exc_info", (None, None, None))
        said = error.said if isinstance(error, Refused) else {"message": HTTPStatus(status_code).phrase}
        self.set_header("X-Content-Type-Options", "nosniff")
        self.finish(json.dumps(finite(said)))


def whole(given: str) -> int | None:
    """``given`` as a whole number of zero or more, or None."""
    return int(given) if given.isascii() and given.isdecimal() and len(given) <= _DIGITS else None


def trial(given: str, field: str = "trial") -> int:
    """The number of the trial that ``given`` names: ``7`` or ``t0007``."""
    number = whole(given)
    if number is None:
        try:
            number = trial_number(given)
        except BadInput:
            number = 10**9
    if number >= 10**9:
        raise bad(field, given, "a trial's number such as 7 or t0007")
    return number


def refusal(error: Exception) -> Refused:
    """The answer for ``error``: a status that says who caused it, and its message."""
    return Refused(next(status for kind, status in STATUS if isinstance(error, kind)), str(error))


def bad(field: str, given: object, wanted: str) -> Refused:
    """The refusal of a field that is not valid."""
    shown = repr(given)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    return Refused(HTTPStatus.BAD_REQUEST, f"{field}={shown}: expected {wanted}.", field)


def to_json(data: Json) -> bytes:
    """``data`` as JSON; bytes are JSON already. Numbers that JSON lacks become strings."""
    if isinstance(data, bytes):
        return data
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:  # there are such numbers: they are rare, and searching for them takes longer than writing
        return json.dumps(finite(data), allow_nan=False, separators=(",", ":")).encode()


def finite(data: Json) -> Json:
    """``data`` with each number that JSON lacks as a string."""
    if isinstance(data, float) and not math.isfinite(data):
        return "nan" if math.isnan(data) else "inf" if data > 0 else "-inf"
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return data
