"""The tree of processes below one, as Linux reports it."""

from __future__ import annotations

import os


def descendants(pid: int) -> list[int]:
    """All descendants of ``pid``: the processes that it started, those that they started, and so on."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children", encoding="ascii") as file:
                    children = [int(number) for number in file.read().split()]
                found += children
                waiting += children
        except OSError:  # it has ended, or this kernel does not report children
            continue
    return found
