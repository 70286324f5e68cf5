"""Workbench beside its peers on the same seeded work in one run: ``make bench-peers``, ``python -m benchmarks peers``.

Each peer is a module of this package, written as the peer's documentation recommends, and run by the interpreter of an
environment of its own. ``work`` holds what all of them train, and the lines by which all of them are timed.
This file is imported in those environments too, and by training code: it imports nothing of Workbench.
"""

from __future__ import annotations

import argparse
from typing import Any


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    from benchmarks.peers import turns

    parser.add_argument("--repeats", type=int, default=3, help="runs of each cell, in turns (3)")
    parser.add_argument(
        "--only", type=_names, help="measurements, by commas: trial, start, digits, stop, recovery, ours"
    )
    parser.add_argument("--peers", type=_names, help=f"by commas: {', '.join(turns.PEERS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the trials, to try it out (1.0)")


def _names(text: str) -> list[str]:
    return text.split(",")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Medians, worst values and all values of each cell, or why there is none; and the machine and the versions."""
    from benchmarks.peers import turns

    return turns.measure(options)


def lines(measured: dict[str, Any]) -> list[str]:
    """The table as Markdown."""
    from benchmarks.peers import table

    return table.lines(measured)
