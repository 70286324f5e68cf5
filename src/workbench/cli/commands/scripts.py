"""`run` and `try`: a search over a script's own arguments, and two steps of it here. Law: what a train cell does with
the same options; training happens in the engine's processes, and only `try` runs the script in this one."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shlex
import sys
import traceback
from typing import TYPE_CHECKING, Any

from workbench.asking import ready
from workbench.cli.codes import FAILED, OK
from workbench.cli.commands.watch import watch
from workbench.cli.words import clean, say, say_json
from workbench.errors import BadOption, WorkbenchError
from workbench.experiment import grammar
from workbench.store import Store

if TYPE_CHECKING:
    from workbench.experiment import Experiment
    from workbench.launch import Draft
    from workbench.snapshot.reading.cell import Cell

#: What only the command line has: to start and not wait, and to print JSON; `try`: the debugger.
_DETACH, _JSON, _DEBUG = "--detach", "--json", "--pdb"


def run(options: Any) -> int:
    """Search over the script's arguments, and follow the search until it ends."""
    words, flags = _taken(options.words, (_DETACH, _JSON))
    chosen = _options("run", words, options.store)
    if chosen.plan:
        return _planned(chosen, flags)
    if chosen.attempt:
        return _tried(_drafted(_read(chosen), chosen, "run", words), debug=False)
    # Before the imports, which take a while as well.
    with contextlib.nullcontext() if chosen.cluster else ready(Store.to_train(chosen.store)):
        experiment = _launched(chosen, words, flags)
    label = clean(experiment.label)
    if _DETACH in flags:
        say_json({"label": experiment.label, "id": experiment.id}) if _JSON in flags else say(
            f"{label} is started. `workbench watch {label}` follows it."
        )
        return OK
    return watch(argparse.Namespace(store=str(experiment.store.root), ref=experiment.id, json=_JSON in flags))


def _planned(chosen: grammar.Options, flags: set[str]) -> int:
    from workbench.experiment.launching import settings_of
    from workbench.experiment.notebook import name_of
    from workbench.launch import measured
    from workbench.settled import planned

    cell = _read(chosen)
    name, store = chosen.name or name_of(cell.file), Store.to_train(chosen.store)
    found = planned(cell.space, settings_of(cell, chosen), measured(store, name))
    say_json({"plan": found.to_json()}) if _JSON in flags else say(str(found))
    return OK


def _launched(chosen: grammar.Options, words: list[str], flags: set[str]) -> Experiment:
    """The search, started, and what the user should know of it said."""
    from workbench.experiment.launching import experiment_of

    made = _drafted(_read(chosen), chosen, "run", words)
    experiment, is_new = experiment_of(made, chosen)
    if _JSON not in flags:
        for note in (*made.beside, *made.capture.notes, *made.around.notes, *_how(made)):
            say(f"Note: {clean(note)}.")
        for line in experiment.changed:
            say(f"{clean(experiment.label)}: {clean(line)}")
    if is_new or not experiment.is_ended:
        experiment.start(cluster=chosen.cluster)
    return experiment


def attempt(options: Any) -> int:
    """Train two steps of the first trial in this process."""
    words, flags = _taken(options.words, (_DEBUG,))
    chosen = _options("try", words, options.store)
    if chosen.steps is None:
        chosen = dataclasses.replace(chosen, steps=(1, 2))
    return _tried(_drafted(_read(chosen), chosen, "try", words), debug=_DEBUG in flags)


def _taken(words: list[str], flags: tuple[str, ...]) -> tuple[list[str], set[str]]:
    """The words without the command line's own flags, and those of them that were given."""
    end = words.index("--") if "--" in words else len(words)
    given = {word for word in words[:end] if word in flags}
    return [word for word in words[:end] if word not in flags] + words[end:], given


def _options(verb: str, words: list[str], store: str | None) -> grammar.Options:
    chosen = grammar.parse_script(words)
    for name, value in (("--from", chosen.parent), ("--wait", chosen.wait or None)):
        if value is not None:
            raise BadOption(f"workbench {verb}: {name} is for train cells. Leave it out.")
    return dataclasses.replace(chosen, store=chosen.store or store)


def _read(chosen: grammar.Options) -> Cell:
    from workbench.snapshot.reading.script import read_script

    assert chosen.script is not None
    return read_script(chosen.script, chosen.words, chosen.metrics)


def _drafted(cell: Cell, chosen: grammar.Options, verb: str, words: list[str]) -> Draft:
    from workbench.engine.telling.notify import masked
    from workbench.experiment.launching import settings_of
    from workbench.experiment.notebook import name_of
    from workbench.launch import Origin, draft
    from workbench.store.keeping.remote import shown

    typed = masked(shlex.join(["workbench", verb, *words]), chosen.notify)
    if chosen.storage:
        typed = typed.replace(chosen.storage, shown(chosen.storage))
    settings, name = settings_of(cell, chosen), chosen.name or name_of(cell.file)
    return draft(cell, {}, name, settings, Store.to_train(chosen.store), Origin(typed, typed))


def _how(made: Draft) -> list[str]:
    """What the user should know of how the script is heard."""
    if made.cell.resumes:
        return []
    how = "prints" if made.cell.metrics else "logs"
    told = f"this script {how} its metric and saves nothing, so a trial that is interrupted begins again; "
    return [told + "`from workbench import trial` with trial.steps() or trial.save lets it resume"]


def _tried(made: Draft, *, debug: bool) -> int:
    from workbench.experiment.attempt import attempt as train

    try:
        train(made, say, "`workbench run` searches")
    except WorkbenchError:
        raise
    except Exception as error:
        traceback.print_exception(error)
        if debug:
            import pdb

            # Below our own frames: where the script raised.
            pdb.post_mortem(error.__traceback__)
        return FAILED
    except SystemExit as end:
        sys.stderr.write(f"the script ended itself with {end.code!r}\n")
        return FAILED
    return OK
