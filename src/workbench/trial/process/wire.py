"""Messages between worker, forkserver and runner. Law: plain JSON in length-prefixed frames; nothing is unpickled.

A frame is a 4-byte big-endian length and that many bytes of UTF-8 JSON (NaN and Infinity are allowed, as numbers): a
message of :mod:`workbench.messages`. File descriptors travel beside the frame. Both ends may be different Pythons.
"""

from __future__ import annotations

import array
import json
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence

from workbench.errors import BadMessage
from workbench.messages import Message, plain
from workbench.messages import read as read_message

#: The longest frame that is read. A longer one comes from a torn or foreign stream.
LONGEST = 64 * 1024 * 1024
_HEADER = struct.Struct(">I")
_PIECE = 256 * 1024


class BrokenWire(ConnectionError):
    """The bytes on the connection are not a frame of this protocol."""


def encode(message: Message) -> bytes:
    """The frame that carries ``message``."""
    body = json.dumps(plain(message), separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return _HEADER.pack(len(body)) + body


class Frames:
    """Cuts a stream of bytes into messages. ``feed`` it bytes, then call ``next`` until it returns None."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes as received from the stream."""
        self._bytes += data

    def next(self) -> Message | None:
        """The next complete message, or None until all its bytes have arrived."""
        if len(self._bytes) < _HEADER.size:
            return None
        (length,) = _HEADER.unpack_from(self._bytes)
        if length > LONGEST:
            raise BrokenWire(f"a frame of {length} bytes was announced; at most {LONGEST} are sent")
        end = _HEADER.size + length
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[_HEADER.size : end])
        del self._bytes[:end]
        try:
            message: Message = read_message(json.loads(body))
        except (BadMessage, ValueError, RecursionError) as error:
            raise BrokenWire(str(error)) from error
        return message


class Connection:
    """One end of a stream socket, for threads. Sending is safe from several threads; so is receiving."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._sending = threading.Lock()
        self._receiving = threading.Lock()
        self._frames = Frames()
        self._fds: deque[int] = deque()
        self._ended = False

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self.socket.fileno()

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send one message, with descriptors beside it. Raises OSError if the other end is gone."""
        self.send_bytes(encode(message), fds)

    def send_bytes(self, frames: bytes, fds: Sequence[int] = ()) -> None:
        """Send frames that :func:`encode` made: several in one call keep their order."""
        with self._sending:
            if fds:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                sent = self.socket.sendmsg([frames], rights)
                frames = frames[sent:]
            if frames:
                self.socket.sendall(frames)

    def receive(self) -> Message | None:
        """The next message, waiting for it; None when the other end is closed."""
        with self._receiving:
            while True:
                message = self._frames.next()
                if message is not None or self._ended:
                    return message
                self._read()

    def ready(self) -> list[Message]:
        """The messages that have already arrived, without waiting."""
        messages: list[Message] = []
        with self._receiving:
            while not self._ended and select.select([self.socket], [], [], 0)[0]:
                self._read()
            while (message := self._frames.next()) is not None:
                messages.append(message)
        return messages

    @property
    def ended(self) -> bool:
        """True once the other end is closed and all its bytes were read."""
        return self._ended

    def fds(self, count: int) -> list[int]:
        """The next ``count`` received descriptors, which the caller now owns. Call it in the order of the messages."""
        return [self._fds.popleft() for _ in range(count)]

    def close(self) -> None:
        """Close this end."""
        self.socket.close()

    def _read(self) -> None:
        ints = array.array("i")
        try:
            data, extra, _, _ = self.socket.recvmsg(_PIECE, socket.CMSG_SPACE(16 * ints.itemsize))
        except ConnectionResetError:
            data, extra = b"", []
        for level, kind, payload in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                ints.frombytes(payload[: len(payload) - len(payload) % ints.itemsize])
        self._fds.extend(ints)
        if data:
            self._frames.feed(data)
        else:
            self._ended = True
