"""Webhooks: one POST to the address itself, in bounded time, and no error says the address."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from workbench.engine.telling.notify import checked, mask
from workbench.engine.telling.posting import NotTold, post
from workbench.errors import BadOption


class Server:
    """Answers each connection with ``answer``, letter by letter where ``slow`` says so. It notes what it was sent."""

    def __init__(self, answer: bytes, *, slow: bool = False) -> None:
        self.answer, self.slow = answer, slow
        self.sent: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self.sent.append(connection.recv(65536))
                try:
                    for letter in self.answer if self.slow else [self.answer]:
                        connection.sendall(bytes([letter]) if self.slow else letter)
                        if self.slow and self.over.wait(0.05):
                            return
                except OSError:
                    continue

    def close(self) -> None:
        self.over.set()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    made: list[Server] = []
    yield made
    for one in made:
        one.close()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(servers: list[Server], code: int) -> None:
    inner = Server(b"HTTP/1.1 204 No Content\r\n\r\n")
    outer = Server(
        b"HTTP/1.1 %d Moved\r\nLocation: http://127.0.0.1:%d/inside\r\nContent-Length: 0\r\n\r\n" % (code, inner.port)
    )
    servers += [inner, outer]
    with pytest.raises(NotTold, match=f"{code}, a redirect, which is not followed"):
        post(f"http://127.0.0.1:{outer.port}/secret-token", b"{}", 10)
    assert inner.sent == []


def test_an_answer_that_never_ends_is_ended(servers: list[Server]) -> None:
    servers += [Server(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000, slow=True)]
    begun = time.monotonic()
    with pytest.raises(NotTold, match="no answer within 1 s"):
        post(f"http://127.0.0.1:{servers[0].port}/secret-token", b"{}", 1)
    assert time.monotonic() - begun < 60  # at this rate the answer alone takes 500 s


def test_a_long_answer_is_not_read(servers: list[Server]) -> None:
    servers += [Server(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 1_000_000)]
    post(f"http://127.0.0.1:{servers[0].port}/", b"{}", 10)


def test_credentials_go_in_a_header_and_into_no_error(servers: list[Server]) -> None:
    servers += [Server(b"HTTP/1.1 503 secret-token me:hunter2\r\nContent-Length: 0\r\n\r\n")]
    with pytest.raises(NotTold) as told:
        post(f"http://me:hunter2@127.0.0.1:{servers[0].port}/secret-token?key=hunter3", b"{}", 10)
    assert str(told.value) == "it answered 503"
    assert b"Authorization: Basic bWU6aHVudGVyMg==" in servers[0].sent[0]
    with pytest.raises(NotTold) as told:
        post("http://me:hunter2@127.0.0.1:1/secret-token", b"{}", 10)
    assert "hunter2" not in str(told.value) + repr(told.value.__cause__)
    assert "secret-token" not in str(told.value)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd?secret-token",
        "ftp://me:secret-token@host/x",
        "gopher://host/secret-token",
        "http://host:99999/secret-token",
        "http://[half/secret-token",
        "http://host/secret-token x",
        "http://host/secret-token\r\nX: y",
        "data:,secret-token",
    ],
)
def test_what_is_no_webhook_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BadOption, match="is not a webhook") as told:
        checked(url, None)
    assert "secret-token" not in str(told.value) + mask(url)
    with pytest.raises(NotTold) as failed:
        post(url, b"{}", 5)
    assert "secret-token" not in str(failed.value)
