"""`diff`, `history`, `why`: what differs, since when, and what that changes. Law: only `why` trains, by the engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.cli.codes import FAILED, OK
from workbench.cli.found import store_of
from workbench.cli.words import clean, coloured, number, say, say_json, table
from workbench.errors import BadOption
from workbench.records.names import trial_label
from workbench.store import Store


def diff(options: Any) -> int:
    """What differs between two trials or experiments."""
    from workbench.compare.words import lines
    from workbench.experiment.compared import compare

    comparison = compare(options.a, options.b, store=Store.find(options.store)).to_dict()
    if options.json:
        say_json(comparison)
    else:
        # Clean each line: control characters in a cell must not reach the terminal.
        say(*(coloured(_blank(text) + clean(text.lstrip()), kind) for kind, text in lines(comparison)))
    return OK


def _blank(text: str) -> str:
    return " " * (len(text) - len(text.lstrip()))


def _best(version: Mapping[str, Any]) -> str:
    from workbench.compare.words import best_words, spread_of
    from workbench.standing import Best

    best = version["best"]
    if best is None:
        return "–"
    words = ", ".join(part for part in (trial_label(best["trial"]), best_words(best)) if part)
    value = Best(best["trial"], best["value"], spread_of(best)).words(number)
    return f"{clean(version['goal']['metric'])} {value} ({words})"


def history(options: Any) -> int:
    """The versions of an experiment."""
    from workbench.compare.history import history as versions

    found = versions(store_of(options), options.name)
    if options.json:
        say_json({"versions": found})
        return OK
    rows = []
    for version in found:
        gained = version["gained"]
        rows.append(
            [
                clean(version["label"]),
                clean(version["state"]),
                str(version["trials"] or 0),
                _best(version),
                "–" if gained is None else f"{gained:+.4g}",
                clean(version["changed"] or "the first version"),
            ]
        )
    say(*table(["version", "state", "trials", "best", "gained", "changed"], rows, states=1))
    return OK


def why(options: Any) -> int:
    """Restore data, configuration, code, libraries and seeds one by one, and show the effect of each."""
    from workbench.experiment.why import why as explain

    if options.output and Path(options.output).exists() and not options.force:  # said before it trains for hours
        raise BadOption(f"{options.output} already exists. Name another with --output, or add --force.")
    quiet = (lambda line: None) if options.json else (lambda line: say(clean(line)))
    found = explain(options.a, options.b, env=options.env, store=store_of(options), say=quiet)
    path = found.write(options.output or _notebook(found.a, found.b))
    if options.json:
        say_json({**found.to_dict(), "notebook": str(path)})
    else:
        head, *rows = [[clean(cell) for cell in row] for row in found.table()]
        say("", *table(head, rows))
        for note in found.notes:
            say(f"Note: {clean(note)}.")
        say(f"{clean(found.words)}.", f"{clean(path)} has the details.")
    return OK if found.explained else FAILED


def _notebook(a: str, b: str) -> Path:
    words = re.sub(r"[^\w.-]+", "-", f"{b}-and-{a}")
    return Path(f"why-{words}.ipynb")
