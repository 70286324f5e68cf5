"""Synchronous Hyperband. Law: a rung is compared when its last value arrives, so the order of arrival does not matter.

While one bracket's rung waits for its last values, places of other brackets fill the free slots.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from workbench.search.rule import Place, Verdict, Words
from workbench.search.rungs import Ladder

__all__ = ["Hyperband"]


class _Bracket:
    """One ladder being climbed; only one of its rungs is open at a time."""

    def __init__(self, ladder: Ladder, position: int, rounds: bool) -> None:
        self.ladder = ladder
        self.position = position
        self.name = f"round {ladder.turn + 1}, bracket {ladder.number}" if rounds else f"bracket {ladder.number}"
        self.rung = -1
        self.open = True
        #: The reason why each member of the open rung is in it.
        self.why: dict[int, str] = {}
        #: Values of the trials whose code ended by itself: they are still promoted by rank, but no longer train.
        self.ended: dict[int, float] = {}
        #: How many were promoted from each compared rung, and the key of the last; None if all were, or none.
        self.marks: list[tuple[int, float | None]] = []
        self.enter(range(ladder.first, ladder.first + ladder.sizes[0]))

    def enter(self, members: Iterable[int]) -> None:
        """Open the next rung."""
        self.rung += 1
        #: Key of each member with a value; infinity for withdrawn ones.
        self.told: dict[int, float] = {}
        self.members = members if isinstance(members, range) else dict.fromkeys(members)
        self.missing = len(self.members)
        self.queue: Iterator[int] = iter(self.members)
        self.until = self.ladder.levels[self.rung]
        for trial in self.members:
            if trial in self.ended:
                self.put(trial, self.ended[trial])

    def put(self, trial: int, key: float) -> None:
        self.told[trial] = key
        self.missing -= 1

    @property
    def where(self) -> str:
        return f"{self.name}, rung {self.rung} at step {self.until}"

    def take(self) -> Place | None:
        """The next place of the open rung that has not been started."""
        for trial in self.queue:
            if trial not in self.told:
                start = self.ladder.levels[self.rung - 1] if self.rung else 0
                first = f"{self.name}, rung 0: the first leg, to step {self.until}"
                return Place(trial, start, self.until, self.why.get(trial, first))
        return None


class Hyperband:
    """All brackets of all rounds at once. Higher rungs go first.

    first: trials that start before all others; of each bracket, its first ones.
    """

    def __init__(self, ladders: tuple[Ladder, ...], words: Words, first: tuple[int, ...] = ()) -> None:
        self.trials = sum(ladder.sizes[0] for ladder in ladders)
        self._words = words
        rounds = ladders[-1].turn > 0
        self._brackets = [_Bracket(ladder, position, rounds) for position, ladder in enumerate(ladders)]
        self._firsts = [ladder.first for ladder in ladders]
        self._open = len(ladders)
        #: Rungs with places that have not been started: (-rung, bracket's position).
        self._ready = [(0, position) for position in range(len(ladders))]
        self._first = deque(first)
        self._early = {trial: at for at, trial in enumerate(first)}

    def _of(self, trial: int) -> _Bracket:
        return self._brackets[self.place(trial)]

    def levels(self, trial: int) -> tuple[int, ...]:
        return self._of(trial).ladder.levels

    def bracket(self, trial: int) -> int:
        return self._of(trial).ladder.number

    def order(self, trial: int) -> tuple[int, int, int]:
        bracket = self._of(trial)
        if bracket.rung == 0 and trial in self._early:
            return (0, -1, self._early[trial])
        return (-bracket.rung, bracket.position, trial)

    def ask(self, slots: int) -> Place | None:
        while self._first:
            place = self._of(self._first.popleft()).take()
            if place is not None:
                return place
        while self._ready:
            rung, position = self._ready[0]
            bracket = self._brackets[position]
            place = bracket.take() if bracket.open and bracket.rung == -rung else None
            if place is not None:
                return place
            heappop(self._ready)
        return None

    def tell(self, trial: int, step: int, key: float) -> list[Verdict]:
        bracket = self._of(trial)
        if not bracket.open or trial not in bracket.members or trial in bracket.told or step != bracket.until:
            return []
        bracket.put(trial, key)
        if bracket.missing:
            value, of = self._words.value(key), len(bracket.members)
            return [Verdict(trial, False, f"{bracket.where}: {value}; waits for {bracket.missing} more of {of}")]
        return self._compare(bracket)

    def end(self, trial: int, key: float) -> list[Verdict]:
        bracket = self._of(trial)
        bracket.ended[trial] = key
        return self.tell(trial, bracket.until, key)

    def withdraw(self, trial: int) -> list[Verdict]:
        bracket = self._of(trial)
        if not bracket.open or trial not in bracket.members:
            return []
        if trial in bracket.told:
            bracket.told[trial] = math.inf
            return []
        bracket.put(trial, math.inf)
        return [] if bracket.missing else self._compare(bracket)

    def _compare(self, bracket: _Bracket) -> list[Verdict]:
        verdicts: list[Verdict] = []
        while bracket.open and not bracket.missing:
            if bracket.rung + 1 == len(bracket.ladder.levels):
                self._close(bracket)
                break
            # Ties go to the older trial, so that a re-read journal promotes the same ones.
            ranked = sorted((key, trial) for trial, key in bracket.told.items())
            valid = [trial for key, trial in ranked if key < math.inf]
            going = valid[: bracket.ladder.sizes[bracket.rung + 1]]
            cut = self._words.cut(ranked[len(going) - 1][0]) if going else "; only finite values do"
            bracket.marks.append((len(going), ranked[len(going) - 1][0] if 0 < len(going) < len(ranked) else None))
            goes = f"{len(going)} {'goes' if len(going) == 1 else 'go'} on{cut}"
            why: dict[int, str] = {}
            for rank, (key, trial) in enumerate(ranked, 1):
                reason = f"{bracket.where}: {self._words.metric} {self._words.ranked(key, rank, len(ranked))}, {goes}"
                if rank <= len(going):
                    why[trial] = reason
                verdicts.append(Verdict(trial, rank > len(going), reason))
            bracket.why = why
            if not going:
                self._close(bracket)
                break
            bracket.enter(going)
            heappush(self._ready, (-bracket.rung, bracket.position))
        return verdicts

    def _close(self, bracket: _Bracket) -> None:
        bracket.open = False
        self._open -= 1

    def extend(self, ladders: tuple[Ladder, ...]) -> list[Verdict]:
        self.trials = sum(ladder.sizes[0] for ladder in ladders)
        verdicts: list[Verdict] = []
        for bracket, ladder in zip(self._brackets, ladders, strict=False):
            was_on_top = bracket.rung + 1 == len(bracket.ladder.levels)
            is_higher = len(ladder.levels) > len(bracket.ladder.levels)
            bracket.ladder = ladder
            if is_higher and was_on_top and not bracket.open:
                bracket.open = True
                self._open += 1
                verdicts += self._compare(bracket)
        for position in range(len(self._brackets), len(ladders)):
            self._brackets.append(_Bracket(ladders[position], position, ladders[position].turn > 0))
            self._firsts.append(ladders[position].first)
            self._open += 1
            heappush(self._ready, (0, position))
        return verdicts

    def place(self, trial: int) -> int:
        return bisect_right(self._firsts, trial) - 1

    @property
    def marks(self) -> list[list[tuple[int, float | None]]]:
        return [bracket.marks for bracket in self._brackets]

    def unranks(self, trial: int) -> bool:
        bracket = self._of(trial)
        return bracket.open and trial in bracket.told

    @property
    def done(self) -> bool:
        return self._open == 0
