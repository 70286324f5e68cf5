"""`replay`, `repeat`: train a trial again. Law: the engine trains; this waits, and exits with the verdict's code."""

from __future__ import annotations

from datetime import date
from typing import Any

from workbench.cli.codes import FAILED, OK
from workbench.cli.commands import notebooks
from workbench.cli.found import store_of
from workbench.cli.words import clean, number, say, say_json, table
from workbench.errors import BadOption
from workbench.store import Store

#: Verdicts that pass a nightly check.
_GOOD = frozenset({"identical", "within tolerance"})


def replay(options: Any) -> int:
    """Train a trial again and report whether the result is the same; with --all, the best of every experiment."""
    if notebooks.is_notebook(options.ref):
        return notebooks.replay(options)
    notebooks.refuse(options)
    from workbench.experiment.again import nightly
    from workbench.experiment.again import replay as start

    store = Store.find(options.store)
    if options.all:
        store.check()
        if options.ref is not None:
            raise BadOption(f"workbench replay: {options.ref} and --all were given, expected only one of them.")
        quiet = (lambda line: None) if options.json else (lambda line: say(clean(line)))
        told = nightly(store, _day(options.since), quiet, env=options.env, tolerance=options.tolerance)
        bad = [one for one in told if one["verdict"] not in _GOOD]
        if options.json:
            say_json({"replays": told, "identical": sum(1 for one in told if one["verdict"] == "identical")})
        else:
            say(f"{len(told)} replayed, {len(told) - len(bad)} reproduced.")
        return FAILED if bad else OK
    if options.ref is None or options.since is not None:
        raise BadOption("workbench replay: expected a trial, such as digits@2/t0007, or --all with --since 2026-11-01.")
    made = start(
        options.ref, env=options.env, tolerance=options.tolerance, wait=False, store=store, trust=options.trust
    )
    if not options.json:
        for note in made.notes:
            say(f"Note: {clean(note)}.")
    made.wait()
    if options.json:
        say_json(made.to_dict())
    else:
        say(f"{clean(made.experiment.label)}: {clean(made.words)}.")
    return OK if made.verdict in _GOOD else FAILED


def _day(text: str | None) -> str:
    if text is None:
        return ""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise BadOption(f"--since {text}: expected a day, such as 2026-11-01.") from None


def repeat(options: Any) -> int:
    """Train a trial's configuration with other seeds: mean and interval."""
    from workbench.experiment.again import repeat as start

    made = start(options.ref, options.seeds, wait=False, store=store_of(options))
    if not options.json:
        for note in made.notes:
            say(f"Note: {clean(note)}.")
    made.wait()
    found = made.to_dict()
    if options.json:
        say_json(found)
    else:
        rows = [[str(one["seed"]), number(one["value"])] for one in found["values"]]
        say(*table(["seed", clean(found["metric"])], rows))
        say(f"{clean(made.experiment.label)}: {clean(made.words)}.")
    return OK if found["n"] else FAILED
