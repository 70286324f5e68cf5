"""From a stop to the next trial in the slot: decided by the search at a report, and ordered at any time.

From the report: the time between the report at which the search stops a trial and the first line of the next trial in
its slot, as the training code's own clock shows it; and the steps that the stopped trial took after that report.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

from benchmarks import engines
from workbench.records import Scheduler
from workbench.store.series import Series

#: Turns of one millisecond, as a small model's steps are; each says how it goes.
LISTENS = """
x = uniform(0.0, 1.0)
import time
for turn in trial.steps():
    time.sleep(0.001)
    trial.report(score=x)
"""
#: Turns of 20 ms; each trial notes its first line.
STEPS = """
x = uniform(0.0, 1.0)
import time
trial.log(first=time.time())
for turn in trial.steps():
    time.sleep(0.02)
    trial.report(score=x, at=time.time())
"""
#: One report, and then a step that is long.
DEAF = """
x = uniform(0.0, 1.0)
import time
for turn in trial.steps():
    trial.report(score=x)
    if turn > 0:
        time.sleep(3600)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--trials", type=int, default=60)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds between the engine's decision and the next training code's begin in the same slot."""
    trials = getattr(options, "trials", 60)
    with engines.engine(workers=2) as store:
        engines.warm(store)
        listens = _measured(store, LISTENS, Scheduler("asha", 3, 243, 3, mode="stop"), trials)
        reports = _from_the_report(store, Scheduler("asha", 3, 243, 3, mode="stop"), trials)
        deaf = _measured(store, DEAF, Scheduler("asha", 1, 81, 3, mode="stop"), max(12, trials // 5), limit_s=20)
    return {
        "unit": "ms",
        "from_the_report": reports,
        "listens": listens,
        "deaf": deaf,
        "budget": {"listens_median": 1.5, "deaf": 300},
    }


def _measured(store: Any, source: str, scheduler: Scheduler, trials: int, **fields: Any) -> dict[str, Any]:
    one = engines.spec(source, store, scheduler, trials=trials, **fields)
    engines.run(store, one)
    legs = engines.legs(store, one)
    waits, gone = [], []
    for leg in legs:
        if not leg.get("decided") or not leg.get("left") or leg.get("outcome") != "stopped":
            continue
        gone.append((leg["left"] - leg["decided"]) * 1e3)
        after = [o["began"] for o in legs if o.get("slot") == leg["slot"] and (o.get("began") or 0) > leg["decided"]]
        next_one = min(after, default=math.nan)
        if next_one - leg["decided"] < 5:
            waits.append((next_one - leg["decided"]) * 1e3)
    return {
        "next_in_slot": engines.spread(waits) if waits else None,
        "process_left": engines.spread(gone) if gone else None,
    }


def _from_the_report(store: Any, scheduler: Scheduler, trials: int) -> dict[str, Any]:
    one = engines.spec(STEPS, store, scheduler, trials=trials)
    engines.run(store, one)
    legs = engines.legs(store, one)
    with Series.read(store.experiment(one.id).series) as series:
        rows = {row["number"]: row for row in series.trials()}
        points = list(series.points())
    first = {trial: value for trial, name, _, _, value, _ in points if name == "first"}
    at = {(trial, step): value for trial, name, step, _, value, _ in points if name == "at"}
    waits, beyond = [], []
    for leg in legs:
        level = rows[leg["trial"]]["level"]
        if leg.get("outcome") != "stopped" or not level:
            continue
        reported = at[leg["trial"], level]
        beyond.append(max(step for trial, step in at if trial == leg["trial"]) - level)
        later = [first[o["trial"]] for o in legs if o["slot"] == leg["slot"] and first[o["trial"]] > reported]
        if later:
            waits.append((min(later) - reported) * 1e3)
    return {"next_first_line": engines.spread(waits), "steps_beyond": engines.spread(beyond)}
