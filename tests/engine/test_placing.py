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
    where = [(one.leg.trial, slots.index(slot)) for one, (slot,) in found.placements]
    return where, found.blocked and found.blocked.leg.trial, [one.leg.trial for one in found.later]


def test_each_gets_the_slot_with_the_least_to_do_and_the_first_without_one_blocks_the_rest():
    assert placed(slots(0, 1, 0), legs(4)) == ([(0, 0), (1, 2)], 2, [])
    assert placed(slots(1, 0), legs(4, depth=2)) == ([(0, 1), (1, 0), (2, 1)], 3, [])


def test_a_part_that_comes_free_in_time_is_given_behind_a_leg_that_waits_for_a_whole_slot():
    whole, part = legs(2)[0], Waiting(Leg(1, 2, 0, 9, "go", "k1", not_before=5.0, parts=2), 2, shares="e", goal=1)
    found = share(slots(1), [whole, part], lambda slot: len(slot.legs), (), lambda _: False, 0.0, lambda _: "e")
    assert (found.blocked, found.later) == (whole, [part])


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
    for one, (slot,) in found.placements:
        held[id(slot)] += 1
        assert held[id(slot)] <= one.depth
    assert [one for one, _ in found.placements] == waiting[: len(found.placements)]
    assert (found.blocked is None) == (len(found.placements) == len(waiting))
    if found.blocked is not None:
        assert all(count >= found.blocked.depth for count in held.values())


def test_a_leg_of_several_slots_gets_all_of_them_or_none_and_no_leg_overtakes_it():
    there = slots(0, 1, 0)
    two = [Waiting(Leg(7, 1, 0, 9, "go", "k7"), 1, slots=2), *legs(1)]
    found = share(there, two, lambda slot: len(slot.legs), (), lambda _: False, 0.0)
    assert [(one.leg.trial, [there.index(slot) for slot in where]) for one, where in found.placements] == [(7, [0, 2])]
    assert found.blocked is two[1]
    found = share(there[:2], two, lambda slot: len(slot.legs), (), lambda _: False, 0.0)
    assert (found.placements, found.blocked) == ([], two[0])


def test_a_leg_of_several_slots_stays_on_one_machine_where_that_has_room():
    there = [Slot(f"tls://{host}:{port}", 0, []) for port, host in enumerate("abbab")]
    there[0].legs.append("x")
    three = [Waiting(Leg(0, 1, 0, 9, "go", "k"), 1, slots=3)]
    ((_, where),) = share(there, three, lambda slot: len(slot.legs), (), lambda _: False, 0.0).placements
    assert [there.index(slot) for slot in where] == [1, 2, 4]
    there[1].closed = "gone"
    ((_, where),) = share(there, three, lambda slot: len(slot.legs), (), lambda _: False, 0.0).placements
    assert sorted(there.index(slot) for slot in where) == [2, 3, 4], "on two machines, where none has three"


def parts(count: int, of: str, parts: int, most: int, first: int = 0, **more) -> list[Waiting]:
    """Legs of the experiment ``of`` that each have one of ``parts`` parts of a slot."""
    numbers = range(first, first + count)
    made = [Leg(trial, 1, 0, 9, "go", f"{of}{trial}", parts=parts, **more) for trial in numbers]
    return [Waiting(leg, parts, shares=of, goal=most) for leg in made]


def shared(slots, waiting):
    """Where legs were placed, by key; the one that blocks. A slot's legs have names that begin with their experiment's
    letter; capital ones have a part of it."""

    def divided(slot: Slot) -> str:
        return next((key[0] for key in slot.legs if key[0].isupper()), "")

    found = share(slots, waiting, lambda slot: len(slot.legs), (), lambda _: False, 0.0, divided)
    where = {one.leg.key: slots.index(slot) for one, (slot,) in found.placements}
    return where, found.blocked and found.blocked.leg.key


def held(*legs: str) -> list[Slot]:
    """A slot for each text, with its legs."""
    return [Slot(f"tcp://host{at}:1", 0, text.split()) for at, text in enumerate(legs)]


def test_parts_are_spread_over_the_slots_that_their_experiment_should_have():
    assert shared(held("", ""), parts(5, "A", 2, 2)) == ({"A0": 0, "A1": 1, "A2": 0, "A3": 1}, None)
    assert shared(held("", ""), parts(3, "A", 2, 1)) == ({"A0": 0, "A1": 0}, None)
    assert shared(held("A8", ""), parts(2, "A", 4, 2)) == ({"A0": 1, "A1": 0}, None)


def test_a_slot_belongs_to_one_experiment_at_a_time():
    assert shared(held("A8"), parts(2, "B", 4, 1)) == ({}, "B0")
    assert shared(held("x"), parts(1, "A", 4, 1)) == ({}, "A0")
    assert shared(held("A8"), legs(1, depth=8)) == ({}, "k0")
    assert shared(held("", ""), [*parts(2, "A", 4, 1), *legs(1)]) == ({"A0": 0, "A1": 0, "k0": 1}, None)
    assert shared(held(""), [*legs(1), *parts(1, "A", 4, 1)]) == ({"k0": 0}, "A0")


def test_one_that_waits_for_its_own_experiment_holds_up_no_other():
    assert shared(held("A7 A8", ""), [*parts(1, "A", 2, 1), *legs(1)]) == ({"k0": 1}, None)


def test_a_leg_joins_its_own_slot_past_one_that_needs_a_whole_slot_and_opens_none():
    assert shared(held("A8"), [*legs(1), *parts(1, "A", 2, 2)]) == ({"A0": 0}, "k0")
    assert shared(held("A7 A8", "x"), [*legs(1), *parts(1, "A", 2, 2)]) == ({}, "k0")


def test_an_experiment_with_too_many_slots_fills_the_fullest():
    assert shared(held("A6", "A7 A8"), parts(2, "A", 4, 1)) == ({"A0": 1, "A1": 1}, None)
    assert shared(held("A6", "A7 A8"), parts(3, "A", 3, 1)) == ({"A0": 1}, None)


def test_a_trial_that_waits_in_its_process_goes_on_there():
    assert shared(held("A7 A8", ""), parts(1, "A", 4, 2, prefers="tcp://host0:1")) == ({"A0": 0}, None)


def test_a_part_that_is_alone_has_a_machine_of_its_own():
    alone = Waiting(Leg(0, 1, 0, 9, "go", "a0", alone=True), 1)
    assert shared(held("A8"), [alone]) == ({}, "a0")
    assert shared(held("A8", ""), [alone, *parts(1, "A", 4, 2)]) == ({"a0": 1, "A0": 0}, None)


@given(
    busy=st.lists(st.sampled_from(["", "x", "A6", "A7 A8", "B9"]), max_size=5),
    waiting=st.lists(st.sampled_from("ABx"), max_size=14),
    of=st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
def test_parts_never_meet_others_never_exceed_their_slot_and_leave_none_idle(busy, waiting, of):
    where, sizes, most = held(*busy), {"A": 3, "B": 2, "x": 1}, {"A": of[0], "B": of[1]}
    queue = [
        legs(at + 1)[at] if who == "x" else parts(1, who, sizes[who], most[who], at)[0]
        for at, who in enumerate(waiting)
    ]
    found, blocked = shared(where, queue)
    inside = [[key[0] for key in slot.legs] for slot in where]
    before = {who: sum(who in one for one in inside) for who in "AB"}
    for key, at in found.items():
        inside[at].append("x" if key[0] == "k" else key[0])
    for one in inside:
        assert len(set(one)) <= 1, "a slot has one owner"
        assert len(one) <= (sizes[one[0]] if one else 0)
    for who in "AB":
        count = sum(who in one for one in inside)
        assert count <= max(before[who], most[who])
        # One that was not placed could not join a slot of its experiment.
        left = any(one.leg.key[0] == who and one.leg.key not in found for one in queue)
        full = sorted((len(one) for one in inside if who in one), reverse=True)[: most[who]]
        assert not left or all(size == sizes[who] for size in full)
    if blocked is not None:
        assert all(inside), "no slot is empty while a leg waits for one"
    else:
        assert all(one.leg.key in found for one in queue if not one.shares)
