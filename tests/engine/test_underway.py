"""Which legs are in a slot, which of them stay, and who hears of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import PLAIN, spec_of

from workbench.cluster.backend import Slot, rank_key
from workbench.engine.judging.verify import Verification
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.underway import MANY, Parted, UnderWay
from workbench.engine.loop import ExperimentLoop
from workbench.messages import Left
from workbench.store import Store


class Around:
    """An engine and slots that do nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *_, **__: None


@pytest.fixture
def loop(tmp_path: Path) -> ExperimentLoop:
    store = Store(tmp_path / "store").create()
    spec = spec_of(PLAIN, tmp_path, trials=3)
    store.write_spec(spec)
    around = Around()
    return ExperimentLoop(store, spec, around, around, lambda: "2026-01-01T00:00:00.000+00:00")  # type: ignore[arg-type]


def leg(trial: int, slot: Slot | None = None, *mates: Slot, parts: int = 1) -> Leg:
    made = Leg(trial, 1, 0, 9, "", f"leg-{trial}", slot=slot, mates=list(mates), parts=parts)
    for rank, one in enumerate(made.in_slots):
        one.legs.append(rank_key(made.key, rank))
    return made


def test_a_leg_that_was_told_to_leave_does_not_stay(loop: ExperimentLoop) -> None:
    legs, slot = UnderWay(), Slot("tcp://a:1", 0, [])
    first, second = leg(0, slot), leg(1, slot)
    legs.add(loop, first)
    legs.add(loop, second)
    assert legs.staying(slot) == 2
    first.stop = "paused"
    assert legs.staying(slot) == 1
    legs.left(first.key)
    assert (first.key in legs, legs.staying(slot), legs.keys) == (False, 1, {second.key})


def test_a_leg_of_two_slots_is_in_both(loop: ExperimentLoop) -> None:
    legs, slot, other = UnderWay(), Slot("tcp://a:1", 0, []), Slot("tcp://a:1", 1, [])
    legs.add(loop, leg(0, slot, other))
    assert [[found.trial for _, found in legs.in_slot(one)] for one in (slot, other)] == [[0], [0]]


def test_nothing_is_queued_behind_a_check(loop: ExperimentLoop) -> None:
    legs, slot = UnderWay(), Slot("tcp://a:1", 0, [])
    legs.add(loop.verification, leg(0, slot))
    assert isinstance(loop.verification, Verification)
    assert legs.staying(slot) == MANY


def test_a_slot_in_parts_belongs_to_its_experiment_and_shows_each_leg_that_trains(loop: ExperimentLoop) -> None:
    legs, slot, whole = UnderWay(), Slot("tcp://a:1", 0, []), Slot("tcp://a:1", 1, [])
    for trial in range(3):
        legs.add(loop, leg(trial, slot, parts=2))
    legs.add(loop, leg(3, whole))
    legs.add(loop, leg(4, whole))
    assert [legs.divided(one) for one in (slot, whole)] == [loop.spec.id, ""]
    assert [[trial for _, trial, _ in legs.holders(one)] for one in (slot, whole)] == [["t0000", "t0001"], ["t0003"]]


def test_a_parted_experiment_hears_of_no_leg_and_its_waiting_legs_are_gone(loop: ExperimentLoop) -> None:
    legs, slot = UnderWay(), Slot("tcp://a:1", 0, [])
    trains, waits = leg(0, slot), leg(1)
    legs.add(loop, trains)
    legs.add(loop, waits)
    assert legs.part(loop) == [trains]
    assert legs.keys == {trains.key}
    ((hearer, _),) = legs
    assert isinstance(hearer, Parted)
    hearer.hear(trains, Left(outcome="stopped"))  # nothing happens
    assert [label for label, _, _ in legs.holders(slot)] == [loop.spec.label], "it still has its slot"
    legs.forget(loop)
    assert legs.keys == {trains.key}, "only legs that it hears of are forgotten"
