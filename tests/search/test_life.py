"""The life of an experiment: facts in, state out, and each change of state is a legal one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.facts import CapacityChanged, Extended, Finish, PauseAsked, Reached, ResumeAsked, StopAsked
from workbench.records import ENDED, LEGAL_EXPERIMENT
from workbench.search.life import EXTENDED, PROBING, TRAINS, WAITS, Life

BEGAN = "began"
LUNCH, ROOM = PauseAsked("lunch"), PauseAsked("no room: the disk is full", "room")
FOLDER = PauseAsked("the folder /p, in which it trains, is gone", "folder")
PACKAGES = PauseAsked("six 1.16.0 → 1.17.0 was installed", "packages")
STOP, DONE = StopAsked(None, "enough"), Finish("completed", "9 trials, 9 completed")
MORE = Extended("more", trials=5)


def lived(*facts: object) -> Life:
    life = Life()
    for number, fact in enumerate(facts):
        at = f"12:00:{number:02d}"
        life = life.began(at) if fact == BEGAN else life.after(fact, at)
    return life


@pytest.mark.parametrize(
    ("facts", "state", "reason"),
    [
        ([], "waiting", WAITS),
        ([CapacityChanged(2)], "waiting", WAITS),
        ([BEGAN, Reached(0, 1, 0.5)], "running", TRAINS),
        ([BEGAN, LUNCH], "paused", "lunch"),
        ([LUNCH], "paused", "lunch"),
        ([BEGAN, LUNCH, ResumeAsked("me")], "waiting", WAITS),
        ([BEGAN, LUNCH, ResumeAsked("me"), BEGAN], "running", TRAINS),
        ([BEGAN, ROOM], "paused", "no room: the disk is full"),
        # A reason is text: what a person writes steers nothing.
        ([BEGAN, PauseAsked("no room: for me"), ROOM], "paused", "no room: for me"),
        # What a person paused stays so, whether there is room or not.
        ([BEGAN, LUNCH, ROOM], "paused", "lunch"),
        ([BEGAN, ROOM, LUNCH], "paused", "lunch"),
        ([BEGAN, ROOM, PACKAGES], "paused", PACKAGES.reason),
        ([BEGAN, STOP], "stopping", "asked to stop"),
        ([BEGAN, StopAsked(3, "this one")], "running", TRAINS),
        ([BEGAN, LUNCH, STOP], "stopping", "asked to stop"),
        ([BEGAN, STOP, LUNCH], "stopping", "asked to stop"),
        ([BEGAN, DONE], "completed", DONE.reason),
        ([BEGAN, DONE, LUNCH, STOP, BEGAN, Finish("failed", "late")], "completed", DONE.reason),
        ([BEGAN, DONE, MORE], "waiting", EXTENDED),
        ([BEGAN, DONE, MORE, BEGAN], "running", TRAINS),
        ([BEGAN, LUNCH, DONE, MORE], "waiting", EXTENDED),
        ([BEGAN, STOP, MORE], "running", TRAINS),
        ([BEGAN, LUNCH, STOP, MORE], "paused", "lunch"),
    ],
)
def test_how_it_stands(facts: list[object], state: str, reason: str) -> None:
    life = lived(*facts)
    assert (life.state, life.reason) == (state, reason)
    assert life.is_ended == (state in ENDED)


def test_times_are_those_of_the_first_leg_and_of_the_last_end() -> None:
    assert (lived(BEGAN, LUNCH, BEGAN, DONE).started, lived(BEGAN, LUNCH, BEGAN, DONE).ended) == (
        "12:00:00",
        "12:00:03",
    )
    again = lived(BEGAN, DONE, MORE, BEGAN)
    assert (again.started, again.ended) == ("12:00:00", None)


def test_a_change_that_is_not_legal_raises_with_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.search.life.LEGAL_EXPERIMENT", LEGAL_EXPERIMENT - {("running", "paused")})
    with pytest.raises(ValueError, match=r"an experiment that is running cannot become paused: PauseAsked\(.*lunch"):
        lived(BEGAN, LUNCH)


@given(facts=st.lists(st.sampled_from([BEGAN, LUNCH, ROOM, FOLDER, PACKAGES, ResumeAsked("me"), STOP, DONE, MORE])))
def test_every_order_of_facts_is_legal_and_only_an_extension_opens_what_has_ended(facts: list[object]) -> None:
    life = Life()
    for fact in facts:
        before, life = life, life.began("now") if fact == BEGAN else life.after(fact, "now")
        assert life.state == before.state or (before.state, life.state) in LEGAL_EXPERIMENT
        assert not before.is_ended or life is before or fact == MORE
        # What waits for room or its folder goes on by itself: nothing turns a person's pause into such a one.
        assert not (before.pause in ("person", "packages") and life.pause in ("room", "folder"))


@pytest.mark.parametrize(
    ("slots", "lack", "probed", "state", "reason"),
    [
        ([], None, True, "running", TRAINS),
        ([True, False], None, True, "running", TRAINS),
        ([True], None, False, "running", PROBING),
        ([False, False], "b holds all slots", True, "waiting", "b holds all slots"),
        ([True, False], "b holds 1 slot", True, "running", f"{TRAINS}; b holds 1 slot"),
        ([True, True], "b holds 1 slot", True, "running", TRAINS),
    ],
)
def test_slots_that_others_hold(slots: list[bool], lack: str | None, probed: bool, state: str, reason: str) -> None:
    assert lived(BEGAN).seen(slots, lack, probed) == (state, reason)
    assert lived(BEGAN, LUNCH).seen(slots, lack, probed) == ("paused", "lunch")


def test_before_its_first_leg_it_says_why_it_waits() -> None:
    assert Life().seen([], None, False) == ("waiting", "it waits for a slot")
    assert Life().seen([], "the cluster has no workers", False) == ("waiting", "the cluster has no workers")
