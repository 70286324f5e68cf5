"""A long run: one search after another under faults and viewers; then the cost of an idle engine, of a killed one on a
busy machine, of edited versions, and of a store with 1,000 experiments. Prints a table with the target beside each
figure.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import daily, growth, idle, many, recovery


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--minutes", type=float, default=40.0, help="how long searches come and go (40)")
    parser.add_argument("--trials", type=int, default=100_000, help="and how many trials at most (100000)")
    parser.add_argument("--experiments", type=int, default=1000, help="in the large store (1000)")
    parser.add_argument("--load", type=int, default=8, help="busy processes while the engine is killed (8)")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Rows of measured values and targets, printed as lines of a table while it runs."""
    rows: dict[str, tuple[str, str]] = {}

    def say(what: str, measured: str, wanted: str) -> None:
        rows[what] = (measured, wanted)
        print(f"| {what} | {measured} | {wanted} |", flush=True)

    print("| what | measured | wanted |\n|---|---|---|", flush=True)
    grown = _of(growth, "--minutes", options.minutes, "--trials", options.trials, "--viewers", 2, "--faults")
    per, last = grown["per 1000 trials"], list(grown["rows"].values())[-1]
    trials = f"{last['trials']:,.0f} trials"
    say("searches without end", f"{trials}, {grown['kills']} kills, 2 viewers", "all end")
    say("engine's memory for each 1,000 trials", f"{per['engine_mb']:+.2f} MB (of {last['engine_mb']:.0f})", "flat")
    say("memory of all it started", f"{per['others_mb']:+.2f} MB (of {last['others_mb']:.0f})", "flat")
    say("descriptors for each 1,000 trials", f"{per['descriptors']:+.1f} (of {last['descriptors']:.0f})", "flat")
    say("files and folders for each trial", f"{per['files'] / 1000:.3f}", "1 at most")
    say("WAL files left behind", f"{last['wal_files']:.0f}", "0")
    rest = _of(idle)
    say("an idle engine and all it started", f"{rest['all']:.2f} % of a core", "0.5 %")
    killed = _of(recovery, "--victims", "engine", "--kills", 4, "--load", options.load)["engine"]
    for name, value in killed.items():
        words = f"{value['median']:.2f} (at most {value['max']:.2f})"
        say(
            f"engine killed beside {options.load} busy processes: {name.replace('_', ' ')}", words, "under 5 s; 0 steps"
        )
    versions = _of(daily)
    turns = ", ".join(f"{one:.2f}" for one in versions["first_turn"])
    sizes = ", ".join(f"{one:.0f}" for one in versions["memory"])
    say("first turn of five edited versions", f"{turns} s", "0.05 s from the second on")
    say("memory after each of them", f"{sizes} MB", "flat")
    store = _of(many, "--experiments", options.experiments)
    for name, wanted in (("ls", "0.3 s"), ("doctor", "3 s"), ("gc", "5 s")):
        found = store[name]
        value = found["median"] if isinstance(found, dict) else found
        say(f"{name} with {options.experiments:,} experiments", f"{value:.2f} s", wanted)
    return {"rows": {what: f"{measured} (wanted: {wanted})" for what, (measured, wanted) in rows.items()}}


def _of(module: Any, *words: object) -> dict[str, Any]:
    """What another benchmark measures, given these options."""
    parser = argparse.ArgumentParser()
    if hasattr(module, "arguments"):
        module.arguments(parser)
    found: dict[str, Any] = module.measure(parser.parse_args([str(word) for word in words]))
    return found
