"""Searches of several engines that contend for slots: each logs its steps, so that a test sees who had which part."""

from __future__ import annotations

import json
import math
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from running import spec_of

from workbench.records import Scheduler, Spec
from workbench.space import uniform

#: Draws numbers at each step, so that a resumed trial differs if anything of its state is lost. Logs each step.
LONG = """
x = uniform(0.0, 1.0)
import json, random, time
total = 0.0
for epoch in trial.steps():
    begun = time.monotonic()
    time.sleep(0.05)
    total = 0.9 * total + x * random.random()
    with open({log!r}, "a") as file:
        file.write(json.dumps([{name!r}, begun, time.monotonic(), trial.number]) + "\\n")
    trial.report(score=total, noise=random.random())
"""
#: Whose, begun, ended, the number of the trial.
Step: TypeAlias = tuple[str, float, float, int]
#: Seconds of one slot; see :func:`farthest`.
NEAR_S = 4.0


def long(tmp_path: Path, name: str, steps: int, trials: int = 1, **fields: Any) -> Spec:
    """A search of trials that all train for so many steps of 50 ms."""
    source = LONG.format(log=str(tmp_path / "steps"), name=name)
    whole = Scheduler(kind="all", first=steps, last=steps)
    space = {"x": uniform(0.0, 1.0)}
    return spec_of(source, tmp_path, name=name, space=space, scheduler=whole, trials=trials, verify=False, **fields)


def steps_of(tmp_path: Path, name: str | None = None) -> list[Step]:
    """The steps so far."""
    path = tmp_path / "steps"
    found = [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
    return [step for step in found if name in (None, step[0])]


def farthest(steps: list[Step], search: str, due: float) -> float:
    """How far ``search``, the last to come, was from its part ``due`` of the slots, at most, while all contended:
    seconds of one slot. Its share alone depends on where a turn stands when the last step ends."""
    begins, ends = math.inf, dict[int, float]()
    for name, begun, end, trial in steps:
        if name == search:
            begins, ends[trial] = min(begins, begun), max(end, ends.get(trial, 0.0))
    # When one of its trials has ended, it cannot use all slots.
    contended = [step for step in steps if begins <= step[1] <= min(ends.values())]
    seconds = sum(step[2] - step[1] for step in contended) / len(contended)
    ahead = accumulate(float(name == search) - due for name, *_ in sorted(contended, key=lambda step: step[1]))
    return seconds * max(map(abs, ahead))
