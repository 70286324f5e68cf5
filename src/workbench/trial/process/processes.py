"""The tree of processes below one, as Linux tells it."""

from __future__ import annotations

import os


def descendants(pid: int) -> list[int]:
    """Processes that ``pid`` has started, those that they have started, and so on."""
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
        except OSError:  # it has gone, or this kernel does not tell
            continue
    return found
