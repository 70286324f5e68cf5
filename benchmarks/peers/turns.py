"""Runs the peers in turns. Law: each run is a process of its own, and its lines alone say how long what took."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import signal
import statistics
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers import reading, work
from benchmarks.peers.running import Failed, ran, ran_and_killed

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Peer:
    """A column. module: of this package. place: the folder of its environment; empty for Workbench's own."""

    title: str
    module: str
    place: str = ".venv-peers"

    @property
    def python(self) -> str:
        """The interpreter that runs it."""
        return str(ROOT / self.place / "bin" / "python") if self.place else sys.executable


PEERS = {
    "ours": Peer("Workbench", "ours", ""),
    "ray": Peer("Ray Tune", "ray_tune"),
    "optuna": Peer("Optuna, journal", "optuna_journal"),
    "optuna-dask": Peer("Optuna, Dask", "optuna_dask"),
    "dask-ml": Peer("dask-ml", "dask_ml_search", ".venv-peers-dask-ml"),
    "syne": Peer("Syne Tune", "syne"),
    "dask": Peer("bare Dask", "futures"),
    "processes": Peer("two bare processes", "processes"),
}
#: Measurements by the word that chooses them; those after a dash are Workbench's alone.
MEASUREMENTS = {
    "trial": ("trial", "trial-stopping", "trial-module"),
    "start": ("start", "start-warm"),
    "digits": ("digits", "digits-again"),
    "stop": ("stop",),
    "recovery": ("recovery", "recovery-worker"),
}
#: Cells that cannot be measured, with the reason.
NOT = {
    ("dask-ml", "stop"): "it halves a whole rung at once; no trial is stopped at a report of its own",
    ("optuna-dask", "recovery"): "this storage has no heartbeat: the trial stays “running”, and others replace it",
    ("syne", "recovery"): "a trial whose process was killed has failed, and is not tried again",
    ("processes", "recovery"): "nothing watches them",
}
#: Fewer trials, and one run of each cell, where a process for each trial would take a quarter of an hour.
FEWER_TRIALS = {("syne", "trial"): 10, ("syne", "stop"): 10}
ONE_RUN = {"syne"}
#: Seconds after which a run has failed.
LIMIT_S = 300.0
#: Seconds for a trial to be half trained, and then to be trained again.
KILLED_LIMIT_S = 60.0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All cells, and the machine, the versions and the date."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the peer under way ends too
    load = os.getloadavg()[0]
    peers = [name for name in PEERS if options.peers is None or name in options.peers]
    chosen = options.only or [*MEASUREMENTS, "ours"]
    names = [name for word in chosen for name in MEASUREMENTS.get(word, ())]
    cells: dict[str, dict[str, Any]] = {name: {} for name in names}
    versions: dict[str, str] = {}
    for name in names:
        for turn in range(options.repeats):
            for peer in peers:
                _turn(name, peer, turn, options.scale, cells[name], versions)
    if "ours" in chosen and "ours" in peers:
        cells["ours"] = {"ours": _ours(options.repeats)}
    return {
        "cells": {name: {peer: _summary(cell) for peer, cell in each.items()} for name, each in cells.items()},
        "repeats": options.repeats,
        "scale": options.scale,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "cpu": _cpu(),
        "load_before": load,
        "versions": {"Python": platform.python_version(), "torch": version("torch"), **versions},
    }


def _turn(name: str, peer: str, turn: int, scale: float, cells: dict[str, Any], versions: dict[str, str]) -> None:
    """One run of one cell. A cell that has failed is not run again."""
    base, _, variant = name.partition("-")
    cell = cells.setdefault(peer, {"runs": []}) if peer == "ours" or not variant else None
    if cell is None or "reason" in cell or (turn and peer in ONE_RUN):
        return
    if reason := NOT.get((peer, base)):
        cell["reason"] = reason
        return
    cell["trials"] = trials = max(2, round(FEWER_TRIALS.get((peer, base), work.TRIALS[base]) * scale))
    one = PEERS[peer]
    try:
        if base == "recovery":
            cell["runs"].append(ran_and_killed(one.python, one.module, name, trials, KILLED_LIMIT_S))
        else:
            done = ran(one.python, one.module, name, trials, LIMIT_S)
            versions.update(done.versions)
            cell["runs"].append(_values(base, done.lines, trials, done.launched))
    except (Failed, ValueError, StopIteration, IndexError) as failed:
        cell["reason"] = str(failed) or "it trained nothing"
    told = cell.get("reason") or ", ".join(f"{key} {value:.3g}" for key, value in cell["runs"][-1].items())
    print(f"{name}, {one.title}: {told}", file=sys.stderr, flush=True)


def _values(base: str, lines: reading.Lines, trials: int, launched: float) -> reading.Values:
    if base == "trial":
        return reading.cost(lines, trials)
    if base == "start":
        return reading.first(lines, trials, launched)
    return reading.whole(lines, trials, launched) if base == "digits" else reading.stop(lines, trials)


def _ours(repeats: int) -> dict[str, Any]:
    """Workbench alone: milliseconds until a small checkpoint is shown, and beside bare files; percent of slowing."""
    import tempfile

    from benchmarks import report, store
    from workbench.store import Store

    # This one is the median of three pairs already.
    slowed = report.measure(argparse.Namespace(turns=200))["slowed_at_100_points_a_second_percent"]
    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            found = store.checkpoints(Store(Path(folder) / "store").create())
        runs.append({"ms": found["publish_ms"], "bare_ms": found["publish_bare_ms"], "percent": slowed})
    print(f"checkpoint and points: {json.dumps(runs[-1])}", file=sys.stderr, flush=True)
    return {"runs": runs}


def _summary(cell: dict[str, Any]) -> dict[str, Any]:
    runs = cell.pop("runs")
    if not runs or "reason" in cell:
        return cell
    by_name = {name: [run[name] for run in runs] for name in runs[0]}
    return {
        **cell,
        **{
            name: {"median": statistics.median(values), "worst": max(values), "values": values}
            for name, values in by_name.items()
        },
    }


def _cpu() -> str:
    """The processor's name, where Linux tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    return next((line.partition(": ")[2] for line in text.splitlines() if line.startswith("model name")), "")
