"""The search core: what one report costs at 1,000 and at 100,000 trials, and how early each rule finds a good trial."""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from bisect import insort
from typing import Any

from benchmarks import digits_curves
from workbench.facts import CapacityChanged, Ended, Instruction, Left, Reached, Run, Stop
from workbench.records import Goal, Scheduler
from workbench.search import Search, simulate

SPACE = digits_curves.SPACE
GOAL = Goal("val_acc", "max")
RULES = {
    "asha_promote": Scheduler("asha", 1, 27, 3),
    "asha_stop": Scheduler("asha", 1, 27, 3, mode="stop"),
    "hyperband": Scheduler("hyperband", 1, 27, 3),
    "median": Scheduler("median", 1, 27),
}
SLOTS = 8


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--trials", type=int, default=100_000, help="the larger of the two sizes")
    parser.add_argument("--repeats", type=int, default=3, help="how often the smaller size is measured")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Microseconds of one report, for each rule and size; the reference keeps all values in one plain sorted list."""
    large, repeats = options.trials, options.repeats
    rules: dict[str, Any] = {}
    for name, scheduler in RULES.items():
        # Enough reports of the small size that the first ones, which warm the caches, do not count.
        few = [one for _ in range(repeats) for one in reports(scheduler, 1000)]
        many = reports(scheduler, large)
        rules[name] = {
            "at_1000": _spread(few),
            f"at_{large}": _spread(many),
            "ratio_of_sizes": statistics.median(many) / statistics.median(few),
        }
    few, many = [one for _ in range(repeats) for one in plain(1000)], plain(large)
    reference = {"at_1000": _spread(few), f"at_{large}": _spread(many)}
    return {
        "unit": "us",
        "budget": 10,
        "rules": rules,
        "reference": reference,
        "ratio": {
            name: figures[f"at_{large}"]["median"] / reference[f"at_{large}"]["median"]
            for name, figures in rules.items()
        },
        "epochs": targets(),
    }


def reports(scheduler: Scheduler, trials: int) -> list[float]:
    """Seconds of every report in one search: the value told, the decision, and the next orders."""
    search = Search(GOAL, SPACE, scheduler, trials=trials)
    values = random.Random(0)
    legs: dict[int, Run] = {}
    done: dict[int, int] = {}
    spent: list[float] = []

    def carry_out(instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Run):
                legs[instruction.trial] = instruction
            elif isinstance(instruction, Stop):
                legs.pop(instruction.trial, None)
                carry_out(search.handle(Left(instruction.trial)))

    carry_out(search.handle(CapacityChanged(SLOTS)))
    while not search.done:
        # The slots take turns.
        trial, run = next(iter(legs.items()))
        del legs[trial]
        levels = search.levels(trial)
        step = next(level for level in levels if level > done.get(trial, 0))
        done[trial] = step
        if step < run.until:
            legs[trial] = run
        fact = (Ended if step == levels[-1] else Reached)(trial, step, values.random())
        begun = time.perf_counter()
        instructions = search.handle(fact)
        spent.append(time.perf_counter() - begun)
        carry_out(instructions)
    return spent


def plain(trials: int) -> list[float]:
    """Seconds of putting each value into one sorted list, and appending it to another."""
    values = random.Random(0)
    ranked: list[tuple[float, int]] = []
    history: list[tuple[int, int, float]] = []
    spent = []
    for trial in range(trials):
        value = values.random()
        begun = time.perf_counter()
        history.append((trial, 1, value))
        insort(ranked, (-value, trial))
        spent.append(time.perf_counter() - begun)
    return spent


def targets() -> dict[str, Any]:
    """Epochs that all trials together trained until one reached a validation accuracy, true curves replayed.

    Medians over 60 orders of the same 81 configurations, two slots. The reference trains every trial to its end.
    """
    curves = digits_curves.curves()
    rules = {**RULES, "all": Scheduler("all", 1, digits_curves.STEPS)}
    found: dict[str, dict[str, float]] = {}
    for target in (0.98, 0.985):
        row = found[f"to_{target}"] = {}
        for name, scheduler in rules.items():
            steps = []
            for seed in range(60):
                order = random.Random(seed).sample(range(len(curves)), len(curves))
                search = Search(GOAL, SPACE, scheduler, trials=len(curves))
                done = simulate(search, dict(enumerate(curves[trial] for trial in order)), slots=2)
                steps.append(done.steps_to(target) or math.inf)
            row[name] = statistics.median(steps)
        row["ratio"] = row["asha_promote"] / row["all"]
    return found


def _spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median": statistics.median(ordered) * 1e6,
        "mean": statistics.fmean(ordered) * 1e6,
        "p99": ordered[int(len(ordered) * 0.99)] * 1e6,
        "reports": len(ordered),
    }
