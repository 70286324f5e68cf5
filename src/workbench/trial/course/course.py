"""A leg's course through the training loop: when a turn ends, what is sent, saved and decided.

Law: step k means k turns done. What is reported in turn k belongs to step k; checkpoint k is taken when it ends.
"""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from workbench.errors import BadInput
from workbench.messages import Begun, FromLeg, Left, LegOrder, Level, Plain, Says, Skip, StopOrder
from workbench.records import Goal
from workbench.store.keeping.checkpoints import Folder
from workbench.trial.api import metrics
from workbench.trial.api.batches import BY_STEPS, Batches, Inside
from workbench.trial.api.files import stamp
from workbench.trial.api.own import BY_ITSELF, OwnLoop, never_began
from workbench.trial.api.trial import LegLeft
from workbench.trial.checkpoint.header import GRAPH, Header, read_header
from workbench.trial.course.fork import Fork
from workbench.trial.course.place import Place
from workbench.trial.course.refusals import refuse_another, same_data
from workbench.trial.course.reports import Reports
from workbench.trial.course.saver import Saver, Vault, When
from workbench.trial.course.setup import Setup
from workbench.trial.course.vault import Writer
from workbench.trial.export.architecture import architecture
from workbench.trial.media.keeping import Media
from workbench.trial.namespace import frames_around
from workbench.trial.process.runner import Link, to_log
from workbench.trial.ranks.meeting import Ranks, whole
from workbench.trial.state import State

#: Larger than every step.
ANY_STEP = sys.maxsize
#: A turn of this many seconds does not wait for a verdict. A verdict takes some milliseconds, on a busy machine some
#: tenths of a second; if it takes longer than ``PATIENCE_S``, the engine is gone, and training goes on.
LONG_TURN_S, PATIENCE_S = 1.0, 1.0


class LegCourse:
    """The course of one leg in a runner."""

    may_resume = True

    def __init__(
        self,
        order: LegOrder,
        goal: Goal,
        link: Link,
        vault: Vault,
        place: Place,
        files: Path,
        when: When,
        writer: Writer | None = None,
        fork: Fork | None = None,
        setup: Setup | None = None,
        following: Callable[[Left], tuple[LegOrder, Vault] | None] | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """following: sends how the leg ended at its level, and waits for the trial's next leg. It returns the order
        and the checkpoints of that leg; None if this leg must leave. ranks: those of the leg, if there are several."""
        self.order, self.goal, self.ranks = order, goal, ranks
        self._link, self.vault, self.place = link, vault, place
        self.reports = Reports(link, order.trial, Media(files, writes=not self.is_silent))
        self.saver = Saver(vault, link, when, writer, bool if ranks is None else ranks.agreed)
        self._began = self._turned = time.monotonic()
        #: Turns done, and the newest level whose verdict was awaited.
        self.step = self._asked = 0
        #: How the leg left before the code's end, once it has.
        self.left: LegLeft | None = None
        #: True once the loop has finished its last turn.
        self.over = False
        #: Whether the goal was not reported at the level at which it was needed.
        self.missing = False
        #: True once the leg has left because its machine is about to be shut down.
        self.preempted = False
        self._in_turn = False
        self._inside = Inside(self)
        self._own = own = OwnLoop(self)
        self.restore, self.is_due, self.write, self.trains = own.restore, own.is_due, own.write, own.trains
        self._state: State | None = None
        self._tracked: dict[str, Any] = {}
        self._data: dict[str, Any] = {}
        self._restored: Folder | None = None
        #: The folder of the trial's saved set-up, if the leg starts from that.
        self._begun_at: Folder | None = None
        self._setup, self._following = setup, following
        self._seen: Plain | None = None
        self._read: dict[str, tuple[int, int]] = {}
        self._before = Header(0 if fork is None else fork.step)
        self.fork = fork
        if order.resume:
            self._find_checkpoint()
        if self._restored is None and not (setup is not None and setup.saves_nothing):
            # An earlier attempt, or the trial that is checked, saved the set-up.
            self._restored = self._begun_at = vault.setup()
            if self._restored is not None:
                self._before = read_header(self._restored)
        self.has_trained = own.is_saved or self._restored not in (None, self._begun_at)
        if setup is not None and self._restored is None:
            setup.begin()

    def _find_checkpoint(self) -> None:
        # The newest one may be unknown to the engine: it was taken while something crashed.
        # A loop that counts its own steps may have saved after the level at which it had to leave.
        newest = self.vault.newest(ANY_STEP)
        if newest is not None and newest[0] > self.order.until and (newest[1] / GRAPH).exists():
            newest = self.vault.newest(self.order.until)
        for one in self.vault.skipped:
            to_log(f"the checkpoint of step {one.step} is damaged and skipped: {one.why}")
        if newest is not None:
            if (newest[1] / GRAPH).exists():
                self._restored = newest[1]
                self._before = read_header(self._restored)
            else:
                self._own.found(*newest)

    # -- turns -------------------------------------------------------------------------------------------------------

    def turn(self, frame: types.FrameType) -> int:
        if self.left is not None:
            raise self.left  # the training code swallowed the exception; it must still leave
        if self.over:
            raise StopIteration
        self.saver.check()
        if self._own.began:
            raise BadInput(
                "trial.steps() counts the steps itself, and this loop counts its own (trial.report(step=…), "
                "trial.save, trial.restore). Use one of them."
            )
        if self._state is None:
            self._begin(frame)
        else:
            self._end_turn(frame)
        self._in_turn = True
        return self.step

    def turns_left(self) -> int:
        return max(0, self.order.max_steps - (self._before.step if self._state is None else self.step))

    def _begin(self, frame: types.FrameType) -> None:
        """The set-up is done: survey it, restore the checkpoint into it, and resend reports that a lost engine got."""
        place = self.place
        place.begins()
        frames = frames_around(frame, place.main, place.top)
        self._state = State(
            place.main, frames, hidden=place.hidden, tracked=self._tracked, resumes=BY_STEPS, modules=place.modules,
            way=self._before.way if self._restored is not None else None, missed=place.lost,
        )  # fmt: skip
        inside = None
        if self._restored is not None:
            header = self._state.restore(self._restored)
            self._read = header.read
            refuse_another(self._state.differing(header), self._read, self.order.trial)
            self.step, self.reports.history = header.step, dict(header.history)
            # A trial that took all its steps continues if it was extended since; one that left its loop does not.
            is_longer = header.step == header.length < self.order.max_steps
            self.over = header.ended and not is_longer
            inside = header.inside
            if self.over:
                self._state.lost.clear()  # nothing is trained afterwards
                self._state.found.inexact.clear()
        elif self.fork is not None:
            self.fork.put(self._state)
            self.step = self.fork.step
        if inside is None:
            self._state.settle()
        kept = self.has_trained and not self._own.is_saved and not self.vault.is_passing
        # Surveying the state is most of the cost of a checkpoint.
        self.saver.begin(self.step if kept else -1, self._state.survey_s)
        self._keep_beginning()
        if self.ranks is not None:
            before = None if self._restored is None else header.ranks
            for remark in self.ranks.begin(self._state, before):
                self.says(remark)
        self._tell_begun(self._state.found.to_json(), self._made())
        self._tell_again()
        if self.over:
            if self.ranks is not None:
                self.ranks.over()
            raise StopIteration
        stop = self._link.stop()
        if stop is not None:
            self.obey(stop)
        if self.step >= self.order.until:
            self._leave("reached")
        self._inside.begin_turn(self.step, inside)
        self._turned = time.monotonic()
        place.turns()

    def _keep_beginning(self) -> None:
        """Save what this set-up made for later legs, if it does not make the same again."""
        if self._restored is not None or self._setup is None:
            return
        seen = self._files_seen() or {}
        self._read = {path: stamp(path) for path in seen.get("paths", ()) if not path.endswith("/")}
        self._setup.done(self.state, time.monotonic() - self._began, writes="made" in seen or "changed" in seen)
        if self._setup.kept:
            captured = self.state.capture(self.header())
            self.vault.keep_setup(captured.write, captured.small())

    def _files_seen(self) -> Plain | None:
        if self._seen is None:
            self._seen = self.place.seen()
        return self._seen

    def is_ready_to_save(self) -> bool:
        """Whether a checkpoint can be taken now: what it must hold is known, or it cannot wait."""
        return self.saver.is_told or self._setup is None or self._setup.is_ready(self.state)

    def know_setup(self) -> None:
        """Wait until it is known what of the set-up a checkpoint must hold."""
        if self._setup is not None:
            self._setup.settle(self.state)
            self.state.kept = self._setup.kept
            if self._setup.told:
                self.says(self._setup.told)
                self._setup.told = ""

    def _end_turn(self, frame: types.FrameType) -> None:
        self._in_turn = False
        self._inside.begin_turn(self.step + 1)
        self.step = step = self.step + 1
        self.place.stepped()
        self.reports.logged.clear()
        if self.ranks is not None and (row := self.ranks.agreed(self.reports.history.get(step))):
            self.reports.history[step] = row  # code that manages its ranks may report on the first one alone
        if step in self.order.levels:
            self._tell_level(step)
        self.await_verdict(step)
        stop = self._link.stop()
        self.over = step >= self.order.max_steps
        leaves = step >= self.order.until
        passes = stop is None and step in self.order.levels and self.saver.affords()
        if self.over or (stop is not None and stop.keep) or (stop is None and leaves) or passes:
            self._save(ended=self.over, needed=self.over or leaves or stop is not None, frame=frame)
        elif stop is None and self.saver.is_due(step) and self.is_ready_to_save():
            self._save(passing=True, frame=frame)
        if self.over:
            if self.ranks is not None:
                self.ranks.over()
            raise StopIteration
        if stop is not None:
            self.obey(stop)
        if leaves and not self.continues(self.latest()):
            self._leave("reached")

    def continues(self, level: dict[str, float]) -> bool:
        """At the leg's level: wait for the trial's next leg. True if this is now that leg, False if it must leave.

        level: what was reported there.
        """
        self.saver.settle()
        if self._following is None or not self.order.may_wait:
            return False
        following = self._following(Left(outcome="reached", step=self.step, metrics=level, waits=True))
        if following is None:
            return False
        self.order, self.vault = following
        self.saver.continue_in(self.vault)
        self._began, self._seen = time.monotonic(), None
        self._tell_begun(self._state.found.to_json() if self._state is not None else BY_ITSELF, in_place=True)
        self._tell_again()
        stop = self._link.stop()
        if stop is not None:
            self.obey(stop)
        return True

    def await_verdict(self, step: int) -> None:
        """Wait for the search's verdict on the level ``step``, if it stops most trials there, before the next turn.

        A long turn does not wait: an order to stop comes soon after its beginning, and can end it.
        """
        asks = self.order.asks and self._asked < step < self.order.until and step in self.order.levels
        if asks and time.monotonic() - self._turned < LONG_TURN_S:
            self._link.verdict(step, PATIENCE_S)
            self._asked = step
        self._turned = time.monotonic()

    def _leave(self, outcome: str, reason: str = "") -> NoReturn:
        self.saver.settle()
        self.left = LegLeft(outcome, reason)
        raise self.left

    def obey(self, stop: StopOrder) -> NoReturn:
        """Leave as ``stop`` orders."""
        self.preempted = stop.is_notice
        self._leave("stopped", stop.reason)

    def finish(self) -> str:
        """The code ended. Returns the leg's outcome, after saving what a ``break`` left unsaved."""
        if self.left is not None:
            if self._own.began:
                self._own.end()
            return self.left.outcome
        if self._own.began:
            return self._own.finish()
        if self._state is None:
            raise never_began(self.order.trial)
        self._inside.begin_turn(self.step)
        self.saver.settle()
        if not self.over:  # `break`
            if self.ranks is not None:
                self.ranks.broke(self.step)
            if self._in_turn and self.step + 1 in self.reports.history:
                self.step += 1
            self.over = True
            if self.step != self.saver.step:
                self._save(ended=True, needed=True)
        return "completed"

    # -- sending -----------------------------------------------------------------------------------------------------

    def _made(self) -> dict[str, Any]:
        """What the set-up made and read, sent once in a trial's life."""
        made: dict[str, Any] = {} if self.order.resume else {"architecture": architecture(self.state.objects())}
        if self._data:
            made["data"] = self._data
        return made

    def _tell_begun(self, found: Any, made: dict[str, Any] | None = None, *, in_place: bool = False) -> None:
        skipped, seen = self.vault.skipped, self._files_seen()
        self._link.send(
            Begun(
                step=self.step,
                in_place=in_place,
                found=found,
                environment=dict(self.place.environment()),
                setup_s=0.0 if in_place else round(time.monotonic() - self._began, 6),
                skipped=[Skip(one.step, one.why) for one in skipped],
                **(made or {}),
                seen=seen,
                back=self.place.back,
            )
        )

    def _tell_again(self) -> None:
        """Resend reports of steps that the engine does not know: it lost them, and they are not trained again."""
        for step, values in sorted(self.reports.history.items()):
            if self.order.known_step < step <= self.step:
                self.reports.send(step)
                if step in self.order.levels and self.goal.metric in values:
                    self._link.send(Level(step, values))

    def _tell_level(self, step: int) -> None:
        values = self.reports.history.get(step, {})
        if self.goal.metric not in values:
            self.missing = True
            raise metrics.missing_goal(self.goal, self.order.trial, step, values)
        self._link.send(Level(step, values))

    def latest(self) -> dict[str, float]:
        """The latest value of each metric."""
        return {**self.reports.latest(), **self._own.latest()}

    @property
    def is_silent(self) -> bool:
        """Whether another rank reports for this one."""
        return self.ranks is not None and not self.ranks.is_first

    @property
    def left_at(self) -> int:
        """The step at which the leg left."""
        return self._own.step if self._own.began else self.step

    # -- calls of the training code ----------------------------------------------------------------------------------

    def report(self, values: Mapping[str, Any], step: int | None) -> bool:
        if step is not None:
            if self._state is not None:
                raise BadInput(
                    "trial.report(step=…) is for loops without trial.steps(), which counts the steps itself. Leave "
                    "step out."
                )
            return self._own.report(values, step)
        if self.left is not None:
            raise self.left
        if self._inside.pending is None:
            self.reports.take(values, self._turn, None if self.ranks is None else self.ranks.reduced)
        if self._in_turn and self.ranks is None:
            stop = self._link.stop()
            if stop is not None and not stop.keep:
                self.obey(stop)
        return True

    @property
    def _turn(self) -> int:
        """The step to which what is reported now belongs."""
        return self.step + 1 if self._in_turn else self.step

    def log(self, values: Mapping[str, Any]) -> None:
        if self._inside.pending is None:  # else it was sent before the checkpoint was taken
            self.reports.log(values, self._turn)

    def show(self, figure: Any) -> None:
        if self._inside.pending is None:
            self.reports.show(figure, self._turn)

    def track(self, objects: Mapping[str, Any]) -> None:
        if self._state is not None:
            raise BadInput("trial.track() was called inside the loop. Call it once, before trial.steps().")
        self._tracked.update(objects)

    def data(self, path: Path) -> None:
        self._data[str(path)] = same_data(path, self._before.data)

    # -- inside a turn -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state as surveyed after the set-up."""
        assert self._state is not None
        return self._state

    def batches(self, loader: Any) -> Batches | Any:
        # Several ranks save at the ends of turns only: between two batches they are at different ones.
        return self._inside.batches(loader) if self._in_turn and self.ranks is None else loader

    def heard(self) -> StopOrder | None:
        """The order to stop, if one has come. Raises what ends the leg by itself."""
        if self.left is not None:
            raise self.left
        self.saver.check()
        return self._link.stop()

    def resume_inside(self, frames: list[types.FrameType]) -> None:
        """Restore the checkpoint again, here, where it was taken."""
        assert self._restored is not None
        header = self.state.restore(self._restored, frames)
        self.state.settle()
        assert header.inside is not None
        self.reports.history = dict(header.history)
        self.reports.logged = dict(header.inside["logged"])
        self.reports.send(self.step + 1)

    def give_up(self) -> None:
        """The leg has failed. If resuming inside caused it, the next leg resumes from the checkpoint before."""
        if self._inside.pending is not None:
            self.vault.drop_passing()

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def header(self, *, ended: bool = False, inside: dict[str, Any] | None = None) -> Header:
        """The header of a checkpoint taken now."""
        if inside is not None:
            inside["logged"] = dict(self.reports.logged)
        return Header(
            self.step,
            ended,
            self.reports.history,
            {**self._before.data, **self._data},
            inside=inside,
            length=self.order.max_steps,
            read=self._read,
            ranks=None if self.ranks is None else self.ranks.saved(),
        )

    def _save(
        self, *, ended: bool = False, passing: bool = False, needed: bool = False, frame: types.FrameType | None = None
    ) -> None:
        """Take the checkpoint of this step."""
        assert self._state is not None
        with whole(self.ranks):
            self.know_setup()
            header = self.header(ended=ended)
            if self.place.compares:
                header.anew, self._state.compares = self._state.given_anew(frame), True
            self.saver.take(self._state, header, None if ended else frame, passing=passing, needed=needed)

    def save(self, folder: Path, step: int | None) -> None:
        if self._state is not None:
            raise BadInput("trial.save() is for loops without trial.steps(), which saves by itself. Leave it out.")
        self._own.save(folder, step)

    # -- loops that count their own steps: see own.py ----------------------------------------------------------------

    def begin_own(self) -> None:
        """Start a loop that counts its own steps."""
        self._tell_begun(BY_ITSELF, {"data": self._data} if self._data else {})
        self.place.turns()

    def send(self, message: FromLeg) -> None:
        """Send a message."""
        self._link.send(message)

    def stop(self) -> StopOrder | None:
        """The order to stop, if one has come."""
        return self._link.stop()

    def says(self, text: str) -> None:
        """Show one line to the user: in the trial's log, and beside its experiment."""
        to_log(text)
        self._link.send(Says(text))
