"""Requests to the engine: `stop`, `pause`, … Law: a request is a file; the output is the engine's answer."""

from __future__ import annotations

from typing import Any

from workbench.asked import Extend, Pause, Request, Resume, Stop
from workbench.cli.codes import OK
from workbench.cli.found import Experiment, store_of
from workbench.cli.words import clean, cut, say, say_json
from workbench.errors import BadOption, NoAnswer, StoreError, Unreadable
from workbench.records import ENDED, UNREADABLE
from workbench.records.names import trial_label
from workbench.store import Store

#: The recorded reason if the user gave none.
REASON = "requested on the command line"


def stop(options: Any) -> int:
    """Stop an experiment or one trial."""
    with Experiment.found(store_of(options), options.ref) as experiment:
        trial = _trial(options, experiment)
        if trial is not None and not experiment.is_ended:
            state = str(experiment.trial(trial)["state"])
            if state in ENDED:
                return _said(options, experiment, f"is {state} already; there is nothing to stop", state, asked=False)
        if experiment.is_ended:
            return _over(options, experiment, "stop")
        _steered(experiment, Stop(experiment.id, trial, _reason(options)))
        return _said(
            options, experiment, "was asked to stop; its checkpoints and results are kept", "stopping", asked=True
        )


def pause(options: Any) -> int:
    """Make running legs save and leave, and start no new ones; or pause one trial."""
    with Experiment.found(store_of(options), options.ref) as experiment:
        trial = _trial(options, experiment)
        if experiment.is_ended:
            return _over(options, experiment, "pause")
        held = experiment.trial(trial).get("held") if trial is not None else experiment.status.state == "paused"
        if held:
            return _said(options, experiment, "is paused already", "paused", asked=False)
        _steered(experiment, Pause(experiment.id, trial, _reason(options)))
        words = f"was asked to pause; `workbench resume {clean(experiment.reference)}` continues it"
        return _said(options, experiment, words, "paused", asked=True)


def resume(options: Any) -> int:
    """Continue a paused experiment; if it only lacks an engine, start one. Or continue one trial."""
    with Experiment.found(store_of(options), options.ref) as experiment:
        trial = _trial(options, experiment)
        if experiment.is_ended:
            return _over(options, experiment, "resume")
        if trial is None and experiment.alive and experiment.status.state == "running":
            return _said(options, experiment, "is running already", "running", asked=False)
        _steered(experiment, Resume(experiment.id, trial, _reason(options)))
        return _said(options, experiment, "continues", "running", asked=True)


def _trial(options: Any, experiment: Experiment) -> int | None:
    """The trial that was named; None for the experiment. Raises BadOption for a step of it."""
    reference = experiment.reference
    if reference.step is None:
        return reference.trial
    verb, what = options.verb, f"{experiment.label}/{trial_label(reference.trial or 0)}"
    past = {"stop": "stopped"}.get(verb, f"{verb}d")
    raise BadOption(f"{reference} names a step, but only a whole trial can be {past}. Write workbench {verb} {what}.")


def extend(options: Any) -> int:
    """Extend a search that runs or has ended."""
    with Experiment.found(store_of(options), options.ref, trial=False) as experiment:
        if options.trials is None and options.steps is None and options.seconds is None:
            raise BadOption(
                f"workbench extend {options.ref}: expected more trials, steps or time. Write --trials 20, --steps "
                f"{experiment.spec.scheduler.last * experiment.spec.scheduler.eta} or --for 2h."
            )
        more = {"trials": options.trials, "last": options.steps, "seconds": options.seconds}
        answer = answered(experiment.store, Extend(experiment=experiment.id, reason=_reason(options), **more))
        words = f"continues: {answer['trials']} trials of {answer['last']} steps in all"
        return _said(options, experiment, words, "waiting", asked=True)


def answered(store: Store, request: Request) -> dict[str, Any]:
    """The answer of the store's engine to ``request``. Raises NoAnswer if no engine answers."""
    from workbench.asking import ask

    try:
        return ask(store, request)
    except StoreError as error:
        if type(error) is StoreError:  # no answer; a full or read-only store is a different error
            raise NoAnswer(str(error)) from error
        raise


def _steered(experiment: Experiment, request: Stop | Pause | Resume) -> None:
    """Have the engine carry it out. Raises Unreadable for an experiment that no engine can open."""
    if answered(experiment.store, request).get("state") == UNREADABLE:
        label = clean(experiment.label)
        raise Unreadable(
            f"{label} is unreadable, so nothing of it trains. `workbench doctor` says what is damaged; `workbench "
            f"delete {label}` deletes it."
        )


def _reason(options: Any) -> str:
    return cut(clean(options.reason or REASON), 500)


def _over(options: Any, experiment: Experiment, verb: str) -> int:
    whole = "" if experiment.reference.trial is None else "is of an experiment that "
    words = f"{whole}is {experiment.status.state} already; there is nothing to {verb}"
    return _said(options, experiment, words, experiment.status.state, asked=False)


def _said(options: Any, experiment: Experiment, words: str, state: str, *, asked: bool) -> int:
    reference = experiment.reference
    if options.json:
        named = {"id": experiment.id, "label": experiment.label}
        trial = None if reference.trial is None else trial_label(reference.trial)
        say_json({"experiment": named, "trial": trial, "asked": options.verb if asked else None, "state": state})
    else:
        say(f"{clean(reference)} {words}.")
    return OK
