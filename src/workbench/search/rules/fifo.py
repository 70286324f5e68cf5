"""Every trial to its end, in order. Law: trials are never compared."""

from __future__ import annotations

from collections import deque

from workbench.search.rule import Place, Verdict
from workbench.search.rungs import Ladder, longer

__all__ = ["Fifo"]


class Fifo:
    """Gives out trials by number, each from its first step to its last."""

    def __init__(self, trials: int, levels: tuple[int, ...], eta: int = 3) -> None:
        self.trials = trials
        self._eta = eta
        self._levels = levels
        self._begun = 0
        #: Trials given out whose end has not been told.
        self._busy: set[int] = set()
        #: Trials stopped before their turn.
        self._gone: set[int] = set()
        #: The last level at the time each trial was given out, for trials that have reached it or still will.
        self._ends: dict[int, int] = {}
        #: Trials that were at their last level when levels were added: (trial, step).
        self._further: deque[tuple[int, int]] = deque()

    def levels(self, trial: int) -> tuple[int, ...]:
        return self._levels

    def bracket(self, trial: int) -> int:
        return 0

    def order(self, trial: int) -> tuple[int, int, int]:
        return (0, 0, trial)

    def ask(self, slots: int) -> Place | None:
        while self._further:
            trial, step = self._further.popleft()
            if trial not in self._gone:
                self._ends[trial] = last = self._levels[-1]
                return Place(trial, step, last, f"trial {trial + 1} of {self.trials} goes on: {last} steps now")
        while self._begun < self.trials:
            trial = self._begun
            self._begun += 1
            if trial not in self._gone:
                self._busy.add(trial)
                self._ends[trial] = self._levels[-1]
                return Place(trial, 0, self._levels[-1], f"trial {trial + 1} of {self.trials}, all steps")
        return None

    def tell(self, trial: int, step: int, key: float) -> list[Verdict]:
        if step == self._levels[-1]:
            self._busy.discard(trial)
        elif step == self._ends.get(trial):
            self._further.append((trial, step))
        return []

    def end(self, trial: int, key: float) -> list[Verdict]:
        return self.withdraw(trial)

    def withdraw(self, trial: int) -> list[Verdict]:
        self._busy.discard(trial)
        self._ends.pop(trial, None)
        if trial >= self._begun or any(trial == one for one, _ in self._further):
            self._gone.add(trial)
        return []

    def extend(self, ladders: tuple[Ladder, ...]) -> list[Verdict]:
        (ladder,) = ladders
        self.trials = ladder.sizes[0]
        before, last = self._levels[-1], ladder.levels[-1]
        if last > before:
            self._levels = self._longer(last)
            at_end = [trial for trial, step in self._ends.items() if step == before and trial not in self._busy]
            self._further.extend((trial, before) for trial in sorted(at_end))
            self._busy.update(at_end)
        return []

    def _longer(self, last: int) -> tuple[int, ...]:
        return longer(self._levels, last, self._eta)

    def place(self, trial: int) -> int:
        return 0

    @property
    def marks(self) -> list[list[tuple[int, float | None]]]:
        return [[]]

    def unranks(self, trial: int) -> bool:
        return False

    @property
    def done(self) -> bool:
        return not self._busy and self._begun + sum(t >= self._begun for t in self._gone) >= self.trials
