"""The training loop of a framework as a trial sees it: what ``workbench.lightning`` and its sisters share.

Law: a step is reported once; what is saved for a step holds the random state at its end, so that a leg that resumes
there draws the same numbers. Saving draws none. Outside of Workbench, the values are printed and nothing is saved.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import BadInput, CannotResume
from workbench.trial import current
from workbench.trial.api.local import LocalCourse
from workbench.trial.generators import seeds

if TYPE_CHECKING:
    from workbench.trial.course.around import Around
    from workbench.trial.course.beside import Beside, Saved
    from workbench.trial.course.fork import Fork

#: The random state beside what the framework saved.
RANDOM = "random.pickle"


def need(extra: str, *modules: str) -> None:
    """Raise ImportError unless one of ``modules`` is installed; it names the extra of Workbench that installs it."""
    if not any(find_spec(module) for module in modules):
        raise ImportError(
            f"workbench.{extra} needs {' or '.join(modules)}, which is not installed for {sys.executable}. Run "
            f"{sys.executable} -m pip install 'workbench[{extra}]'",
            name=modules[0],
        )


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Those of ``values`` that are one number: plain ones, and tensors and arrays of one element."""
    return {str(name): float(value) for name, value in values.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    if isinstance(value, int | float):
        return True
    numel = getattr(value, "numel", None)
    size = numel() if callable(numel) else getattr(value, "size", None)
    return size == 1 and hasattr(value, "item") and isinstance(value.item(), int | float)


def attributes_of(callback: Any, without: Collection[str] = ()) -> dict[str, bytes]:
    """The attributes of another callback that can be pickled, by name: what it counts and remembers."""
    found = {}
    for name, value in vars(callback).items():
        if name not in without:
            with contextlib.suppress(Exception):  # what cannot be pickled (an open file) belongs to one run
                found[name] = pickle.dumps(value)
    return found


def put_attributes(callback: Any, attributes: Mapping[str, bytes]) -> None:
    """Restore what :func:`attributes_of` returned."""
    vars(callback).update({name: pickle.loads(value) for name, value in attributes.items()})


def calling(kind: type[Any]) -> tuple[Any, dict[str, Any]]:
    """The object of ``kind`` whose method calls this callback, and the local names of the function that called that.

    Frameworks give their callbacks parts of a run, but not all that a checkpoint needs.
    """
    frame = sys._getframe(2)
    while not isinstance(found := frame.f_locals.get("self"), kind):
        assert frame.f_back is not None, f"a callback was not called by {kind.__name__}"
        frame = frame.f_back
    while frame.f_back is not None and frame.f_locals.get("self") is found:
        frame = frame.f_back
    return found, frame.f_locals


class Loop:
    """The one training loop of the current trial, run by a framework. Make it when training starts."""

    def __init__(self, framework: str) -> None:
        """framework: the name of its module in ``workbench``. Raises BadInput for a second loop in one trial."""
        self.trial = current()
        self._course = self.trial._course
        #: False outside of Workbench, where no leg ends and nothing is saved.
        self.is_inside = not isinstance(self._course, LocalCourse)
        place = self._course.place
        if place is not None and place.framework is not None:
            raise BadInput(
                f"workbench.{framework} was given a second training loop, but a trial has one, whose steps it counts. "
                "Give the callback to that one only."
            )
        if place is not None:
            place.framework = framework
        self._beside: Beside | None = None
        self._saved: Saved | None = None
        self._trains = False
        #: The folder that was saved, to resume from; None at the start of a trial.
        self.saved = self.trial.restore()
        if self.saved is not None and not (self.saved / RANDOM).exists():
            raise CannotResume(
                f"the checkpoint of {self.trial.label} was not saved by workbench.{framework}, but the training code "
                "uses that now. Start the experiment again with --again."
            )

    def check_length(self, steps: int, written: str, write: str) -> None:
        """Raise BadInput if the framework trains another number of ``steps`` than the trial has.

        written: how the code sets it. write: how it should.
        """
        if self.is_inside and steps != self.trial.max_steps:
            raise BadInput(
                f"{written} trains {steps} steps, but a trial of this experiment has {self.trial.max_steps}. Write "
                f"{write}; or set the steps of the experiment (--steps FIRST-{steps})."
            )

    @property
    def fork(self) -> Fork | None:
        """The other trial whose checkpoint this one starts from; None once it has one of its own."""
        from workbench.trial.course.course import LegCourse

        fork = self._course.fork if isinstance(self._course, LegCourse) else None
        return fork if fork is not None and fork.saved is not None and fork.saved == self.saved else None

    def survey(self, make: Callable[[Around, Saved | None], Beside], saved: Saved | None) -> None:
        """Training starts, and nothing is restored yet: see what the code holds besides what the framework saves.

        make: sees it, given the names around this loop. saved: what :meth:`held` gave for the checkpoint, which
        :meth:`trains` restores; None if there is none, or of an earlier version. Call it in the loop's thread.
        """
        from workbench.trial.course.around import Around

        place = self._course.place
        if place is not None:
            self._beside, self._saved = make(Around(place, sys._getframe(1)), saved), saved

    def held(self) -> Saved | None:
        """What a checkpoint needs besides the framework's own; None outside of Workbench."""
        return self._beside.saved() if self._beside is not None else None

    def refuse_changes(self, hidden_by: str) -> None:
        """Raise CannotResume for a fork with other hyperparameters than its parent's.

        hidden_by: what the framework takes from the checkpoint in place of what the code sets.
        """
        changed = self.fork.changed(self.trial.configuration) if self.fork is not None else []
        if self.fork is not None and changed:
            raise CannotResume(
                f"this fork of {self.fork.label} changes {', '.join(changed)}, but would go on with its parent's "
                f"values, since {hidden_by} are in the checkpoint. Expected the parent's hyperparameters; fork it "
                "without a change, or train the new ones from the start."
            )

    def says(self, text: str) -> None:
        """Show one line to the user, beside the experiment; outside of Workbench none."""
        from workbench.trial.course.course import LegCourse

        if isinstance(self._course, LegCourse):
            self._course.says(text)

    def trains(self, *, repeats: bool = False) -> None:
        """The first step of this leg begins, or the code after the loop where no step comes; later calls do nothing.

        Call it when all that the framework saved is restored and other callbacks have set themselves back, which may
        draw random numbers: it restores what is beside, and the random state last. Raises CannotResume.

        repeats: the framework cannot continue exactly, so that each leg trains from the start.
        """
        if self._trains:
            return
        self._trains = True
        self._restore_beside()
        saved = {} if self.saved is None else pickle.loads((self.saved / RANDOM).read_bytes())
        if saved:
            seeds.put(saved)
        seeds.turn_begins(saved.get("step", 0))  # checkpoints of earlier versions do not have it
        self._course.trains(repeats)

    def _restore_beside(self) -> None:
        from workbench.trial.looking import maps

        if self._beside is None:
            return
        with maps.files_as_they_are(is_fork=True) if self.fork is not None else contextlib.nullcontext():
            lost = self._beside.begin(self._saved)
        self._saved = None
        if self._beside.heavy:
            self.says(self._beside.heavy)
        for name, reason in lost.items():
            self.says(f"resumed inexactly: {name} ({reason})")

    def step(
        self, step: int, values: Mapping[str, Any], write: Callable[[Path], None] | None, *, is_last: bool = False
    ) -> bool:
        """Report the values of ``step`` (steps done). True if training continues; False after the trial's last step.

        write: writes the framework's checkpoint into a folder; None if it cannot resume, and each leg trains from the
        start. is_last: the framework itself ends here. Raises what leaves the training code where the leg ends.
        """
        is_saved = write is not None and (is_last or self._course.is_due(step))
        if is_saved and write is not None:
            self._save(step, write)
        continues = self.trial.report(values, step=step)
        if not continues and not is_saved and self.is_inside:
            # Each of these leaves, except after the trial's last step.
            if write is not None:
                self._save(step, write)
            elif step < self.trial.max_steps:
                self.trial.report(step=step)
        seeds.turn_begins(step)
        return continues and not is_last

    def _save(self, step: int, write: Callable[[Path], None]) -> None:
        if not self.is_inside:
            return

        def fill(folder: Path) -> None:
            before = seeds.state()
            write(folder)
            seeds.put(before)
            (folder / RANDOM).write_bytes(pickle.dumps({**before, "step": step}))

        self._course.write(step, fill)
