"""An experiment's inbox: what was told stays in order, and callers learn when it is on disk."""

from __future__ import annotations

import asyncio

from workbench.engine.asking.inbox import Inbox, let_go
from workbench.facts import CapacityChanged, Fact


async def test_facts_are_taken_once_and_in_order() -> None:
    inbox, facts = Inbox(), [CapacityChanged(count) for count in range(3)]
    inbox.tell(facts[0])
    inbox.tell(*facts[1:])
    assert inbox
    assert inbox.take()[0] == facts
    assert not inbox
    assert inbox.take() == ([], [])


async def test_what_is_told_while_facts_are_handled_is_news_again() -> None:
    inbox = Inbox()
    inbox.tell(CapacityChanged(1))
    await asyncio.wait_for(inbox.news(), 5)
    inbox.take()
    inbox.tell(CapacityChanged(2))
    await asyncio.wait_for(inbox.news(), 5)
    assert inbox.take()[0] == [CapacityChanged(2)]


async def test_a_line_alone_waits_too() -> None:
    inbox = Inbox()
    inbox.lines.append({"kind": "note"})
    assert inbox
    assert inbox.take() == ([], []), "lines are taken one by one, after the facts"
    assert inbox


async def test_callers_wait_for_what_was_told_before_them() -> None:
    inbox = Inbox()
    told: list[Fact] = [CapacityChanged(1)]
    inbox.tell(*told)
    first, cancelled = inbox.kept(), inbox.kept()
    facts, keeping = inbox.take()
    second = inbox.kept()
    cancelled.cancel()
    let_go(keeping)
    assert facts == told
    assert first.done()
    assert not second.done(), "it came after the facts were taken"
    inbox.let_go()
    assert second.done()
