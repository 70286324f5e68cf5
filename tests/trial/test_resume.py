"""A trial that is killed again and again and resumed in a new process equals an undisturbed one."""

import pytest
from thorough import IS_THOROUGH
from trial.loops import ALL, FOOT
from trial.test_states import WHOLE, both
from trial.world import points, said

from workbench.engine.judging.states import differing

STEPS = 5


def values(messages):
    """All points but their times; a step that was trained twice counts once."""
    return points(messages)


def result(output):
    lines = [line for line in output.splitlines() if line.startswith("RESULT")]
    assert len(lines) == 1, f"the code after the loop ran {len(lines)} times:\n{output}"
    return lines[0]


def ends(source):
    """Where its legs end: after its first step, as most first promotions do; after an even number of steps, since some
    loops do something in every other one; and after the fourth where a loop does something in that alone."""
    if IS_THOROUGH:
        return range(1, STEPS + 1)
    return (1, 2, 4, STEPS) if "epoch == 3" in source else (1, 2, STEPS)


def same(server, experiment, source, *, whole=False, **changes):
    """whole: their last states are compared as well, with all that the checkpoints hold."""
    calm, cell = (experiment(source, steps=STEPS, **changes) for _ in range(2))
    runner = server.runner()
    told = runner.leg(calm.order())
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    runner.kill()
    expected, weights = values(told), result(runner.output())

    resumed, output, start = {}, "", 0
    for until in ends(source):
        runner = server.runner()
        told = runner.leg(cell.order(until, start=start))
        left = told[-1]
        assert left["op"] == "left", runner.output()
        assert left["error"] is None, left["error"]["traceback"]
        runner.kill()
        assert said(told, "begun")[0]["step"] == start
        resumed |= values(told)
        output += runner.output()
        if left["outcome"] == "completed":  # some leave early
            break
        start = left["step"]
    assert left["outcome"] == "completed"
    assert resumed == expected
    assert result(output) == weights
    if whole:
        assert differing(*both(cell, calm, STEPS)) == []


@pytest.mark.parametrize("name", ALL)
def test_resumed_equals_undisturbed(server, experiment, name):
    same(server, experiment, ALL[name] + FOOT, whole=name in WHOLE)
