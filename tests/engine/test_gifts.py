"""Who is owed a slot: those that have fewer than their share, by what another has beyond its own."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime

import pytest

from workbench.cluster.backend import Slot
from workbench.engine.leases import gifts
from workbench.store.owner.promised import Promise, clock, lack, promises
from workbench.store.owner.slots import Claimant, Holder, claimant_of, facts_of


def slots(count: int) -> list[Slot]:
    """Slots that are held."""
    return [Slot(f"tcp://{number}", 0, [], lease=f"cpu{number}") for number in range(count)]


def waiting(*held: int, lacks: int = 1, wants: int = 8) -> list[Claimant]:
    """Engines that lack slots and have so many."""
    names = frozenset(f"cpu{number}" for number in range(wants))
    return [Claimant(f"{at}", f"/{at}", "", have, names, lacks=lacks, slots=8) for at, have in enumerate(held)]


@pytest.mark.parametrize(
    ("over", "goals", "owed"),
    [
        (1, [1], ["/0"]),
        (0, [1], []),  # this engine has its share
        (2, [1], ["/0"]),
        (2, [1, 1], ["/0", "/1"]),
        (1, [1, 1], ["/0"]),
        (3, [0, 1], ["/1"]),
        (3, [2, 1], ["/0", "/0", "/1"]),
    ],
)
def test_those_with_fewer_slots_than_their_share_are_owed_what_another_has_beyond_its_own(
    over: int, goals: list[int], owed: list[str]
) -> None:
    others = waiting(*(0 for _ in goals), lacks=2)
    found = gifts(over, slots(4), others, {str(at): goal for at, goal in enumerate(goals)})
    assert [other.store for other, _ in found] == owed


def test_none_is_owed_a_slot_that_it_cannot_use_or_does_not_lack() -> None:
    held = slots(3)
    assert gifts(2, held, waiting(0, wants=0), {"0": 1}) == []
    assert gifts(2, held, waiting(0, wants=1), {"0": 1}) == [(waiting(0, wants=1)[0], held[:1])]
    assert gifts(2, [], waiting(0), {"0": 1}) == []  # they were taken a moment ago
    assert gifts(2, held, waiting(0, lacks=0), {"0": 1}) == []


def test_who_holds_the_slots_is_said() -> None:
    held = [Holder("cpu0", "/a", "digits@1"), Holder("cpu1", "/a", "digits@1"), Holder("gpu-1", "/b")]
    names = {"cpu0", "cpu1"}
    assert lack(held, names, set()) == "waits for a slot: 2 of 2 are held by /a (digits@1)"
    assert lack(held, names, {"cpu0"}) == "waits for a slot: 1 of 2 is held by /a (digits@1)"
    assert lack(held, {*names, "gpu-1"}, set()) == "waits for a slot: 3 of 3 are held, 2 by /a (digits@1), 1 by /b"
    assert lack([], names, set()) == "waits for a slot"
    words = "waits for 4 slots: it has 1; 1 of 2 is held by /a (digits@1)"
    assert lack(held, names, {"cpu0"}, unit=4, has=1) == words


def test_free_slots_that_are_promised_to_another_are_said_with_its_name_and_time() -> None:
    since = datetime.now(UTC).isoformat()
    at, names = clock(since), {f"cpu{number}" for number in range(4)}
    kept = [Promise(2, "/nlp", "bert@1", since=since)]
    held = [Holder("cpu3", "/a", "digits@1")]
    words = f"waits for 4 slots: 3 free, 2 promised to /nlp (bert@1) since {at}; 1 of 4 is held by /a (digits@1)"
    assert lack(held, names, set(), unit=4, promised=kept) == words
    assert (
        lack([], names, set(), promised=[Promise(4, user="alice")]) == "waits for a slot: 4 free, 4 promised to alice"
    )
    assert lack(held, names, set(), unit=4) == "waits for 4 slots: 3 free; 1 of 4 is held by /a (digits@1)"


def test_free_slots_are_promised_to_those_that_come_first_up_to_what_they_should_have() -> None:
    first, second = waiting(0, 1, lacks=3)
    free = ["cpu5", "cpu6", "cpu7"]
    found = promises(free, [first, second], {"0": 2, "1": 4})
    assert [(one.slots, one.store) for one in found] == [(2, "/0"), (1, "/1")]
    assert promises(free, [first], {"0": 0}) == ()
    assert promises(["more9"], [first], {"0": 2}) == (), "it cannot use that slot"


def test_promises_travel_with_a_claim() -> None:
    (one,) = waiting(0)
    kept = dataclasses.replace(one, promised=(Promise(2, "/nlp", "bert@1", since="2026-01-01T00:00:00+00:00"),))
    assert claimant_of("0", json.loads(json.dumps(facts_of(kept)))) == kept


def test_a_time_of_another_day_has_its_date() -> None:
    now = datetime(2026, 1, 3, 12, 0).astimezone()
    assert clock(datetime(2026, 1, 3, 9, 5).astimezone().isoformat(), now) == "09:05"
    assert clock(datetime(2026, 1, 1, 9, 5).astimezone().isoformat(), now) == "2026-01-01 09:05"
    assert clock("soon") == ""
