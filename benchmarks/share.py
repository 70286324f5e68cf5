"""Searches that need the same slots: the share of each by its weight, and what it costs a trial to make room.

    python -m benchmarks share --json

*shares*: two engines, each with a search of trials that never end, on all cores of this machine. The first search, of
weight 1, has all slots when the second one is requested. From then on the locks of the slots are read twenty times a
second: which part of the slot-seconds the second search *held*, by minute. *steps* is its part of all steps (of 0.1 s)
that were trained. *used*: seconds in steps, as a part of the slot-seconds of all slots; the rest is what changing hands
cost. *asked*: how often a trial was asked to make room.

*room*: a trial makes room for a search of higher priority, and continues when that one has ended. By stages, in
seconds: *asked*: from the other's request until the trial is asked to make room (the engine is patient, since most legs
end by themselves); *preempt*: from that until the other's leg begins, of which *left* is until the trial has saved its
checkpoint and left; *resume*: from the other's end to the first new step of the trial, of which *began* is until its
next leg begins. For a small trial and one whose checkpoint is large; on one slot and on two (two ranks); where the
other search is the same engine's, and where it is another engine's.

*parts*: a search on one slot with ``--slots 1`` and with ``--slots 0.25``, in turns. *waits*: seconds of a search of
trials whose steps wait for 0.1 s; *gain*: how many times faster quarters are, where 4 is the most. *empty*:
milliseconds for each trial without work, which is what a leg costs; *ratio*: a quarter's by a whole slot's.

The runtime folder is a temporary one, so that no other engine of the user takes part.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from benchmarks import engines
from workbench.engine import sharing
from workbench.records import ENDED, Scheduler, Spec
from workbench.store import Store, requests
from workbench.store.owner.slots import cores, drain, holders, use_again
from workbench.store.series import Series

STEP_S = 0.1
#: A step that waits is trained as fast on a busy machine, so that only slots are measured.
WAITS = f"""
x = uniform(0.0, 1.0)
import time
for turn in trial.steps():
    time.sleep({STEP_S})
    trial.report(score=x)
"""
#: Steps of 0.1 s or more over a model of WIDTH × WIDTH numbers. Without gradients: a checkpoint has the parameters.
TRAINS = f"""
x = uniform(0.0, 1.0)
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(16, WIDTH)), batch_size=16, shuffle=True)
model = nn.Linear(WIDTH, WIDTH, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for turn in trial.steps():
    begun = time.perf_counter()
    for (batch,) in loader:
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    score = -loss.item()
    time.sleep(max(0.0, {STEP_S} - (time.perf_counter() - begun)))
    trial.report(score=score)
"""
EMPTY = "x = uniform(0.0, 1.0)\nfor turn in trial.steps():\n    trial.report(score=x)\n"
QUARTER = 0.25
#: Engines with another patience than their own, in seconds; turns are shorter by as much.
HASTY = """
import sys
from workbench.engine import __main__, fair, sharing
fair.TURN_S *= {patience} / sharing.PATIENCE_S
sharing.PATIENCE_S, sharing.PATIENCE_SETUPS = {patience}, 1
sys.exit(__main__.main(sys.argv[1:]))
"""
AHEAD = ("torch", "torch._dynamo")
ENDLESS = Scheduler("all", 1_000_000, 1_000_000)
#: Seconds between two looks at the slots.
LOOK_S = 0.05
#: Seconds within which anything must happen, however busy the machine is.
PATIENCE_S = 300.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--minutes", type=float, default=4.0, help="how long shares are measured (4)")
    parser.add_argument(
        "--weights", type=float, nargs="+", default=[1.0, 3.0], help="weights beside a search of weight 1 (1 3)"
    )
    parser.add_argument("--rounds", type=int, default=4, help="how often a trial makes room, in each case (4)")
    parser.add_argument("--mb", type=float, default=100.0, help="megabytes of the large checkpoint (100)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="slots of the trial (1 2)")
    parser.add_argument("--trials", type=int, default=100, help="trials of a search in quarters of a slot (100)")
    parser.add_argument("--patience", type=float, help="seconds of patience of the engines (their own: 10)")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Shares by weights, and seconds of making room by size, slots and whose search the other one is."""
    program = engines.PROGRAM if options.patience is None else ("-c", HASTY.format(patience=options.patience))
    before = os.getloadavg()[0]
    with _own_slots():
        shares = {f"{weight:g}:1": _shares(weight, options.minutes, program) for weight in options.weights}
        room = {name: one for ranks in options.ranks for name, one in _rooms(ranks, options, program).items()}
        parts = _parts(options.trials, options.rounds, program)
    return {
        "unit": "s",
        "slots": len(cores()),
        "patience": sharing.PATIENCE_S if options.patience is None else options.patience,
        "load_before": before,
        "load_after": os.getloadavg()[0],
        "shares": shares,
        "room": room,
        "parts": parts,
    }


@contextlib.contextmanager
def _own_slots() -> Iterator[None]:
    name = "XDG_RUNTIME_DIR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


@contextlib.contextmanager
def _few_slots(count: int) -> Iterator[None]:
    """All slots but ``count`` are out of use."""
    names = cores()[count:]
    for name in names:
        drain(name)
    try:
        yield
    finally:
        for name in names:
            use_again(name)


# ---------------------------------------------------------------------------------------------------------------------
# Shares


def _shares(weight: float, minutes: float, program: Sequence[str]) -> dict[str, Any]:
    """What the second search had, of this weight; the first one's is 1."""
    count = len(cores())
    with engines.engine(count, program) as first, engines.engine(count, program) as second:
        stores = (first, second)
        for store in stores:
            engines.warm(store)
        specs = [
            engines.spec(WAITS, store, ENDLESS, trials=2 * count, weight=each)
            for store, each in zip(stores, (1.0, weight), strict=True)
        ]
        _request(first, specs[0])
        engines.until(lambda: len({trial for trial, _, _ in _points(first, specs[0])}) == count, PATIENCE_S)
        _request(second, specs[1])
        begun = time.time()
        held = _held(minutes)
        seconds = time.time() - begun
        pairs = list(zip(stores, specs, strict=True))
        ats = [[at - begun for _, _, at in _points(*pair) if begun <= at < begun + seconds] for pair in pairs]
        asked = [len(_asked(*pair)) for pair in pairs]
    steps = [[sum(int(at // 60) == minute for at in one) for minute in range(len(held))] for one in ats]
    return {
        "expected": weight / (weight + 1),
        "held": _part(sum(held, Counter()), second),
        "held_by_minute": [_part(one, second) for one in held],
        "steps": len(ats[1]) / sum(map(len, ats)),
        "steps_by_minute": [mine / max(1, mine + others) for others, mine in zip(*steps, strict=True)],
        "used": sum(map(len, ats)) * STEP_S / (seconds * count),
        "asked": sum(asked),
    }


def _held(minutes: float) -> list[Counter[str]]:
    """Slot-seconds by store, in each of the next minutes."""
    found: list[Counter[str]] = []
    begun = last = time.monotonic()
    while (now := time.monotonic()) < begun + minutes * 60:
        if len(found) <= (now - begun) // 60:
            found.append(Counter())
        for one in holders():
            found[-1][one.store] += now - last  # type: ignore[assignment]
        last = now
        time.sleep(LOOK_S)
    return found


def _part(held: Counter[str], store: Store) -> float:
    return round(held[str(store.root)] / (sum(held.values()) or 1), 3)


# ---------------------------------------------------------------------------------------------------------------------
# Room


def _rooms(ranks: int, options: argparse.Namespace, program: Sequence[str]) -> dict[str, Any]:
    """Making room on so many slots, by size and whose search the other one is. Two engines serve for all."""
    sizes = {"small": 64, f"{options.mb:g} MB": int((options.mb * 1e6 / 4) ** 0.5)}
    slots = f"{ranks} slot{'s' * (ranks > 1)}"
    with _few_slots(ranks), engines.engine(ranks, program) as mine, engines.engine(ranks, program) as other:
        for store in (mine, other):
            engines.warm(store, AHEAD)
        return {
            f"{name}, {slots}, {whose}": _room(width, ranks, mine, its, options.rounds)
            for name, width in sizes.items()
            for whose, its in (("same engine", mine), ("another engine", other))
        }


def _room(width: int, ranks: int, mine: Store, other: Store, rounds: int) -> dict[str, Any]:
    """Stages of making room for searches of ``other``, over some rounds."""
    found: dict[str, list[float]] = {}
    source = TRAINS.replace("WIDTH", str(width))
    one = engines.spec(source, mine, ENDLESS, trials=1, slots=ranks, preload=AHEAD)
    _request(mine, one)
    for number in range(rounds):
        known = len(_points(mine, one))
        engines.until(partial(_goes_on, mine, one, known + 5), PATIENCE_S)
        for name, seconds in _taken(mine, one, other, number).items():
            found.setdefault(name, []).append(seconds)
    ats = [at for _, _, at in _points(mine, one)]
    saved = [leg["detail"]["saved"] for leg in engines.legs(mine, one) if leg["detail"].get("saved")]
    requests.put(mine, {"kind": "stop", "experiment": one.id})
    engines.until(lambda: engines.state(mine, one) in ENDED, PATIENCE_S)
    return {
        **{name: engines.spread(values) for name, values in found.items()},
        "step": statistics.median(after - before for before, after in pairwise(ats)),
        "checkpoint_mb": max((one["bytes"] for one in saved), default=0) / 1e6,
    }


def _goes_on(store: Store, one: Spec, count: int) -> bool:
    return len(_points(store, one)) > count


def _taken(mine: Store, one: Spec, other: Store, number: int) -> dict[str, float]:
    """A search of higher priority comes, trains for two seconds and ends: the stages of that, in seconds."""
    guest = engines.spec(WAITS, other, Scheduler("all", 20, 20), trials=1, priority=1, seed=number)
    requested = time.time()
    engines.run(other, guest, PATIENCE_S)
    asked = engines.seconds(_asked(mine, one)[number])
    left = _legs(mine, one)[number]
    (there,) = _legs(other, guest)

    def again() -> list[tuple[int, int, float]]:
        return [point for point in _points(mine, one) if point[1] > left["step"] and point[2] > there["left"]]

    engines.until(again, PATIENCE_S)
    engines.until(lambda: len(_legs(mine, one)) > number + 1 and _legs(mine, one)[number + 1]["began"], PATIENCE_S)
    return {
        "asked": asked - requested,
        "preempt": there["began"] - asked,
        "left": left["left"] - asked,
        "resume": min(at for _, _, at in again()) - there["left"],
        "began": _legs(mine, one)[number + 1]["began"] - there["left"],
    }


# ---------------------------------------------------------------------------------------------------------------------
# Parts


def _parts(trials: int, rounds: int, program: Sequence[str]) -> dict[str, Any]:
    """What a search of trials that wait, and one of trials without work, take in whole slots and in quarters."""
    found: dict[str, dict[float, list[float]]] = {"waits": {1: [], QUARTER: []}, "empty": {1: [], QUARTER: []}}
    sources = {"waits": (WAITS, Scheduler("all", 5, 5)), "empty": (EMPTY, Scheduler("all", 1, 1))}
    with _few_slots(1), engines.engine(1, program) as store:
        engines.warm(store)
        for number in range(rounds):
            for name, (source, length) in sources.items():
                # Whichever is first in a round is second in the next: the load of a shared machine drifts.
                for slots in (1, QUARTER) if number % 2 == 0 else (QUARTER, 1):
                    one = engines.spec(source, store, length, trials=trials, slots=slots, verify=False)
                    found[name][slots].append(engines.run(store, one, PATIENCE_S))
    waits = {slots: statistics.median(values) for slots, values in found["waits"].items()}
    empty = {slots: statistics.median(values) * 1000 / trials for slots, values in found["empty"].items()}
    return {
        "waits": {"whole": waits[1], "quarter": waits[QUARTER], "gain": waits[1] / waits[QUARTER]},
        "empty": {"unit": "ms", "whole": empty[1], "quarter": empty[QUARTER], "ratio": empty[QUARTER] / empty[1]},
    }


def _request(store: Store, one: Spec) -> None:
    store.write_spec(one)
    requests.put(store, {"kind": "start", "experiment": one.id})


def _asked(store: Store, one: Spec) -> list[dict[str, Any]]:
    return [line for line in engines.lines(store, one) if line["kind"] == "RoomAsked"]


def _legs(store: Store, one: Spec) -> list[dict[str, Any]]:
    return sorted(engines.legs(store, one), key=lambda leg: int(leg["attempt"]))


def _points(store: Store, one: Spec) -> list[tuple[int, int, float]]:
    """Trial, step and time of each report, by time."""
    path = store.experiment(one.id).series
    if not path.exists():
        return []
    with Series.read(path) as series:
        found = [(int(row[0]), int(row[2]), float(row[5])) for row in series.points(names=["score"])]
    return sorted(found, key=lambda point: point[2])
