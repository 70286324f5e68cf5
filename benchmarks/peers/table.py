"""The cells as a table of Markdown. Law: a cell without a figure is a dash, and its reason is below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.turns import PEERS
from benchmarks.peers.work import STOP_STEP_S, TRIALS, R

Cell = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """what: the first column. name: of the measurement. text: of a cell that has figures."""

    what: str
    name: str
    text: Callable[[Cell], str]


def _ms(cell: Cell) -> str:
    value = cell["ms"]["median"]
    return f"{value:.2f} ms" if value < 1 else f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"


def _s(cell: Cell) -> str:
    value = cell["s"]["median"]
    return f"{value:.2f} s" if value < 2 else f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def _steps(cell: Cell) -> str:
    return f"{cell['steps']['median']:,.0f} steps"


ROWS = (
    Row("cost of a trial; steps run", "trial", lambda cell: f"{_ms(cell)}; {_steps(cell)}"),
    Row("the same, stopping ASHA", "trial-stopping", lambda cell: f"{_ms(cell)}; {_steps(cell)}"),
    Row(
        "the same, the cell imports a module of the project",
        "trial-module",
        lambda cell: f"{_ms(cell)}; {_steps(cell)}",
    ),
    Row("process start to first report", "start", _s),
    Row("the same, an engine runs", "start-warm", _s),
    Row("digits, launch to end; steps run", "digits", lambda cell: f"{_s(cell)}; {_steps(cell)}"),
    Row("the same, an engine has run it before", "digits-again", lambda cell: f"{_s(cell)}; {_steps(cell)}"),
    Row("stop at a report to the next trial's first line", "stop", _ms),
    Row("steps that a stopped trial runs too many", "stop", lambda cell: f"{cell['too_many']['median']:g}"),
    Row("`kill -9` of what trains, to training again", "recovery", _s),
    Row("epochs trained twice", "recovery", lambda cell: f"{cell['twice']['median']:g}"),
    Row("the same, its Dask worker killed", "recovery-worker", _s),
    Row("epochs trained twice", "recovery-worker", lambda cell: f"{cell['twice']['median']:g}"),
    Row(
        "a small checkpoint shown; bare files", "ours", lambda cell: f"{_ms(cell)}; {cell['bare_ms']['median']:.2f} ms"
    ),
    Row("training slowed by 100 points a second", "ours", lambda cell: f"{cell['percent']['median']:.1f} %"),
)
#: Peers whose ASHA is not by promotion.
KIND = {
    "ray": "stopping",
    "optuna": "stopping",
    "optuna-dask": "stopping",
    "dask-ml": "synchronous",
    "syne": "stopping",
    "dask": "promotion",
    "processes": "promotion",
    "ours": "promotion",
}


def lines(measured: dict[str, Any]) -> list[str]:
    """The table, the reasons of its dashes, and what it was measured on."""
    cells = measured["cells"]
    peers = [name for name in PEERS if any(name in each for each in cells.values())]
    out = [
        f"| two workers, one thread each | {' | '.join(PEERS[peer].title for peer in peers)} |",
        f"|---|{'---|' * len(peers)}",
        f"| its successive halving | {' | '.join(KIND[peer] for peer in peers)} |",
    ]
    reasons: dict[str, None] = {}
    for row in ROWS:
        if row.name not in cells:
            continue
        texts = []
        for peer in peers:
            cell = cells[row.name].get(peer)
            if cell is None:
                texts.append("")
            elif "reason" in cell:
                reasons[f"{PEERS[peer].title}, {row.name}: {cell['reason']}."] = None
                texts.append("–")
            else:
                fewer = cell.get("trials", 0) < round(TRIALS.get(row.name, 0) * measured["scale"])
                texts.append(row.text(cell) + (f" ({cell['trials']} trials)" if fewer else ""))
        out.append(f"| {row.what} | {' | '.join(texts)} |")
    return [*out, "", *reasons, *([""] if reasons else []), *_foot(measured)]


def _foot(measured: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in measured["versions"].items())
    runs = f"{measured['repeats']} runs" if measured["repeats"] > 1 else "1 run"
    share = "" if measured["scale"] == 1 else f" Only a share of {measured['scale']:g} of the trials was run."
    measured_on = (
        f"Medians of {runs}, peers in turns, {measured['date']}; {measured['cores']} cores ({measured['cpu']}), "
        f"{measured['memory_gb']} GB, no GPU, load {measured['load_before']:.1f} before "
        f"(Syne Tune: one run).{share} {versions}."
    )
    meaning = (
        f"Successive halving with R={R}, η=3 everywhere. Cost of a trial: {TRIALS['trial']} trials without work, from "
        "the first report to the last, divided by the trials. Process start: from the launch of the interpreter. "
        f"Digits: {TRIALS['digits']} configurations of an MLP on scikit-learn's digits, from the launch of the "
        f"interpreter until the search has returned. Stop: steps of {STOP_STEP_S * 1e3:g} ms; where trials are "
        "promoted, the end of a leg instead of a stop (Workbench stops here). All figures come from lines with the "
        "time that every training function appends."
    )
    return [measured_on, "", meaning]
