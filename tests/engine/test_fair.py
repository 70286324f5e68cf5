"""The division of slots: what holds for all claims, and over time."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.engine.fair import TURN_S, Claim, aged, allot, shares

WEIGHTS = st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.0, 10.0])


@st.composite
def claims(draw: st.DrawFn, priorities: tuple[int, ...] = (-1, 0, 5), units: tuple[int, ...] = (1,)) -> list[Claim]:
    found = []
    for number in range(draw(st.integers(1, 6))):
        held = draw(st.integers(0, 6))
        most = held + draw(st.integers(0, 6))
        debt = draw(st.floats(-60, 60))
        weight, priority = draw(WEIGHTS), draw(st.sampled_from(priorities))
        since, unit = str(draw(st.integers(0, 3))), draw(st.sampled_from(units))
        found.append(Claim(f"c{number}", held * unit, most * unit, weight, priority, debt, since, unit))
    return found


@given(st.integers(0, 20), claims())
def test_no_slot_is_left_over_and_none_gets_more_than_it_can_use(slots: int, found: list[Claim]) -> None:
    given_out = allot(slots, found)
    assert given_out.keys() == {one.name for one in found}
    assert all(0 <= given_out[one.name] <= one.most for one in found)
    assert sum(given_out.values()) == min(slots, sum(one.most for one in found))


@given(st.integers(0, 20), claims())
def test_each_gets_its_share_rounded_down_or_one_more(slots: int, found: list[Claim]) -> None:
    fair, given_out = shares(slots, found), allot(slots, found)
    for one in found:
        assert fair[one.name] - 1 < given_out[one.name] < fair[one.name] + 1 + 1e-6


@given(st.integers(0, 20), claims(priorities=(0,)))
def test_shares_go_by_weight_among_those_that_could_use_more(slots: int, found: list[Claim]) -> None:
    fair = shares(slots, found)
    assert sum(fair.values()) == pytest.approx(min(slots, sum(one.most for one in found)))
    for one in found:
        for other in found:
            if fair[one.name] < one.most - 1e-6:  # it could use more, so none has more for its weight
                assert fair[other.name] / other.weight <= fair[one.name] / one.weight + 1e-6


@given(st.integers(0, 20), claims())
def test_a_higher_priority_comes_first(slots: int, found: list[Claim]) -> None:
    given_out = allot(slots, found)
    for one in found:
        if given_out[one.name] < one.most:
            assert all(given_out[other.name] == 0 for other in found if other.priority < one.priority)


@given(st.integers(0, 20), claims())
def test_what_it_says_stays_once_it_is_carried_out(slots: int, found: list[Claim]) -> None:
    first = allot(slots, found)
    held = [dataclasses.replace(one, held=first[one.name]) for one in found]
    assert allot(slots, held) == first


@given(st.integers(0, 20), claims(units=(1, 2, 4)))
def test_claims_of_several_slots_get_all_of_them_or_none(slots: int, found: list[Claim]) -> None:
    given_out = allot(slots, found)
    left = slots - sum(given_out.values())
    assert left >= 0
    for one in found:
        assert 0 <= given_out[one.name] <= one.most
        assert given_out[one.name] % one.unit == 0
        assert given_out[one.name] == one.most or left < one.unit, "no slot is left over that it could use"


@given(st.integers(0, 20), claims(units=(1, 2, 4)), st.data())
def test_a_loose_claim_gets_what_is_left_over_and_no_other_one_less(
    slots: int, found: list[Claim], data: st.DataObject
) -> None:
    loose = [dataclasses.replace(one, is_loose=data.draw(st.booleans()) and one.unit > 1) for one in found]
    firm, given_out = allot(slots, found), allot(slots, loose)
    left = slots - sum(given_out.values())
    for one in loose:
        assert given_out[one.name] <= one.most
        assert given_out[one.name] == 0 or given_out[one.name] >= one.unit
        if one.is_loose and given_out[one.name]:
            assert not left or given_out[one.name] == one.most
    if len({one.priority for one in found}) == 1:
        assert all(given_out[name] >= firm[name] for name in firm)


def test_a_claim_of_two_slots_or_more_uses_three() -> None:
    assert allot(3, [Claim("a", 0, 8, unit=2)]) == {"a": 2}
    assert allot(3, [Claim("a", 0, 8, unit=2, is_loose=True)]) == {"a": 3}
    assert allot(3, [Claim("a", 0, 8, unit=2, is_loose=True), Claim("b", 0, 1)]) == {"a": 2, "b": 1}


def test_a_claim_of_several_slots_comes_before_one_that_has_had_more() -> None:
    single, gang = Claim("a", 2, 4, debt=9.0), Claim("b", 0, 4, debt=-9.0, unit=4)
    assert allot(4, [single, gang]) == {"a": 0, "b": 4}
    assert allot(4, [dataclasses.replace(single, debt=-9.0), dataclasses.replace(gang, debt=9.0)]) == {"a": 4, "b": 0}
    assert allot(3, [single, gang]) == {"a": 3, "b": 0}, "there will never be four"


def test_debts_are_forgotten_where_all_have_what_they_can_use() -> None:
    assert aged(4, [Claim("a", 1, 1, debt=30.0), Claim("b", 3, 3, debt=-9.0)], 1.0) == {"a": 0.0, "b": 0.0}


def test_slots_that_change_hands_put_none_behind_one_that_has_just_come() -> None:
    found = [Claim("a", 1, 4), Claim("b", 2, 4)]
    for _ in range(600):  # one slot of four is always on its way to another trial
        debts = aged(4, found, 1.0)
        found = [dataclasses.replace(one, debt=debts[one.name]) for one in found]
        found = [dataclasses.replace(one, held=3 - one.held) for one in found]
    assert all(abs(debt) <= TURN_S for debt in debts.values()), debts


def test_one_without_a_slot_comes_before_one_that_has_most_of_its_share_whatever_their_weights() -> None:
    found = [Claim("light", 1, 8), Claim("heavy", 0, 8, weight=3.0), *(Claim(f"{i}", 2, 8) for i in range(2))]
    for _ in range(600):
        debts = aged(8, found, 1.0)
        found = [dataclasses.replace(one, debt=debts[one.name]) for one in found]
    assert debts["heavy"] < debts["light"] - TURN_S, debts


def simulated(
    slots: int,
    weights: list[float],
    seconds: float,
    delay: float,
    leg: float,
    seed: int,
    units: list[int] | None = None,
) -> list[float]:
    """Slot-seconds of each claim where handing a slot over takes ``delay`` or the end of a leg, whichever is first.

    units: how many slots each leg takes, by claim.
    """
    units = units or [1] * len(weights)
    chance, step = random.Random(seed), 0.1
    held, debts, had = [0] * len(weights), [0.0] * len(weights), [0.0] * len(weights)
    ends: list[tuple[float, int]] = []
    over_since: dict[int, float] = {}
    now = 0.0
    while now < seconds:
        now += step
        found = [
            Claim(str(i), held[i], slots, weight, debt=debts[i], unit=units[i]) for i, weight in enumerate(weights)
        ]
        debts = list(aged(slots, found, step).values())
        goal = list(allot(slots, found).values())
        for i in range(len(weights)):
            had[i] += held[i] * step
            if held[i] <= goal[i]:
                over_since.pop(i, None)
                continue
            over_since.setdefault(i, now)
            mine = [one for one in ends if one[1] == i]
            done = [one for one in mine if one[0] <= now]
            if done or now - over_since[i] >= delay:
                ends.remove((done or mine)[0])
                held[i] -= units[i]
                over_since[i] = now + 1 - delay  # one leg a second makes room
        for i in sorted(range(len(weights)), key=lambda i: held[i] - goal[i]):
            while sum(held) + units[i] <= slots and held[i] < goal[i]:
                held[i] += units[i]
                ends.append((now + leg * chance.uniform(0.5, 1.5), i))
        ends = [(end if end > now else now + leg * chance.uniform(0.5, 1.5), i) for end, i in ends]
    return had


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 5),
    st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=2, max_size=4),
    st.sampled_from([0.5, 5.0, 1e9]),
    st.integers(0, 1000),
)
def test_over_five_minutes_each_has_its_share_within_a_tenth(
    slots: int, weights: list[float], leg: float, seed: int
) -> None:
    had = simulated(slots, weights, 300.0, 10.0, leg, seed)
    total = sum(had)
    assert total >= 0.95 * slots * 300, "slots are not left empty"
    for weight, one in zip(weights, had, strict=True):
        assert abs(one / total - weight / sum(weights)) <= 0.1, (had, weights)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([1.0, 2.0]), st.sampled_from([0.5, 5.0, 1e9]), st.integers(0, 1000))
def test_trials_of_four_slots_and_of_one_take_turns_within_a_tenth_of_their_shares(
    weight: float, leg: float, seed: int
) -> None:
    had = simulated(4, [weight, 1.0], 300.0, 10.0, leg, seed, units=[4, 1])
    assert sum(had) >= 0.8 * 4 * 300, "slots are left empty only while the last single ones end"
    assert abs(had[0] / sum(had) - weight / (weight + 1)) <= 0.1, had


def test_turns_are_not_shorter_than_they_should_be() -> None:
    found = [Claim("a", 1, 1, debt=0.0), Claim("b", 0, 1, debt=-TURN_S / 2)]
    assert allot(1, found) == {"a": 1, "b": 0}
    found[1] = dataclasses.replace(found[1], debt=-TURN_S * 1.5)
    assert allot(1, found) == {"a": 0, "b": 1}
