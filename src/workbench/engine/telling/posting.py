"""One POST to an address that the user gave. Law: only http and https, no redirect, one time limit for the whole
request, and no error contains the address or the answer."""

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
    """The address did not accept the message. The text says why, without the address."""


def post(url: str, data: bytes, seconds: float) -> None:
    """POST ``data`` as JSON, through the proxies of the environment. Raises NotTold after at most ``seconds``."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise NotTold("its address cannot be read") from None
    if parts.scheme not in ("http", "https"):
        raise NotTold(f"{parts.scheme or 'no'} scheme: expected http or https")
    headers = {"Content-Type": "application/json"}
    host = parts.netloc.rpartition("@")[2]
    if "@" in parts.netloc:
        # urllib takes credentials for a part of the host, and its errors contain them.
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
    opened: list[http.client.HTTPConnection] = []
    late = threading.Event()
    limit = threading.Timer(seconds, _end, (opened, late))
    limit.daemon = True
    limit.start()
    try:
        request = Request(urlunsplit(parts._replace(netloc=host)), data, headers)  # noqa: S310 - as checked above
        # The answer's body is not read, whatever its length.
        with _opener(opened).open(request, timeout=seconds):
            if late.is_set():  # an answer cut off within its head reads as complete
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
    """An error's class and the system's text: other texts may contain the address."""
    cause = error.reason if isinstance(error, URLError) and isinstance(error.reason, OSError) else error
    words = getattr(cause, "strerror", None)
    return f"{type(cause).__name__}: {words}" if isinstance(words, str) else type(cause).__name__


def _end(opened: list[http.client.HTTPConnection], late: threading.Event) -> None:
    """Close connections that still wait: an answer that comes byte by byte never meets a socket's own time limit."""
    late.set()
    for connection in opened:
        with contextlib.suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _opener(opened: list[http.client.HTTPConnection]) -> OpenerDirector:
    """Opens only http and https. A redirect is an error like any other, because nothing handles it."""

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
