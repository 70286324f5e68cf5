"""Asynchronous successive halving, by stopping and by promotion. Law: no trial waits for a rung to fill.

Li et al., "A system for massively parallel hyperparameter tuning", MLSys 2020; its brackets as in Determined's adaptive
ASHA. Decisions follow arrival: the same facts in the same order give the same ones.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from heapq import heappop, heappush
from typing import Literal

from workbench.search.rule import Place, Verdict, Words
from workbench.search.rules.ranking import Ranked, Ranking
from workbench.search.rungs import Ladder

__all__ = ["Asha"]


class _Rung:
    """The values told at one level of one bracket."""

    def __init__(self, step: int, name: str) -> None:
        self.step = step
        #: The beginnings and the ends of reasons; an end is rebuilt when the cut has moved.
        self.name = name
        self.tail = ""
        self.ranking = Ranking()
        #: How many of the best may be promoted, and the last of them.
        self.quota = 0
        self.cut: Ranked = (-math.inf, -1)
        #: Promoted trials.
        self.promoted: set[int] = set()
        #: Heap of trials that are or were among the best ``quota`` and have not been promoted.
        self.hopeful: list[Ranked] = []


class _Bracket:
    def __init__(self, ladder: Ladder, position: int, eta: int, words: Words, stopping: bool) -> None:
        self.ladder = ladder
        self.position = position
        self._eta = eta
        self._words = words
        self._stopping = stopping
        self._rungs: list[_Rung] = []
        self._grow(ladder)
        self._next = ladder.first
        self._end = ladder.first + ladder.sizes[0]
        #: The first trial of each later share, with the number after its last trial.
        self._shares: deque[tuple[int, int]] = deque()
        #: Stopping only: the step to which each running trial was sent, and trials that reached it and may continue.
        self._until: dict[int, int] = {}
        self._further: deque[tuple[int, int]] = deque()
        #: The rung that each running trial trains towards.
        self.towards: dict[int, int] = {}
        #: Trials that wait at a rung, with their keys.
        self._waiting: dict[int, tuple[int, float]] = {}
        self._gone: set[int] = set()
        self._ended: set[int] = set()
        #: Trials that waited at a rung when no more values could arrive.
        self._last: dict[int, tuple[int, float]] = {}
        self.open = True

    def _grow(self, ladder: Ladder) -> None:
        self.ladder = ladder
        self._top = len(ladder.levels) - 1
        for at in range(len(self._rungs), len(ladder.levels)):
            step = ladder.levels[at]
            self._rungs.append(_Rung(step, f"bracket {ladder.number}, rung {at} at step {step}: {self._words.metric} "))
        until = ladder.levels[-1 if self._stopping else 0]
        self._first_leg = (0, until, f"bracket {ladder.number}, rung 0: the first leg, to step {until}")

    # -- growing

    def extend(self, ladder: Ladder, shares: list[tuple[int, int]]) -> list[Verdict]:
        """Add higher rungs and more trials. Trials settled because no more values could arrive wait again."""
        top = self._top
        is_higher = len(ladder.levels) > len(self.ladder.levels)
        for first, end in shares:
            if first == self._end and not self._shares:
                self._end = end
            else:
                self._shares.append((first, end))
        if not is_higher and not shares:
            return []
        self._grow(ladder)
        self.open = True
        self._waiting |= self._last
        again = sorted(self._last.items())
        self._last = {}
        verdicts = [
            Verdict(trial, False, self._standing(at, (key, trial), self._rungs[at].ranking.rank((key, trial))))
            for trial, (at, key) in again
        ]
        if is_higher:
            self._raise(top)
        return [*verdicts, *self._drained()]

    def _raise(self, top: int) -> None:
        """Allow promotions from the rung that was the top one."""
        rung = self._rungs[top]
        for rank in range(1, min(self._going(top), len(rung.ranking)) + 1):
            key, trial = rung.ranking.at(rank)
            if not self._stopping:
                self._hope(top, (key, trial))
            elif key < math.inf and trial not in self._gone and trial not in self._ended:
                self.towards[trial] = top + 1
                self._further.append((trial, rung.step))

    # -- asking

    def ask(self) -> Place | None:
        place = self._onward() if self._stopping else self._promotion()
        while place is None and self._has_new():
            trial = self._next
            self._next += 1
            if trial not in self._gone:
                self.towards[trial] = 0
                self._until[trial] = self._first_leg[1]
                return Place(trial, *self._first_leg)
        return place

    def has_begun(self, trial: int) -> bool:
        """Whether a trial of its first share has started, or never will."""
        return trial < self._next

    def _has_new(self) -> bool:
        while self._next == self._end and self._shares:
            self._next, self._end = self._shares.popleft()
        return self._next < self._end

    def _onward(self) -> Place | None:
        while self._further:
            trial, step = self._further.popleft()
            if trial in self.towards:
                self._until[trial] = until = self.ladder.levels[-1]
                return Place(trial, step, until, f"bracket {self.ladder.number}: goes on, to step {until} now")
        return None

    def _promotion(self) -> Place | None:
        for at in range(self._top - 1, -1, -1):
            rung = self._rungs[at]
            entry = self._promotable(at) if rung.hopeful else None
            if entry is not None:
                heappop(rung.hopeful)
                self._promote(at, entry)
                until = self.ladder.levels[at + 1]
                self.towards[entry[1]] = at + 1
                return Place(entry[1], rung.step, until, self._standing(at, entry, rung.ranking.rank(entry)))
        return None

    def _promotable(self, at: int) -> Ranked | None:
        """The best trial of a rung that may be promoted and has not been yet."""
        rung = self._rungs[at]
        while rung.hopeful:
            entry = rung.hopeful[0]
            # A trial that fell behind the cut is pushed again when the cut reaches it, so it may be in the heap twice.
            if entry <= rung.cut and entry[1] not in self._gone and entry[1] not in rung.promoted:
                return entry
            heappop(rung.hopeful)
        return None

    def _promote(self, at: int, entry: Ranked) -> None:
        self._rungs[at].promoted.add(entry[1])
        self._waiting.pop(entry[1], None)

    # -- telling

    def tell(self, trial: int, at: int, key: float) -> list[Verdict]:
        if self.towards.get(trial, at + 1) > at:
            return []
        rank = self._put(at, (key, trial))
        if at == self._top:
            del self.towards[trial]
            return self._drained()
        if self._stopping:
            self.towards[trial] = at + 1
            if rank <= self._going(at) and key < math.inf:
                if self._rungs[at].step == self._until.get(trial):
                    self._further.append((trial, self._rungs[at].step))
                return []
            del self.towards[trial]
            return [Verdict(trial, True, self._standing(at, (key, trial), rank)), *self._drained()]
        del self.towards[trial]
        if trial not in self._rungs[at].promoted:
            self._waiting[trial] = (at, key)
        verdict = Verdict(trial, False, self._standing(at, (key, trial), rank))
        return [verdict] if self.towards else [verdict, *self._drained()]

    def end(self, trial: int, key: float) -> list[Verdict]:
        at = self.towards.pop(trial, None)
        if at is None:
            return []
        self._ended.add(trial)
        if self._stopping:
            # Later trials are compared with it at the rungs that it would have reached.
            while at <= self._top and self._put(at, (key, trial)) <= self._going(at) and key < math.inf:
                at += 1
        else:
            self._put(at, (key, trial))
        return self._drained()

    def withdraw(self, trial: int) -> list[Verdict]:
        self._gone.add(trial)
        self.towards.pop(trial, None)
        self._waiting.pop(trial, None)
        self._last.pop(trial, None)
        return self._drained()

    def _put(self, at: int, entry: Ranked) -> int:
        """Add one value to a rung and return its rank. Trials that may be promoted as a result become hopeful."""
        rung = self._rungs[at]
        rank = rung.ranking.add(entry)
        grew = len(rung.ranking) // self._eta > rung.quota
        rung.quota += grew
        if rung.quota and (grew or rank <= rung.quota):
            rung.cut, rung.tail = rung.ranking.at(rung.quota), ""
        if self._stopping or at == self._top:
            return rank
        if rank <= rung.quota:
            self._hope(at, entry)
        if grew and rung.cut != entry:
            self._hope(at, rung.cut)
        return rank

    def _hope(self, at: int, entry: Ranked) -> None:
        key, trial = entry
        if math.isinf(key) or trial in self._rungs[at].promoted or trial in self._gone:
            return
        if trial in self._ended:
            # It no longer trains, but keeps its rank among those that do.
            self._promote(at, entry)
            self._put(at + 1, entry)
        else:
            heappush(self._rungs[at].hopeful, entry)

    # -- ending

    def _drained(self) -> list[Verdict]:
        """Close the bracket once no trial of it runs or can start; the verdicts that this leads to."""
        while self.open and not self.towards and self._has_new() and self._next in self._gone:
            self._next += 1
        if not self.open or self.towards or self._has_new():
            return []
        if not self._stopping:
            if any(self._promotable(at) for at in range(self._top)):
                return []
            # Too few trials: no rung had η of them. A rung keeps at least one, so promote the best of the highest rung.
            highest = max((at for at in range(self._top + 1) if len(self._rungs[at].ranking)), default=self._top)
            rung = self._rungs[highest]
            if highest < self._top and not rung.promoted:
                rung.quota, rung.cut, rung.tail = 1, rung.ranking.at(1), ""
                self._hope(highest, rung.cut)
                if rung.hopeful or rung.promoted:
                    return self._drained()
        self.open = False
        last = sorted(self._waiting.items())
        self._last, self._waiting = self._waiting, {}
        return [
            Verdict(trial, True, self._standing(at, (key, trial), self._rungs[at].ranking.rank((key, trial))))
            for trial, (at, key) in last
        ]

    def _going(self, at: int) -> int:
        """How many of a rung's trials with a value may continue. In the stopping variant, the best one always may."""
        return max(1, self._rungs[at].quota) if self._stopping else self._rungs[at].quota

    @property
    def marks(self) -> list[tuple[int, float | None]]:
        """This bracket's part of :attr:`Asha.marks`."""
        found: list[tuple[int, float | None]] = []
        for at, rung in enumerate(self._rungs[: self._top]):
            going, count = min(self._going(at), len(rung.ranking)), len(rung.ranking)
            found.append((going, rung.ranking.at(going)[0] if 0 < going < count else None))
        return found

    def _standing(self, at: int, entry: Ranked, rank: int) -> str:
        rung = self._rungs[at]
        if not rung.tail:
            go = self._going(at)
            cut = self._words.cut(rung.cut[0]) if rung.quota else ""
            rung.tail = f"{go} {'goes' if go == 1 else 'go'} on{cut}"
        return f"{rung.name}{self._words.ranked(entry[0], rank, len(rung.ranking))}, {rung.tail}"


class Asha:
    """Brackets side by side, each with its share of trials and, while it has work, of slots.

    first: trials that start before all others; of each bracket, its first ones.
    """

    def __init__(
        self,
        ladders: tuple[Ladder, ...],
        eta: int,
        mode: Literal["stop", "promote"],
        words: Words,
        first: tuple[int, ...] = (),
    ) -> None:
        self._first = deque(first)
        self._early = {trial: at for at, trial in enumerate(first)}
        self._brackets = [_Bracket(ladder, at, eta, words, mode == "stop") for at, ladder in enumerate(ladders)]
        self._take(ladders)

    def _take(self, ladders: tuple[Ladder, ...]) -> None:
        self.trials = sum(ladder.sizes[0] for ladder in ladders)
        numbers = {bracket.ladder.number: bracket.position for bracket in self._brackets}
        #: The first trial of each share, and its bracket.
        self._firsts = [ladder.first for ladder in ladders]
        self._owners = [numbers[ladder.number] for ladder in ladders]
        self._several = len(ladders) > 1
        self._at = [{step: rung for rung, step in enumerate(bracket.ladder.levels)} for bracket in self._brackets]

    def _of(self, trial: int) -> _Bracket:
        return self._brackets[self.place(trial)]

    def place(self, trial: int) -> int:
        return self._owners[bisect_right(self._firsts, trial) - 1] if self._several else 0

    def levels(self, trial: int) -> tuple[int, ...]:
        return self._of(trial).ladder.levels

    def bracket(self, trial: int) -> int:
        return self._of(trial).ladder.number

    def order(self, trial: int) -> tuple[int, int, int]:
        bracket = self._of(trial)
        towards = bracket.towards.get(trial, 0)
        return (
            (0, -1, self._early[trial]) if not towards and trial in self._early else (-towards, bracket.position, trial)
        )

    def ask(self, slots: int) -> Place | None:
        while self._first:
            bracket = self._of(self._first[0])
            place = None if bracket.has_begun(self._first[0]) else bracket.ask()
            if place is not None:
                return place
            self._first.popleft()
        part, more = divmod(slots, len(self._brackets))
        # First each bracket within its share of slots, the remainder going to the most aggressive one; then any bracket
        # with work, so that no slot stays empty.
        for bracket in self._brackets:
            if len(bracket.towards) < part + more:
                place = bracket.ask()
                if place is not None:
                    return place
            more = 0
        for bracket in self._brackets:
            place = bracket.ask()
            if place is not None:
                return place
        return None

    def tell(self, trial: int, step: int, key: float) -> list[Verdict]:
        bracket = self._of(trial)
        return bracket.tell(trial, self._at[bracket.position][step], key)

    def end(self, trial: int, key: float) -> list[Verdict]:
        return self._of(trial).end(trial, key)

    def withdraw(self, trial: int) -> list[Verdict]:
        return self._of(trial).withdraw(trial)

    def extend(self, ladders: tuple[Ladder, ...]) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for bracket, ladder in zip(self._brackets, ladders, strict=False):
            ends = [(one.first, one.first + one.sizes[0]) for one in ladders if one.number == ladder.number]
            shares = [(max(first, self.trials), end) for first, end in ends if end > self.trials]
            verdicts += bracket.extend(ladder, shares)
        self._take(ladders)
        return verdicts

    @property
    def marks(self) -> list[list[tuple[int, float | None]]]:
        return [bracket.marks for bracket in self._brackets]

    def unranks(self, trial: int) -> bool:
        return False

    @property
    def done(self) -> bool:
        return not any(bracket.open for bracket in self._brackets)
