"""One POST to an address that a person gave. Law: http and https alone, no redirect, one time limit for all of it, and
no error that says the address or what the other side answered.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)


class NotTold(Exception):
    """The address did not take the message; why, without the address."""


def post(url: str, data: bytes, seconds: float) -> None:
    """POST ``data`` as JSON. Proxies are those of the surroundings. Raises NotTold after ``seconds`` at most."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise NotTold("its address cannot be read") from None
    if parts.scheme not in ("http", "https"):
        raise NotTold(f"{parts.scheme or 'no'} scheme: expected http or https")
    headers = {"Content-Type": "application/json"}
    host = parts.netloc.rpartition("@")[2]
    if "@" in parts.netloc:
        # urllib takes credentials for a part of the host, and its errors say them.
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
    opened: list[http.client.HTTPConnection] = []
    late = threading.Event()
    limit = threading.Timer(seconds, _end, (opened, late))
    limit.daemon = True
    limit.start()
    try:
        request = Request(urlunsplit(parts._replace(netloc=host)), data, headers)  # noqa: S310 - as checked above
        # The answer's body is not read, however long it is.
        with _opener(opened).open(request, timeout=seconds):
            if late.is_set():  # an answer that was ended within its head is read as a whole one
                raise TimeoutError
    except HTTPError as error:
        error.close()
        raise NotTold(_refused(error.code)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if late.is_set() or _is_timeout(error):
            raise NotTold(f"no answer within {seconds:g} s") from None
        raise NotTold(_why(error)) from None
    finally:
        limit.cancel()


def _refused(code: int) -> str:
    if 300 <= code < 400:
        return f"it answered {code}, a redirect, which is not followed: give the address to which it leads"
    return f"it answered {code}"


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)


def _why(error: Exception) -> str:
    """An error's class and the system's own words: those of others may hold the address."""
    cause = error.reason if isinstance(error, URLError) and isinstance(error.reason, OSError) else error
    words = getattr(cause, "strerror", None)
    return f"{type(cause).__name__}: {words}" if isinstance(words, str) else type(cause).__name__


def _end(opened: list[http.client.HTTPConnection], late: threading.Event) -> None:
    """End what still waits: an answer that comes letter by letter never meets a socket's own time limit."""
    late.set()
    for connection in opened:
        with contextlib.suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _opener(opened: list[http.client.HTTPConnection]) -> OpenerDirector:
    """It opens http and https alone. A redirect is an error as any other: nothing handles it."""

    def kept(kind: Callable[..., http.client.HTTPConnection]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> http.client.HTTPConnection:
            opened.append(kind(*arguments, **options))
            return opened[-1]

        return made

    class Http(HTTPHandler):
        def http_open(self, req: Request) -> http.client.HTTPResponse:
            return self.do_open(kept(http.client.HTTPConnection), req)

    class Https(HTTPSHandler):
        def https_open(self, req: Request) -> http.client.HTTPResponse:
            return self.do_open(kept(http.client.HTTPSConnection), req)

    opener = OpenerDirector()
    for handler in (ProxyHandler(), Http(), Https(), HTTPDefaultErrorHandler(), HTTPErrorProcessor()):
        opener.add_handler(handler)
    return opener
