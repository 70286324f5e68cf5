"""What a trial costs besides its training: 200 trials of promotion ASHA (R=27, η=3) whose training does nothing."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import bare, engines
from workbench.records import Scheduler

NOTHING = "x = uniform(0.0, 1.0)\nfor turn in trial.steps():\n    trial.report(score=x)\n"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds a trial, ours and the references', in one run."""
    trials, runs = getattr(options, "trials", 200), getattr(options, "runs", 3)
    scheduler = Scheduler("asha", 1, 27, 3)
    ours, pipes, futures = [], [], []
    with engines.engine(workers=2) as store:
        engines.warm(store)
        for _ in range(runs):
            one = engines.spec(NOTHING, store, scheduler, trials=trials)
            engines.run(store, one)
            lines = engines.lines(store, one)
            first = next(line for line in lines if line["kind"] == "LegStarted")
            last = next(line for line in lines if line["kind"] == "Finish")
            legs = sum(line["kind"] == "LegStarted" for line in lines)
            ours.append((engines.seconds(last) - engines.seconds(first)) / trials * 1e3)
            pipes.append(bare.pipes(one) / trials * 1e3)
            futures.append(bare.dask_futures(one) / trials * 1e3)
    result = {"ours": engines.spread(ours), "bare_pipes": engines.spread(pipes), "bare_dask": engines.spread(futures)}
    return {
        "unit": "ms a trial",
        "trials": trials,
        "legs": legs,
        **result,
        "ratio_to_bare_dask": result["ours"]["median"] / result["bare_dask"]["median"],
        "budget": 2.0,
    }
