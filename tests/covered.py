"""The table that `make coverage` prints: what the tests ran of each room, in lines and in branches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def by_room(files: Mapping[str, Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Lines and branches of each room, summed over its files as `coverage json` reports them."""
    rooms: dict[str, Counter[str]] = {}
    for name, told in files.items():
        parts = Path(name).parts
        room = parts[parts.index("workbench") + 1].removesuffix(".py")
        counts = {key: count for key, count in told["summary"].items() if isinstance(count, int)}
        rooms.setdefault(room, Counter()).update(counts)
    return rooms


def table(rooms: Mapping[str, Counter[str]]) -> list[str]:
    """One line for each room, and their sum."""
    found = [*sorted(rooms.items()), ("all", sum(rooms.values(), Counter()))]
    lines = [f"{'room':10} {'lines':>7} {'run':>6} {'branches':>9} {'run':>6}"]
    for room, told in found:
        shares = [
            f"{told[run] / told[every]:6.1%}" if told[every] else f"{'–':>6}"
            for run, every in (("covered_lines", "num_statements"), ("covered_branches", "num_branches"))
        ]
        lines.append(f"{room:10} {told['num_statements']:7} {shares[0]} {told['num_branches']:9} {shares[1]}")
    return lines


if __name__ == "__main__":
    said = subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", "-"], capture_output=True, check=True)
    print("\n".join(table(by_room(json.loads(said.stdout)["files"]))))
