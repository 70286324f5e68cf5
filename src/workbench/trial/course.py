"""A leg's way through the training loop: when a turn ends, what is told, saved and decided.

Law: step k means k turns done. What is reported in turn k belongs to step k; checkpoint k is taken when it ends.
"""

from __future__ import annotations

import math
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from workbench.errors import BadInput, BadMetric, CannotResume, StaleAttempt, StoreError
from workbench.records import Configuration, Goal, trial_label
from workbench.trial import metrics
from workbench.trial.files import fingerprint, free_name, keep
from workbench.trial.namespace import frames_around
from workbench.trial.runner import Link
from workbench.trial.state import Header, State
from workbench.trial.trial import LegLeft
from workbench.trial.wire import Message

#: The share of its time that a trial may spend on checkpoints between levels: one hundredth.
STALL = 100


@dataclass(frozen=True, slots=True)
class Order:
    """What the engine wants of one leg."""

    trial: int
    attempt: int
    start: int
    until: int
    levels: frozenset[int]
    max_steps: int
    configuration: Configuration
    known_step: int = 0
    resume: bool = False

    @classmethod
    def of(cls, message: Message) -> Order:
        """The order in a ``leg`` message."""
        return cls(
            trial=message["trial"],
            attempt=message["attempt"],
            start=message["start"],
            until=message["until"],
            levels=frozenset(message["levels"]),
            max_steps=message["max_steps"],
            configuration=message["configuration"],
            known_step=int(message.get("known_step", message["start"]) or 0),
            resume=bool(message.get("resume", message["start"] > 0)),
        )


class Vault(Protocol):
    """Where a leg's checkpoints are kept."""

    def newest(self, at_most: int) -> tuple[int, Path] | None:
        """Step and folder of the newest whole checkpoint, at most that of step ``at_most``."""

    def keep(self, step: int, write: Callable[[Path], None]) -> int:
        """Have ``write`` fill a folder that becomes the checkpoint of ``step`` at once; its size in bytes."""

    def remove(self, step: int) -> None:
        """Drop the checkpoint of ``step``."""


@dataclass(slots=True)
class Place:
    """Where the training code runs: its namespace, the code that called it, and names that are no state of it."""

    main: dict[str, Any]
    top: types.CodeType
    hidden: frozenset[str] = frozenset()
    environment: Callable[[], Mapping[str, Any]] = dict


class LegCourse:
    """The course of one leg in a runner."""

    def __init__(
        self, order: Order, goal: Goal, link: Link, vault: Vault, place: Place, files: Path, checkpoint_s: float
    ) -> None:
        self.order, self.goal = order, goal
        self._link, self._vault, self._place, self._files = link, vault, place, files
        self._checkpoint_s = checkpoint_s
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
        self._in_turn = False
        self._manual = False
        #: Levels told by a loop of its own, which may report a step in several calls.
        self._told_levels: set[int] = set()
        self._state: State | None = None
        self._tracked: dict[str, Any] = {}
        self._logged: dict[str, int] = {}
        self._data: dict[str, Any] = {}
        self._told_found: Any = None
        self._told_left: set[str] = set()
        self._saved_at = 0.0
        self._saved_step = -1
        #: The step of a checkpoint that only a period asked for; the next one takes its place.
        self._passing: int | None = None
        self._stall = 0.0
        self._first_point = True
        self._restored: Path | None = None
        self._before = Header(0)
        if order.resume:
            self._find_checkpoint()

    def _find_checkpoint(self) -> None:
        from workbench.trial.state import GRAPH, read_header

        newest = self._vault.newest(self.order.start)
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
        place = self._place
        frames = frames_around(frame, place.main, place.top)
        self._state = State(place.main, frames, hidden=place.hidden, tracked=self._tracked)
        if self._restored is not None:
            header = self._state.restore(self._restored)
            self.step, self.history, self.over = header.step, dict(header.history), header.ended
        self._state.settle()
        self._saved_at = time.monotonic()
        self._saved_step = self.step if self._restored is not None else -1
        self._tell_begun(self._state.found.to_json())
        self._tell_again()
        if self.over:
            raise StopIteration
        if self.step >= self.order.until or self._stop() is not None:
            self._leave("stopped" if self._stop() is not None else "reached")

    def _end_turn(self, frame: types.FrameType) -> None:
        self._in_turn = False
        self.step = step = self.step + 1
        self._logged.clear()
        if step in self.order.levels:
            self._tell_level(step)
        stop = self._link.stop()
        self.over = step >= self.order.max_steps
        leaves = step >= self.order.until
        if self.over or (stop is not None and stop.keep) or (stop is None and (leaves or step in self.order.levels)):
            self._save(ended=self.over, needed=self.over or leaves or stop is not None, frame=frame)
        elif stop is None and self._is_due():
            self._save(passing=True, frame=frame)
        if self.over:
            raise StopIteration
        if stop is not None:
            self._leave("stopped", stop.reason)
        if leaves:
            self._leave("reached")

    def _is_due(self) -> bool:
        waited = time.monotonic() - self._saved_at
        return waited >= self._checkpoint_s and waited >= STALL * self._stall

    def _leave(self, outcome: str, reason: str = "") -> NoReturn:
        self.left = LegLeft(outcome, reason)
        raise self.left

    def _stop(self) -> Any:
        return self._link.stop()

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
        if not self.over:  # `break`
            if self._in_turn and self.step + 1 in self.history:
                self.step += 1
            self.over = True
            if self.step != self._saved_step:
                self._save(ended=True, needed=True)
        return "completed"

    # -- telling -----------------------------------------------------------------------------------------------------

    def _tell_begun(self, found: Any) -> None:
        self._link.send(
            {
                "op": "begun",
                "step": self.step,
                "found": found,
                "environment": dict(self._place.environment()),
                "setup_s": round(time.monotonic() - self._began, 6),
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
        self._take(values, self.step + 1 if self._in_turn else self.step)
        if self._in_turn:
            stop = self._link.stop()
            if stop is not None and not stop.keep:
                self._leave("stopped", stop.reason)
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
            self._tell_begun({"objects": [], "names": [], "left_out": []})
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
        stop = self._link.stop()
        if stop is not None or step >= self.order.until:
            if step < self.order.max_steps:
                self.left = LegLeft("stopped" if stop is not None else "reached", stop.reason if stop else "")
            return False
        return True

    def log(self, values: Mapping[str, Any]) -> None:
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

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def _save(
        self,
        *,
        ended: bool = False,
        passing: bool = False,
        needed: bool = False,
        frame: types.FrameType | None = None,
    ) -> None:
        """Take the checkpoint of this step. One that is not needed to leave now may fail: training goes on without."""
        state = self._state
        assert state is not None
        begun = time.perf_counter()
        header = Header(self.step, ended, self.history, {**self._before.data, **self._data})
        try:
            size = self._vault.keep(self.step, lambda folder: state.save(folder, header, None if ended else frame))
        except StoreError as error:
            if needed or isinstance(error, StaleAttempt):
                raise
            self._saved_at = time.monotonic()
            print(f"[workbench] no checkpoint at step {self.step}: {error}")  # noqa: T201 - its log
            self._link.send({"op": "unsaved", "step": self.step, "error": str(error)})
            return
        self._saved_step = self.step
        if self._passing is not None and self._passing != self.step:
            self._vault.remove(self._passing)
        self._passing = self.step if passing else None
        self._tell_saved(size, time.perf_counter() - begun)

    def _tell_saved(self, size: int, seconds: float) -> None:
        self._stall = seconds
        self._saved_at = time.monotonic()
        message: Message = {
            "op": "saved",
            "step": self.step,
            "bytes": size,
            "seconds": round(seconds, 6),
            "stall": round(seconds, 6),
        }
        found = self._state.found.to_json() if self._state is not None else None
        if found is not None and found != self._told_found:
            message["found"] = self._told_found = found
            for one in found["left_out"]:
                if one["name"] not in self._told_left:
                    self._told_left.add(one["name"])
                    print(f"[workbench] not in the checkpoints: {one['name']} ({one['reason']})")  # noqa: T201 - its log
        self._link.send(message)

    def save(self, folder: Path, step: int | None) -> None:
        import shutil

        if self._state is not None:
            raise BadInput("trial.save() is for loops without trial.steps(), which saves by itself. Leave it out.")
        if not folder.exists():
            raise BadInput(f"trial.save({str(folder)!r}): there is no such file or folder.")

        def write(target: Path) -> None:
            if folder.is_dir():
                shutil.copytree(folder, target / "saved")
            else:
                (target / "saved").mkdir()
                shutil.copy2(folder, target / "saved" / folder.name)

        begun = time.perf_counter()
        self.step = step if step is not None else self.step
        size = self._vault.keep(self.step, write)
        self._tell_saved(size, time.perf_counter() - begun)

    def restore(self) -> Path | None:
        saved = self._restored / "saved" if self._restored is not None else None
        return saved if saved is not None and saved.exists() else None
