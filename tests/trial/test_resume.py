"""A trial that is killed after every step and resumed in a new process equals an undisturbed one."""

import pytest
from trial.loops import ALL, FOOT
from trial.world import points, said

STEPS = 5


def values(messages):
    """All points but their times; a step that was trained twice counts once."""
    return points(messages)


def result(output):
    lines = [line for line in output.splitlines() if line.startswith("RESULT")]
    assert len(lines) == 1, f"the code after the loop ran {len(lines)} times:\n{output}"
    return lines[0]


def same(server, experiment, source, **changes):
    cell = experiment(source, steps=STEPS, **changes)
    calm = server.runner()
    told = calm.leg(cell.order(trial=0))
    assert told[-1]["outcome"] == "completed", told[-1]["error"]["traceback"]
    calm.kill()
    expected, weights = values(told), result(calm.output())

    resumed, output = {}, ""
    cell = experiment(source, steps=STEPS, **changes)
    start = 0
    while True:
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        left = told[-1]
        assert left["op"] == "left", runner.output()
        assert left["error"] is None, left["error"]["traceback"]
        runner.kill()
        assert said(told, "begun")[0]["step"] == start
        resumed |= values(told)
        output += runner.output()
        if left["outcome"] == "completed":
            break
        start = left["step"]
    assert resumed == expected
    assert result(output) == weights


@pytest.mark.parametrize("name", ALL)
def test_resumed_equals_undisturbed(server, experiment, name):
    same(server, experiment, ALL[name] + FOOT)
