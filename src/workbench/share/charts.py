"""The charts of a published page, as plain data for Plotly. Law: they show what the panel's tabs of the same names do,
in the colours of the cell's figure; text from training is escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.records.names import trial_label
from workbench.status.board import Board, number
from workbench.status.figure import CLEAR, FONT, GRID, INK, OUT, mixed, number_of, ranking
from workbench.store.files.samples import MEASURES
from workbench.store.lists import system
from workbench.store.lists.glance import Glance
from workbench.store.lists.ladder import ladder
from workbench.store.lists.levels import Level, levels

#: Metrics and hyperparameters with a chart of their own, and points in all curves of one metric.
MOST_CHARTS, POINTS = 24, 5_000
#: Pixels.
HEIGHT, SMALL = 380, 240
#: Of so many different values each has its words on an axis; where a missing one is, below the lowest.
MOST_TICKS, NOT_SET = 6, -0.15

Figure = dict[str, Any]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """A part of the page. title: its heading. words: what it shows, one sentence. figures: from left to right."""

    title: str
    words: str
    figures: Sequence[Figure]


def charts(board: Board) -> Iterator[Chart]:
    """All that have something to show. ``board`` has read everything; its metric is the goal's again afterwards."""
    told = ladder(board.store, board.spec.id)["ladder"]
    reached = [level for level in levels(board.store, board.spec.id) if level.values]
    rank = ranking(board)
    if len(board.names) > 1:
        yield Chart("Every metric", "One chart for each metric that was reported.", list(_metrics(board, rank)))
    if used := list(_used(board, rank)):
        yield Chart("What trials used", "What the processes of each trial used, from its start.", used)
    if any(len(bracket["rungs"]) > 1 for bracket in told["brackets"]):
        yield Chart(
            "Ladder",
            "The values at each rung, where the search compares trials; grey: stopped there.",
            list(_ladder(board, told, rank)),
        )
    if not reached or not board.parameters:
        return
    level = max(reached, key=lambda one: (len(one.values) > 1, one.step))
    at = f"of the {len(level.values)} trials that were compared at step {level.step}"
    yield Chart("Slices", f"The goal against each hyperparameter, {at}.", list(_slices(board, level, rank)))
    if len(level.values) > 1:
        words = f"Hyperparameters and goal {at}: a line for each trial."
        yield Chart("Parallel", words, [_parallel(board, level, rank)])


def _metrics(board: Board, rank: Callable[[Any], float]) -> Iterator[Figure]:
    goal = board.metric
    try:
        for name in board.names[:MOST_CHARTS]:
            board.choose(name)
            budget = max(6, POINTS // max(1, len(board.curves)))
            traces = []
            for trial, curve in board.curves.items():
                x, y = curve.thinned(budget)
                traces.append(
                    _trace(
                        [*map(number_of, x)], [*map(number_of, y)], _colour(board, trial, rank), mode="lines+markers"
                    )
                    | {"hovertemplate": f"{_name(trial)}<br>%{{y:.6~g}} at step %{{x}}<extra></extra>"}
                )
            yield _figure(traces, name, "step", SMALL)
    finally:
        board.choose(goal)


def _used(board: Board, rank: Callable[[Any], float]) -> Iterator[Figure]:
    path = board.store.experiment(board.spec.id).series
    if not path.exists():
        return  # no engine has begun it
    with Glance(path) as glance:
        for name in system.names(glance):
            measure, curves, traces = MEASURES[name], system.curves(glance, name), []
            every = -(-sum(len(xs) for xs, _ in curves.values()) // POINTS)
            unit = f"{measure.unit} after %{{x:.0f}} s"
            for trial, (xs, ys) in curves.items():
                values = [number_of(value * measure.scale) for value in ys[::every]]
                style = _trace([*map(number_of, xs[::every])], values, _colour(board, trial, rank), mode="lines")
                traces.append(style | {"hovertemplate": f"{_name(trial)}<br>%{{y:.4~g}} {unit}<extra></extra>"})
            yield _figure(traces, f"{measure.title} ({measure.unit})", "seconds", SMALL)


def _ladder(board: Board, told: Row, rank: Callable[[Any], float]) -> Iterator[Figure]:
    for place, bracket in enumerate(told["brackets"]):
        mine = [trial for trial in told["trials"] if trial["bracket"] == place]
        steps = {rung["step"]: at for at, rung in enumerate(bracket["rungs"])}
        traces = []
        for trial in mine:
            entries = [entry for entry in trial["entries"] if entry["step"] in steps and _is_number(entry["value"])]
            if entries:
                fate = entries[-1]["reason"] or entries[-1]["fate"]
                traces.append(
                    _trace(
                        [steps[entry["step"]] for entry in entries],
                        [number_of(entry["value"]) for entry in entries],
                        _colour(board, trial["trial"], rank),
                        mode="lines+markers",
                    )
                    | {"hovertemplate": f"{_name(trial['trial'])}<br>%{{y:.6~g}}<br>{_text(fate)}<extra></extra>"}
                )
        if traces:
            title = f"bracket {bracket['bracket']}" if len(told["brackets"]) > 1 else ""
            figure = _figure(traces, board.metric, f"rung at step ({title})" if title else "rung at step", SMALL)
            ticks = {"tickvals": [*steps.values()], "ticktext": [*map(str, steps)]}
            figure["layout"]["xaxis"] |= {**ticks, "range": [-0.3, len(steps) - 0.7]}
            yield figure


def _slices(board: Board, level: Level, rank: Callable[[Any], float]) -> Iterator[Figure]:
    logarithmic = _logarithmic(board)
    for name in board.parameters[:MOST_CHARTS]:
        rows = [(trial, _value(board, trial, name)) for trial in level.values]
        rows = [(trial, value) for trial, value in rows if value is not None]
        if not rows:
            continue
        trace = _trace(
            [value if _is_number(value) else _text(value) for _, value in rows],
            [number_of(level.values[trial]) for trial, _ in rows],
            OUT,
            mode="markers",
        )
        trace["marker"] = {"size": 7, "color": [_colour(board, trial, rank) for trial, _ in rows]}
        trace["text"] = [_name(trial) for trial, _ in rows]
        trace["hovertemplate"] = "%{text}<br>%{x}<br>%{y:.6~g}<extra></extra>"
        figure = _figure([trace], board.metric, name, SMALL)
        if not all(_is_number(value) for _, value in rows):
            figure["layout"]["xaxis"]["type"] = "category"
        elif name in logarithmic:
            figure["layout"]["xaxis"]["type"] = "log"
        yield figure


def _parallel(board: Board, level: Level, rank: Callable[[Any], float]) -> Figure:
    """A line for each trial, across one axis for each hyperparameter and one for the goal, each from its lowest to its
    highest value. Plotly's own kind of such a chart needs WebGL, which not every browser has."""
    trials, logarithmic = list(level.values), _logarithmic(board)
    axes = [
        _Axis.of(name, [_value(board, trial, name) for trial in trials], is_log=name in logarithmic)
        for name in board.parameters
    ]
    axes.append(_Axis.of(board.metric, list(level.values.values())))
    traces = [
        _trace([*range(len(axes))], [axis.heights[at] for axis in axes], mode="lines+markers", colour=colour)
        | {"hovertemplate": f"{_name(trial)}<br>%{{text}}<extra></extra>", "text": [axis.words[at] for axis in axes]}
        for at, (trial, colour) in enumerate((trial, _colour(board, trial, rank)) for trial in trials)
    ]
    figure = _figure(traces, "", "", HEIGHT)
    layout = figure["layout"]
    layout["xaxis"] |= {"tickvals": [*range(len(axes))], "ticktext": [f"<b>{axis.label}</b>" for axis in axes]}
    layout["yaxis"] |= {"visible": False, "range": [-0.2, 1.1]}
    layout["annotations"] = [
        {"x": at, "y": height, "text": words, "showarrow": False, "xanchor": "left", "xshift": 6, "font": {"size": 11}}
        for at, axis in enumerate(axes)
        for height, words in axis.ticks.items()
    ]
    return figure


@dataclass(frozen=True, slots=True)
class _Axis:
    """heights: where each trial's value is, 0 to 1; below 0 if it has none. ticks: words by height."""

    label: str
    heights: list[float]
    words: list[str]
    ticks: dict[float, str]

    @classmethod
    def of(cls, name: str, values: list[Any], *, is_log: bool = False) -> _Axis:
        there = [value for value in values if value is not None]
        options = list(dict.fromkeys(map(str, there)))

        def place(value: Any) -> float:
            return float(options.index(str(value)))

        read: Callable[[Any], float] = place
        if there and all(map(_is_number, there)):
            read = math.log10 if is_log and min(there) > 0 else float
        low, high = (min(map(read, there)), max(map(read, there))) if there else (0.0, 0.0)

        def height(value: Any) -> float:
            return NOT_SET if value is None else (read(value) - low) / (high - low) if high > low else 0.5

        words = [f"{_text(name)} = {_text(number(value))}" for value in values]
        shown = there if len(options) <= MOST_TICKS else [min(there, key=read), max(there, key=read)]
        ticks = {height(value): _text(number(value)) for value in shown}
        if len(there) < len(values):
            ticks[NOT_SET] = "not set"
        return cls(_text(name), [height(value) for value in values], words, ticks)


# ---------------------------------------------------------------------------------------------------------------------
# Parts of a figure


def _figure(traces: list[Figure], y: str, x: str, height: int) -> Figure:
    axis = {"gridcolor": GRID, "zeroline": False, "linecolor": GRID, "automargin": True}
    return {
        "data": traces,
        "layout": {
            "font": {"family": FONT, "size": 12, "color": INK},
            "paper_bgcolor": CLEAR,
            "plot_bgcolor": CLEAR,
            "height": height,
            "margin": {"l": 50, "r": 10, "t": 10, "b": 40},
            "hovermode": "closest",
            "showlegend": False,
            "xaxis": {**axis, "title": {"text": _text(x)}},
            "yaxis": {**axis, "title": {"text": _text(y)}},
        },
    }


def _trace(x: Sequence[Any], y: Sequence[Any], colour: str, mode: str) -> Figure:
    style = {"line": {"color": colour, "width": 1.5}, "marker": {"color": colour, "size": 4}}
    return {"type": "scatter", "mode": mode, "x": list(x), "y": list(y), **style}


def _colour(board: Board, trial: int, rank: Callable[[Any], float]) -> str:
    row = board.trials.get(trial) or {}
    best = board.status.best
    is_out = row.get("state") in ("stopped", "failed") and not (best is not None and best.trial == trial)
    return OUT if is_out else mixed(rank(row.get("value")))


def _value(board: Board, trial: int, name: str) -> Any:
    return ((board.trials.get(trial) or {}).get("configuration") or {}).get(name)


def _logarithmic(board: Board) -> set[str]:
    return {form["name"] for form in board.spec.space["parameters"] if form.get("kind") == "loguniform"}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _name(trial: int) -> str:
    return trial_label(trial)


def _text(value: Any) -> str:
    """For Plotly, which treats text as markup and ``%{…}`` as a place for a value."""
    return html.escape(str(value)).replace("%{", "%&#123;")
