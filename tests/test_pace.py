"""When what waits may go on: tables of times."""

from __future__ import annotations

import pytest

from workbench.pace import BATCH_S, PASS_S, Pace


def gone(comes: list[float], gap_s: float) -> list[float]:
    """When batches go, where something comes at these times and each batch goes as soon as it may."""
    pace, found = Pace(gap_s), []
    for at in comes:
        if found and at < found[-1]:
            continue  # it goes with the batch that waits already
        due = at + pace.wait_s(at)
        pace.gone(due)
        found.append(round(due, 3))
    return found


@pytest.mark.parametrize(
    ("what", "comes", "goes"),
    [
        ("one after a rest goes at once", [1.0], [1.0]),
        ("rare ones never wait", [1.0, 1.3, 1.9], [1.0, 1.3, 1.9]),
        ("the second waits for the gap, and the third goes with it", [1.0, 1.01, 1.02], [1.0, 1.05]),
        ("after the gap it is a rest again", [1.0, 1.05], [1.0, 1.05]),
        ("many make a batch in each gap", [1 + k / 100 for k in range(20)], [1.0, 1.05, 1.1, 1.15, 1.2]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_first_goes_at_once_and_the_others_together(what, comes, goes):
    assert gone(comes, 0.05) == goes


def test_what_one_runner_sends_waits_nowhere_again():
    """Each batch finds the next stage at rest, though each stage takes a moment."""
    sent = gone([k / 100 for k in range(200)], BATCH_S)
    late = [at + 0.002 * (number % 3) for number, at in enumerate(sent)]
    assert gone(late, PASS_S) == [round(at, 3) for at in late]
