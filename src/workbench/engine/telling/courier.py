"""Copies checkpoints from the disk to an experiment's storage. Law: nothing waits for it.

It has a thread of its own; no result depends on the random numbers drawn there. While a storage is down it retries,
with longer pauses each time. The next engine completes unfinished copies, from files beside the checkpoints.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from workbench.errors import StoreError
from workbench.records import Spec
from workbench.store import Store
from workbench.store.keeping.passing import KIND, send_passing
from workbench.store.keeping.remote import SENDING, Remote, mirror, shown

log = logging.getLogger("workbench.engine")

#: Seconds before the second try, and at most between two tries.
FIRST_S, MOST_S = 1.0, 60.0
#: Seconds for which a closing engine waits for copies under way.
LEAVING_S = 5.0

#: If levels are far apart, a lost disk costs about PASSING_S seconds of training: that often checkpoints between levels
#: are sent, but sending them takes at most this share of the time.
PASSING_S, SHARE = 60.0, 0.1


@dataclass(slots=True)
class _Due:
    """An experiment's trials that are to be looked at."""

    spec: Spec
    trials: dict[int, None] = field(default_factory=dict)
    not_before: float = 0.0
    pause: float = field(default_factory=lambda: FIRST_S)
    #: Since when its storage fails, and why.
    trouble: str | None = None


class Courier:
    """Sends changed checkpoints of trials in a thread, until all are sent.

    tell: called in that thread with an experiment's id and its storage's state in words; None once all is sent.
    """

    def __init__(self, store: Store, tell: Callable[[str, str | None], None]) -> None:
        self._store, self._tell = store, tell
        self._due: dict[str, _Due] = {}
        self._some = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        #: When a checkpoint between a trial's levels is sent next (monotonic seconds).
        self._next: dict[tuple[str, int], float] = {}
        #: Since when the storages of experiments fail, and why, until one is used again.
        self._down: dict[str, str] = {}

    def take(self, spec: Spec, trials: Iterable[int]) -> None:
        """Send the checkpoints of ``trials``. Does nothing for an experiment without a storage."""
        trials = list(trials)
        if not spec.storage or not trials:
            return
        with self._some:
            for trial in trials:
                self._next[spec.id, trial] = time.monotonic() + PASSING_S
            due = self._due.setdefault(spec.id, _Due(spec))
            due.trials.update(dict.fromkeys(trials))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="workbench-courier", daemon=True)
                self._thread.start()
            self._some.notify_all()

    def take_passing(self, spec: Spec, trial: int) -> None:
        """A checkpoint between levels was written: send it, unless one of the trial was sent a moment ago."""
        with self._some:
            now = time.monotonic()
            is_due = now >= self._next.setdefault((spec.id, trial), now + PASSING_S)
        if is_due:
            self.take(spec, [trial])

    def retry(self) -> None:
        """Retry now, because a user asked."""
        with self._some:
            for due in self._due.values():
                due.not_before = 0.0
            self._some.notify_all()

    def forget(self, experiment: str) -> None:
        """The experiment is being deleted."""
        with self._some:
            self._due.pop(experiment, None)
            self._down.pop(experiment, None)
            self._next = {key: at for key, at in self._next.items() if key[0] != experiment}

    def trouble(self, experiment: str) -> str | None:
        """Since when the experiment's storage is unavailable, and why; None if it is available."""
        with self._some:
            due = self._due.get(experiment)
            return None if due is None else due.trouble

    def word(self, experiment: str) -> str | None:
        """The state of the experiment's storage, in the words given to ``tell``."""
        with self._some:
            due = self._due.get(experiment)
            return None if due is None else due.trouble or SENDING

    @property
    def is_busy(self) -> bool:
        """Whether a copy is under way to a storage that works."""
        with self._some:
            return any(due.trouble is None for due in self._due.values())

    def close(self) -> None:
        """Wait a moment for what can be sent, then start nothing more. It blocks."""
        with self._some:
            self._some.wait_for(lambda: all(due.trouble for due in self._due.values()), LEAVING_S)
            self._is_closing = True
            self._some.notify_all()

    # -- in its thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (found := self._wait()) is not None:
            key, due, trial = found
            spec, trouble, is_used = due.spec, None, False
            try:
                paths, url = self._store.experiment(spec.id).trial(trial), spec.storage or ""
                is_used = mirror(paths, Remote(url, spec.id, trial)) > 0
                begun = time.monotonic()
                if send_passing(paths, Remote(url, spec.id, trial, KIND)):
                    is_used = True
                    self._sent_passing(spec.id, trial, time.monotonic() - begun)
            except (StoreError, ImportError) as error:
                trouble = str(error)
            except Exception as error:  # an error of a driver must not end the thread that serves the other experiments
                trouble = f"{shown(spec.storage or '')}: {type(error).__name__}"
            self._note(key, due, trial, trouble, is_used=is_used)

    def _sent_passing(self, experiment: str, trial: int, took_s: float) -> None:
        with self._some:
            self._next[experiment, trial] = time.monotonic() + max(PASSING_S, took_s / SHARE)

    def _wait(self) -> tuple[str, _Due, int] | None:
        """The next trial to look at, after waiting for it; None once the courier is closing."""
        with self._some:
            while not self._is_closing:
                now = time.monotonic()
                ready = [(due.not_before, key) for key, due in self._due.items()]
                if ready and min(ready)[0] <= now:
                    key = min(ready)[1]
                    due = self._due[key]
                    trial = next(iter(due.trials))
                    del due.trials[trial]
                    return key, due, trial
                self._some.wait(min(ready)[0] - now if ready else None)
        return None

    def _note(self, key: str, due: _Due, trial: int, trouble: str | None, *, is_used: bool) -> None:
        """Take in how the work for a trial ended. is_used: its storage was used; a trial without anything to send, such
        as one whose checkpoints the rule has removed, tells nothing about it."""
        with self._some:
            if self._due.get(key) is not due:
                return  # deleted meanwhile
            before, was_down = due.trouble, key in self._down
            if trouble is not None:
                due.trials[trial] = None
                due.not_before = time.monotonic() + due.pause
                due.pause = min(2 * due.pause, MOST_S)
                due.trouble = self._down.setdefault(key, f"waits since {datetime.now(UTC):%H:%M:%S} UTC: {trouble}")
            elif is_used:
                due.pause, due.trouble = FIRST_S, None
                self._down.pop(key, None)
            if trouble is None and not due.trials:
                del self._due[key]
            word = self.word(key)
            self._some.notify_all()
        if trouble is not None and not was_down:
            log.warning("the storage of %s is not available, training goes on: %s", due.spec.label, trouble)
        elif is_used and trouble is None and was_down:
            log.info("the storage of %s is there again", due.spec.label)
        if word is None or (word == SENDING) != (before is None):
            self._tell(key, word)


def remove_all(url: str, experiment: str) -> str | None:
    """Remove a deleted experiment's trials from its storage. Returns the error if that fails. It blocks."""
    remote = Remote(url, experiment)
    try:
        remote.remove_trials()
    except (StoreError, ImportError) as error:
        return f"{remote.shown}: {error}"
    except Exception as error:  # any error of a driver
        return f"{remote.shown}: {type(error).__name__}"
    return None
