"""Every trial to its end, in order. Law: nobody is compared."""

from __future__ import annotations

from workbench.search.rule import Place, Verdict

__all__ = ["Fifo"]


class Fifo:
    """Gives out trials by number, each from its first step to its last."""

    def __init__(self, trials: int, levels: tuple[int, ...]) -> None:
        self.trials = trials
        self._levels = levels
        self._begun = 0
        #: Trials given out whose end has not been told.
        self._busy: set[int] = set()
        #: Trials stopped before their turn.
        self._gone: set[int] = set()

    def levels(self, trial: int) -> tuple[int, ...]:
        return self._levels

    def bracket(self, trial: int) -> int:
        return 0

    def order(self, trial: int) -> tuple[int, int, int]:
        return (0, 0, trial)

    def ask(self, slots: int) -> Place | None:
        while self._begun < self.trials:
            trial = self._begun
            self._begun += 1
            if trial not in self._gone:
                self._busy.add(trial)
                return Place(trial, 0, self._levels[-1], f"trial {trial + 1} of {self.trials}, all steps")
        return None

    def tell(self, trial: int, step: int, key: float) -> list[Verdict]:
        if step == self._levels[-1]:
            self._busy.discard(trial)
        return []

    def end(self, trial: int, key: float) -> list[Verdict]:
        return self.withdraw(trial)

    def withdraw(self, trial: int) -> list[Verdict]:
        self._busy.discard(trial)
        if trial >= self._begun:
            self._gone.add(trial)
        return []

    @property
    def done(self) -> bool:
        return not self._busy and self._begun + sum(t >= self._begun for t in self._gone) >= self.trials
