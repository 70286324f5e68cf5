"""Requests to the engine: `stop`, `pause`, … Law: a request is a file; the output is the engine's answer."""

from __future__ import annotations

from typing import Any

from workbench.asked import Extend, Pause, Request, Resume, Stop
from workbench.cli.found import Experiment, store_of
from workbench.cli.verbs import OK
from workbench.cli.words import clean, cut, say, say_json
from workbench.errors import BadOption, NoAnswer, StoreError
from workbench.records import ENDED
from workbench.records.names import trial_label

#: The recorded reason if the user gave none.
REASON = "requested on the command line"


def stop(options: Any) -> int:
    """Stop an experiment or one trial."""
    with Experiment.found(store_of(options), options.ref) as experiment:
        if experiment.reference.step is not None:
            what = f"{experiment.label}/{trial_label(experiment.reference.trial or 0)}"
            raise BadOption(
                f"{experiment.reference} names a step, but only a whole trial can be stopped. Write workbench stop "
                f"{what}."
            )
        trial = experiment.reference.trial
        if trial is not None and not experiment.is_ended:
            state = str(experiment.trial(trial)["state"])
            if state in ENDED:
                return _said(options, experiment, f"is {state} already; there is nothing to stop", state, asked=False)
        if experiment.is_ended:
            return _over(options, experiment, "stop")
        answered(experiment, Stop(experiment.id, trial, _reason(options)))
        return _said(
            options, experiment, "was asked to stop; its checkpoints and results are kept", "stopping", asked=True
        )


def pause(options: Any) -> int:
    """Make running legs save and leave, and start no new ones."""
    with Experiment.found(store_of(options), options.ref, trial=False) as experiment:
        if experiment.is_ended:
            return _over(options, experiment, "pause")
        if experiment.status.state == "paused":
            return _said(options, experiment, "is paused already", "paused", asked=False)
        answered(experiment, Pause(experiment.id, _reason(options)))
        words = f"was asked to pause; `workbench resume {clean(experiment.label)}` continues it"
        return _said(options, experiment, words, "paused", asked=True)


def resume(options: Any) -> int:
    """Continue a paused experiment; if it only lacks an engine, start one."""
    with Experiment.found(store_of(options), options.ref, trial=False) as experiment:
        if experiment.is_ended:
            return _over(options, experiment, "resume")
        if experiment.alive and experiment.status.state == "running":
            return _said(options, experiment, "is running already", "running", asked=False)
        answered(experiment, Resume(experiment.id, _reason(options)))
        return _said(options, experiment, "continues", "running", asked=True)


def extend(options: Any) -> int:
    """Extend a search that runs or has ended."""
    with Experiment.found(store_of(options), options.ref, trial=False) as experiment:
        if options.trials is None and options.steps is None and options.seconds is None:
            raise BadOption(
                f"workbench extend {options.ref}: expected more trials, steps or time. Write --trials 20, --steps "
                f"{experiment.spec.scheduler.last * experiment.spec.scheduler.eta} or --for 2h."
            )
        more = {"trials": options.trials, "last": options.steps, "seconds": options.seconds}
        answer = answered(experiment, Extend(experiment=experiment.id, reason=_reason(options), **more))
        words = f"continues: {answer['trials']} trials of {answer['last']} steps in all"
        return _said(options, experiment, words, "waiting", asked=True)


def answered(experiment: Experiment, request: Request) -> dict[str, Any]:
    """The engine's answer to ``request`` about ``experiment``. Raises NoAnswer if no engine answers."""
    from workbench.asking import ask

    try:
        return ask(experiment.store, request)
    except StoreError as error:
        if type(error) is StoreError:  # no answer; a full or read-only store is a different error
            raise NoAnswer(str(error)) from error
        raise


def _reason(options: Any) -> str:
    return cut(clean(options.reason or REASON), 500)


def _over(options: Any, experiment: Experiment, verb: str) -> int:
    words = f"is {experiment.status.state} already; there is nothing to {verb}"
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
