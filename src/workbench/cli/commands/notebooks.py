"""`replay NOTEBOOK.ipynb` and `ls --notebooks`: notebooks executed with parameters. Law: errors are raised before
anything starts."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from workbench.cli.words import age, clean, cut, is_terminal, say, say_json, span, table
from workbench.compare.section import counted
from workbench.errors import BadOption
from workbench.store import Store
from workbench.store.lists import notebooks
from workbench.store.lists.notebooks import NotebookRun

#: The options of ``workbench replay`` for notebooks, and for trials.
_OF_NOTEBOOKS = {"p": "-p", "grid": "--grid", "table": "--table", "parallel": "--parallel", "again": "--again"}
_OF_TRIALS = {"all": "--all", "since": "--since", "tolerance": "--tolerance"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for notebooks."""
    from workbench.cli.values import whole

    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
                        help="notebook: a parameter, as papermill reads it; once for each")  # fmt: skip
    parser.add_argument("--grid", action="append", default=[], metavar="NAME=A,B,…",
                        help="notebook: once for each value; of several --grid every combination")  # fmt: skip
    parser.add_argument("--table", metavar="FILE", help="notebook: once for each row of a .csv (first line: names) or "
                        ".jsonl")  # fmt: skip
    parser.add_argument("--parallel", type=whole(1), metavar="N", help="notebook: at most this many at a time")
    parser.add_argument("--again", action="store_true", help="notebook: execute also what was executed before")


def is_notebook(ref: str | None) -> bool:
    """Whether ``ref`` is a notebook's file and not a trial."""
    return ref is not None and ref.endswith(".ipynb")


def refuse(options: Any) -> None:
    """Raise BadOption if an option for notebooks is used with a trial."""
    for name, flag in _OF_NOTEBOOKS.items():
        if getattr(options, name):
            raise BadOption(
                f"workbench replay: {flag} needs a notebook, such as workbench replay train.ipynb {flag} …; "
                f"{'no notebook' if options.ref is None else clean(options.ref)} was given."
            )


def replay(options: Any) -> int:
    """Execute a notebook, once for each row of parameters; report and skip rows that were executed before."""
    from workbench.cli.codes import FAILED, OK
    from workbench.experiment.batch import Batch
    from workbench.replay.parameters import rows

    for name, flag in _OF_TRIALS.items():
        if getattr(options, name):
            raise BadOption(f"workbench replay: {flag} applies to a trial, not to the notebook {options.ref}.")
    if options.env != "same":
        raise BadOption(f"workbench replay: --env applies to a trial; {options.ref} is executed by its own kernel.")
    wanted = rows(options.p, options.grid, options.table)
    batch = Batch(Store.to_train(options.store), options.ref, wanted, again=options.again)
    if not options.json:
        for note in batch.notes:
            say(f"Note: {clean(note)}.")
        if len(batch.tasks) > 1:
            say(_plan(batch))
    told = []
    for one in batch.run(_typed(options), options.parallel):
        told.append(one)
        if not options.json:
            say(f"{clean(one.label)}: {'before: ' if one.before else ''}{clean(one.words)}")
    good = sum(one.is_good for one in told)
    if options.json:
        runs = [{"label": one.label, "before": one.before, "words": one.words, **_line(batch.store, one.run)}
                for one in told]  # fmt: skip
        say_json({"notebook": str(batch.source.path), "runs": runs, "completed": good})
    elif len(told) > 1 or good < len(told):
        advice = " The same command continues with the others." if good < len(told) else ""
        say(f"{good} of {counted(len(told), 'notebook')} completed.{advice}")
    return OK if good == len(told) else FAILED


def _plan(batch: Any) -> str:
    before = len(batch.tasks) - len(batch.open)
    how = "each on a slot" if batch.on_slots else "their train cells ask for slots"
    words = f"{counted(len(batch.open), 'notebook')} to execute, {how}"
    return f"{words}; {before} executed before." if before else f"{words}."


def _typed(options: Any) -> str:
    """The command, without the values of secrets."""
    from workbench.replay.notebook import without_secrets

    words = ["workbench", "replay", options.ref]
    for name, value in options.p:
        words += ["-p", name, str(without_secrets({name: value})[name])]
    for text in options.grid:
        name, _, values = text.partition("=")
        words += ["--grid", f"{name}={without_secrets({name: values})[name]}"]
    words += ["--table", options.table] if options.table else []
    return shlex.join(words)


# ---------------------------------------------------------------------------------------------------------------------
# What was executed


def ls(store: Store, options: Any) -> int:
    """Executed notebooks, the newest first."""
    from workbench.cli.codes import OK

    if options.tag:
        raise BadOption("workbench ls --notebooks: --tag is for experiments; notebooks have none.")
    every = notebooks.runs(store)[::-1]
    found = [run for run in every if _is_wanted(run, options)][: options.last]
    if options.json:
        say_json({"store": str(store.root), "notebooks": [_line(store, run) for run in found]})
    elif not found:
        say("no executed notebook matches." if every else f"{clean(store.root)} has no executed notebook yet.")
    else:
        widest = 40 if is_terminal() else 200
        rows = [
            [
                cut(clean(run.path.rpartition("/")[2] or "–"), widest),
                cut(clean(run.label), widest),
                run.state,
                span(run.seconds) if run.seconds is not None else "–",
                age(run.started),
                clean(notebooks.executed(store, run.id)) + (f" ({clean(run.error)})" if run.error else ""),
            ]
            for run in found
        ]
        say(*table(["notebook", "parameters", "state", "took", "age", "kept as"], rows, states=2))
    return OK


def _is_wanted(run: NotebookRun, options: Any) -> bool:
    if options.state and run.state not in options.state:
        return False
    return not options.text or options.text.casefold() in f"{run.path} {run.label}".casefold()


def _line(store: Store, run: NotebookRun | None) -> dict[str, Any]:
    return {} if run is None else {**run.to_json(), "kept": str(notebooks.executed(store, run.id))}
