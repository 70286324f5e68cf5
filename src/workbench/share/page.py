"""The page of a published experiment: one self-contained HTML file. Law: what came from training is text in it."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from workbench.records import numbers
from workbench.records.names import trial_label
from workbench.records.texts import written
from workbench.share.charts import Chart, charts
from workbench.snapshot import read_snapshot
from workbench.snapshot.secrets.masking import masked
from workbench.standing import has_diverged
from workbench.status.board import Board, sentence
from workbench.status.figure import CONFIG, plotly
from workbench.store import Store

#: Trials in the page's table, the best first; the store beside it contains all.
MOST_ROWS = 500
_TABLES = ("Trials", "Training code", "Environment")

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } .soft { opacity: .7; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
pre { overflow: auto; padding: 1rem; border: 1px solid #8884; border-radius: 6px; font-size: 13px; }
.scroll { overflow-x: auto; } nav a { margin-right: 1rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr)); gap: .5rem; }
.charts.wide { grid-template-columns: 1fr; }
"""


def page(store: Store, experiment_id: str) -> str:
    """The page of one experiment, from a store whose secrets are masked."""
    from plotly.offline import get_plotlyjs

    board = Board(store, experiment_id)
    while board.look():
        pass
    spec = board.spec
    shown = [Chart("Curves", "", [plotly(board)]), *charts(board)]
    figures = [figure for chart in shown for figure in chart.figures]
    data = json.dumps(figures, allow_nan=False, default=str).replace("<", "\\u003c")
    parts = [
        f"<h1>{_text(board.label)}</h1>",
        f"<p>{_text(sentence(board))}</p>",
        f'<p class="soft">Published by Workbench. {_text(str(spec.goal))}; created {_text(spec.created)}.</p>',
        f"<nav>{''.join(_link(title) for title in (*(chart.title for chart in shown), *_TABLES))}</nav>",
        *_sections(shown),
        f'<h2 id="trials">Trials</h2>{_trials(board.ranked(), len(board.trials))}',
        f'<h2 id="training-code">Training code</h2><pre>{_text(masked(spec.program.source))}</pre>',
        f'<h2 id="environment">Environment</h2>{_environment(store, spec.snapshot)}',
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data: blob:\">"
        f"<title>{_text(board.label)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}"
        f"<script>{get_plotlyjs()}</script>"
        f"<script>const figures = {data}, config = {json.dumps(CONFIG)};"
        "figures.forEach(({ data, layout }, k) => Plotly.newPlot(`figure-${k}`, data, layout, config));</script>"
        "</body></html>"
    )


def _sections(shown: Sequence[Chart]) -> Iterator[str]:
    number = 0
    for chart in shown:
        places = []
        for figure in chart.figures:
            label = figure["layout"].get("yaxis", {}).get("title", {}).get("text", "")
            about = _text(html.unescape(f"{chart.title} {label}".strip()))
            places.append(f'<div id="figure-{number}" role="img" aria-label="{about}"></div>')
            number += 1
        kind = "charts wide" if len(chart.figures) == 1 else "charts"
        words = f'<p class="soft">{_text(chart.words)}</p>' if chart.words else ""
        yield f'<h2 id="{_anchor(chart.title)}">{chart.title}</h2>{words}<div class="{kind}">{"".join(places)}</div>'


def _link(title: str) -> str:
    return f'<a href="#{_anchor(title)}">{title}</a>'


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _trials(trials: list[dict[str, Any]], total: int) -> str:
    names = list(dict.fromkeys(name for trial in trials for name in trial["configuration"]))
    rows = [
        [
            trial_label(trial["number"]),
            trial["state"],
            trial["step"],
            "diverged" if has_diverged(trial.get("value")) else _number(trial.get("value")),
            *(_number(trial["configuration"].get(name)) for name in names),
            trial.get("reason") or "",
        ]
        for trial in trials[:MOST_ROWS]
    ]
    more = f'<p class="soft">The best {MOST_ROWS} of {total}.</p>' if total > MOST_ROWS else ""
    return more + _table(["trial", "state", "step", "value", *names, "why"], rows)


def _environment(store: Store, snapshot: str | None) -> str:
    if snapshot is None:
        return "<p>No snapshot was taken.</p>"
    environment = read_snapshot(store, snapshot).get("environment") or {}
    plain = [[key, value] for key, value in environment.items() if isinstance(value, str | int | float)]
    installed = environment.get("distributions") or {}
    if isinstance(installed, Mapping):
        plain += [["packages", ", ".join(f"{name} {version}" for name, version in sorted(installed.items()))]]
    return _table(["what", "as it was"], plain)


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    body = "".join("<tr>" + "".join(f"<td>{_text(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    top = "".join(f"<th>{_text(name)}</th>" for name in head)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _number(value: Any) -> str:
    return numbers.shown(value) if isinstance(value, float) else "" if value is None else str(value)


def _text(value: str) -> str:
    return html.escape(written(value))
