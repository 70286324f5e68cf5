"""A loop that counts its own steps: ``trial.report(step=…)``, ``trial.save`` and ``trial.restore``, without steps().

Law: a level is sent once in a trial's life, with the first report at or after it that has the goal. A checkpoint of a
step holds the reports up to that step, so a resume loses none. One that is saved before its step was reported is
published when the step is reported, or when the loop has clearly moved on.

When a leg ends (a level, a pause, a stop), ``report`` returns False, and the loop may save once more and end. A loop
whose step is already saved, or that continues anyway, gets the exception that also leaves ``trial.steps()``:
``finally`` runs, the code after the loop does not.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from workbench.errors import BadInput, BadMetric
from workbench.messages import Level, Plain
from workbench.records import SCHEMA, check_schema, plain_value
from workbench.records.names import trial_label
from workbench.store.keeping.checkpoints import Folder
from workbench.trial.api import metrics
from workbench.trial.api.files import copy_into
from workbench.trial.api.trial import LegLeft

if TYPE_CHECKING:
    from workbench.trial.course.course import LegCourse

#: A store holds steps as whole numbers of 64 bits, one of which is the sign.
STEP_BITS = 63

#: The file beside what the loop saved, and the name of what it saved.
HEADER, SAVED = "own.json", "saved"
RESUMES = "at the steps that the loop gives to trial.save()"
#: What the engine is told of the state of such a loop.
BY_ITSELF: Plain = {"objects": [], "names": [], "left_out": [], "resumes": RESUMES}
SAVES_NOTHING = (
    "this loop counts its own steps and saves nothing: each promotion trains it again from the start; "
    "use trial.save/trial.restore"
)
REPEATS = (
    "this framework cannot continue exactly from what it saves: each promotion trains again from the start, and "
    "reports the same values"
)
NEVER_RESTORES = (
    "this loop counts its own steps and does not restore what it saved: each promotion trains it again from the start; "
    "use trial.restore"
)
#: If the goal is never reported, the error comes after this many times the steps of the first level.
PATIENCE = 2

History = dict[int, dict[str, float]]


def saved_in(folder: Folder) -> Path | None:
    """The file or folder that ``trial.save`` put into the checkpoint in ``folder``; None if there is none."""
    saved = folder / SAVED
    if not isinstance(saved, Path) or not saved.exists():
        return None
    name = _read(folder).get("file")  # checkpoints of earlier versions do not name it: it was always a folder
    return saved / name if name else saved


def _read(folder: Folder) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    check_schema(found, "this checkpoint")
    return found


class OwnLoop:
    """What such a loop reports, saves and restores during one leg."""

    def __init__(self, course: LegCourse) -> None:
        self._course = course
        #: The checkpoint that the leg can resume from, and its step.
        self._folder: Folder | None = None
        self._at = 0
        #: True once the training code has shown that it has a loop of this kind.
        self.began = False
        self._goes_on = self._repeats = False
        #: The highest level that was sent, and what was reported there.
        self._told = 0
        self._values: dict[str, float] = {}
        #: The highest reported step, and the last saved one.
        self._reported = self._saved = 0
        #: The step of the last report in this process. After a resume, a loop may report again what it had saved.
        self._last = 0
        #: A checkpoint saved before its report: its step, and the folder that waits.
        self._ahead: tuple[int, str | None, Path] | None = None

    def found(self, step: int, folder: Folder) -> None:
        """The checkpoint of ``step`` in ``folder`` was saved by such a loop."""
        self._at, self._folder = step, folder

    @property
    def is_saved(self) -> bool:
        """Whether there is a checkpoint that such a loop has saved."""
        return self._folder is not None

    # -- starting ------------------------------------------------------------------------------------------------------

    def restore(self) -> Path | None:
        """What was saved, for the loop to resume from; None at the start of a trial."""
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
        if course.place.framework is None:  # the other callbacks of a framework have not started yet
            self._made()
        if self._goes_on and self._folder is not None:
            course.step = self._reported = self._saved = self._at
            history = _read(self._folder).get("history", {})
            known = {int(at): {name: float(value) for name, value in row.items()} for at, row in history.items()}
            course.reports.history = {step: row for step, row in sorted(known.items()) if step <= self._at}
        elif course.fork is not None:
            course.step = course.fork.step
            self._told = max(self._told, course.step)
        if course.ranks is not None:
            for remark in course.ranks.begin_own(course.place.main):
                course.says(remark)
        course.begin_own()
        if order.told and not self._goes_on:
            nothing = REPEATS if self._repeats else SAVES_NOTHING
            course.says(nothing if self._folder is None else NEVER_RESTORES)
        for step in course.reports.history:
            if step > order.known_step:
                course.reports.send(step)
            self._tell_levels(step)
        if self._told >= order.until < order.max_steps:
            # It had reached its level; only the message was lost.
            self._leave(LegLeft("reached"))

    # -- reporting -----------------------------------------------------------------------------------------------------

    def report(self, values: Mapping[str, Any], step: Any) -> bool:
        """Take the values of ``step``; False if the loop should end."""
        course, order = self._course, self._course.order
        given, step = step, _whole(step)
        if step is None or not 1 <= step < 2**STEP_BITS:
            wanted = f"the number of turns done, from 1 on and below 2**{STEP_BITS}"
            was = "" if step is not None else f", an int; a {type(given).__name__} was given"
            raise BadMetric(f"trial.report(step={given!r}): expected {wanted}{was}.")
        if step < self._last:
            raise BadMetric(
                f"trial.report(step={step}) came after step={self._last}: expected the number of turns done, which "
                "never falls. Count up over all phases of the training."
            )
        self._last = step
        if not self.began:
            self._begin()
        if course.left is None and self._reported >= order.max_steps and step > self._reported:
            course.left = LegLeft("completed")  # it was told to end, but continues
        if course.left is not None:
            self._leave(course.left)
        if step != self._reported:
            course.reports.logged.clear()
        course.reports.take(values, step)
        self._reported = course.step = max(self._reported, step)
        if self._ahead is not None and self._ahead[0] <= step:
            self._show()
        self._tell_levels(step)
        self._check_goal(step)
        course.place.stepped()
        if step >= order.max_steps:
            return False
        course.await_verdict(self._told)
        stop = course.stop()
        if stop is None and self._told < order.until:
            return True
        if stop is None and self._saved == course.step == order.until and course.continues(self._values):
            return True
        course.preempted = stop is not None and stop.is_notice
        course.left = LegLeft("stopped", stop.reason) if stop is not None else LegLeft("reached")
        if self._saved == course.step:
            self._leave(course.left)
        return False

    def _tell_levels(self, step: int) -> None:
        """Send the levels up to ``step`` that were not sent yet, with what was reported there."""
        course, order = self._course, self._course.order
        row = course.reports.history[step]
        if course.goal.metric not in row:
            return
        for level in sorted(order.levels):
            if self._told < level <= min(step, order.until):
                self._told, self._values = level, row
                course.send(Level(level, row))

    def _check_goal(self, step: int) -> None:
        """Fail if the goal was not reported for too long: its name is probably misspelled."""
        course = self._course
        if course.is_silent:
            return
        first = min((level for level in course.order.levels if level > self._told), default=step)
        if step >= PATIENCE * first and course.goal.metric not in course.latest():
            course.missing = True
            raise metrics.missing_goal(course.goal, course.order.trial, step, course.reports.history[step])

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, source: Path, step: Any) -> None:
        """Keep what the loop wrote to ``source`` as the checkpoint of ``step`` (None: of the newest report)."""
        course = self._course
        if not source.exists():
            raise BadInput(f"trial.save({str(source)!r}): there is no such file or folder.")
        if not self.began:
            self._begin()
        at = _whole(course.step if step is None else step)
        if at is None or at < 1:
            given = "before the first report, without step=" if step is None else f"with step={step!r}"
            raise BadInput(
                f"trial.save() was called {given}: expected the number of turns that it holds, from 1 on. For example: "
                "trial.save(folder, step=epoch + 1)."
            )
        self._keep(at, None if source.is_dir() else source.name, partial(copy_into, source))

    def is_due(self, step: int) -> bool:
        """Whether a framework's loop should save at ``step``, before it reports that step.

        Where the leg ends; at the levels that it passes, and between them, where that costs little.
        """
        course, order = self._course, self._course.order
        if step >= order.until or course.stop() is not None:
            return True
        return course.saver.affords() if step in order.levels else course.saver.is_due(step)

    def trains(self, repeats: bool = False) -> None:
        """A framework's loop trains from here on. repeats: it saves nothing, since it cannot continue exactly."""
        self._repeats = repeats
        self._made()

    def _made(self) -> None:
        """The set-up is done."""
        self._course.place.made(self._goes_on)
        for name, reason in self._course.place.lost.items():
            self._course.says(f"resumed inexactly: {name}: {reason}")

    def write(self, step: int, write: Callable[[Path], None]) -> None:
        """Keep what ``write`` puts into an empty folder as the checkpoint of ``step``."""
        if not self.began:
            self._begin()
        self._keep(step, None, partial(_filled, write))

    def _keep(self, at: int, name: str | None, write: Callable[[Path], None]) -> None:
        """name: of the file that ``write`` puts into ``saved``; None if it writes a folder."""
        course = self._course
        if self._ahead is not None:
            if self._ahead[0] == at:
                self._drop()
            else:
                self._show()
        if at > self._reported and course.left is None:
            self._ahead = (at, name, course.saver.stage(at, write))
            return
        course.saver.keep(at, partial(self._write, at, name, write))
        self._saved = at
        if course.left is not None and at >= course.step:
            self._leave(course.left)

    def _write(self, step: int, name: str | None, write: Callable[[Path], None], folder: Path) -> None:
        write(folder)
        rows = {
            str(at): {name: plain_value(value) for name, value in row.items()}
            for at, row in self._course.reports.history.items()
            if at <= step
        }
        header = {"schema": SCHEMA, "step": step, "file": name, "history": rows}
        (folder / HEADER).write_text(json.dumps(header), encoding="utf-8")

    def _show(self) -> None:
        """Publish the waiting checkpoint of a step that is now reported."""
        assert self._ahead is not None
        step, name, aside = self._ahead
        self._ahead = None
        self._course.saver.show(step, aside, partial(self._write, step, name, _nothing))
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
        """The leg is over: publish a waiting checkpoint."""
        if self._ahead is not None:
            self._show()

    def finish(self) -> str:
        """The code ended by itself. Returns the leg's outcome."""
        course = self._course
        self.end()
        if course.goal.metric not in course.latest() and not course.is_silent:
            course.missing = True
            raise metrics.missing_goal(course.goal, course.order.trial, course.step, course.latest())
        return "completed"

    @property
    def step(self) -> int:
        """The step at which the leg left: its level, if it reached one."""
        course = self._course
        if course.left is not None and course.left.outcome == "reached":
            return course.order.until
        return min(course.step, course.order.max_steps)

    def latest(self) -> dict[str, float]:
        """What was reported at the level that the leg reached."""
        left = self._course.left
        return self._values if left is not None and left.outcome == "reached" else {}


def _whole(number: Any) -> int | None:
    """A whole number of any type, such as one of NumPy's; None for other things."""
    if isinstance(number, bool):
        return None
    try:
        return operator.index(number)
    except TypeError:
        return None


def _filled(write: Callable[[Path], None], folder: Path) -> None:
    (folder / SAVED).mkdir()
    write(folder / SAVED)


def _nothing(folder: Path) -> None:
    """Write nothing: the folder already contains what was saved."""


def never_began(trial: int) -> BadInput:
    """The error of code that ended without any loop that Workbench recognizes."""
    return BadInput(
        f"trial {trial_label(trial)} ended without a turn of trial.steps(). Wrap the training loop: "
        "for epoch in trial.steps(): ... A loop that counts its own steps calls trial.report(step=…)."
    )
