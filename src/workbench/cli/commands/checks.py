"""`verify`, `fork`: check a trial against an undisturbed run, or continue from it. Law: the engine trains; this
asks."""

from __future__ import annotations

import ast
from typing import Any

from workbench.cli.codes import FAILED, OK, UNSURE
from workbench.cli.found import Experiment, store_of
from workbench.cli.words import clean, say, say_json
from workbench.errors import BadOption
from workbench.records.names import checked_name, trial_label

_CODES = {"identical": OK, "parts": FAILED}


def verify(options: Any) -> int:
    """Check one trial; the exit code is the verdict."""
    from workbench.experiment import Experiment as Handle

    with Experiment.found(store_of(options), options.ref, trial=True) as experiment:
        store, reference = experiment.store, experiment.reference
    assert reference.trial is not None
    verdict = Handle.of(store, reference.experiment).verify(reference.trial, reference.step)
    if options.json:
        named = {"id": reference.experiment, "label": reference.label}
        say_json({"experiment": named, "trial": trial_label(reference.trial), "verify": dict(verdict.details)})
    else:
        say(f"{clean(reference.label)}: {clean(verdict)}")
    return _CODES.get(verdict.kind, UNSURE)


def fork(options: Any) -> int:
    """Continue from a trial's checkpoint with other hyperparameters, as a new experiment."""
    from workbench.experiment import Experiment as Handle
    from workbench.replay.fork import fork as forked

    store = store_of(options)
    changes = dict(map(_change, options.changes))
    name = None if options.name is None else checked_name(options.name)
    made = forked(store, options.ref, changes, name=name, last=options.steps)
    Handle.of(store, made.spec.id).start()
    if options.json:
        say_json({"experiment": {"id": made.spec.id, "label": made.spec.label}, "parent": made.spec.parent})
    else:
        say(f"{clean(made.spec.label)} continues from {clean(made.spec.parent['label'])}, to step {made.spec.length}.")
        for note in made.notes:
            say(f"Note: {clean(note)}.")
    return OK


def _change(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    if not equals or not name.isidentifier():
        raise BadOption(f"workbench fork: {word!r}: expected NAME=VALUE. For example: lr=0.001.")
    try:
        return name, ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name, text
