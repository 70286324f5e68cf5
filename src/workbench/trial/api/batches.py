"""``trial.batches(loader)``: checkpoints inside a turn. Law: a leg resumes at the exact next batch, or says why not.

A turn that is resumed inside starts like any other: its code before the loop over the batches runs again, with the
state of the checkpoint. When that loop asks for its first batch, the state is restored a second time, also into the
locals of the functions between the two loops, and the batches continue after the last trained one. This undoes
whatever the code before the loop did (a running sum set to 0, numbers drawn, values reported).
"""

from __future__ import annotations

import inspect
import pickle
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from workbench.errors import CannotResume
from workbench.snapshot.imported import loaded
from workbench.trial import torch_kinds
from workbench.trial.api import places
from workbench.trial.generators import seeds
from workbench.trial.namespace import frames_around, loop_frame
from workbench.trial.passes import OwnState, Pass, pass_over

if TYPE_CHECKING:
    from workbench.trial.course.course import LegCourse

EXACT = "inside a step, at the batch that was next"
UP_TO_A_STEP = "a fault costs up to one step"
BY_STEPS = f"{UP_TO_A_STEP}; `for batch in trial.batches(loader):` resumes inside it"


class Elsewhere(CannotResume):
    """The turn does not reach the place where the checkpoint was taken: the trial resumes from the one before."""


class Batches:
    """The batches of one pass over a loader: iterate over it."""

    workbench_fixed = True

    def __init__(self, loader: Any, inside: Inside, is_first: bool) -> None:
        self._inside = inside
        self._batches: Iterator[Any] | None = None
        self.loader, self.is_first = loader, is_first
        self.way: Pass = pass_over(loader)
        #: The state that the order of the batches depends on, taken before the first.
        self.start = b""
        #: Batches yielded so far.
        self.done = 0
        #: Why this pass is not saved inside; empty if it is; None until checked.
        self.refused: str | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self.loader)

    def __next__(self) -> Any:
        frame = sys._getframe(1)
        if self._batches is None:
            self._batches = self._inside.begin(self, frame)
        else:
            self._inside.between(self, frame)
        try:
            batch = next(self._batches)
        except StopIteration:
            # Another iteration starts another pass.
            self._batches, self.is_first, self.done = None, False, 0
            raise
        self.done += 1
        return batch


class Inside:
    """What one leg does inside its turns."""

    def __init__(self, course: LegCourse) -> None:
        self._course = course
        self._passes = 0
        self._told = ""
        #: What Python keeps at the places where a pass was saved inside, or was to be, in words.
        self._kept_at: dict[tuple[tuple[types.CodeType, int], ...], str] = {}
        #: Set during a turn that resumes inside, until the batch where it resumes.
        self.pending: dict[str, Any] | None = None
        #: What differed from the set-up when the checkpoint of such a turn had been restored.
        self._differed: frozenset[Any] = frozenset()

    def begin_turn(self, step: int, pending: dict[str, Any] | None = None) -> None:
        """Start the turn after ``step``. Raises Elsewhere if the one before did not reach where it had to resume.

        pending: where this one resumes inside, as the checkpoint says that was just restored.
        """
        if self.pending is not None:
            raise self._elsewhere("the turn ended without a loop over trial.batches()")
        self.pending = pending
        if pending is not None:
            self._differed = self._course.state.differs()
        self._passes = 0
        seeds.turn_begins(step)

    def batches(self, loader: Any) -> Batches:
        """A pass over ``loader``. Only a turn's first pass is saved inside; later ones start when it ends."""
        self._passes += 1
        return Batches(loader, self, self._passes == 1)

    def begin(self, batches: Batches, frame: types.FrameType) -> Iterator[Any]:
        """Start a pass, or continue it where the checkpoint was taken."""
        way = batches.way
        if not batches.is_first:
            return way.begin(0)
        if self.pending is not None:
            begun = self._go_on(batches, frame, self.pending)
            self.pending = None
            return begun
        batches.start = pickle.dumps(way.state()) if not way.refused else b""
        self._tell(batches)
        return way.begin(0)

    def between(self, batches: Batches, frame: types.FrameType) -> None:
        """Between two batches: leave if ordered to, and take a checkpoint if one is due."""
        course = self._course
        stop = course.heard()
        if stop is not None:
            if not stop.keep:
                course.obey(stop)
            if self._is_exact(batches, frame):
                self._save(batches, frame, needed=True)
                course.obey(stop)
        elif (
            batches.is_first and course.saver.is_due() and course.is_ready_to_save() and self._is_exact(batches, frame)
        ):
            self._save(batches, frame, needed=False)

    def _save(self, batches: Batches, frame: types.FrameType, *, needed: bool) -> None:
        inside = {"batches": batches.done, "start": batches.start, "at": self._at(frame)}
        course = self._course
        frames = self._frames(frame)
        header = course.header(inside=inside)
        course.know_setup()
        course.saver.take(course.state, header, frame, passing=True, needed=needed, frames=frames)

    def _go_on(self, batches: Batches, frame: types.FrameType, pending: dict[str, Any]) -> Iterator[Any]:
        course, way = self._course, batches.way
        if pending["at"] != self._at(frame):
            raise self._elsewhere(f"the loop over trial.batches() in {pending['at'][0]} was not the first of the turn")
        way.put(pickle.loads(pending["start"]))
        begun = None if isinstance(way, OwnState) else way.begin(pending["batches"])
        course.resume_inside(self._frames(frame))
        # A checkpoint holds what differs from the set-up, so it cannot undo a change of anything else.
        more = course.state.called(course.state.differs(batches.loader) - self._differed)
        if more:
            raise self._elsewhere(f"what comes before that loop changes {', '.join(more[:4])}")
        if begun is None:  # its position is restored only now, and starting it may draw numbers
            random_state = seeds.state()
            begun = way.begin(pending["batches"])
            seeds.put(random_state)
        batches.start, batches.done = pending["start"], pending["batches"]
        self._tell(batches)
        return begun

    def _frames(self, frame: types.FrameType) -> list[types.FrameType]:
        """The functions between the loop over the steps and the loop over the batches."""
        place = self._course.place
        known = [root.frame for root in self._course.state.roots]
        return [one for one in frames_around(frame, place.main, place.top) if not any(one is k for k in known)]

    def _at(self, frame: types.FrameType) -> tuple[str, int, places.Span]:
        loop = loop_frame(frame, self._course.place.main) or frame
        # Not by the instruction: Python has the condition of a `while` twice.
        return loop.f_code.co_qualname, loop.f_code.co_firstlineno, places.span_of(loop)

    def _is_exact(self, batches: Batches, frame: types.FrameType) -> bool:
        if batches.refused is None:
            batches.refused = self._why_not(batches, frame)
            self._tell(batches)
        return not batches.refused

    def _why_not(self, batches: Batches, frame: types.FrameType) -> str:
        if not batches.is_first:
            return "only the first pass of a step is saved inside"
        if batches.way.refused:
            return batches.way.refused
        if any(one.f_code.co_flags & inspect.CO_GENERATOR for one in self._frames(frame)):
            return "a generator of your own lies between the loop and trial.batches(), and its place cannot be saved"
        torch = loaded("torch")
        networks = self._course.state.made(torch.nn.RNNBase) if torch is not None else []
        for path, network in networks:
            if torch_kinds.draws_in_cudnn(network):
                return f"the dropout in {path} draws from a generator of cuDNN's own, whose place cannot be saved"
        large = batches.way.changed(pickle.loads(batches.start))
        if large:
            return (
                f"{large} changes during a pass and is too large to be saved with its order: draw the order from a "
                "seed and the number of the pass (trial.loader does)"
            )
        around = places.iterator_around(batches)
        if around:
            return f"{around} around trial.batches() keeps its own count, and its place cannot be saved: leave it out"
        return self._kept(frame)

    def _kept(self, frame: types.FrameType) -> str:
        """What the code between the two loops keeps without a name, so that no checkpoint can hold it."""
        course, known = self._course, [root.frame for root in self._course.state.roots]
        place = loop_frame(frame, course.place.main) or frame
        steps: types.FrameType | None = place
        while steps is not None and steps.f_locals is not course.place.main and not any(steps is k for k in known):
            steps = steps.f_back
        below = self._frames(frame)[::-1]
        frames = [*below, *([] if steps is None else [steps])]
        key = tuple((one.f_code, one.f_lasti) for one in frames)
        if key not in self._kept_at:
            found = (places.kept_around(place), *(places.kept_below(one, has_steps=one is steps) for one in frames))
            self._kept_at[key] = next(filter(None, found), "")
        found = (self._kept_at[key], *map(places.kept_by_closure, below), *map(places.kept_by_file, below))
        why = next(filter(None, found), "")
        return f"{why} at trial.batches(), and that cannot be saved" if why else ""

    def _tell(self, batches: Batches) -> None:
        """Say on the trial's page, and once in its log, how exactly it resumes."""
        refused = batches.refused or batches.way.refused
        told = f"{UP_TO_A_STEP}: {refused}" if refused else EXACT
        if batches.way.remark and not refused:
            told += f"; {batches.way.remark}"
        self._course.state.resumes = told
        if told not in (EXACT, self._told) and batches.is_first:
            self._told = told
            print(f"[workbench] trial.batches: {told}")  # noqa: T201 - its log

    def _elsewhere(self, why: str) -> Elsewhere:
        return Elsewhere(
            f"the checkpoint was taken inside of a step, at a point that this run does not reach: {why}. "
            "The trial continues from the previous checkpoint. Have the first loop over trial.batches() of each step "
            "depend on nothing that training changes."
        )
