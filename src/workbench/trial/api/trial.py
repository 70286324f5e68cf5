"""``trial``: what training code touches. Law: ordinary code stays ordinary; reporting never blocks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from workbench.errors import BadInput
from workbench.records import Configuration
from workbench.records.names import trial_label
from workbench.store.files.inside import make_inside

if TYPE_CHECKING:
    from workbench.trial.course.place import Place
    from workbench.trial.shared.values import Values

T = TypeVar("T")


class LegLeft(BaseException):
    """Leaves the training code before its end: ``finally`` runs, the code after the loop does not."""

    def __init__(self, outcome: str, reason: str = "") -> None:
        super().__init__(outcome, reason)
        self.outcome = outcome
        self.reason = reason


class Course(Protocol):
    """The implementation behind ``trial``: a leg in a runner, or a stand-in outside of Workbench."""

    #: Whether its loop may continue in another process, so that nothing else may count its turns.
    may_resume: bool

    @property
    def place(self) -> Place | None:
        """Where the training code runs; None where nothing of it is saved or restored."""

    def turn(self, frame: Any) -> int:
        """End the current turn and start the next. Its number, from 0. Raises StopIteration after the last one."""

    def turns_left(self) -> int:
        """How many turns remain."""

    def report(self, values: Mapping[str, Any], step: int | None) -> bool:
        """Take the values of a step; False if a loop that counts its own steps should end."""

    def log(self, values: Mapping[str, Any]) -> None:
        """Take points and things to look at inside a step."""

    def show(self, figure: Any) -> None:
        """Keep a figure that the training code has shown."""

    def batches(self, loader: Any) -> Any:
        """One pass over ``loader``, which a leg can leave and resume between any two batches."""

    def track(self, objects: Mapping[str, Any]) -> None:
        """Save the state of objects that no name of the cell reaches."""

    def data(self, path: Path) -> None:
        """Record the content of a file, and refuse to resume with another."""

    def save(self, folder: Path, step: int | None) -> None:
        """Keep a framework's own checkpoint."""

    def restore(self) -> Path | None:
        """The framework's own checkpoint to resume from."""

    def is_due(self, step: int) -> bool:
        """Whether a framework's loop should save at ``step``, before it reports that step."""

    def write(self, step: int, write: Callable[[Path], None]) -> None:
        """Keep a framework's own checkpoint of ``step``: ``write`` fills the empty folder that it is given."""

    def trains(self, repeats: bool = False) -> None:
        """A framework's loop has restored what it resumes from, and trains from here on.

        repeats: it saves nothing, since it cannot continue exactly.
        """


class Steps:
    """The turns of the training loop: iterate over it once."""

    workbench_fixed = True

    def __init__(self, course: Course) -> None:
        self._course = course
        self._is_begun = False

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        frame = sys._getframe(1)
        if not self._is_begun and self._course.may_resume:
            from workbench.trial.api.places import refuse_wrapped

            self._is_begun = True
            refuse_wrapped(self, frame)
        return self._course.turn(frame)

    def __len__(self) -> int:
        return self._course.turns_left()


class Trial:
    """One configuration, as its training code sees it."""

    workbench_fixed = True

    def __init__(
        self,
        course: Course,
        number: int,
        configuration: Configuration,
        max_steps: int,
        seed: int,
        folder: Path,
        values: Values | None = None,
    ) -> None:
        """values: where results for all trials are kept; None to make them at each call."""
        self._course, self._values = course, values
        self._steps = False
        #: This trial's number in its experiment, from 0.
        self.number = number
        #: ``t0007`` for 7.
        self.label = trial_label(number)
        #: The values of the hyperparameters, by name; None for one whose condition is false.
        self.configuration = dict(configuration)
        #: Steps of a trial that is never stopped early: for learning-rate schedules.
        self.max_steps = max_steps
        #: This trial's own seed, for generators made in the training code.
        self.seed = seed
        self._folder = folder

    def __repr__(self) -> str:
        return f"<trial {self.label}: {self.configuration}>"

    @property
    def folder(self) -> Path:
        """A folder for this trial's files, such as its best weights. It is kept when the trial ends."""
        # Most trials write none. Where it cannot be made, writing into it says why.
        with contextlib.suppress(OSError):
            make_inside(self._folder)
        return self._folder

    @property
    def device(self) -> str:
        """``cuda`` if this trial's slot has a GPU, else ``cpu``. As text, for ``model.to(trial.device)``."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            return "cuda"
        return "cpu"

    def steps(self) -> Steps:
        """The turns of the training loop: ``for epoch in trial.steps():``. It knows where to start, save and stop."""
        if self._steps:
            raise BadInput(
                "trial.steps() was called a second time, but it counts the turns of the one training loop. Put the "
                "loops inside one another, with trial.steps() as the outer one."
            )
        self._steps = True
        return Steps(self._course)

    def report(self, metrics: Mapping[str, Any] | None = None, /, *, step: int | None = None, **values: Any) -> bool:
        """Report values of this step: ``trial.report(val_acc=0.97, loss=0.1)``. Several calls merge; the last wins.

        In a loop that counts its own steps, without ``trial.steps()``, pass ``step``: turns done, from 1 on. It returns
        False when the trial is complete or this leg ends (a level, a pause, a stop): then save with ``trial.save``,
        unless this step is saved already, and end the loop. Code after the loop runs each time the loop ends this way.
        If the step is already saved, or the loop continues anyway, the call raises the exception with which
        ``trial.steps()`` leaves: ``finally`` runs, the code after the loop does not. Each further leg runs the code
        from the start: ``trial.restore()`` returns what to resume from.
        """
        return self._course.report({**metrics, **values} if metrics else values, step)

    def log(self, **values: Any) -> None:
        """Record what the search does not see: numbers inside a step, and media, shown by step on the trial's page.

        A number is a point. Arrays and tensors of two or three dimensions are pictures, as are figures of Matplotlib
        and images of Pillow; a list of them is several. ``workbench.Image``, ``Audio``, ``Histogram`` and ``Table`` say
        what an array is. DataFrames are tables, Plotly's figures stay interactive, a ``Path`` is copied, a text is a
        text, other lists and dictionaries are JSON. What is logged again under the same name in the same step replaces
        what was there. Raises BadInput for a value that cannot be shown.
        """
        self._course.log(values)

    def batches(self, loader: Any) -> Any:
        """The batches of ``loader``, for steps that take long: ``for x, y in trial.batches(loader):`` inside a step.

        Checkpoints are then taken between batches too, and a resumed trial continues at the exact next batch, without
        reading those before. This covers the first pass of each step. An iterator around it (``enumerate``, ``zip``)
        keeps its own count, which is not restored, so the resume is not exact; the trial's page says so.
        """
        return self._course.batches(loader)

    def track(self, *objects: Any, **named: Any) -> Any:
        """Name objects whose state no name of the cell reaches. Returns the (first) object, for use in expressions."""
        found = {f"tracked {number}": obj for number, obj in enumerate(objects)}
        self._course.track({**found, **named})
        return next(iter((*objects, *named.values())), None)

    def loader(self, dataset: Any, batch_size: int = 1, shuffle: bool = False, **options: Any) -> Any:
        """A torch DataLoader whose order depends only on the trial's seed and the epoch: it resumes exactly."""
        from workbench.trial.loaders import loader

        return loader(dataset, self.seed, batch_size=batch_size, shuffle=shuffle, **options)

    def cached(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """``function(*arguments, **named)``, which one trial calls and all trials get: for a slow part of the set-up.

        It is called again when its code, the code and values that it uses, an argument, a package's version, or a file
        that it read has changed. Its random numbers are the same in every trial; the trial's own do not move. Each
        trial gets a value of its own, whose large arrays and tensors are mapped: they share memory until a trial
        writes into them. Raises BadInput for arguments that cannot be compared, results that cannot be pickled, and a
        function that uses the trial or changes what it is given. Outside of Workbench it calls the function.
        """
        result: T = self._once("cached", function, arguments, named)
        return result

    def shared(self, load: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Frozen weights, in memory once for all trials of a machine: ``base = trial.shared(load_base, "base.pt")``.

        As :meth:`cached`, for a function that returns a module, a state dict or tensors; none of them requires
        gradients. Train other parameters beside them. Return the module itself: ``load_state_dict`` copies a state
        dict into a module of the trial's own, unless it is given ``assign=True``. On a GPU each trial has its copy.
        """
        result: T = self._once("shared", load, arguments, named)
        return result

    def _once(self, method: str, function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        from workbench.trial.shared.key import Call
        from workbench.trial.shared.values import made_here

        call = Call(method, function, arguments, named)
        return made_here(call) if self._values is None else self._values.result(call)

    def data(self, path: str | Path) -> Path:
        """Name a file or folder that training reads: its content is recorded, and a resume on another is refused."""
        self._course.data(Path(path))
        return Path(path)

    def save(self, folder: str | Path, *, step: int | None = None) -> None:
        """Keep a framework's own checkpoint (a folder or a file) for ``step``: for loops without ``trial.steps()``.

        step: turns done at this checkpoint; by default the newest reported step. Save before or after the report of
        that step, and as often as you like: the last one counts.
        """
        self._course.save(Path(folder), step)

    def restore(self) -> Path | None:
        """The file or folder last given to ``trial.save``, to resume from. None at the start of a trial."""
        return self._course.restore()


#: The method as it is here. Training code can exchange it.
STEPS = Trial.steps
