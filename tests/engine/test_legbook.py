"""What a leg says becomes facts and lines: messages in, lists out. No Dask, no disk, no clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from running import spec_of

from workbench import messages
from workbench.cluster.backend import Slot
from workbench.engine.legs.leg import Leg
from workbench.engine.legs.legbook import MOST_QUEUED, SHOWN_S, Heard, LegBook
from workbench.facts import Ended, Failed, Left, Lost, Reached, Run, StopAsked
from workbench.messages import Begun, FromLeg, Level, Points, Sampled, Saved
from workbench.records import Goal, Scheduler, Spec


def spec(**fields: Any) -> Spec:
    return spec_of("", Path(), goal=Goal("score"), **fields)


@pytest.fixture
def book() -> LegBook:
    return LegBook(spec(scheduler=Scheduler("asha", 1, 9, 3), probe=False))


def ordered(book: LegBook, trial: int = 0, start: int = 0, until: int = 9) -> Leg:
    leg = book.ordered(Run(trial, start, until, "go"))
    leg.slot = Slot("tcp://a:1", 0, [leg.key])
    return leg


def begun(book: LegBook, trial: int = 0, **where: int) -> Leg:
    leg = ordered(book, trial, **where)
    book.hear(leg, Begun(step=leg.start), 1.0)
    return leg


def left(outcome: messages.Outcome, **more: Any) -> messages.Left:
    return messages.Left(outcome=outcome, **more)


def test_a_level_is_a_fact_and_the_last_one_comes_with_the_end(book: LegBook) -> None:
    leg = begun(book)
    heard = book.hear(leg, Level(3, {"score": 0.5}), 2.0)
    assert (heard.facts, heard.lines, heard.known) == ([Reached(0, 3, 0.5)], [], [(3, 0.5, {"score": 0.5})])
    assert book.hear(leg, Level(9, {"score": 0.7}), 3.0).facts == []
    heard = book.hear(leg, left("reached", step=9, metrics={"score": 0.7}), 4.0)
    assert heard.facts == [Reached(0, 9, 0.7)]
    [line] = heard.lines
    assert (line["kind"], line["outcome"], line["step"], line["cause"]) == ("LegLeft", "reached", 9, None)
    assert book.legs == {}


def test_code_that_came_to_its_own_end_has_ended(book: LegBook) -> None:
    heard = book.hear(begun(book), left("completed", step=4, metrics={"score": 0.5}), 2.0)
    assert heard.facts == [Ended(0, 4, 0.5)]


@pytest.mark.parametrize(
    ("stop", "hung", "message", "outcome", "cause"),
    [
        ("asked", None, left("stopped"), "stopped", None),
        (None, None, left("stopped"), "died", "cluster"),  # it was not this experiment that stopped it
        ("it hangs", 40.0, left("stopped"), "died", "hang"),
        ("asked", None, left("died", cause="exit"), "stopped", None),  # killed while it was leaving
        (None, None, left("failed", error={"type": "ValueError", "message": "x", "line": 3}), "failed", "exception"),
        (None, None, left("died", cause="worker"), "died", "worker"),
        (None, None, left("failed", cause="setup", reason="too long"), "failed", "setup"),
        ("asked", None, left("failed", cause="setup", reason="too long"), "stopped", None),
    ],
)
def test_how_a_leg_ended(book: LegBook, stop, hung, message, outcome, cause) -> None:
    leg = begun(book)
    leg.stop, leg.hung = stop, hung
    heard = book.hear(leg, message, 2.0)
    [line] = heard.lines
    assert (heard.outcome, line["outcome"], line["cause"]) == (outcome, outcome, cause)
    assert isinstance(heard.facts[0], Left if outcome == "stopped" else Lost)
    assert (heard.way is None) == (outcome == "stopped")


def test_a_lost_leg_is_tried_again_after_a_while_and_elsewhere(book: LegBook) -> None:
    leg = begun(book)
    heard = book.hear(leg, left("died", cause="exit", reason="killed"), 10.0)
    assert isinstance(heard.facts[0], Lost)
    assert heard.way == ("exit", "")
    again = book.ordered(Run(0, 0, 9, "go"))
    assert (again.attempt, again.avoid, again.not_before > 10.0) == (2, "tcp://a:1", True)
    assert (leg.key != again.key, book.retries) == (True, 1)


def test_out_of_memory_the_next_legs_are_alone_until_the_level(book: LegBook) -> None:
    book.hear(begun(book), left("died", cause="memory"), 2.0)
    leg = begun(book)
    assert leg.alone
    book.hear(leg, left("reached", step=9, metrics={"score": 1.0}), 3.0)
    assert not ordered(book).alone


def test_the_same_error_twice_before_any_report_stops_all() -> None:
    book = LegBook(spec(scheduler=Scheduler("asha", 1, 9, 3), probe=True, max_restarts=0))
    error = {"type": "NameError", "message": "x", "line": 3}
    first = book.hear(begun(book, 0), left("failed", error=error), 2.0)
    assert [type(fact) for fact in first.facts] == [Failed]
    second = book.hear(begun(book, 1), left("failed", error=error), 3.0)
    assert [type(fact) for fact in second.facts] == [StopAsked, Failed]
    assert second.facts[0].then == "failed"


def test_different_errors_before_a_report_cost_only_their_trials() -> None:
    book = LegBook(spec(scheduler=Scheduler("asha", 1, 9, 3), probe=True, max_restarts=0))
    for trial, line in enumerate((3, 4)):
        heard = book.hear(
            begun(book, trial), left("failed", error={"type": "ValueError", "message": "x", "line": line}), 2.0
        )
        assert [type(fact) for fact in heard.facts] == [Failed]


def test_the_first_report_lets_the_others_begin_once() -> None:
    book = LegBook(spec(scheduler=Scheduler("asha", 1, 9, 3), probe=True))
    leg = begun(book)
    rows = [["score", 1, 0, 0.5, 1.0]]
    assert [book.hear(leg, Points(rows), 2.0).probed for _ in range(2)] == [True, False]


def test_a_checkpoint_is_journaled_with_the_goal_there_and_the_next_leg_begins_at_it(book: LegBook) -> None:
    leg = begun(book)
    book.hear(leg, Points([["score", 3, 0, 0.5, 1.0]]), 2.0)
    heard = book.hear(leg, Saved(step=3, bytes=700, stall=0.0, seconds=0.1), 2.0)
    assert heard.lines == [{"kind": "Saved", "trial": 0, "attempt": 1, "step": 3, "value": 0.5}]
    book.hear(leg, left("died", cause="worker"), 3.0)
    assert (ordered(book).start, book.largest, book.heard_bytes) == (3, 700, 700)


def test_checkpoints_between_levels_are_journaled_only_in_trouble(book: LegBook) -> None:
    message = Saved(step=2, bytes=7, stall=0.0, seconds=0.1, passing=True)
    leg = begun(book)
    assert book.hear(leg, message, 2.0).lines == []
    book.hear(leg, left("died", cause="exit"), 3.0)
    assert len(book.hear(begun(book), replace(message, step=3), 4.0).lines) == 1
    assert book.passing == {0}


def test_what_it_journaled_brings_another_book_to_the_same_state(book: LegBook) -> None:
    lines: list[dict[str, Any]] = []

    def say(leg: Leg, message: FromLeg) -> None:
        lines.extend(book.hear(leg, message, 2.0).lines)

    for trial, end in enumerate((left("reached", step=3, metrics={}), left("died", cause="memory"), left("stopped"))):
        leg = begun(book, trial, until=3)
        lines.append({"kind": "LegStarted", "trial": trial, "attempt": leg.attempt})
        say(leg, Saved(step=2, bytes=7, stall=0.0, seconds=0.1))
        leg.stop = "asked" if end.outcome == "stopped" else None
        say(leg, end)
    other = LegBook(spec(scheduler=Scheduler("asha", 1, 9, 3), probe=False))
    assert all(other.recall(line) for line in lines)
    assert (other.attempts, other.checkpoints, other.begun, other.retries) == (
        *(book.attempts, book.checkpoints, {}),
        book.retries,
    )
    order = Run(1, 0, 9, "go")
    mine, theirs = book.ordered(order), other.ordered(order)
    # Times are not journaled, nor on which worker it was.
    assert mine.alone
    assert theirs.alone
    assert (mine.start, mine.attempt) == (theirs.start, theirs.attempt) == (2, 2)
    assert not other.recall({"kind": "Run", "trial": 0})


def test_a_leg_that_says_nothing_hangs_and_one_that_does_not_train_yet_never() -> None:
    book = LegBook(spec(scheduler=Scheduler("asha", 1, 9, 3), probe=False, hang_s=5.0))
    silent, waiting = begun(book, 0), ordered(book, 1)
    for now in range(2, 6):
        # Its worker still sees its processes; the training code itself says nothing.
        assert book.hear(silent, Sampled([("cpu", 1.0, 2.0, 0.0)]), float(now)) == Heard()
        assert book.hanging(float(now)) == []
    assert book.hanging(7.0) == [silent]
    assert (silent.stop, silent.hung, waiting.stop) == ("it hangs", 6.0, None)
    assert book.hanging(8.0) == []


def test_a_check_that_hangs_again_and_again_has_the_same_limit_each_time(book: LegBook) -> None:
    checked = begun(book)
    book.hear(checked, Level(3, {"score": 0.5}), 90.0)
    now = 0.0

    def hangs_after(check: Leg) -> float:
        nonlocal now
        check.began = check.heard = begins = now
        while not book.hanging(now, check):
            checked.heard, now = now, now + 1.0
        return now - begins

    times = [hangs_after(Leg(0, attempt, 0, 3, "check", f"check {attempt}")) for attempt in (1, 2, 3)]
    assert len({*times}) == 1


def test_short_legs_are_queued_in_their_slot_and_long_ones_are_not(book: LegBook) -> None:
    def trained(seconds: float) -> int:
        for trial in range(20):
            book.hear(begun(book, trial), left("reached", step=9, seconds=seconds, metrics={"score": 1.0}), 2.0)
        return book.depth

    assert [book.depth, trained(0.001), trained(0.01), trained(1.0)] == [1, 1 + MOST_QUEUED, 4, 1]


def test_a_leg_is_setting_up_once_its_set_up_has_lasted_a_while_in_its_slot(book: LegBook) -> None:
    first, second, waits = ordered(book, 0), ordered(book, 1), book.ordered(Run(2, 0, 9, "go"))
    first.slot.legs.append(second.key)
    second.slot = first.slot
    assert book.setting_up(SHOWN_S - 0.1) == []
    assert book.setting_up(SHOWN_S) == [first]
    assert book.setting_up(50.0) == []  # it is shown already
    book.hear(first, Begun(step=0), 50.0)
    first.slot.legs.remove(first.key)
    assert book.setting_up(50.0 + SHOWN_S - 0.1) == []  # it was queued until then
    assert book.setting_up(50.0 + SHOWN_S) == [second]
    assert not waits.is_setting_up


def test_a_leg_is_not_setting_up_while_one_that_was_ordered_later_trains_in_its_slot(book: LegBook) -> None:
    first, promoted = ordered(book, 0), ordered(book, 1)
    first.slot.legs.append(promoted.key)
    promoted.slot = first.slot
    book.hear(promoted, Begun(step=0), 1.0)
    assert book.setting_up(50.0) == []
    first.slot.legs.remove(promoted.key)
    assert book.setting_up(50.0 + SHOWN_S) == [first]


def test_a_set_up_that_is_too_long_twice_in_a_row_is_not_tried_for_ever(book: LegBook) -> None:
    facts = [book.hear(ordered(book), left("failed", cause="setup", reason="long"), 1.0).facts[0] for _ in range(2)]
    assert [type(fact) for fact in facts] == [Lost, Failed]


def test_the_usual_set_up_is_not_that_of_the_first_leg_nor_of_one_that_goes_on_in_place(book: LegBook) -> None:
    assert book.setup_s == 0.0
    for trial, seconds in enumerate((4.5, 0.1, 0.2, 0.1)):
        leg = ordered(book, trial)
        leg.placed = 10.0
        book.hear(leg, Begun(step=0), 10.0 + seconds)
    leg = ordered(book, 9)
    leg.placed = 10.0
    book.hear(leg, Begun(step=3, in_place=True), 10.0)
    assert book.setup_s == pytest.approx(0.1)
