"""Which leg trains in which slot: slots and legs in, placements out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workbench.cluster.backend import Slot
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.placing import Waiting, beside, share


def slots(*busy: int) -> list[Slot]:
    """A machine for each, with so many legs in its slot."""
    return [Slot(f"tcp://host{at}:1", 0, ["x"] * count) for at, count in enumerate(busy)]


def legs(count: int, depth: int = 1, **more) -> list[Waiting]:
    return [Waiting(Leg(trial, 1, 0, 9, "go", f"k{trial}", **more), depth) for trial in range(count)]


def placed(slots, waiting, *, alone=(), may_come=False, now=0.0):
    found = share(slots, waiting, lambda slot: len(slot.legs), alone, lambda _: may_come, now)
    where = [(one.leg.trial, slots.index(slot)) for one, slot in found.placements]
    return where, found.blocked and found.blocked.leg.trial, [one.leg.trial for one in found.later]


def test_each_gets_the_slot_with_the_least_to_do_and_the_first_without_one_blocks_the_rest():
    assert placed(slots(0, 1, 0), legs(4)) == ([(0, 0), (1, 2)], 2, [])
    assert placed(slots(1, 0), legs(4, depth=2)) == ([(0, 1), (1, 0), (2, 1)], 3, [])


def test_slots_of_one_machine_are_counted_by_its_host():
    there = [
        Slot(f"tls://{host}:{port}", 0, []) for host, port in (("a", 1), ("a", 2), ("b", 3), ("[::1]", 4), ("a", 5))
    ]
    assert [beside(there, one) for one in there] == [3, 3, 1, 1, 3]
    there[4].closed = "it is gone"
    assert beside(there, there[0]) == 2
    assert beside([], there[0]) == 1


def test_a_retry_waits_its_time_and_lets_others_go_before_it():
    waiting = [*legs(1, not_before=5.0), *legs(2)[1:]]
    assert placed(slots(0), waiting) == ([(1, 0)], None, [0])
    assert placed(slots(0), waiting, now=5.0) == ([(0, 0)], 1, [])


def test_a_closed_or_leaving_slot_is_given_to_nobody():
    closed, giving, free = slots(0, 0, 0)
    closed.closed, giving.giving = "gone", True
    assert placed([closed, giving, free], legs(2)) == ([(0, 2)], 1, [])


def test_a_leg_avoids_the_worker_it_died_on_where_another_can_be_had():
    waiting = legs(1, avoid="tcp://host0:1")
    assert placed(slots(0, 0), waiting) == ([(0, 1)], None, [])
    assert placed(slots(0), waiting) == ([(0, 0)], None, [])
    assert placed(slots(0), waiting, may_come=True) == ([], 0, [])


def test_a_leg_that_is_alone_gets_an_empty_machine_and_keeps_others_off_it():
    alone, other = legs(1, alone=True)[0], legs(2)[1]
    assert placed(slots(1, 0), [alone, other]) == ([(0, 1)], 1, [])
    assert placed(slots(1), [alone]) == ([], 0, [])
    assert placed(slots(0, 0), [other], alone=["tcp://host0:7"]) == ([(1, 1)], None, [])
    assert placed(slots(0), [other, alone]) == ([(1, 0)], 0, [])


@given(
    busy=st.lists(st.integers(0, 3), max_size=5),
    depths=st.lists(st.integers(1, 4), max_size=12),
)
def test_no_slot_holds_more_than_a_legs_depth_and_none_stays_free_while_one_waits(busy, depths):
    where = slots(*busy)
    waiting = [Waiting(Leg(at, 1, 0, 9, "go", f"k{at}"), depth) for at, depth in enumerate(depths)]
    found = share(where, waiting, lambda slot: len(slot.legs), (), lambda _: False, 0.0)
    held = {id(slot): len(slot.legs) for slot in where}
    for one, slot in found.placements:
        held[id(slot)] += 1
        assert held[id(slot)] <= one.depth
    assert [one for one, _ in found.placements] == waiting[: len(found.placements)]
    assert (found.blocked is None) == (len(found.placements) == len(waiting))
    if found.blocked is not None:
        assert all(count >= found.blocked.depth for count in held.values())
