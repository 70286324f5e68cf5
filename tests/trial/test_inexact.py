"""A resumed leg names what it has lost, with the reason, and names nothing that it has not lost."""

import pytest
from trial.loops_lost import EXACT, HEAD, NAMED
from trial.world import said

from workbench.errors import CannotResume
from workbench.trial.kinds import LeftOut


def inexact(server, experiment, source, legs=2):
    """What each leg said that it had lost: names, each with a reason."""
    cell, told = experiment(HEAD + source, steps=4), []
    for start in range(legs):
        runner = server.runner()
        messages = runner.leg(cell.order(start + 1, start=start))
        assert messages[-1]["error"] is None, messages[-1]["error"]["traceback"]
        runner.kill()
        found = said(messages, "begun")[0]["found"].get("inexact", [])
        assert all(one["reason"] for one in found)
        told.append({one["name"] for one in found})
    return told


@pytest.mark.parametrize("name", NAMED)
def test_what_is_lost_is_named_by_every_leg_that_goes_on(server, experiment, name):
    source, names = NAMED[name]
    assert inexact(server, experiment, source, legs=3) == [set(), names, names]


@pytest.mark.parametrize("name", EXACT)
def test_what_is_no_loss_is_not_named(server, experiment, name):
    assert inexact(server, experiment, EXACT[name]) == [set(), set()]


def test_a_leg_that_only_ends_the_trial_has_lost_nothing(server, experiment):
    cell = experiment(HEAD + NAMED["a generator that the loop goes on with"][0], steps=2)
    assert server.runner().leg(cell.order())[-1]["outcome"] == "completed"
    told = server.runner().leg(cell.order(2, start=2))
    assert told[-1]["outcome"] == "completed"
    assert "inexact" not in said(told, "begun")[0]["found"]


def test_what_threads_share_and_the_loop_made_says_so_where_it_is_used(server, experiment):
    source = """
import queue, threading
class Ahead:
    def __init__(self):
        self.given = queue.Queue(2)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
    def run(self):
        for n in range(99): self.given.put(n)
ahead, lines = None, numbers()
for epoch in trial.steps():
    if ahead is None: ahead = Ahead()
    try: n = ahead.given.get()
    except Exception as error: print("SAID", error); n = -1
    trial.report(score=n)"""
    cell = experiment(HEAD + source, steps=4)
    for start in range(2):
        runner = server.runner()
        assert runner.leg(cell.order(start + 1, start=start))[-1]["error"] is None
        runner.kill()
    output = runner.output()
    assert "SAID this object was not in the checkpoint (other threads use it" in output
    assert "The loop made it in an earlier step" in output
    assert "Make it before the loop, in a name of its own, or again in each step." in output


def test_what_takes_the_place_of_a_lost_object_says_why_in_a_with_statement():
    with pytest.raises(CannotResume, match="a lock of another language"), LeftOut("a lock of another language"):
        pass
