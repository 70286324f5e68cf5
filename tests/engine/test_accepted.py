"""What the engine has accepted holds: it dies right before it writes, and the next one knows of it, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from running import PLAIN, end, ended, engine, engine_process, lines, spec_of, start, until

from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.store import Store, journal, requests

#: An engine that dies right before it writes a journal line that holds this text (the first argument).
DYING = """
import os, signal, sys
from workbench.store import journal
word, write = sys.argv.pop(1).encode(), journal._pwrite

def dying(descriptor, data, offset):
    if word in data:
        os.kill(os.getpid(), signal.SIGKILL)
    write(descriptor, data, offset)

journal._pwrite = dying
from workbench.engine.__main__ import main
raise SystemExit(main())
"""
SLOW = PLAIN + "    __import__('time').sleep(0.02)\n"
ORDERS: dict[str, dict[str, Any]] = {
    "StopAsked": {"kind": "stop"},
    "PauseAsked": {"kind": "pause"},
    "Extended": {"kind": "extend", "trials": 2},
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


@pytest.fixture
def spec(store: Store, tmp_path: Path) -> Spec:
    """One that trains for a while."""
    space, scheduler = {"x": uniform(0.0, 1.0)}, Scheduler("all", 1, 100)
    spec = spec_of(SLOW, tmp_path, space=space, scheduler=scheduler, trials=2, verify=False)
    start(store, spec)
    return spec


def answers(store: Store, request: str) -> list[dict[str, Any]]:
    return [line for line in journal.read(store.journal_path) if line.get("request") == request]


def asked_of_one_that_dies(store: Store, spec: Spec, order: dict[str, Any], word: str) -> str:
    """The request that an engine took, which died right before it wrote a line with ``word``."""
    process = engine_process(store, program=("-c", DYING, word))
    try:
        until(lambda: lines(store, spec, "LegStarted"), what="training")
        request = requests.put(store, {**order, "experiment": spec.id})
        process.wait(30)
    finally:
        end(process)
    return request


@pytest.mark.parametrize("kind", ORDERS)
def test_nothing_is_accepted_that_a_kill_would_forget(store: Store, spec: Spec, kind: str) -> None:
    request = asked_of_one_that_dies(store, spec, ORDERS[kind], kind)
    assert lines(store, spec, kind) == []
    assert answers(store, request) == []
    with engine(store):
        until(lambda: answers(store, request), what="the answer")
        assert answers(store, request)[0]["accepted"]
        assert len(lines(store, spec, kind)) == 1


def test_what_was_done_before_it_was_answered_is_not_done_again(store: Store, spec: Spec) -> None:
    request = asked_of_one_that_dies(store, spec, ORDERS["Extended"], '"trials":4')
    assert len(lines(store, spec, "Extended")) == 1
    assert answers(store, request) == []
    with engine(store):
        until(lambda: answers(store, request), what="the answer")
        assert (answers(store, request)[0]["trials"], answers(store, request)[0]["last"]) == (4, 100)
        assert len(lines(store, spec, "Extended")) == 1
        requests.put(store, {"kind": "stop", "experiment": spec.id})
        assert ended(store, spec) == "stopped"
