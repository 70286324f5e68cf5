"""Who is owed a slot: those that have fewer than we do, each one."""

from __future__ import annotations

import pytest

from workbench.cluster.backend import Slot
from workbench.engine.leases import gifts, lack
from workbench.store.owner.slots import Holder, Waiter


def slots(count: int) -> list[Slot]:
    """Slots that are held."""
    return [Slot(f"tcp://{number}", 0, [], lease=f"cpu{number}") for number in range(count)]


def waiting(*held: int, wants: int = 8) -> list[Waiter]:
    """Engines that wait and have so many slots."""
    names = frozenset(f"cpu{number}" for number in range(wants))
    return [Waiter(f"{at}", f"/{at}", have, "", names) for at, have in enumerate(held)]


@pytest.mark.parametrize(
    ("held", "others", "owed"),
    [
        (1, [0], ["/0"]),  # one slot changes hands
        (2, [0], ["/0"]),
        (2, [1], ["/0"]),  # three slots: the odd one goes round
        (1, [1], []),  # as many: nothing moves
        (4, [0, 0], ["/0", "/1"]),
        (2, [0, 0], ["/0", "/1"]),
        (1, [0, 0], ["/0"]),
        (0, [0], []),
        (3, [3, 0], ["/1"]),
    ],
)
def test_those_with_fewer_slots_are_owed_one(held: int, others: list[int], owed: list[str]) -> None:
    assert [other.store for other, _ in gifts(held, slots(held), waiting(*others))] == owed


def test_nobody_is_owed_a_slot_that_it_cannot_use() -> None:
    held = slots(3)
    assert gifts(3, held, waiting(0, wants=0)) == []
    assert gifts(3, held, waiting(0, wants=1)) == [(waiting(0, wants=1)[0], held[:1])]
    assert gifts(3, [], waiting(0)) == []  # they were taken a moment ago


def test_who_holds_the_slots_is_said() -> None:
    held = [Holder("cpu0", "/a", "digits@1"), Holder("cpu1", "/a", "digits@1"), Holder("gpu-1", "/b")]
    names = {"cpu0", "cpu1"}
    assert lack(held, names, set()) == "waits for a slot: 2 of 2 are held by /a (digits@1)"
    assert lack(held, names, {"cpu0"}) == "waits for a slot: 1 of 2 is held by /a (digits@1)"
    assert lack(held, {*names, "gpu-1"}, set()) == "waits for a slot: 3 of 3 are held, 2 by /a (digits@1), 1 by /b"
    assert lack([], names, set()) == "waits for a slot"
