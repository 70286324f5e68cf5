"""Load a trained trial: run its set-up in a fresh namespace, and restore a checkpoint into it.

Law: the caller's names, modules, random state and files are untouched; other effects of the set-up code (prints, new
files) do happen.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from workbench.errors import CannotResume, NotFound
from workbench.records import Configuration, Spec
from workbench.records.names import trial_label
from workbench.search.seeds import trial_seed
from workbench.snapshot.settings import settings
from workbench.store import Store
from workbench.store.keeping import remote
from workbench.store.keeping.checkpoints import Checkpoint, Checkpoints, Folder
from workbench.store.keeping.cleaning import missing
from workbench.store.lists.catalog import shown_as
from workbench.store.owner import ownership
from workbench.store.owner.trust import is_foreign
from workbench.trial import current_or_none, iterators, make_current
from workbench.trial.api.own import saved_in
from workbench.trial.api.trial import LegLeft, Trial
from workbench.trial.checkpoint.header import GRAPH
from workbench.trial.checkpoint.tensors import read_tensors
from workbench.trial.course.place import Place
from workbench.trial.export.copies import as_trained
from workbench.trial.export.untouched import Untouched
from workbench.trial.generators import seeds
from workbench.trial.looking import maps
from workbench.trial.namespace import frames_around
from workbench.trial.process.program import fill, hidden_names, prepare, run_code
from workbench.trial.process.script import as_main
from workbench.trial.shared.values import Values
from workbench.trial.state import State


class Loaded(types.SimpleNamespace):
    """The names of a trained trial: ``.model``, ``.opt``, …"""

    def __repr__(self) -> str:
        return f"<trained trial with {', '.join(vars(self))}>"


class LoadCourse:
    """Ends the set-up code where training would start, with the checkpoint restored."""

    may_resume = False

    def __init__(self, folder: Folder, namespace: dict[str, Any]) -> None:
        self._folder = folder
        self._namespace = namespace
        self._tracked: dict[str, Any] = {}
        self.hidden: frozenset[str] = frozenset()
        #: The values of the training code's names after its set-up.
        self.names: dict[str, Any] | None = None

    @property
    def place(self) -> Place:
        """Where the training code runs."""
        return Place(self._namespace, run_code.__code__, self.hidden)

    def turn(self, frame: types.FrameType) -> int:
        self.put_in(frame)
        raise LegLeft("loaded")

    def put_in(self, frame: types.FrameType) -> int:
        """Restore the checkpoint into what the set-up made; its step."""
        frames = frames_around(frame, self._namespace, run_code.__code__)
        state = State(self._namespace, frames, hidden=self.hidden, tracked=self._tracked)
        header = state.restore(self._folder)
        self.names = state.names()
        return header.step

    def turns_left(self) -> int:
        return 0

    def report(self, values: Mapping[str, Any], step: int | None) -> bool:
        if step is not None:
            self._end_here()
        return True

    def _end_here(self) -> NoReturn:
        frames = frames_around(sys._getframe(1), self._namespace, run_code.__code__)
        inside = {name: value for frame in frames for name, value in frame.f_locals.items()}
        self.names = {**self._namespace, **inside}
        raise LegLeft("loaded")

    def log(self, values: Mapping[str, Any]) -> None:
        """Does nothing: only training logs."""

    def show(self, figure: Any) -> None:
        """Does nothing: only training shows figures."""

    def batches(self, loader: Any) -> Any:
        return loader

    def track(self, objects: Mapping[str, Any]) -> None:
        self._tracked.update(objects)

    def data(self, path: Path) -> None:
        """Does nothing: the model is as trained, whatever the file contains now."""

    def save(self, folder: Path, step: int | None) -> None:
        """Does nothing: only training saves."""

    def restore(self) -> Path | None:
        return None if (self._folder / GRAPH).exists() else saved_in(self._folder)

    def is_due(self, step: int) -> bool:
        return False

    def write(self, step: int, write: Callable[[Path], None]) -> None:
        """Does nothing: only training saves."""

    def trains(self, repeats: bool = False) -> None:
        self._end_here()


_Course = TypeVar("_Course", bound=LoadCourse)


def load(store: Store, spec: Spec, trial: int, configuration: Configuration, step: int | None = None) -> Loaded:
    """Run the set-up of ``trial`` and restore its checkpoint at ``step`` (None: the newest) into it.

    Raises NotFound if there is no such checkpoint, CannotResume if the set-up makes something else this time.
    """
    course = brought(store, spec, trial, configuration, step, LoadCourse)
    if course.names is None:
        raise CannotResume(
            f"the set-up code of {trial_label(trial)} ended without trial.steps(), so there is no place to "
            "put its checkpoint into."
        )
    return Loaded(**course.names)


def brought(
    store: Store, spec: Spec, trial: int, configuration: Configuration, step: int | None, kind: type[_Course]
) -> _Course:
    """Run the training code with a course of ``kind``, until that course ends it; the course.

    Modules of the project that are no longer those of its training are imported from the snapshot's copies.
    """
    checkpoint = _checkpoint(store, spec, trial, step)
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    files = store.experiment(spec.id).trial(trial).files
    seed, number = spec.seeds_of(trial)
    loader = trial_seed(seed, number, "loader")
    folder = spec.training.cwd
    inside = contextlib.chdir(folder) if os.access(folder, os.X_OK) else contextlib.nullcontext()
    # The captured names are loaded in there as well: they may be classes and functions of the project's modules.
    with inside, as_main(spec.program, configuration), as_trained(store, spec):
        namespace, function = fill(store, spec, main)
        course = kind(checkpoint.folder, namespace)
        values = Values(store, spec.id, main.__dict__, writes=False)
        stand_in = Trial(course, number, configuration, spec.length, loader, files, values)
        with _surroundings(spec, trial, stand_in):
            code, arguments = prepare(spec, stand_in, namespace, function)
            course.hidden = hidden_names(namespace)
            untouched = Untouched(str(store.root), str(files))
            with contextlib.suppress(LegLeft), untouched, maps.files_as_they_are(untouched.is_copied):
                run_code(code, namespace, arguments)
    return course


def plain_state(store: Store, spec: Spec, trial: int) -> dict[str, Any]:
    """The state dicts in the newest checkpoint of ``trial``, by the name of the object; runs no code of the cell.

    For an experiment that is not trusted nothing is fetched: its author chose the address. Raises NotFound.
    """
    if not is_foreign(store, spec.id):
        return read_tensors(_checkpoint(store, spec, trial, None).folder)
    found = Checkpoints(store.experiment(spec.id).trial(trial)).newest()
    if found is None:
        raise _not_fetched(store, spec, trial)
    return read_tensors(found.folder)


def _not_fetched(store: Store, spec: Spec, trial: int) -> NotFound:
    if not spec.storage or store.readonly:
        return missing(store, spec, trial, None)
    found, label = ownership.ownership(store), shown_as(store, spec)
    trusting = f"If you trust its author: `workbench trust {label}`, then read it again."
    return NotFound(
        f"{label}/{trial_label(trial)} has no checkpoint in {store.root}. Its author named "
        f"{remote.shown(spec.storage)} for copies, and nothing is fetched from there before you trust it. "
        f"{trusting if found.is_ours else ownership.remedy(store, found)}"
    )


def _checkpoint(store: Store, spec: Spec, trial: int, step: int | None) -> Checkpoint:
    remote.at_hand(store, spec, trial, step)
    checkpoints = Checkpoints(store.experiment(spec.id).trial(trial))
    if step is not None and step in checkpoints.steps():
        return checkpoints.at(step)
    found = checkpoints.newest() if step is None else None
    if found is None:
        raise missing(store, spec, trial, step)
    return found


@contextlib.contextmanager
def _surroundings(spec: Spec, trial: int, stand_in: Trial) -> Iterator[None]:
    before, random_state = current_or_none(), seeds.state()
    make_current(stand_in)
    seeds.set_all(*spec.seeds_of(trial))
    iterators.watch()
    try:
        with settings.lent(spec.training.settings):
            yield
    finally:
        make_current(before)
        seeds.forget()
        seeds.put(random_state)
