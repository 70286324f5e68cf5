"""`profile`: where the time of a trial's steps goes. Law: the trial trains in a process of its own, outside of its
search; nothing in the store changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.cli.codes import OK
from workbench.cli.found import store_of
from workbench.cli.options import Parser, json, ref
from workbench.cli.values import whole
from workbench.cli.words import clean, say, say_json, span, table
from workbench.store.lists.said import shown_bytes
from workbench.trial.profile.ordering import STEPS

#: The rows of the table, in order.
_ROWS = {
    "data": "waiting for data",
    "copying": "copying",
    "memory": "operations limited by memory",
    "arithmetic": "arithmetic",
    "other": "Python and other",
}


def arguments(parser: Parser) -> None:
    """The options of ``profile``."""
    ref(parser, "TRIAL", "a trial that has started, such as digits@2/t0007")
    measured = f"how many steps are measured, after a first one ({STEPS}); ten seconds at most"
    parser.add_argument("--steps", type=whole(1), default=STEPS, metavar="N", help=measured)
    parser.add_argument("--output", metavar="FOLDER", help="where the trace is written (the current folder)")
    json(parser)


def profile(options: Any) -> int:
    """Train some steps of a trial again, and say what limits them."""
    from workbench.cluster import devices
    from workbench.store.owner import slots
    from workbench.trial.profile.ordering import profile as measure

    store, folder = store_of(options), None if options.output is None else Path(options.output)
    busy = sorted(holder.slot for holder in slots.holders())
    there = len(devices.slot_names() or slots.cores())
    told = {**measure(store, options.ref, steps=options.steps, folder=folder, slots=there), "busy": busy}
    if options.json:
        say_json(told)
    else:
        say(*map(clean, lines(told)))
    return OK


def lines(told: dict[str, Any]) -> list[str]:
    """The measurements for the user."""
    steps, memory = told["steps"], told["memory"]
    whole_steps = f"{steps['whole']} step{'s' * (steps['whole'] != 1)}" if steps["whole"] else "a part of a step"
    made = [f"{told['trial']}: {whole_steps} in {span(told['seconds'])} on {told['device']}."]
    if told["busy"]:
        held = ", ".join(told["busy"])
        made.append(f"Note: searches hold slots of this machine ({held}); their trials slow this one.")
    if told["shares"]:
        shares = told["shares"]
        made += ["", *table(["time", "share"], [[words, f"{shares[kind]:4.0%}"] for kind, words in _ROWS.items()])]
    made += ["", told["verdict"]["words"], *(f"- {one}." for one in told["verdict"]["advice"])]
    gpu = "" if memory["gpu"] is None else f", {shown_bytes(memory['gpu'])} of the GPU"
    made.append(f"At most {shown_bytes(memory['process'])} of memory, with the set-up{gpu}.")
    if told["lines"]:
        rows = [
            [f"{one['share']:4.0%}", f"{_short(one['file'])}:{one['number']}", one["text"]] for one in told["lines"]
        ]
        made += ["", *table(["share", "line", "text"], rows)]
    if told["trace"]:
        made += ["", f"Trace: {told['trace']} (open it in https://ui.perfetto.dev or chrome://tracing)"]
    return made


def _short(file: str) -> str:
    return file if file.startswith("<") else Path(file).name
