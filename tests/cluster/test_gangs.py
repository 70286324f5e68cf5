"""Legs of several ranks: the orders of the ranks, what the engine hears of them, and which end was the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.cluster.backend import Slot, Survivor, leader, rank_key
from workbench.cluster.gangs import BEHIND, LOOPBACK, Gangs, merged, ranks
from workbench.messages import Left, LegOrder, Level, Order, Story
from workbench.records import Training

REACHED = Left(outcome="reached", step=3, metrics={"score": 1.0})
STOPPED = Left(outcome="stopped", reason=BEHIND)
KILLED = Left(outcome="died", cause="signal", reason="killed by signal 9")
BUG = Left(outcome="failed", error={"type": "ValueError", "message": "no", "line": 7})
PEER = Left(
    outcome="failed",
    error={"type": "RuntimeError", "message": "[gloo/transport/tcp/pair.cc:534] Connection closed by peer", "line": 9},
)


def order(tmp_path: Path) -> Order:
    leg = LegOrder(
        store=str(tmp_path),
        experiment="e1",
        trial=4,
        attempt=2,
        start=0,
        until=3,
        levels=frozenset({3}),
        max_steps=9,
        configuration={},
        known_step=0,
        resume=True,
        may_wait=True,
        is_short=True,
    )
    training = Training(python="python", cwd=str(tmp_path))
    return Order(
        key="digits@1-t0004-2-e1",
        experiment="e1",
        label="digits@1",
        attempt=2,
        start=0,
        grace_s=5.0,
        strict=False,
        log="t0004.log.txt",
        training=training,
        leg=leg,
    )


def slots(*hosts: str) -> list[Slot]:
    return [Slot(f"tls://{host}:{port}", 0, []) for port, host in enumerate(hosts, 1)]


def test_a_leg_of_one_slot_is_ordered_as_it_is(tmp_path: Path) -> None:
    whole = order(tmp_path)
    assert ranks(whole, slots("a")) == [whole]


def test_each_rank_has_its_key_its_place_and_its_log_and_no_leg_follows_it_in_its_process(tmp_path: Path) -> None:
    found = ranks(order(tmp_path), slots("a", "b", "a"))
    assert [one.key for one in found] == [rank_key("digits@1-t0004-2-e1", rank) for rank in range(3)]
    assert {leader(one.key) for one in found} == {"digits@1-t0004-2-e1"}
    told = [one.leg.rank for one in found if one.leg.rank is not None]
    assert [(one.index, one.size, one.here, one.here_size) for one in told] == [
        (0, 3, 0, 2),
        (1, 3, 0, 1),
        (2, 3, 1, 2),
    ]
    assert {one.host for one in told} == {"a"}, "other machines must reach the first rank"
    assert len({one.meeting for one in told}) == 1
    assert found[0].log == "t0004.log.txt"
    assert len({one.log for one in found}) == 3
    for one in found:
        assert (one.strict, one.leg.may_wait, one.leg.is_short) == (True, False, False)


def test_on_one_machine_ranks_meet_on_the_loopback(tmp_path: Path) -> None:
    found = ranks(order(tmp_path), slots("a", "a"))
    assert {one.leg.rank.host for one in found if one.leg.rank is not None} == {LOOPBACK}


@pytest.mark.parametrize(
    ("ends", "rank"),
    [
        ({0: REACHED, 1: REACHED}, 0),
        ({1: REACHED, 0: REACHED}, 0),
        ({0: REACHED, 1: STOPPED}, 0),
        ({0: REACHED, 1: KILLED}, 0),
        ({1: KILLED, 0: REACHED}, 1),
        ({0: PEER, 1: KILLED}, 1),
        ({1: KILLED, 0: STOPPED}, 1),
        ({0: PEER, 1: BUG}, 1),
        ({1: PEER, 0: BUG}, 0),
        ({0: STOPPED, 1: STOPPED}, 0),
        ({0: BUG, 1: BUG}, 0),
    ],
    ids=lambda one: str(list(one)) if isinstance(one, dict) else str(one),
)
def test_the_end_of_a_leg_is_its_first_ranks_or_that_of_the_cause(ends: dict[int, Left], rank: int) -> None:
    found = merged(dict(ends))
    if rank == 0:
        assert found == ends[0]
        return
    assert (found.outcome, found.cause) == (ends[rank].outcome, ends[rank].cause)
    said = found.reason or (found.error or {})["message"]
    assert said.startswith(f"rank {rank}: ")
    assert found.rank == (rank if ends[rank] is KILLED else None), "an error of the code says nothing about a worker"


def test_where_several_ranks_died_no_worker_is_to_blame() -> None:
    assert merged({1: KILLED, 0: KILLED}).rank is None
    assert merged({0: KILLED, 1: STOPPED}).rank == 0


def test_the_engine_hears_the_first_rank_and_one_end() -> None:
    asked: list[str] = []
    gangs = Gangs(asked.append)
    gangs.begin("k", 2)
    level = Level(1, {"score": 1.0})
    assert gangs.take("k", level) is level
    assert gangs.take("k#1", level) is None
    assert gangs.take("k#1", REACHED) is None
    assert asked == [], "another rank may be through before the first"
    assert gangs.keys("k") == ["k"]
    assert gangs.take("k", REACHED) is REACHED
    assert gangs.keys("k") == []
    assert gangs.take("alone", level) is level


def test_ranks_that_a_bad_end_leaves_behind_are_stopped_once() -> None:
    asked: list[str] = []
    gangs = Gangs(asked.append)
    gangs.begin("k", 3)
    assert gangs.take("k#2", KILLED) is None
    assert gangs.take("k#1", PEER) is None
    assert asked == ["k"]
    assert gangs.keys("k") == ["k"]
    found = gangs.take("k", STOPPED)
    assert isinstance(found, Left)
    assert found.reason == "rank 2: killed by signal 9"


def test_of_an_earlier_engines_ranks_only_whole_gangs_go_on() -> None:
    def survivor(key: str, rank: int, size: int, *, is_over: bool = False) -> Survivor:
        story = Story(key, "e1", 0, 1, 0, 3, False, is_over, (), rank, size)
        return Survivor(story, slots("a")[0])

    whole = [survivor("k", 0, 2), survivor("k#1", 1, 2)]
    gangs = Gangs(lambda key: None)
    (found,) = gangs.joined(
        [*whole, survivor("half", 0, 2), survivor("late", 0, 2), survivor("late#1", 1, 2, is_over=True)]
    )
    assert (found.story.key, found.mates) == ("k", [whole[1].slot])
    assert gangs.keys("k") == ["k", "k#1"]
    alone = survivor("alone", 0, 1)
    assert gangs.joined([alone]) == [alone]
