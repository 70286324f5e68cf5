"""The figure that stays in the notebook when an experiment has ended. Law: it needs no kernel and no network."""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.records import ENDED
from workbench.records.names import trial_label
from workbench.status.board import Board, configured, duration, number, sentence
from workbench.store.lists import outcome

PLOTLY = "application/vnd.plotly.v1+json"
#: Points in the figure, shared by all curves: about half a megabyte of notebook at most.
POINTS = 20_000
#: More stopped trials than this share one trace without a text for each.
SINGLE = 150

#: From the worst to the best: that part of viridis which has a contrast of 3 to 1 and more on white and on #111111, the
#: dark page of JupyterLab. A saved figure does not know on which page it will be seen.
VIRIDIS = ("#22a884", "#1f988b", "#23888e", "#2a788e", "#31688e")
OUT = "#8f949b"
#: Ink with a contrast of about 4.3 to 1 on either page.
INK = "#787c83"
#: Lines that are faint on either page: for Plotly, and as parts of 1 for matplotlib.
GRID, FAINT = "rgba(128,128,128,0.28)", (0.5, 0.5, 0.5, 0.28)
#: No background: the page's own.
CLEAR = "rgba(0,0,0,0)"
#: Without the button that uploads the figure to a service.
CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["sendChartToCloud"]}
FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Line:
    """One curve, ready to be drawn. rank: 0 (worst) to 1 (best), or None for a trial that was stopped or failed."""

    trial: dict[str, Any]
    x: list[float]
    y: list[float]
    rank: float | None
    best: bool

    @property
    def alone(self) -> list[bool]:
        """Whether each point is between two gaps: no line reaches it, and it is seen only if it is a dot."""
        has = [False, *map(math.isfinite, self.y), False]
        return [has[k] and not has[k - 1] and not has[k + 1] for k in range(1, len(has) - 1)]

    @property
    def colour(self) -> str:
        """Grey for stopped trials; otherwise by rank."""
        return OUT if self.rank is None else mixed(self.rank)

    @property
    def width(self) -> float:
        """Trials that trained to the end are emphasised, the best one most."""
        return 3.2 if self.best else 1.0 if self.rank is None else 2.0 if self.trial["state"] == "completed" else 1.5


def bundle(board: Board) -> dict[str, Any]:
    """The figure for every kind of viewer: interactive, as a picture, and as one line of text."""
    return {
        PLOTLY: plotly(board),
        "image/png": base64.b64encode(png(board)).decode("ascii"),
        "text/plain": sentence(board),
    }


def lines(board: Board) -> Iterator[Line]:
    """The curves, those to be drawn on top last."""
    rank = ranking(board)
    budget = max(6, POINTS // max(1, len(board.curves)))
    status = board.status
    best = status.best.trial if status.best else None
    found = []
    for trial, curve in board.curves.items():
        row = board.trials.get(trial) or {"number": trial, "state": "running", "configuration": {}, "value": None}
        is_out = row["state"] in ("stopped", "failed")
        x, y = curve.thinned(budget)
        found.append(Line(row, x, y, None if is_out and trial != best else rank(row.get("value")), trial == best))
    yield from sorted(found, key=lambda line: (line.best, line.rank is not None, line.rank or 0, line.trial["number"]))


def ranking(board: Board) -> Callable[[Any], float]:
    """A value's place between worse (0) and better (1). The worst tenth shares one end, so that one bad trial does not
    make all others look alike; as in the panel and the live view."""
    found = (row.get("value") for row in board.trials.values())
    values = sorted(value for value in found if value is not None and math.isfinite(value))
    if not values:
        return lambda _: 0.5
    tenth = (len(values) - 1) // 10
    worst, best = (values[tenth], values[-1]) if board.spec.goal.mode == "max" else (values[-1 - tenth], values[0])

    def rank(value: Any) -> float:
        if value is None or not math.isfinite(value):
            return 0.0
        return 1.0 if worst == best else min(max((value - worst) / (best - worst), 0.0), 1.0)

    return rank


def mixed(t: float) -> str:
    """The colour at ``t`` between 0 and 1."""
    at = min(max(t, 0.0), 1.0) * (len(VIRIDIS) - 1)
    i = min(int(at), len(VIRIDIS) - 2)
    parts = []
    for k in (1, 3, 5):
        low, high = int(VIRIDIS[i][k : k + 2], 16), int(VIRIDIS[i + 1][k : k + 2], 16)
        parts.append(round(low * (1 - at + i) + high * (at - i)))
    return "#{:02x}{:02x}{:02x}".format(*parts)


def heading(board: Board) -> tuple[str, str]:
    """The figure's title, and one line below it, or two if there are notes."""
    title = board.label
    counts = {
        state: sum(row["state"] == state for row in board.trials.values())
        for state in ("completed", "stopped", "failed")
    }
    told = [f"{len(board.trials)} trial{'s' * (len(board.trials) != 1)}"]
    told += [f"{count} {state}" for state, count in counts.items() if count]
    if board.diverged_trials:
        told.append(f"{board.diverged_trials} diverged")
    if board.seconds is not None:
        told.append(duration(board.seconds))
    status = board.status
    if status.state != "completed":
        told.insert(0, status.state)
    if status.best is not None:
        best = status.best
        title += f"   best {board.spec.goal.metric} {best.words(number)}"
        configuration = configured(board.trials.get(best.trial, {}).get("configuration"))
        told.insert(0, f"{trial_label(best.trial)}  {configuration}".rstrip())
    more = [*outcome.told(board.outcome).values(), board.checked]
    # The line above already counts failures; this one says why.
    return title, "\n".join("   ·   ".join(words) for words in (told, [one for one in more if one]) if words)


# ---------------------------------------------------------------------------------------------------------------------
# Plotly's figure, as plain data


def plotly(board: Board) -> dict[str, Any]:
    """The interactive figure. Names given by users and training code are escaped: Plotly treats text as markup."""
    drawn = list(lines(board))
    single = sum(line.rank is None for line in drawn) <= SINGLE
    traces: list[dict[str, Any]] = []
    if not single:
        merged: dict[str, list[float | None]] = {"x": [], "y": []}
        alone: list[bool] = []
        for line in drawn:
            if line.rank is None:
                merged["x"] += [*map(number_of, line.x), None]
                merged["y"] += [*map(number_of, line.y), None]
                alone += [*line.alone, False]
        traces.append(_trace(merged["x"], merged["y"], OUT, 1.0, "lines", alone) | {"hoverinfo": "skip"})
    for line in drawn:
        if line.rank is None and not single:
            continue
        mode = "lines+markers" if len(line.x) == 1 or line.trial["state"] not in ENDED else "lines"
        x, y = [number_of(x) for x in line.x], [number_of(y) for y in line.y]
        trace = _trace(x, y, line.colour, line.width, mode, line.alone)
        trace["name"] = trial_label(line.trial["number"])
        trace["hovertemplate"] = _hover(board, line)
        traces.append(trace)
    title, below = heading(board)
    small = html.escape(below).replace("\n", "<br>")
    axis = {
        "gridcolor": GRID,
        "zeroline": False,
        "linecolor": GRID,
        "ticks": "outside",
        "tickcolor": GRID,
        "automargin": True,
    }
    layout = {
        "title": {
            "text": f"{html.escape(title)}<br><span style='font-size:12px;color:{INK}'>{small}</span>",
            "x": 0.01,
            "xanchor": "left",
            "font": {"size": 16, "color": INK},
        },
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "height": 380,
        "margin": {"l": 60, "r": 20, "t": 70 + 16 * below.count("\n"), "b": 48},
        "hovermode": "closest",
        "showlegend": False,
        "xaxis": {**axis, "title": {"text": "step"}, "rangemode": "tozero"},
        "yaxis": {**axis, "title": {"text": html.escape(board.metric)}},
    }
    return {"data": traces, "layout": layout, "config": CONFIG}


def _trace(
    x: list[Any], y: list[Any], colour: str, width: float, mode: str, alone: Sequence[bool] = ()
) -> dict[str, Any]:
    """A curve. alone: which of its points are dots where its mode is "lines"."""
    marker: dict[str, Any] = {"color": colour, "size": 4}
    if mode == "lines" and any(alone):
        mode, marker["size"] = "lines+markers", [4 if dot else 0 for dot in alone]
    style = {"line": {"color": colour, "width": width}, "marker": marker}
    return {"type": "scatter", "mode": mode, "x": x, "y": y, "showlegend": False, "connectgaps": False, **style}


def _hover(board: Board, line: Line) -> str:
    row = line.trial
    words = [
        f"<b>{trial_label(row['number'])}</b>  {row['state']}",
        f"{html.escape(board.metric)} %{{y:.9~g}} at step %{{x}}",
    ]
    for name, value in (row.get("configuration") or {}).items():
        if value is not None:
            words.append(html.escape(f"{name} = {number(value)}").replace("%{", "%&#123;"))
    if row.get("reason"):
        words.append(f"<i>{html.escape(row['reason'])}</i>".replace("%{", "%&#123;"))
    return "<br>".join(words) + "<extra></extra>"


def number_of(value: float) -> float | None:
    """``value`` for JSON, short: a value that is not finite becomes a gap, and one that is not whole stays so."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.6g}")
    return short if short != int(short) or value == int(value) else float(f"{value:.9g}")


# ---------------------------------------------------------------------------------------------------------------------
# The picture


def png(board: Board) -> bytes:
    """The figure as a picture, for viewers without Plotly. It is drawn without pyplot, so it works in any thread."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=(8.4, 3.9), dpi=100, facecolor="none", layout=engine)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(facecolor="none")
    drawn = list(lines(board))
    segments = LineCollection(
        [list(zip(line.x, line.y, strict=True)) for line in drawn],
        colors=[line.colour for line in drawn],
        linewidths=[0.75 * line.width for line in drawn],
        capstyle="round",
        joinstyle="round",
    )
    axes.add_collection(segments)
    for line in drawn:
        dots = [(x, y) for x, y, alone in zip(line.x, line.y, line.alone, strict=True) if alone]
        if dots:
            axes.plot([x for x, _ in dots], [y for _, y in dots], "o", color=line.colour, markersize=2.5)
        if line.best or len(line.x) == 1 or line.trial["state"] == "completed":
            size = 5 if line.best else 2.5 if len(line.x) == 1 else 3.2
            axes.plot(line.x[-1:], line.y[-1:], "o", color=line.colour, markersize=size, clip_on=False, zorder=3)
    axes.autoscale_view()
    axes.set_xlim(left=0)
    axes.grid(color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(color=FAINT, labelcolor=INK, labelsize=8.5)
    axes.set_xlabel("step", color=INK, fontsize=9)
    axes.set_ylabel(plain_text(board.metric), color=INK, fontsize=9)
    title, below = heading(board)
    axes.set_title(
        plain_text(title), loc="left", color=INK, fontsize=12, fontweight="bold", pad=24 + 12 * below.count("\n")
    )
    below = "\n".join(line if len(line) <= 120 else line[:119] + "…" for line in below.splitlines())
    axes.annotate(
        plain_text(below), (0, 1), (0, 9), "axes fraction", textcoords="offset points", color=INK, fontsize=8.5
    )
    if not drawn:
        axes.text(
            0.5, 0.5, f"No {plain_text(board.metric)} was reported.", color=INK, ha="center", transform=axes.transAxes
        )
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def plain_text(text: str) -> str:
    """``text`` escaped so that matplotlib shows it literally: a dollar sign would start a formula."""
    return text.replace("$", r"\$")
