"""A trial's checkpoints as its leg uses them, and the threads that write them while training goes on."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from workbench.errors import StoreError
from workbench.store.files.atomic import telling
from workbench.store.keeping.checkpoints import Checkpoint, Checkpoints, Folder, Skipped, settle
from workbench.store.layout import TrialPaths

#: Fills the folder of a checkpoint; returns digests of its files, by name, if it has them already.
Write: TypeAlias = Callable[[Path], Mapping[str, str] | None]
#: The files of a small checkpoint, by name; None if it is not small.
Small: TypeAlias = Mapping[str, bytes] | None

#: Seconds between two syncs to the disk, so that a thousand short legs do not wait for each other's.
SETTLE_S = 1.0


class Settler:
    """Syncs checkpoints to the disk, in the background. A power cut before that costs the step, not the trial."""

    def __init__(self) -> None:
        self._waiting: dict[int, Checkpoints] = {}
        self._some = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, checkpoints: Checkpoints) -> None:
        """Schedule the sync of what ``checkpoints`` has published."""
        self._waiting[id(checkpoints)] = checkpoints
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="workbench-settle", daemon=True)
            self._thread.start()
        self._some.set()

    def _work(self) -> None:
        pause = threading.Event()
        while True:
            self._some.wait()
            pause.wait(SETTLE_S)
            self._some.clear()
            several = []
            while self._waiting:
                several.append(self._waiting.popitem()[1])
            with contextlib.suppress(StoreError):  # the disk is full or gone: the next write reports it
                settle(several)


class Writer:
    """Does one job at a time in a thread of its own, in the order of submission."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """True while a job runs."""
        return not self._idle.is_set()

    def submit(self, job: Callable[[], None]) -> None:
        """Run ``job``, which must not raise, after the current one."""
        self.wait()
        self._idle.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="workbench-save", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def wait(self) -> None:
        """Wait until no job runs."""
        self._idle.wait()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            finally:
                del job  # it holds the data to write in memory
                self._idle.set()


class StoreVault:
    """The checkpoints of one trial in the store, written by one attempt.

    Those between levels (*passing*) are stored separately, so that none replaces a level's; only the newest is kept.
    """

    def __init__(
        self,
        trial: TrialPaths,
        attempt: int,
        settler: Settler | None = None,
        known: int = 0,
        fetch: Callable[[int, int], list[Skipped]] | None = None,
    ) -> None:
        """known: a step that had a checkpoint. fetch: fetches remote checkpoints after one step, up to another."""
        self._checkpoints = Checkpoints(trial)
        self._passing = Checkpoints(trial.passing)
        self._setup = Checkpoints(trial.setup)
        self._attempt = attempt
        self._settler = settler
        self._known, self._fetch = known, fetch
        self._has_passing = False
        #: What the last :meth:`newest` skipped because it is damaged.
        self.skipped: list[Skipped] = []
        #: Whether the one that it returned lies between levels.
        self.is_passing = False

    def newest(self, at_most: int) -> tuple[int, Folder] | None:
        """Step and folder of the newest complete checkpoint of a step up to ``at_most``."""
        found = [self._checkpoints.newest(at_most)]
        missed = []
        if self._fetch is not None and not self._reaches(found[0], at_most):
            missed = self._fetch(-1 if found[0] is None else found[0].step, at_most)
            damaged = self._checkpoints.skipped
            found = [self._checkpoints.newest(at_most)]
            missed += [one for one in damaged if one.step not in {left.step for left in self._checkpoints.skipped}]
        if not self._passing.is_empty:
            self._has_passing = True
            self._passing.fence(self._attempt)
            found.append(self._passing.newest(at_most))
        self.skipped = [*self._checkpoints.skipped, *self._passing.skipped, *missed]
        best = max((one for one in found if one is not None), key=_how_far, default=None)
        self.is_passing = best is not None and best is not found[0]
        return None if best is None else (best.step, best.folder)

    def _reaches(self, found: Checkpoint | None, at_most: int) -> bool:
        """Whether nothing is lost: ``found``, or one between levels, reaches the known step."""
        known = min(self._known, at_most)
        return (found is not None and found.step >= known) or any(
            known <= one <= at_most for one in self._passing.steps()
        )

    def earlier(self) -> list[Checkpoint]:
        """The newest checkpoints, at a level and between levels: the next one may link their files.

        Their files are checked when they are linked; a damaged one is written again.
        """
        newest = (place.newest(verify="size") for place in (self._passing, self._checkpoints))
        return [one for one in newest if one is not None]

    def keep(self, step: int, write: Write, *, small: Small = None, passing: bool = False, inside: int = 0) -> int:
        """Keep a checkpoint of ``step``: ``small`` at once, or a folder that ``write`` fills; its size in bytes.

        inside: batches done of the current turn.
        """
        place = self._passing if passing else self._checkpoints
        if small is not None:
            details = {"inside": inside} if inside else None
            manifest = place.put(small, step, self._attempt, details, settled=passing, alone=passing)
            if manifest is not None:
                self._kept(step, passing=passing)
                return manifest.size
        aside, digests = self._written(place, step, write)
        return self._publish(place, step, aside, digests, passing=passing, inside=inside)

    def stage(self, step: int, write: Write) -> Path:
        """Have ``write`` fill a folder that :meth:`show` can publish as the checkpoint of ``step``."""
        return self._written(self._checkpoints, step, write)[0]

    def show(self, step: int, aside: Path, write: Write) -> int:
        """Publish the folder of :meth:`stage`, completed by ``write``, as the checkpoint of ``step``; its bytes."""
        with telling(aside):
            write(aside)
        return self._publish(self._checkpoints, step, aside, None)

    def discard(self, aside: Path) -> None:
        """Discard the folder of :meth:`stage`."""
        self._checkpoints.discard(aside)

    def _written(self, place: Checkpoints, step: int, write: Write) -> tuple[Path, Mapping[str, str] | None]:
        aside = place.begin(step, self._attempt)
        try:
            with telling(aside):
                return aside, write(aside)
        except BaseException:
            place.discard(aside)
            raise

    def _publish(
        self,
        place: Checkpoints,
        step: int,
        aside: Path,
        digests: Mapping[str, str] | None,
        *,
        passing: bool = False,
        inside: int = 0,
    ) -> int:
        try:
            details = {"inside": inside} if inside else None
            manifest = place.publish(aside, step, self._attempt, digests, details, settled=passing)
        except BaseException:
            place.discard(aside)
            raise
        self._kept(step, passing=passing)
        return manifest.size

    def _kept(self, step: int, *, passing: bool) -> None:
        """A checkpoint was published: remove those that it replaces."""
        if not passing and self._settler is not None:
            self._settler.take(self._checkpoints)
        if passing or self._has_passing:
            for older in self._passing.steps():
                if not passing or older != step:
                    self._passing.remove(older)
        self._has_passing = passing

    def keep_setup(self, write: Write, small: Small = None) -> None:
        """Keep ``small``, or a folder that ``write`` fills, as the trial's saved set-up."""
        place = self._setup
        if small is not None and place.put(small, 0, self._attempt) is not None:
            return
        aside = place.begin(0, self._attempt)
        try:
            with telling(aside):
                digests = write(aside)
            place.publish(aside, 0, self._attempt, digests)
        except BaseException:
            place.discard(aside)
            raise

    def setup(self) -> Folder | None:
        """The trial's saved set-up, if the set-up does not make the same again."""
        return beginning(self._setup)

    def drop_passing(self) -> None:
        """Remove checkpoints between levels."""
        for step in self._passing.steps():
            self._passing.remove(step)


def beginning(setup: Checkpoints) -> Folder | None:
    """The folder of a set-up's one checkpoint, if it is complete."""
    found = setup.newest(0)
    return None if found is None else found.folder


def _how_far(checkpoint: Checkpoint) -> tuple[int, int]:
    return checkpoint.step, int(checkpoint.manifest.details.get("inside", 0))
