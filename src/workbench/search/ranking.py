"""A sorted list that knows ranks. Law: best first; adding and asking take about the same time at 100 and 100,000."""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["Ranked", "Ranking"]

#: A value with its sign applied (lower is better; infinity for nan) and its trial: ties go to the older trial.
Ranked = tuple[float, int]

#: Longest block. Moving half of it in memory takes a fraction of a microsecond, and 100,000 entries are few blocks.
BLOCK = 4096


class Ranking:
    """Ranked values in blocks, each sorted, and all in order."""

    __slots__ = ("_blocks", "_lasts", "_size")

    def __init__(self) -> None:
        self._blocks: list[list[Ranked]] = []
        #: The last entry of each block.
        self._lasts: list[Ranked] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, entry: Ranked) -> int:
        """Put ``entry`` in; its rank, where 1 is the best."""
        self._size += 1
        if not self._blocks:
            self._blocks.append([entry])
            self._lasts.append(entry)
            return 1
        at = min(bisect_left(self._lasts, entry), len(self._blocks) - 1)
        block = self._blocks[at]
        within = bisect_left(block, entry)
        block.insert(within, entry)
        self._lasts[at] = block[-1]
        rank = sum(map(len, self._blocks[:at])) + within + 1
        if len(block) > BLOCK:
            half = BLOCK // 2
            self._blocks[at : at + 1] = [block[:half], block[half:]]
            self._lasts[at : at + 1] = [block[half - 1], block[-1]]
        return rank

    def rank(self, entry: Ranked) -> int:
        """The rank that ``entry`` has, or would have."""
        at = bisect_left(self._lasts, entry)
        if at == len(self._blocks):
            return self._size + 1
        return sum(map(len, self._blocks[:at])) + bisect_left(self._blocks[at], entry) + 1

    def at(self, rank: int) -> Ranked:
        """The entry of this rank. Raises IndexError where there is none."""
        if rank < 1:
            raise IndexError(rank)
        for block in self._blocks:
            if rank <= len(block):
                return block[rank - 1]
            rank -= len(block)
        raise IndexError(rank)
