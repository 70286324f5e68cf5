"""`ls`: the experiments of a store. Law: it reads one file, however many there are, and imports little.

It is used often, and most of its time is start-up: it does not import code that compares, draws or trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.cli.codes import OK
from workbench.cli.found import Row, lines, store_of
from workbench.cli.words import age, clean, cut, is_terminal, number, say, say_json, table
from workbench.standing import Spread

#: How many tags of an experiment are listed, and the most letters of each.
_TAGS, _TAG = 8, 40


def ls(options: Any) -> int:
    """Experiments, the newest first; with --notebooks, executed notebooks."""
    store = store_of(options)
    if options.notebooks:
        from workbench.cli.commands.notebooks import ls as ls_notebooks

        return ls_notebooks(store, options)
    every = lines(store)
    rows = [row for row in every if _is_wanted(row, options)][: options.last]
    if options.json:
        say_json({"store": str(store.root), "experiments": rows})
    elif not rows:
        say("no experiment matches." if every else f"{clean(store.root)} has no experiment yet.")
    else:
        widest = 40 if is_terminal() else 200
        say(
            *table(
                ["experiment", "state", "trials", "best", "age"],
                [
                    [
                        cut(clean(row["label"]), widest),
                        row["state"],
                        _progress(row),
                        best_words(row),
                        " ".join([age(row["created"]), *_tags(row["tags"]), *_from(row)]),
                    ]
                    for row in rows
                ],
                states=1,
            )
        )
        say(*(f"{cut(clean(row['label']), widest)}: {clean(row['disk']).rstrip('.')}." for row in rows if row["disk"]))
    return OK


def _is_wanted(row: Row, options: Any) -> bool:
    if options.state and row["state"] not in options.state:
        return False
    if options.tag and not set(options.tag) <= set(row["tags"]):
        return False
    if not options.text:
        return True
    words = [row["label"], row["note"], row["notebook"], *row["tags"]]
    return any(options.text.casefold() in str(word).casefold() for word in words if word)


def _tags(tags: Sequence[str]) -> list[str]:
    """The first tags, and how many more there are: an imported experiment may have any number, of any length."""
    shown = [f"#{cut(clean(tag), _TAG)}" for tag in tags[:_TAGS]]
    return shown if len(tags) <= _TAGS else [*shown, f"and {len(tags) - _TAGS} more tags"]


def _from(row: Row) -> list[str]:
    return [f"from {clean(row['parent'])}"] if row.get("parent") else []


def _progress(row: Row) -> str:
    words = f"{row['trials']['ended']}/{row['trials']['of']}"
    return ", ".join([words, *(clean(one) for one in (row["outcome"]["failed"], row["outcome"]["inexact"]) if one)])


def best_words(row: Row) -> str:
    """A line's best value, with its metric and trial, and the mean of a configuration with several trials."""
    best = row["best"]
    if not best:
        return "–"
    metric = cut(clean(row["goal"]["metric"]), 30) if row["goal"] else ""
    mean = f", {Spread(**best['of']).words(number)}" if best.get("of") else ""
    return f"{metric} {number(best['value'])}{mean} ({best['trial']})".strip()
