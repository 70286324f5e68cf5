"""What cannot travel is refused before anything starts, by its name, its line and what to do."""

import queue
import socket
import sqlite3
import sys
import tempfile
import threading

import pytest
from snapshot.notebooks import Notebook, main

from workbench.errors import BadCapture
from workbench.snapshot.capture import capture


def opened():
    return open(tempfile.mkstemp()[1])


class DaskClient:
    def __reduce__(self):
        raise TypeError("cannot pickle a client")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (threading.Lock, ["lock", "in the train cell"]),
        (threading.RLock, ["RLock", "in the train cell"]),
        (threading.Event, ["Event", "in the train cell"]),
        (queue.Queue, ["Queue", "in the train cell"]),
        (opened, ["open file", "Open it in the train cell"]),
        (lambda: open(tempfile.mkstemp()[1], "wb"), ["open file"]),
        (lambda: (i for i in range(3)), ["generator", "list(...)"]),
        (socket.socket, ["socket", "Connect in the train cell"]),
        (lambda: sqlite3.connect(":memory:"), ["Connection", "Connect in the train cell"]),
        (DaskClient, ["DaskClient", "Connect in the train cell"]),
        (sys._getframe, ["frame"]),
        (threading.local, ["local"]),
    ],
)
@pytest.mark.parametrize("where", ["itself", "inside", "through a helper"])
def test_what_cannot_be_pickled_is_named_with_its_line(store, make, told, where):
    thing = make()
    notebook = Notebook(thing=thing).run(
        """
        class Holder:
            def __init__(self, x):
                self.parts = {"a": [x]}
        held = Holder(thing)
        def inner():
            return thing
        def helper():
            return inner()
        """
    )
    name, path = {"itself": ("thing", "`thing`"), "inside": ("held", "held.parts['a'][0]")}.get(
        where, ("helper", "the cell uses `helper`, which uses `inner`, which uses `thing` (line 6: `return thing`)")
    )
    with pytest.raises(BadCapture) as caught, main(notebook.module):
        capture({"print": 1, name: 7}, notebook.names, store)
    assert caught.value.line == 7
    assert "line 7" in str(caught.value)
    assert path in str(caught.value)
    for words in told:
        assert words in str(caught.value)
    if hasattr(thing, "close"):
        thing.close()


def test_endless_nesting_is_refused_and_not_a_crash(store):
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(BadCapture, match="nested"):
        Notebook(nested=nested).capture(store, "nested")
    while nested:
        nested = nested.pop()
