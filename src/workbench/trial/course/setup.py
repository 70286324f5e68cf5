"""What an experiment's set-up does not make the same again, as each leg learns it. Law: one second run answers for all.

The first leg of an experiment that starts without a checkpoint has its set-up run a second time
(:mod:`workbench.trial.course.twin`), compares, and writes ``setup.json``. If it is killed before, the next one does.
Other legs read that file, and wait for it if they need it earlier. If the second run fails, checkpoints keep the plain
values of names, and any other difference on a resume is refused there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from workbench.errors import StoreError, WorkbenchError
from workbench.store.files.atomic import FILE_MODE, read_json, write_json
from workbench.store.layout import ExperimentPaths
from workbench.trial.course.made import Unsteady, unsteady
from workbench.trial.course.twin import LEAST_S, TIMES, Twin
from workbench.trial.kinds import SCALARS, Instance
from workbench.trial.ranks.meeting import Ranks
from workbench.trial.state import State

#: Seconds between two checks of a lock that another leg holds.
_LOOK_S = 0.02
#: The longest list of plain values that is kept if nothing is known.
_PLAIN_ITEMS = 4096
#: What this process has read of experiments, by file: once known, it does not change.
_heard: dict[Path, Unsteady] = {}


class Setup:
    """One leg's knowledge of its set-up."""

    def __init__(
        self, paths: ExperimentPaths, start: Callable[[int], Twin] | None = None, ranks: Ranks | None = None
    ) -> None:
        """start: forks a second run, which closes the given descriptor; None for no second run. ranks: those of the
        leg, if there are several: the first one learns, and tells the others."""
        self._paths, self._start, self._ranks = paths, start, ranks
        self._lock: int | None = None
        self._twin: Twin | None = None
        self._seconds = 0.0
        self._has_applied = False
        #: Names that every checkpoint of this leg holds, because the set-up does not make them again.
        self.kept: list[str] = []
        #: One line for the user, if this leg found what is not made again, or failed to.
        self.told = ""
        #: What is known; None until then.
        self.known = self._read()

    def begin(self) -> None:
        """The set-up begins, and no checkpoint will be restored into what it makes: fork the second run, if no other
        leg has."""
        if self.known is None and self._start is not None and self._claim():
            assert self._lock is not None
            self._twin = self._start(self._lock)

    @property
    def saves_nothing(self) -> bool:
        """Whether it is known that the set-up makes everything again, so that no trial has a saved one."""
        return self.known is not None and not self.known and not self.known.failed

    def done(self, state: State, seconds: float, *, writes: bool = False) -> None:
        """The set-up is done, and took ``seconds``: ``state`` is what it made.

        writes: it writes files. The second run writes them again, so training waits for its end: the loop might read
        a file that has just been emptied.
        """
        self._seconds = seconds
        if self.known is None and self._twin is not None:
            why = self._twin.go(seconds)
            if why:
                self._found(Unsteady(failed=why))
            elif writes:
                self._learn(state, wait=True)
        if self.known is not None:
            self._apply(state)

    def is_ready(self, state: State) -> bool:
        """Whether a checkpoint can be taken without waiting."""
        if self._ranks is None:
            self._learn(state, wait=False)
            return self._has_applied
        if self._ranks.is_first:
            self._learn(state, wait=False)
        return bool(self._ranks.agreed(self._has_applied))

    def settle(self, state: State) -> None:
        """Wait until it is known what a checkpoint of ``state`` must hold."""
        if self._ranks is None:
            self._learn(state, wait=True)
            return
        if self._ranks.is_first:
            self._learn(state, wait=True)
        known = self._ranks.agreed(None if self.known is None else self.known.to_json())
        if not self._has_applied:
            self.known = Unsteady.from_json(known)
            self._apply(state)

    def close(self) -> None:
        """The leg is over."""
        if self._twin is not None:
            self._twin.end()
        self._release()

    # -- learning ----------------------------------------------------------------------------------------------------

    def _learn(self, state: State, *, wait: bool) -> None:
        if self._has_applied:
            return
        if self.known is None and self._twin is not None:
            result = self._twin.result(wait)
            if result is None:
                return
            is_well, data = result
            found = unsteady(state.base, data) if is_well else Unsteady(failed=data.decode(errors="replace"))
            self._found(found)
        elif self.known is None and not self._has_heard(wait):
            return
        self._apply(state)

    def _has_heard(self, wait: bool) -> bool:
        """Whether the result is known, or will never be."""
        until = time.monotonic() + (max(LEAST_S, TIMES * self._seconds) if wait else 0)
        while True:
            self.known = self._read()
            if self.known is not None:
                return True
            if self._claim():  # no other leg is finding it out
                self._release()
                self.known = self._read() or Unsteady(failed="it was not run a second time")
                return True
            if time.monotonic() >= until:
                if wait:
                    self.known = Unsteady(failed="the second run has not ended yet")
                return wait
            time.sleep(_LOOK_S)

    def _found(self, found: Unsteady) -> None:
        self.known = found
        if found:
            names = f"{', '.join(found.names[:6])}{' …' if len(found.names) > 6 else ''}"
            self.told = f"the set-up makes {names} differently each time; each trial keeps its first values"
        elif found.failed:
            self.told = (
                f"the set-up was not compared with a second run of it ({found.failed}); what it makes differently when "
                "a trial is resumed is refused"
            )
        with contextlib.suppress(StoreError):  # a full disk: the others find it out themselves
            write_json(self._paths.setup, found.to_json(), fsync=False)
        self._release()

    def _apply(self, state: State) -> None:
        self._has_applied = True
        assert self.known is not None
        self.kept = self.known.keep(state.base)
        if self.known.failed:
            state.plain = _keep_plain(state)

    def _read(self) -> Unsteady | None:
        """What this process or another has found out."""
        if self._paths.setup not in _heard:
            try:
                found = Unsteady.from_json(read_json(self._paths.setup))
            except (WorkbenchError, OSError, ValueError, KeyError, TypeError):
                return None
            if len(_heard) > 100:
                _heard.clear()
            _heard[self._paths.setup] = found
        return _heard[self._paths.setup]

    def _claim(self) -> bool:
        """True if no other leg is doing it; none can until :meth:`_release`."""
        try:
            descriptor = os.open(self._paths.setup_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def _release(self) -> None:
        if self._lock is not None:
            # Unlock explicitly, since loaders' workers also hold the descriptor.
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = None


def _keep_plain(state: State) -> list[str]:
    """Keep numbers and texts bound to names, and short lists of them: a time, a folder's name, an order. Returns the
    names that lead there."""
    base = state.base
    numbers = []
    for number, entry in base.entries.items():
        obj = entry.ref()
        if (
            number
            and not entry.loose
            and isinstance(entry.how, Instance)
            and entry.how.bare
            and obj is not None  # the steps may have let go of it since
            and len(obj) <= _PLAIN_ITEMS
        ):
            values = obj.values() if isinstance(obj, dict) else obj
            if SCALARS.issuperset(map(type, values)):
                numbers.append(number)
    names = [(root.label, name) for root, name, token in base.tokens() if type(token) in SCALARS]
    base.save_from_now_on(numbers, (), names)
    return sorted({*map(base.top, numbers), *(f"{label}{name}" for label, name in names)})
