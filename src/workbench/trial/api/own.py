"""A loop that counts its own steps: ``trial.report(step=…)``, ``trial.save`` and ``trial.restore``, without steps().

Law: a level is told once in a trial's life, with the first report at or behind it that has the goal. A checkpoint of a
step holds the reports up to that step, so that none is lost with it: one that is saved before its step was reported is
shown when it is reported, or when the loop has clearly gone on.

When a leg is over (a level, a pause, a stop), ``report`` answers False, and the loop may save once more and end. A loop
whose step is saved already, or that goes on all the same, is left by the exception that leaves ``trial.steps()`` too:
``finally`` runs, the code after the loop does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from workbench.errors import BadInput, BadMetric
from workbench.messages import Level
from workbench.records import SCHEMA, check_schema, plain_value, trial_label
from workbench.store.keeping.checkpoints import Folder
from workbench.trial.api import metrics
from workbench.trial.api.files import copy_into
from workbench.trial.api.trial import LegLeft

if TYPE_CHECKING:
    from workbench.trial.course.course import LegCourse

#: The file beside what the loop saved, and the name under which that lies.
HEADER, SAVED = "own.json", "saved"
RESUMES = "at the steps that the loop gives to trial.save()"
SAVES_NOTHING = (
    "this loop counts its own steps and saves nothing: each promotion trains it again from the start; "
    "use trial.save/trial.restore"
)
NEVER_RESTORES = (
    "this loop counts its own steps and does not restore what it saved: each promotion trains it again from the start; "
    "use trial.restore"
)
#: A goal that was never reported is waited for up to so many times the steps of the first level.
PATIENCE = 2

History = dict[int, dict[str, float]]


def saved_in(folder: Folder) -> Path | None:
    """What ``trial.save`` was given, in the checkpoint in ``folder``: a file, or a folder; None where it kept none."""
    saved = folder / SAVED
    if not isinstance(saved, Path) or not saved.exists():
        return None
    name = _read(folder).get("file")  # checkpoints of earlier versions say nothing: a folder, as it was then
    return saved / name if name else saved


def _read(folder: Folder) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    check_schema(found, "this checkpoint")
    return found


class OwnLoop:
    """What such a loop reports, saves and restores in one leg."""

    def __init__(self, course: LegCourse) -> None:
        self._course = course
        #: The checkpoint that the leg can go on from, and its step.
        self._folder: Folder | None = None
        self._at = 0
        #: True once the training code has shown that its loop is of this kind.
        self.began = False
        self._goes_on = False
        #: The highest level that was told, and what was reported there.
        self._told = 0
        self._values: dict[str, float] = {}
        #: The highest step that was reported, and the last one that was saved.
        self._reported = self._saved = 0
        #: What was saved ahead of its report: its step, and the folder that waits.
        self._ahead: tuple[int, Path, Path] | None = None

    def found(self, step: int, folder: Folder) -> None:
        """The checkpoint of ``step`` in ``folder`` is one of this kind."""
        self._at, self._folder = step, folder

    # -- beginning -----------------------------------------------------------------------------------------------------

    def restore(self) -> Path | None:
        """What was saved, for the loop to go on from; None where it begins."""
        course = self._course
        if self._folder is None:
            return course.fork.saved if course.fork is not None else None
        if not self.began:
            self._goes_on = True
            self._begin()
        return saved_in(self._folder)

    def _begin(self) -> None:
        course, order = self._course, self._course.order
        self.began, self._told = True, order.told
        if self._goes_on and self._folder is not None:
            course.step = self._reported = self._saved = self._at
            history = _read(self._folder).get("history", {})
            known = {int(at): {name: float(value) for name, value in row.items()} for at, row in history.items()}
            course.history = {step: row for step, row in sorted(known.items()) if step <= self._at}
        elif course.fork is not None:
            course.step = course.fork.step
            self._told = max(self._told, course.step)
        course.begin_own(RESUMES)
        if order.told and not self._goes_on:
            course.says(SAVES_NOTHING if self._folder is None else NEVER_RESTORES)
        for step, row in course.history.items():
            if step > order.known_step:
                course.send_points(step, row)
            self._tell_levels(step)
        if self._told >= order.until < order.max_steps:
            # It had come to its level; only that word was lost.
            self._leave(LegLeft("reached"))

    # -- reporting -----------------------------------------------------------------------------------------------------

    def report(self, values: Mapping[str, Any], step: Any) -> bool:
        """Take the values of ``step``; False where the loop is to end."""
        course, order = self._course, self._course.order
        if isinstance(step, bool) or not isinstance(step, int) or step < 1:
            raise BadMetric(f"trial.report(step={step!r}): expected the number of turns done, from 1 on.")
        if not self.began:
            self._begin()
        if course.left is None and self._reported >= order.max_steps and step > self._reported:
            course.left = LegLeft("completed")  # it was told to end, and goes on
        if course.left is not None:
            self._leave(course.left)
        if step != self._reported:
            course.clear_logged()
        course.take(values, step)
        self._reported = course.step = max(self._reported, step)
        if self._ahead is not None and self._ahead[0] <= step:
            self._show()
        self._tell_levels(step)
        self._check_goal(step)
        course.place.stepped()
        if step >= order.max_steps:
            return False
        stop = course.stop()
        if stop is None and self._told < order.until:
            return True
        course.preempted = stop is not None and stop.is_notice
        course.left = LegLeft("stopped", stop.reason) if stop is not None else LegLeft("reached")
        if self._saved == course.step:
            self._leave(course.left)
        return False

    def _tell_levels(self, step: int) -> None:
        """Tell the levels up to ``step`` that were not told, with what was reported there."""
        course, order = self._course, self._course.order
        row = course.history[step]
        if course.goal.metric not in row:
            return
        for level in sorted(order.levels):
            if self._told < level <= min(step, order.until):
                self._told, self._values = level, row
                course.send(Level(level, row))

    def _check_goal(self, step: int) -> None:
        """A goal that was never reported, however long it was waited for, is a slip of the pen."""
        course = self._course
        first = min((level for level in course.order.levels if level > self._told), default=step)
        if step >= PATIENCE * first and course.goal.metric not in course.latest():
            course.missing = True
            raise metrics.missing_goal(course.goal, course.order.trial, step, course.history[step])

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, source: Path, step: Any) -> None:
        """Keep what the loop has written to ``source`` as the checkpoint of ``step`` (None: of the newest report)."""
        course = self._course
        if not source.exists():
            raise BadInput(f"trial.save({str(source)!r}): there is no such file or folder.")
        if not self.began:
            self._begin()
        at = course.step if step is None else step
        if isinstance(at, bool) or not isinstance(at, int) or at < 1:
            given = "before the first report, without step=" if step is None else f"with step={step!r}"
            raise BadInput(
                f"trial.save() was called {given}: expected the number of turns that it holds, from 1 on. For example: "
                "trial.save(folder, step=epoch + 1)."
            )
        write = partial(copy_into, source)
        if self._ahead is not None:
            if self._ahead[0] == at:
                self._drop()
            else:
                self._show()
        if at > self._reported and course.left is None:
            self._ahead = (at, source, course.vault.stage(at, write))
            return
        course.saver.keep(at, partial(self._write, at, source, write))
        self._saved = at
        if course.left is not None and at >= course.step:
            self._leave(course.left)

    def _write(self, step: int, source: Path, write: Callable[[Path], None], folder: Path) -> None:
        write(folder)
        rows = {
            str(at): {name: plain_value(value) for name, value in row.items()}
            for at, row in self._course.history.items()
            if at <= step
        }
        header = {"schema": SCHEMA, "step": step, "file": None if source.is_dir() else source.name, "history": rows}
        (folder / HEADER).write_text(json.dumps(header), encoding="utf-8")

    def _show(self) -> None:
        """What was saved ahead becomes the checkpoint of its step."""
        assert self._ahead is not None
        step, source, aside = self._ahead
        self._ahead = None
        self._course.saver.show(step, aside, partial(self._write, step, source, _nothing))
        self._saved = step

    def _drop(self) -> None:
        if self._ahead is not None:
            self._course.vault.discard(self._ahead[2])
            self._ahead = None

    # -- ending --------------------------------------------------------------------------------------------------------

    def _leave(self, left: LegLeft) -> NoReturn:
        self._course.left = left
        self.end()
        raise left

    def end(self) -> None:
        """The leg is over: show what waits."""
        if self._ahead is not None:
            self._show()

    def finish(self) -> str:
        """The code came to its end by itself; the leg's outcome."""
        course = self._course
        self.end()
        if course.goal.metric not in course.latest():
            course.missing = True
            raise metrics.missing_goal(course.goal, course.order.trial, course.step, course.latest())
        return "completed"

    @property
    def step(self) -> int:
        """The step at which the leg has left: a level, where it came to one."""
        course = self._course
        if course.left is not None and course.left.outcome == "reached":
            return course.order.until
        return min(course.step, course.order.max_steps)

    def latest(self) -> dict[str, float]:
        """What was reported where the leg has come to its level."""
        left = self._course.left
        return self._values if left is not None and left.outcome == "reached" else {}


def _nothing(folder: Path) -> None:
    """What was saved is in the folder already."""


def never_began(trial: int) -> BadInput:
    """The error of code that came to its end without a loop that we know of."""
    return BadInput(
        f"trial {trial_label(trial)} ended without a turn of trial.steps(). Wrap the training loop: "
        "for epoch in trial.steps(): ... A loop that counts its own steps calls trial.report(step=…)."
    )
