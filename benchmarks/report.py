"""What `trial.report` costs the training code, beside appending to a list."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import engines
from workbench.records import Scheduler

#: The loop measures itself, since microseconds cannot be measured from outside.
SOURCE = """
x = uniform(0.0, 1.0)
import json, statistics, time
spent, bare, sink = [], [], []
for turn in trial.steps():
    for index in range(20):
        begun = time.perf_counter()
        trial.report(score=x, loss=0.5 * index)
        spent.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        sink.append((turn, x, 0.5 * index))
        bare.append(time.perf_counter() - begun)

def work():
    total = 0.0
    for number in range(20_000):
        total += number * 0.5
    return total

def rate(with_points):
    begun = time.perf_counter()
    turns = 0
    while time.perf_counter() - begun < 2.0:
        work()
        turns += 1
        if with_points and turns % per_point == 0:
            trial.log(x_seen=turns)
    return turns / (time.perf_counter() - begun)

def timed():
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun

per_point = max(1, round(0.01 / min(timed() for _ in range(50))))
pairs = [(rate(False), rate(True)) for _ in range(3)]
ratio = statistics.median(without / with_ for without, with_ in pairs)
spent.sort(); bare.sort()
print("RESULT", json.dumps({
    "report_us": {"median": spent[len(spent) // 2] * 1e6, "p99": spent[int(len(spent) * .99)] * 1e6},
    "list_append_us": {"median": bare[len(bare) // 2] * 1e6},
    "slowed_at_100_points_a_second_percent": (ratio - 1) * 100,
}))
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--turns", type=int, default=200)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Microseconds a report, and percent of training slowed."""
    turns = getattr(options, "turns", 200)
    with engines.engine(workers=1) as store:
        engines.warm(store)
        one = engines.spec(SOURCE, store, Scheduler("all", 1, turns), trials=1)
        engines.run(store, one)
        text = engines.printed(store, one)
    found = engines.told(text)
    found["ratio"] = found["report_us"]["median"] / found["list_append_us"]["median"]
    return {**found, "budget": {"report_us_median": 20, "slowed_percent": 1}}
