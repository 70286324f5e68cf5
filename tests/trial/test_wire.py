"""Messages survive any cut of the stream; descriptors arrive with the message they were sent beside."""

import math
import os
import socket
import threading

import pytest

from workbench.messages import Exit, Fork, Kill, Level, Points, Says
from workbench.trial.process.wire import BrokenWire, Connection, Frames, encode


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_message_survives_any_cut_of_the_stream():
    messages = [Points([["ü", 1, 0, 0.1, 2.0]]), Says("x" * 300), Exit()]
    stream = b"".join(encode(message) for message in messages)
    for size in (1, 2, 3, 7, len(stream)):
        frames, found = Frames(), []
        for at in range(0, len(stream), size):
            frames.feed(stream[at : at + size])
            while (message := frames.next()) is not None:
                found.append(message)
        assert found == messages


def test_numbers_that_are_not_finite_travel():
    frames = Frames()
    frames.feed(encode(Level(1, {"a": math.nan, "b": -math.inf})))
    metrics = frames.next().metrics
    assert math.isnan(metrics["a"])
    assert metrics["b"] == -math.inf


def test_bytes_that_are_no_frame_are_refused():
    frames = Frames()
    frames.feed(b"GET / HTTP/1.1\r\n")
    with pytest.raises(BrokenWire, match="at most"):
        frames.next()


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"op": "nothing"}', b'{"op": "kill"}', b'{"op": "kill", "id": "1"}', b"{", b"[" * 100_000]
)
def test_a_frame_that_holds_no_message_is_refused(body):
    frames = Frames()
    frames.feed(len(body).to_bytes(4, "big") + body)
    with pytest.raises(BrokenWire):
        frames.next()


def test_descriptors_arrive_with_their_own_message(pair):
    ours, theirs = (Connection(end) for end in pair)
    ends = [os.pipe() for _ in range(4)]
    ours.send(Kill(0))
    for number, (_, write) in enumerate(ends):
        ours.send(Fork(number), [write])
        ours.send(Kill(number))
    received = [theirs.receive() for _ in range(9)]
    for message in received:
        for fd in theirs.fds(1 if isinstance(message, Fork) else 0):
            os.write(fd, b"%d" % message.id)
            os.close(fd)
    for number, (read, write) in enumerate(ends):
        os.close(write)
        assert os.read(read, 10) == b"%d" % number
        os.close(read)


def test_the_end_of_the_stream_is_none_after_all_that_was_sent(pair):
    ours, theirs = (Connection(end) for end in pair)
    ours.send(Kill(1))
    ours.close()
    assert theirs.receive() == Kill(1)
    assert theirs.receive() is None
    assert theirs.ended


def test_ready_waits_for_nothing(pair):
    ours, theirs = (Connection(end) for end in pair)
    assert theirs.ready() == []
    ours.send(Kill(1))
    ours.send(Kill(2))
    assert theirs.ready() == [Kill(1), Kill(2)]


def test_two_threads_that_send_do_not_mix_their_messages(pair):
    ours, theirs = (Connection(end) for end in pair)

    def send(letter):
        for _ in range(200):
            ours.send(Says(letter * 1000))

    threads = [threading.Thread(target=send, args=(letter,)) for letter in "ab"]
    for thread in threads:
        thread.start()
    texts = [theirs.receive().text for _ in range(400)]
    for thread in threads:
        thread.join()
    assert sorted(texts) == ["a" * 1000] * 200 + ["b" * 1000] * 200
