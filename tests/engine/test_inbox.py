"""An experiment's inbox: what was told stays in order, and callers learn when it is on disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from running import PLAIN, spec_of, start, state

from workbench.asking import Waiting, answer
from workbench.engine.asking.inbox import Inbox
from workbench.engine.engine import Engine
from workbench.engine.legs.inline import InlineBackend
from workbench.errors import ClusterError
from workbench.facts import CapacityChanged, Fact, Instruction, StopAsked
from workbench.search import Search
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.owner.lease import EngineLease


async def test_facts_are_taken_once_and_in_order() -> None:
    inbox, facts = Inbox(), [CapacityChanged(count) for count in range(3)]
    inbox.tell(facts[0])
    inbox.tell(*facts[1:])
    assert inbox
    assert inbox.take() == facts
    assert not inbox
    assert inbox.take() == []


async def test_what_is_told_while_facts_are_handled_is_news_again() -> None:
    inbox = Inbox()
    inbox.tell(CapacityChanged(1))
    await asyncio.wait_for(inbox.news(), 5)
    inbox.take()
    inbox.tell(CapacityChanged(2))
    await asyncio.wait_for(inbox.news(), 5)
    assert inbox.take() == [CapacityChanged(2)]


async def test_a_line_alone_waits_too() -> None:
    inbox = Inbox()
    inbox.lines.append({"kind": "note"})
    assert inbox
    assert inbox.take() == [], "lines are taken one by one, after the facts"
    assert inbox


async def test_callers_wait_for_what_was_told_before_them() -> None:
    inbox = Inbox()
    told: list[Fact] = [CapacityChanged(1)]
    inbox.tell(*told)
    first, cancelled = inbox.kept(), inbox.kept()
    facts = inbox.take()
    second = inbox.kept()
    cancelled.cancel()
    inbox.written()
    assert facts == told
    assert first.done()
    assert not second.done(), "it came after the facts were taken"
    inbox.let_go()
    assert second.done()


async def test_callers_whose_facts_were_taken_and_never_written_are_let_go() -> None:
    inbox = Inbox()
    inbox.tell(CapacityChanged(1))
    taken = inbox.kept()
    inbox.take()
    later = inbox.kept()
    inbox.let_go()
    assert taken.done()
    assert later.done()


async def test_a_request_whose_experiment_fails_inside_over_it_is_answered_and_the_engine_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is slow when the request comes, so that what it tells is taken together with who waits for it."""

    def fails(search: Search, fact: Fact) -> list[Instruction]:
        if isinstance(fact, StopAsked):
            raise RuntimeError("a fault of Workbench")
        return handle(search, fact)

    def writes() -> None:
        is_writing.set()
        may_write.wait(20)

    handle, is_writing, may_write = Search.handle, threading.Event(), threading.Event()
    monkeypatch.setattr(Search, "handle", fails)
    store, spec = Store(tmp_path / "store"), spec_of(PLAIN, tmp_path, space={"x": uniform(0.0, 1.0)})
    start(store, spec)
    with EngineLease.acquire(store) as lease:
        engine = Engine(store, lease, InlineBackend, idle_s=0.1)
        running = asyncio.create_task(engine.run())
        await until(lambda: spec.id in engine.loops)
        engine.loops[spec.id].journal.first = writes
        await until(is_writing.is_set)
        stop = requests.put(store, {"kind": "stop", "experiment": spec.id})
        await until(lambda: stop in engine.book.open)
        await asyncio.sleep(0)  # its answer waits for the disk from the next turn on
        may_write.set()
        await asyncio.wait_for(running, 20)
    with pytest.raises(ClusterError, match="has failed inside: RuntimeError"):
        answer(store, Waiting(store, stop))
    assert state(store, spec) == "failed"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - turns of the same loop, or a thread
            await asyncio.sleep(0)
