"""How many slots an engine counts on, whatever it holds and owes; and what is written of it can be read again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from workbench.cluster.backend import Backend, Slot
from workbench.engine.leases import Leases, Wish
from workbench.store.recalled import LINES


def leases(tmp_path: Any, held: int, free: int) -> Leases:
    slots = [Slot("a", place, [], names=(f"cpu{place}",), lease=f"cpu{place}") for place in range(held)]
    slots += [Slot("a", held + place, [], names=(f"cpu{held + place}",)) for place in range(free)]
    backend = cast(Backend, SimpleNamespace(slots=slots, arbiter=None))
    return Leases(tmp_path, backend, lambda: Wish(0, 1.0, 0, 1, ()), lambda: None, lambda words: None)


@pytest.mark.parametrize(
    ("held", "free", "owed", "short", "usable"),
    [
        (0, 4, 0, False, 4),
        (2, 2, 0, True, 3),
        (2, 2, 1, True, 1),
        (1, 3, 1, True, 0),
        (1, 3, 2, True, 0),  # a worker has died with its slot, and what is owed was counted before
        (0, 4, 3, False, 0),
    ],
)
def test_it_never_counts_on_fewer_slots_than_none(
    tmp_path: Any, held: int, free: int, owed: int, short: bool, usable: int
) -> None:
    found = leases(tmp_path, held, free)
    found.owed, found.is_short = owed, short
    assert found.usable == usable


def test_a_number_below_zero_that_an_earlier_version_wrote_is_read() -> None:
    is_valid = LINES["CapacityChanged"]["slots"]
    assert [is_valid(value) for value in (0, 2, -1, -4)] == [True] * 4
    assert not any(map(is_valid, (True, 1.5, "2", None, -(10**12), 10**12)))
