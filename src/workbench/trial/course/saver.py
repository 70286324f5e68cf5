"""When a leg takes checkpoints, and how they are written. Law: training waits for the copy, not for the disk.

When the leg leaves or its loop is over, the checkpoint is written before the leg says so. All others are copied in
memory and written in the background, in order, one at a time.
"""

from __future__ import annotations

import contextlib
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from workbench.errors import StaleAttempt, StoreError
from workbench.messages import Saved, Says, Unsaved
from workbench.records import Spec
from workbench.store.keeping.checkpoints import Checkpoint, Folder
from workbench.trial.checkpoint.captured import Captured
from workbench.trial.checkpoint.header import Header
from workbench.trial.course.vault import Small, Write, Writer
from workbench.trial.process.runner import Link, to_log
from workbench.trial.state import State

#: Between levels, a trial waits for checkpoints for at most a hundredth of its time, with a margin, since the next
#: may cost more than the last; background work on them takes at most a fiftieth (perhaps on the same core); and a
#: checkpoint is being written to the disk, which is shared, for at most a quarter.
STALL, ASIDE, WRITING = 130, 50, 4
#: The first checkpoint of a leg between levels, and those of a young one: a fault costs it at most this many seconds,
#: or one in ``YOUNG`` of those that it has trained. Later ones are further apart, since each is written to the disk.
YOUNG_S, YOUNG = 0.05, 50
#: At a level that a leg passes without leaving, a checkpoint may cost a tenth of the time since the one before; a
#: very cheap one is always taken.
AT_LEVEL, CHEAP_S = 10, 0.1
#: From this number of objects on, they are what makes a checkpoint slow.
MANY_OBJECTS = 100_000


class Vault(Protocol):
    """Where a leg's checkpoints are kept."""

    @property
    def skipped(self) -> list[Any]:
        """What the last :meth:`newest` skipped because it is damaged."""

    @property
    def is_passing(self) -> bool:
        """Whether the one that it returned lies between levels."""

    def newest(self, at_most: int) -> tuple[int, Folder] | None:
        """Step and folder of the newest complete checkpoint of a step up to ``at_most``."""

    def earlier(self) -> Sequence[Checkpoint]:
        """Checkpoints whose files the next one may link."""

    def keep(self, step: int, write: Write, *, small: Small = None, passing: bool = False, inside: int = 0) -> int:
        """Keep a checkpoint of ``step``: ``small`` at once, or a folder that ``write`` fills; its size in bytes.

        A *passing* one lies between levels and is replaced by the next. inside: batches done of the current turn.
        """

    def keep_setup(self, write: Write, small: Small = None) -> None:
        """Keep ``small``, or a folder that ``write`` fills, as the trial's saved set-up."""

    def setup(self) -> Folder | None:
        """The trial's saved set-up, if the set-up does not make the same again."""

    def drop_passing(self) -> None:
        """Remove checkpoints between levels."""

    def stage(self, step: int, write: Write) -> Path:
        """Have ``write`` fill a folder that :meth:`show` can publish as the checkpoint of ``step``."""

    def show(self, step: int, aside: Path, write: Write) -> int:
        """Publish the folder of :meth:`stage`, completed by ``write``, as the checkpoint of ``step``; its bytes."""

    def discard(self, aside: Path) -> None:
        """Discard the folder of :meth:`stage`."""


@dataclass(frozen=True, slots=True)
class When:
    """How often checkpoints are taken between levels.

    least_s: this many seconds apart where they cost little, and less far while the leg is young; every_s, every_steps:
    exactly this often, if the user set it.
    """

    least_s: float = 0.2
    every_s: float | None = None
    every_steps: int | None = None

    @classmethod
    def of(cls, spec: Spec) -> When:
        """As the spec says."""
        return cls(spec.checkpoint_s, spec.save_s, spec.save_steps)


def _nothing(folder: Path) -> None:
    """The folder is complete."""


class Saver:
    """The checkpoints that one leg takes. ``writer`` writes those that training need not wait for; None: it waits."""

    def __init__(
        self, vault: Vault, link: Link, when: When, writer: Writer | None, agreed: Callable[[bool], bool] = bool
    ) -> None:
        """agreed: decides for all ranks of the leg, where there are several: what is due depends on time."""
        self._vault, self._link, self._when, self._writer, self._agreed = vault, link, when, writer, agreed
        self._at = self._began = time.monotonic()
        #: Seconds that training waited for the last checkpoint, and seconds of background work on it.
        self._cost = self._worked = 0.0
        #: Seconds that it took to stage a framework's own checkpoint.
        self._staged_s = 0.0
        #: Seconds that it took to write.
        self._written = 0.0
        self._trouble: BaseException | None = None
        self._told_found: Any = None
        self._told_left: set[str] = set()
        self._told_heavy = False
        #: The step of the newest checkpoint, taken at the end of a turn.
        self.step = -1

    def begin(self, step: int, cost: float) -> None:
        """Start training, from the checkpoint of ``step`` (-1: none). cost: the expected cost of one, in seconds."""
        self._at = self._began = time.monotonic()
        self.step, self._cost = step, cost

    def continue_in(self, vault: Vault) -> None:
        """The trial's next leg begins here, with checkpoints of its own."""
        self._vault = vault

    def is_due(self, step: int | None = None) -> bool:
        """Whether it is time for a checkpoint between levels. step: turns done, if one has just ended."""
        return self._agreed(self._is_due(step))

    def _is_due(self, step: int | None) -> bool:
        when, waited = self._when, time.monotonic() - self._at
        if self.is_told:
            if step is not None and when.every_steps is not None and step % when.every_steps == 0:
                return True
            return when.every_s is not None and waited >= when.every_s
        if self._writer is not None and self._writer.is_busy:
            return False
        least_s = min(when.least_s, max(YOUNG_S, (self._at - self._began) / YOUNG))
        return waited >= max(least_s, STALL * self._cost, ASIDE * self._worked, WRITING * self._written)

    @property
    def is_told(self) -> bool:
        """Whether the user set how often checkpoints are taken."""
        return self._when.every_s is not None or self._when.every_steps is not None

    def affords(self) -> bool:
        """Whether a level that the leg passes gets a checkpoint: the next ones are as good to resume from."""
        return self._agreed(self._cost < CHEAP_S or time.monotonic() - self._at >= AT_LEVEL * self._cost)

    def check(self) -> None:
        """Raise the error of writing an earlier checkpoint: a newer attempt owns the trial, or Workbench has a bug."""
        if self._trouble is not None:
            error, self._trouble = self._trouble, None
            raise error

    def settle(self) -> None:
        """Wait until the current checkpoint is written. Raises as :meth:`check`."""
        if self._writer is not None:
            self._writer.wait()
        self.check()

    def take(
        self,
        state: State,
        header: Header,
        frame: types.FrameType | None,
        *,
        passing: bool = False,
        needed: bool = False,
        frames: Sequence[types.FrameType] = (),
    ) -> None:
        """Take a checkpoint now. If leaving does not depend on it, it may fail: training continues without it.

        frame: where the loop waits for its next item. frames: functions below the loop over the steps.
        """
        self.settle()
        begun = time.perf_counter()
        aside = self._writer is not None and not needed
        captured = state.capture(header, frame, frames, aside=aside)
        stall = time.perf_counter() - begun
        self._tell_heavy(state, stall)
        self._at = time.monotonic()
        inside = int(header.inside["batches"]) if header.inside else 0
        write = partial(self._write, captured, header.step, inside, stall, passing)
        if aside:
            assert self._writer is not None
            self._writer.submit(partial(self._write_aside, write))
            return
        try:
            write()
        except StoreError as error:
            if needed or isinstance(error, StaleAttempt):
                raise
            self._tell_unsaved(header.step, error)
        self._cost = time.perf_counter() - begun

    def keep(self, step: int, write: Callable[[Path], None]) -> None:
        """Keep a framework's own checkpoint, which ``write`` writes."""
        aside = self.stage(step, write)
        self._keep(step, partial(self._vault.show, step, aside, _nothing))

    def stage(self, step: int, write: Callable[[Path], None]) -> Path:
        """Have ``write`` write a framework's own checkpoint of a step that is not reported yet, for :meth:`show`."""
        begun = time.perf_counter()
        aside = self._vault.stage(step, write)
        self._staged_s = time.perf_counter() - begun
        return aside

    def show(self, step: int, aside: Path, write: Callable[[Path], None]) -> None:
        """Keep a framework's own checkpoint, which was staged in ``aside`` and which ``write`` completes."""
        self._keep(step, partial(self._vault.show, step, aside, write))

    def _keep(self, step: int, keep: Callable[[], int]) -> None:
        begun = time.perf_counter()
        size = keep()
        seconds = self._cost = self._staged_s + time.perf_counter() - begun
        self._at = time.monotonic()
        self._tell(Saved(step=step, bytes=size, seconds=round(seconds, 6), stall=round(seconds, 6)), None)

    # -- in the writer's thread --------------------------------------------------------------------------------------

    def _write_aside(self, write: Callable[[], None]) -> None:
        worked = time.thread_time()
        try:
            write()
        except StaleAttempt as error:
            self._trouble = error
        except StoreError as error:
            self._tell_unsaved(write.args[1], error)  # type: ignore[attr-defined]
        except BaseException as error:
            self._trouble = error
        self._worked = time.thread_time() - worked

    def _write(self, captured: Captured, step: int, inside: int, stall: float, passing: bool) -> None:
        begun = time.perf_counter()
        self._cost = stall
        whole = partial(captured.write, earlier=self._vault.earlier)
        if passing:
            # What was logged inside earlier turns is not sent again by a leg that resumes here.
            with contextlib.suppress(OSError):
                self._link.flush()
        size = self._vault.keep(step, whole, small=captured.small(), passing=passing, inside=inside)
        if not passing:
            self.step = step
        self._written = time.perf_counter() - begun
        seconds = stall + self._written
        told = Saved(step=step, bytes=size, seconds=round(seconds, 6), stall=round(stall, 6))
        if passing:
            told = replace(told, passing=True, inside=inside)
        self._tell(told, captured.found.to_json())

    def _tell(self, message: Saved, found: Any) -> None:
        if found is not None and found != self._told_found:
            self._told_found = found
            message = replace(message, found=found)
            for one in found["left_out"]:
                if one["name"] not in self._told_left:
                    self._told_left.add(one["name"])
                    to_log(f"not in the checkpoints: {one['name']} ({one['reason']})")
        self._link.send(message)

    def _tell_heavy(self, state: State, stall: float) -> None:
        if state.heavy is None or self._told_heavy:
            return
        self._told_heavy = True
        text = what_is_heavy(stall, *state.heavy)
        if not text:
            return
        to_log(text)
        self._link.send(Says(text))

    def _tell_unsaved(self, step: int, error: StoreError) -> None:
        to_log(f"no checkpoint at step {step}: {error}")
        self._link.send(Unsaved(step, str(error)))


def what_is_heavy(seconds: float, name: str, count: int) -> str:
    """Why a checkpoint takes so many seconds, if it is because of so many objects; empty if it is not."""
    if count < MANY_OBJECTS:
        return ""
    return (
        f"each checkpoint takes {seconds:.1f} s, since {name} reaches about {round(count, -4):,} objects of Python, "
        "so fewer are taken; keep what is there as a NumPy array or a tensor (or as a deque of arrays), which is "
        "copied at once"
    )
