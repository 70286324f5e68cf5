"""A sorted list that knows ranks. Law: best first; adding and asking take about the same time at 100 and 100,000."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

__all__ = ["Ranked", "Ranking"]

#: A value with its sign applied (lower is better; infinity for nan) and its trial: ties go to the older trial.
Ranked = tuple[float, int]

#: Longest block. Moving half of it in memory takes a fraction of a microsecond, and 100,000 entries are few blocks.
BLOCK = 2048


class _Block:
    """Entries side by side in two arrays: a list of tuples costs a cache miss for every comparison."""

    __slots__ = ("keys", "trials")

    def __init__(self, keys: array[float], trials: array[int]) -> None:
        self.keys = keys
        self.trials = trials

    def index(self, entry: Ranked) -> int:
        """The index of ``entry``, or where it belongs."""
        key, trial = entry
        low = bisect_left(self.keys, key)
        if low == len(self.keys) or self.keys[low] != key:
            return low
        return bisect_left(self.trials, trial, low, bisect_right(self.keys, key, low))

    def __getitem__(self, index: int) -> Ranked:
        return self.keys[index], self.trials[index]


class Ranking:
    """Ranked values in blocks, each sorted, and all in order."""

    __slots__ = ("_blocks", "_lasts", "_size", "_sizes")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        #: For each block: its last entry, and its number of entries.
        self._lasts: list[Ranked] = []
        self._sizes: list[int] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, entry: Ranked) -> int:
        """Add ``entry`` and return its rank; 1 is the best."""
        self._size += 1
        if not self._blocks:
            self._blocks, self._lasts, self._sizes = [_Block(array("d"), array("q"))], [entry], [0]
        at = bisect_left(self._lasts, entry)
        if at == len(self._lasts):
            at -= 1
            self._lasts[at] = entry
        block = self._blocks[at]
        within = block.index(entry)
        block.keys.insert(within, entry[0])
        block.trials.insert(within, entry[1])
        self._sizes[at] += 1
        rank = sum(self._sizes[:at]) + within + 1
        if self._sizes[at] > BLOCK:
            self._split(at)
        return rank

    def _split(self, at: int) -> None:
        block, half = self._blocks[at], self._sizes[at] // 2
        halves = [_Block(block.keys[:half], block.trials[:half]), _Block(block.keys[half:], block.trials[half:])]
        self._blocks[at : at + 1] = halves
        self._lasts[at : at + 1] = [one[-1] for one in halves]
        self._sizes[at : at + 1] = [len(one.keys) for one in halves]

    def rank(self, entry: Ranked) -> int:
        """The rank that ``entry`` has, or would have."""
        at = bisect_left(self._lasts, entry)
        if at == len(self._blocks):
            return self._size + 1
        return sum(self._sizes[:at]) + self._blocks[at].index(entry) + 1

    def at(self, rank: int) -> Ranked:
        """The entry of this rank. Raises IndexError if there is none."""
        if rank < 1 or rank > self._size:
            raise IndexError(rank)
        at = 0
        while rank > self._sizes[at]:
            rank -= self._sizes[at]
            at += 1
        return self._blocks[at][rank - 1]
