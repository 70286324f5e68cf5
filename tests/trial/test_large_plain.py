"""State of very many small objects: saved exactly, as seldom as it is dear, and people are told."""

from __future__ import annotations

from typing import Any

import pytest
from trial.world import trained_here

from workbench.messages import FromLeg, StopOrder, plain
from workbench.trial import state
from workbench.trial.course import saver

REPLAY = """
import collections, hashlib, pickle, random
buffer = collections.deque(((i, (0.5 * i, -0.0), "s", None) for i in range(SIZE)), maxlen=SIZE)
table = {(i, i + 1): (float(i), True) for i in range(2000)}
seen = []
alias = seen
rows = None
for step in trial.steps():
    for number in range(5):
        buffer.append((step, (random.random(), float("nan")), b"x", 1j))
    table[step, step] = (random.random(), False)
    seen.append((step, tuple(random.choices(range(10), k=2000))))
    rows = [(step, number) for number in range(1500)] if rows is None else rows[1:] + [(step, step)]
    other = rows
    assert alias is seen and other is rows
    content = [list(buffer), table, seen, rows, type(buffer).__name__, buffer.maxlen]
    trial.report(score=int(hashlib.sha256(repr(content).encode()).hexdigest()[:12], 16), same=alias is seen)
"""


class Here:
    """The outside of a leg that is run in this process."""

    def __init__(self) -> None:
        self.points: dict[tuple[str, int], float] = {}
        self.told: list[dict[str, Any]] = []

    def report(self, points) -> None:
        self.points |= {(name, step): value for name, step, _, value, _ in points}

    def send(self, message: FromLeg) -> None:
        self.told.append(plain(message))

    def flush(self) -> None:
        """Nothing waits."""

    def stop(self) -> StopOrder | None:
        return None

    def of(self, op: str) -> list[dict[str, Any]]:
        return [message for message in self.told if message["op"] == op]


def test_long_containers_of_plain_values_come_back_bit_for_bit(experiment):
    text = REPLAY.replace("SIZE", "3000")
    calm, parts = Here(), Here()
    assert trained_here(calm, experiment(text, steps=6).order())["error"] is None
    cell = experiment(text, steps=6)
    for start, until in ((0, 1), (1, 3), (3, 6)):
        left = trained_here(parts, cell.order(until, start=start))
        assert left["error"] is None, left["error"]["traceback"]
    assert parts.points == calm.points
    assert parts.of("says") == []


def test_people_are_told_once_what_makes_checkpoints_slow(experiment, monkeypatch):
    monkeypatch.setattr(state, "SLOW_S", 0.0)
    link = Here()
    cell = experiment(
        REPLAY.replace("SIZE", "150_000").replace("content = [list(buffer),", "content = [len(buffer),"), steps=6
    )
    assert trained_here(link, cell.order(levels=(1, 2, 3)))["error"] is None
    assert link.of("saved")[-1]["step"] == 6
    (says,) = link.of("says")
    assert "since buffer reaches about 150,000 objects of Python" in says["text"]
    assert "NumPy array or a tensor" in says["text"]


@pytest.mark.parametrize(("dear", "saved"), [(False, [1, 2, 3, 4, 5, 6]), (True, [6])])
def test_at_levels_that_a_leg_passes_a_dear_checkpoint_is_left_out(experiment, monkeypatch, dear, saved):
    # On a busy machine a checkpoint of milliseconds may take much longer.
    monkeypatch.setattr(saver, "CHEAP_S", 0.0 if dear else 60.0)
    if dear:
        monkeypatch.setattr(saver, "AT_LEVEL", 1e9)
        monkeypatch.setattr(saver, "STALL", 1e9)
    link = Here()
    cell = experiment(REPLAY.replace("SIZE", "3000"), steps=6)
    assert trained_here(link, cell.order(levels=(1, 2, 3, 4, 5)))["error"] is None
    assert [one["step"] for one in link.of("saved") if not one.get("passing")] == saved
    assert [one["step"] for one in link.of("level")] == [1, 2, 3, 4, 5, 6]
