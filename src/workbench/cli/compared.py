"""`diff`, `history`: what differs, and since when. Law: reads only."""

from __future__ import annotations

from typing import Any

from workbench.cli.found import store_of
from workbench.cli.verbs import OK
from workbench.cli.words import clean, coloured, number, say, say_json, table
from workbench.store import Store


def diff(options: Any) -> int:
    """What differs between two trials or experiments."""
    from workbench.compare.words import lines
    from workbench.experiment.compared import compare

    comparison = compare(options.a, options.b, store=Store.find(options.store)).to_dict()
    if options.json:
        say_json(comparison)
    else:
        # Cleaned line by line: what a cell holds must not act on a terminal.
        say(*(coloured(_blank(text) + clean(text.lstrip()), kind) for kind, text in lines(comparison)))
    return OK


def _blank(text: str) -> str:
    return " " * (len(text) - len(text.lstrip()))


def history(options: Any) -> int:
    """The versions of an experiment."""
    from workbench.compare import history as versions

    found = versions(store_of(options), options.name)
    if options.json:
        say_json({"versions": found})
        return OK
    rows = []
    for version in found:
        best, gained = version["best"], version["gained"]
        rows.append(
            [
                clean(version["label"]),
                clean(version["state"]),
                str(version["trials"] or 0),
                f"{clean(version['goal']['metric'])} {number(best['value'])}" if best else "–",
                "–" if gained is None else f"{gained:+.4g}",
                clean(version["changed"] or "the first version"),
            ]
        )
    say(*table(["version", "state", "trials", "best", "gained", "changed"], rows, states=1))
    return OK
