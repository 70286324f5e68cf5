"""`usage`: slot-hours of this user's stores, by experiment and outcome. Law: it only reads; it needs no store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from workbench.cli.codes import OK
from workbench.cli.found import store_of
from workbench.cli.words import clean, cut, is_terminal, say, say_json, span, table
from workbench.status.places import place
from workbench.status.usage import OUTCOMES, Outcome, Row, Unread, Usage
from workbench.status.usage import usage as read

_DAY_S, _HOUR_S = 86_400.0, 3600.0
#: The most experiments that have a line of their own.
_MOST = 20


def usage(options: Any) -> int:
    """Show the usage of the last days, for people or as JSON."""
    now = datetime.now(UTC)
    stores = None if options.store is None else [store_of(options).root]
    found = read(now - timedelta(days=options.days), now, stores)
    if options.json:
        say_json(_plain(found))
        return OK
    period = f"the last {span(options.days * _DAY_S)}"
    if found.rows:
        say(f"slot-hours of {period}:", "", *_table(found.rows))
    else:
        say(f"no trial of yours has held a slot in {period}.")
    say(*map(_unread, found.unread))
    return OK


def _plain(found: Usage) -> dict[str, Any]:
    totals = _by_outcome(found.rows)
    every = sum(totals.values())
    return {
        "since": found.since.isoformat(timespec="milliseconds"),
        "until": found.until.isoformat(timespec="milliseconds"),
        "rows": [
            {
                "user": row.user,
                "store": str(row.store),
                "experiment": row.experiment,
                "outcome": row.outcome,
                "slot_hours": row.seconds / _HOUR_S,
                "share": row.seconds / every,
            }
            for row in found.rows
        ],
        "totals": {outcome: totals[outcome] / _HOUR_S for outcome in OUTCOMES},
        "slot_hours": every / _HOUR_S,
        "unread": [{"store": str(one.store), "experiment": one.experiment, "why": one.why} for one in found.unread],
    }


def _table(rows: Iterable[Row]) -> list[str]:
    """A line for each of the largest experiments, one for the others together, and one for all."""
    rows = list(rows)
    spent: defaultdict[tuple[str, Path, str], list[Row]] = defaultdict(list)
    for row in rows:
        spent[row.user, row.store, row.experiment].append(row)
    every = _by_outcome(rows)
    total = sum(every.values())
    each = sorted(((key, _by_outcome(its)) for key, its in spent.items()), key=lambda one: -sum(one[1].values()))
    widest = 40 if is_terminal() else 200
    lines = [
        [clean(user), place(str(store)), cut(clean(label), widest), *_cells(its, total)]
        for (user, store, label), its in each[: len(each) if len(each) == _MOST + 1 else _MOST]
    ]
    if rest := each[len(lines) :]:
        together = {outcome: sum(its[outcome] for _, its in rest) for outcome in OUTCOMES}
        lines.append(["", "", f"{len(rest):,} others", *_cells(together, total)])
    return table(
        ["user", "store", "experiment", "slot-hours", "share", *OUTCOMES],
        [*lines, ["all", "", "", *_cells(every, total)]],
    )


def _by_outcome(rows: Iterable[Row]) -> dict[Outcome, float]:
    found = dict.fromkeys(OUTCOMES, 0.0)
    for row in rows:
        found[row.outcome] += row.seconds
    return found


def _cells(spent: Mapping[Outcome, float], total: float) -> list[str]:
    its = sum(spent.values())
    return [_hours(its), f"{its / total:.0%}", *(_hours(spent[outcome]) for outcome in OUTCOMES)]


def _hours(seconds: float) -> str:
    return "–" if not seconds else "<0.01" if seconds < _HOUR_S / 200 else f"{seconds / _HOUR_S:,.2f}"


def _unread(one: Unread) -> str:
    name = f"{one.experiment} in " if one.experiment else ""
    return f"not counted: {clean(name)}{place(str(one.store))}: {clean(one.why)}"
