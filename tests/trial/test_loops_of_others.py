"""Loops that stand in a class of a project's module, or of an installed library: the locals around them are state."""

from __future__ import annotations

import sys

import pytest
from trial.world import trained_here

from workbench.messages import FromLeg, StopOrder, Unsaved
from workbench.trial import namespace

TRAINER = """
class Trainer:
    def __init__(self, rate):
        self.rate, self.steps = rate, 0

    def fit(self, trial, step):
        best = 0.0
        return self._run(trial, step, best)

    def _run(self, trial, step, best):
        total, seen = 0.0, []
        for epoch in trial.steps():
            self.steps += 1
            total = self.rate * total + step(epoch)
            seen.append(total)
            best = max(best, total)
            trial.report(score=total, seen=len(seen), steps=self.steps, best=best)
        return seen


def turns(trial, log):
    count = 0
    for epoch in trial.steps():
        count += 1
        yield epoch, count
"""
CELLS = {
    "a method that a method calls": """
        from ourtrainer import Trainer
        trainer = Trainer(0.5)
        seen = trainer.fit(trial, lambda epoch: 1.5 ** epoch)
        """,
    "a subclass in the cell": """
        from ourtrainer import Trainer
        class Mine(Trainer):
            def _run(self, trial, step, best):
                count = 10
                def counted(epoch):
                    nonlocal count
                    count += epoch
                    return step(epoch) + count
                return super()._run(trial, counted, best)
        Mine(0.5).fit(trial, lambda epoch: 1.5 ** epoch)
        """,
    "nothing but a call": """
        from ourtrainer import Trainer
        Trainer(0.25).fit(trial, float)
        """,
}


class Here:
    """The outside of a leg that is run in this process."""

    def __init__(self) -> None:
        self.points: dict[tuple[str, int], float] = {}

    def report(self, points) -> None:
        self.points |= {(name, step): value for name, step, _, value, _ in points}

    def send(self, message: FromLeg) -> None:
        assert not isinstance(message, Unsaved)

    def flush(self) -> None:
        """Nothing waits."""

    def stop(self) -> StopOrder | None:
        return None


@pytest.fixture(params=["a project's module", "an installed library"])
def ourtrainer(request, tmp_path, monkeypatch):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "ourtrainer.py").write_text(TRAINER)
    monkeypatch.syspath_prepend(str(folder))
    if request.param == "an installed library":
        monkeypatch.setattr(namespace, "_installed", lambda: (str(folder),))
        monkeypatch.setattr(namespace, "_libraries", lambda: (str(folder),))
    yield
    sys.modules.pop("ourtrainer", None)


@pytest.mark.parametrize("which", CELLS)
def test_it_goes_on_where_it_was(experiment, ourtrainer, which):
    calm, parts = Here(), Here()
    left = trained_here(calm, experiment(CELLS[which], steps=6).order())
    assert left["error"] is None, left["error"]["traceback"]
    cell = experiment(CELLS[which], steps=6)
    for until in (1, 2, 4, 6):
        left = trained_here(parts, cell.order(until, start={1: 0, 2: 1, 4: 2, 6: 4}[until]))
        assert left["error"] is None, left["error"]["traceback"]
        sys.modules.pop("ourtrainer", None)  # a runner imports it again
    assert parts.points == calm.points
    assert parts.points["seen", 6] == 6


def test_a_librarys_progress_bar_around_the_steps_is_no_state(experiment, ourtrainer):
    cell = experiment(
        """
        from tqdm import tqdm
        total = 0.0
        for epoch in tqdm(trial.steps(), disable=False):
            total += epoch
            trial.report(score=total)
        """,
        steps=4,
    )
    parts = Here()
    for until in (2, 4):
        left = trained_here(parts, cell.order(until, start=until - 2))
        assert left["error"] is None, left["error"]["traceback"]
    assert parts.points == {("score", 1): 0.0, ("score", 2): 1.0, ("score", 3): 3.0, ("score", 4): 6.0}
