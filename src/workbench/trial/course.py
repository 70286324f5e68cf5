"""A leg's way through the training loop: when a turn ends, what is told, saved and decided.

Law: step k means k turns done. What is reported in turn k belongs to step k; checkpoint k is taken when it ends.
"""

from __future__ import annotations

import math
import time
import types
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from workbench.errors import BadInput, BadMetric, CannotResume
from workbench.records import Goal, trial_label
from workbench.trial import metrics
from workbench.trial.batches import BY_STEPS, Batches, Inside
from workbench.trial.files import copy_into, fingerprint, free_name, keep
from workbench.trial.fork import Fork
from workbench.trial.namespace import frames_around
from workbench.trial.order import Order, Place
from workbench.trial.runner import Link, StopOrder
from workbench.trial.saver import Saver, Vault, When
from workbench.trial.state import Header, State
from workbench.trial.trial import LegLeft
from workbench.trial.vault import Writer


class LegCourse:
    """The course of one leg in a runner."""

    def __init__(
        self,
        order: Order,
        goal: Goal,
        link: Link,
        vault: Vault,
        place: Place,
        files: Path,
        when: When,
        writer: Writer | None = None,
        fork: Fork | None = None,
    ) -> None:
        self.order, self.goal = order, goal
        self._link, self._vault, self.place, self._files = link, vault, place, files
        self.saver = Saver(vault, link, when, writer)
        self._began = time.monotonic()
        #: Turns done.
        self.step = 0
        #: Values reported, by step.
        self.history: dict[int, dict[str, float]] = {}
        #: How the leg was left before the code's end, once it was.
        self.left: LegLeft | None = None
        #: True once the loop has made its last turn.
        self.over = False
        self.missing = False
        #: True once the leg has left because its machine is about to go.
        self.preempted = False
        self._in_turn = False
        self._inside = Inside(self)
        self._manual = False
        #: Levels told by a loop of its own, which may report a step in several calls.
        self._told_levels: set[int] = set()
        self._state: State | None = None
        self._tracked: dict[str, Any] = {}
        self._logged: dict[str, int] = {}
        self._data: dict[str, Any] = {}
        self._first_point = True
        self._restored: Path | None = None
        self._before = Header(0)
        self._fork = fork
        if fork is not None:
            self._before = Header(fork.step)
        if order.resume:
            self._find_checkpoint()

    def _find_checkpoint(self) -> None:
        from workbench.trial.state import GRAPH, read_header

        # Also one that the engine does not know of: it was taken in the moment in which something died.
        newest = self._vault.newest(self.order.until)
        for one in self._vault.skipped:
            print(f"[workbench] the checkpoint of step {one.step} is damaged and passed over: {one.why}")  # noqa: T201
        if newest is not None:
            self._restored = newest[1]
            if (self._restored / GRAPH).exists():
                self._before = read_header(self._restored)

    # -- turns -------------------------------------------------------------------------------------------------------

    def turn(self, frame: types.FrameType) -> int:
        if self.left is not None:
            raise self.left  # the training code has swallowed it; it cannot stay
        if self.over:
            raise StopIteration
        self.saver.check()
        if self._state is None:
            self._begin(frame)
        else:
            self._end_turn(frame)
        self._in_turn = True
        return self.step

    def turns_left(self) -> int:
        return max(0, self.order.max_steps - (self._before.step if self._state is None else self.step))

    def _begin(self, frame: types.FrameType) -> None:
        """The set-up is done: survey it, put the checkpoint into it, and tell what was told only to a lost engine."""
        place = self.place
        place.begins()
        frames = frames_around(frame, place.main, place.top)
        self._state = State(place.main, frames, hidden=place.hidden, tracked=self._tracked, resumes=BY_STEPS)
        inside = None
        if self._restored is not None:
            header = self._state.restore(self._restored)
            self.step, self.history = header.step, dict(header.history)
            # One that took all its steps goes on where it was made longer since; one that left its loop does not.
            is_longer = header.step == header.length < self.order.max_steps
            self.over = header.ended and not is_longer
            inside = header.inside
        elif self._fork is not None:
            self._fork.put(self._state)
            self.step = self._fork.step
        if inside is None:
            self._state.settle()
        kept = self._restored is not None and not self._vault.is_passing
        # To look at the state is most of what a checkpoint will cost.
        self.saver.begin(self.step if kept else -1, self._state.survey_s)
        self._tell_begun(self._state.found.to_json(), self._made())
        self._tell_again()
        if self.over:
            raise StopIteration
        stop = self._link.stop()
        if stop is not None:
            self.obey(stop)
        if self.step >= self.order.until:
            self._leave("reached")
        self._inside.begin_turn()
        self._inside.pending = inside

    def _end_turn(self, frame: types.FrameType) -> None:
        self._in_turn = False
        self._inside.begin_turn()
        self.step = step = self.step + 1
        self.place.stepped()
        self._logged.clear()
        if step in self.order.levels:
            self._tell_level(step)
        stop = self._link.stop()
        self.over = step >= self.order.max_steps
        leaves = step >= self.order.until
        if self.over or (stop is not None and stop.keep) or (stop is None and (leaves or step in self.order.levels)):
            self._save(ended=self.over, needed=self.over or leaves or stop is not None, frame=frame)
        elif stop is None and self.saver.is_due(step):
            self._save(passing=True, frame=frame)
        if self.over:
            raise StopIteration
        if stop is not None:
            self.obey(stop)
        if leaves:
            self._leave("reached")

    def _leave(self, outcome: str, reason: str = "") -> NoReturn:
        self.saver.settle()
        self.left = LegLeft(outcome, reason)
        raise self.left

    def obey(self, stop: StopOrder) -> NoReturn:
        """Leave, as ``stop`` says."""
        self.preempted = stop.is_notice
        self._leave("stopped", stop.reason)

    def finish(self) -> str:
        """The code came to its end. Returns the leg's outcome, saving what a ``break`` left unsaved."""
        if self.left is not None:
            return self.left.outcome
        if self._manual:
            return "reached" if self.step < self.order.max_steps and self.step >= self.order.until else "completed"
        if self._state is None:
            raise BadInput(
                f"trial {trial_label(self.order.trial)} came to its end without a turn of trial.steps(). Wrap the "
                "training loop: for epoch in trial.steps(): ..."
            )
        self._inside.begin_turn()
        self.saver.settle()
        if not self.over:  # `break`
            if self._in_turn and self.step + 1 in self.history:
                self.step += 1
            self.over = True
            if self.step != self.saver.step:
                self._save(ended=True, needed=True)
        return "completed"

    # -- telling -----------------------------------------------------------------------------------------------------

    def _made(self) -> dict[str, Any]:
        """What the set-up made and read, told once in a trial's life."""
        from workbench.trial.architecture import architecture

        made: dict[str, Any] = {} if self.order.resume else {"architecture": architecture(self.state.objects())}
        if self._data:
            made["data"] = self._data
        return made

    def _tell_begun(self, found: Any, made: dict[str, Any] | None = None) -> None:
        skipped, seen = self._vault.skipped, self.place.seen()
        self._link.send(
            {
                "op": "begun",
                "step": self.step,
                "found": found,
                "environment": dict(self.place.environment()),
                "setup_s": round(time.monotonic() - self._began, 6),
                **({"skipped": [{"step": one.step, "why": one.why} for one in skipped]} if skipped else {}),
                **(made or {}),
                **({"seen": seen} if seen is not None else {}),
                **({"back": self.place.back} if self.place.back is not None else {}),
            }
        )

    def _tell_again(self) -> None:
        """Reports of steps that the engine does not know of: they were lost with it, and are not trained again."""
        now = time.time()
        for step, values in sorted(self.history.items()):
            if self.order.known_step < step <= self.step:
                for name, value in values.items():
                    self._link.point((name, step, 0, value, now))
                if step in self.order.levels and self.goal.metric in values:
                    self._link.send({"op": "level", "step": step, "metrics": values})

    def _tell_level(self, step: int) -> None:
        values = self.history.get(step, {})
        if self.goal.metric not in values:
            self.missing = True
            raise metrics.missing_goal(self.goal, self.order.trial, step, values)
        self._link.send({"op": "level", "step": step, "metrics": values})

    def latest(self) -> dict[str, float]:
        """The latest value of each metric."""
        found: dict[str, float] = {}
        for _, values in sorted(self.history.items()):
            found.update(values)
        return found

    # -- what the training code says ---------------------------------------------------------------------------------

    def report(self, values: Mapping[str, Any], step: int | None) -> bool:
        if step is not None:
            return self._report_own_step(values, step)
        if self.left is not None:
            raise self.left
        if self._inside.pending is None:
            self._take(values, self.step + 1 if self._in_turn else self.step)
        if self._in_turn:
            stop = self._link.stop()
            if stop is not None and not stop.keep:
                self.obey(stop)
        return True

    def _take(self, values: Mapping[str, Any], step: int) -> None:
        row = self.history.get(step)
        if row is None:
            row = self.history[step] = {}
        now = time.time()
        for name, value in values.items():
            if type(value) is not float:
                value = metrics.number(value, name, self.order.trial, step)
            if name == self.goal.metric and not math.isfinite(value):
                metrics.check_goal(value, self.goal, self.order.trial, step)
            row[name] = value
            self._link.point((name, step, 0, value, now))
        if self._first_point:
            # The first report of a search is what the other trials wait for.
            self._first_point = False
            self._link.flush()

    def _report_own_step(self, values: Mapping[str, Any], step: int) -> bool:
        """A report of a loop that is not ours; we neither save nor restore it."""
        if self._state is not None:
            raise BadInput(
                "trial.report(step=…) is for loops without trial.steps(), which counts the steps itself. Leave step "
                "out."
            )
        if isinstance(step, bool) or not isinstance(step, int) or step < 1:
            raise BadMetric(f"trial.report(step={step!r}): wanted the number of turns done, from 1 on.")
        if not self._manual:
            self._manual = True
            self.step = self._before.step
            self._tell_begun({"objects": [], "names": [], "left_out": []}, {"data": self._data} if self._data else {})
        if self.left is not None:
            raise self.left
        self._take(values, step)
        if step in self.order.levels and self.goal.metric in self.history[step] and step not in self._told_levels:
            self._told_levels.add(step)
            self._link.send({"op": "level", "step": step, "metrics": self.history[step]})
        skipped = [level for level in self.order.levels - self._told_levels if self._before.step < level < step]
        if skipped:
            raise metrics.missing_goal(self.goal, self.order.trial, min(skipped), self.history.get(min(skipped), {}))
        self.step = max(self.step, step)
        self.place.stepped()
        stop = self._link.stop()
        if stop is not None or step >= self.order.until:
            if step < self.order.max_steps:
                self.preempted = stop is not None and stop.is_notice
                self.left = LegLeft("stopped" if stop is not None else "reached", stop.reason if stop else "")
            return False
        return True

    def log(self, values: Mapping[str, Any]) -> None:
        if self._inside.pending is not None:
            return  # it was told before the checkpoint was taken
        step = self.step + 1 if self._in_turn else self.step
        now = time.time()
        for name, value in values.items():
            if not isinstance(value, int | float):
                if keep(self._files, step, name, value):
                    continue
                value = metrics.number(value, name, self.order.trial, step)
            index = self._logged[name] = self._logged.get(name, 0) + 1
            self._link.point((name, step, index, float(value), now))

    def show(self, figure: Any) -> None:
        if self._inside.pending is not None:
            return
        figure.savefig(free_name(self._files, self.step + 1 if self._in_turn else self.step, "figure", ".png"))

    def track(self, objects: Mapping[str, Any]) -> None:
        if self._state is not None:
            raise BadInput("trial.track() was called inside the loop. Call it once, before trial.steps().")
        self._tracked.update(objects)

    def data(self, path: Path) -> None:
        found = fingerprint(path)
        before = self._before.data.get(str(path))
        if before is not None and before["digest"] != found["digest"]:
            raise CannotResume(
                f"{path} is not what it was when the trial began ({before['size']} bytes then, {found['size']} now). "
                "Put the file back, or start the experiment anew with --again."
            )
        self._data[str(path)] = found

    # -- inside a turn -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state that was found when the set-up was done."""
        assert self._state is not None
        return self._state

    def batches(self, loader: Any) -> Batches | Any:
        return self._inside.batches(loader) if self._in_turn else loader

    def heard(self) -> StopOrder | None:
        """The order to stop, when one has come. Raises what ends the leg by itself."""
        if self.left is not None:
            raise self.left
        self.saver.check()
        return self._link.stop()

    def resume_inside(self, frames: list[types.FrameType]) -> None:
        """Put the checkpoint in once more, here, where it was taken."""
        assert self._restored is not None
        header = self.state.restore(self._restored, frames)
        self.state.settle()
        assert header.inside is not None
        self.history = dict(header.history)
        self._logged = dict(header.inside["logged"])
        for name, value in self.history.get(self.step + 1, {}).items():
            self._link.point((name, self.step + 1, 0, value, time.time()))

    def give_up(self) -> None:
        """The leg has failed. Where that came of resuming inside, the next one goes on from the checkpoint before."""
        if self._inside.pending is not None:
            self._vault.drop_passing()

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def header(self, *, ended: bool = False, inside: dict[str, Any] | None = None) -> Header:
        """What a checkpoint of this moment says about itself."""
        if inside is not None:
            inside["logged"] = dict(self._logged)
        return Header(
            self.step,
            ended,
            self.history,
            {**self._before.data, **self._data},
            inside=inside,
            length=self.order.max_steps,
        )

    def _save(
        self,
        *,
        ended: bool = False,
        passing: bool = False,
        needed: bool = False,
        frame: types.FrameType | None = None,
    ) -> None:
        """Take the checkpoint of this step."""
        assert self._state is not None
        header = self.header(ended=ended)
        self.saver.take(self._state, header, None if ended else frame, passing=passing, needed=needed)

    def save(self, folder: Path, step: int | None) -> None:
        if self._state is not None:
            raise BadInput("trial.save() is for loops without trial.steps(), which saves by itself. Leave it out.")
        if not folder.exists():
            raise BadInput(f"trial.save({str(folder)!r}): there is no such file or folder.")

        self.step = step if step is not None else self.step
        self.saver.keep(self.step, partial(copy_into, folder))

    def restore(self) -> Path | None:
        if self._restored is None:
            return self._fork.saved if self._fork is not None else None
        saved = self._restored / "saved"
        return saved if saved is not None and saved.exists() else None
