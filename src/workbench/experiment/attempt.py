"""``--try``: two steps of the first trial in this kernel. Law: it runs the same code as a runner, and keeps nothing."""

from __future__ import annotations

import builtins
import contextlib
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.facts import CapacityChanged, Run
from workbench.launch import TRIED
from workbench.search import Search
from workbench.search.cost import Times
from workbench.search.seeds import trial_seed
from workbench.status.board import configured
from workbench.trial import current_or_none, make_current
from workbench.trial.api.heard import listening
from workbench.trial.api.local import LocalCourse
from workbench.trial.api.trial import LegLeft, Trial
from workbench.trial.generators import seeds
from workbench.trial.process.program import fill, prepare, run_code
from workbench.trial.process.script import as_main

if TYPE_CHECKING:
    from workbench.launch import Draft

STEPS = 2


def attempt(made: Draft, say: Callable[[str], None], then: str = "remove --try to search") -> None:
    """Train the first trial for two steps here. Exceptions of the code are not wrapped, so that %debug works.

    then: what to do next, in words.
    """
    spec = made.spec(None)
    search = Search.of(spec)
    number = next(one.trial for one in search.handle(CapacityChanged(1)) if isinstance(one, Run))
    configuration = search.configuration(number)
    steps = min(STEPS, spec.scheduler.last)
    said = configured(configuration)
    say(f"Trying {steps} step{'s' * (steps != 1)} here{f' with {said}' if said else ''}.")
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    namespace, function = fill(made.store, spec, main)
    before, random_state = current_or_none(), seeds.state()
    with tempfile.TemporaryDirectory(prefix="workbench-try-") as folder:
        seed = trial_seed(spec.seed, number, "loader")
        course = LocalCourse(steps, Path(folder), own_steps=steps, is_short=True)
        trial = Trial(course, number, configuration, spec.scheduler.last, seed, Path(folder))
        make_current(trial)
        seeds.set_all(spec.seed, number)
        try:
            with (
                contextlib.suppress(LegLeft),
                as_main(spec.program, configuration),
                listening(spec.program, spec.goal.metric, trial),
            ):
                code, arguments = prepare(spec, trial, namespace, function)
                begun = time.monotonic()
                run_code(code, namespace, arguments)
        finally:
            make_current(before)
            seeds.forget()
            seeds.put(random_state)
    took = _took(course, begun)
    if took is not None:
        TRIED[str(made.store.root), made.name] = took
        measured = f" ({took.setup_s:.3g} s of set-up, {took.step_s:.3g} s a step)"
    say(f"It works{measured if took else ''}; {then}.")


def _took(course: LocalCourse, begun: float) -> Times | None:
    """What the set-up and a step took here; None if no step has begun, or the loop counts its own."""
    if not course.turns or len(course.turns) < 2:
        return None
    first, last = course.turns[0], course.turns[-1]
    return Times(first - begun, (last - first) / (len(course.turns) - 1), "--try took")
