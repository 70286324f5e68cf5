"""`watch`: an experiment until it ends. Law: reads only; whoever leaves the watching leaves the experiment alone."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

from workbench.cli.found import Experiment, store_of
from workbench.cli.verbs import FAILED, INTERRUPTED, OK, STOPPED
from workbench.cli.words import clean, cut, is_terminal, number, say, say_json, span
from workbench.errors import ClusterError
from workbench.experiment.pauses import pause_of, paused
from workbench.records import trial_label
from workbench.store import outcome

#: Seconds between looks at the store.
LOOK_S = 0.2
#: Seconds between looks whether the engine lives.
ENGINE_S = 1.0
#: Seconds without an engine after which there is nothing to watch; one that starts takes a second or two.
GONE_S = 10.0
#: Seconds between plain lines that only say how many trials have ended.
QUIET_S = 5.0

_CODES = {"completed": OK, "stopped": STOPPED, "failed": FAILED}


class Teller(Protocol):
    """Who says what changed."""

    def tell(self, experiment: Experiment) -> None:
        """Say how it stands now."""

    def end(self) -> None:
        """Say no more."""


def watch(options: Any) -> int:
    """Follow an experiment until it ends, or is paused and does not go on by itself; the exit code is its outcome."""
    with Experiment.found(store_of(options), options.ref, trial=False) as experiment:
        teller: Teller = _Json() if options.json else _Bar() if is_terminal() else _Lines()
        try:
            try:
                _follow(experiment, teller)
            finally:
                teller.end()
        except KeyboardInterrupt:
            label = clean(experiment.label)
            sys.stderr.write(f"not watching any more; {label} goes on. `workbench stop {label}` ends it.\n")
            return INTERRUPTED
        pause = None if experiment.is_ended else pause_of(experiment.meta)
        if pause is not None:
            raise paused(clean(experiment.label), {**pause, "reason": clean(pause["reason"])})
        if not options.json:
            say(_ending(experiment))
        return _CODES[experiment.state]


def _follow(experiment: Experiment, teller: Teller) -> None:
    gone_since: float | None = None
    looked_around = time.monotonic()
    while True:
        teller.tell(experiment)
        pause = pause_of(experiment.meta)
        if experiment.is_ended or (pause is not None and pause["cause"] != "room"):
            return
        time.sleep(LOOK_S)
        now = time.monotonic()
        experiment.look()
        if now - looked_around >= ENGINE_S or experiment.meta.get("state") in _CODES:
            experiment.look_around()
            looked_around = now
        if experiment.alive or experiment.is_ended:
            gone_since = None
        elif gone_since is None:
            gone_since = now
        elif now - gone_since > GONE_S:
            raise ClusterError(
                f"{experiment.label} waits and no engine runs in {experiment.store.root}, so nothing will happen. "
                "`workbench engine start` goes on with it; `workbench doctor` looks for what is wrong."
            )


def _so_far(experiment: Experiment) -> dict[str, Any]:
    best = experiment.best
    return {
        "label": experiment.label,
        "state": experiment.state,
        "reason": experiment.reason,
        "ended": experiment.ended,
        "planned": experiment.planned,
        "best": {"trial": trial_label(best[0]), "value": best[1]} if best else None,
        "slots": experiment.meta.get("slots"),
        "seconds_left": experiment.meta.get("seconds_left"),
    }


def _best(experiment: Experiment) -> str:
    best = experiment.best
    return f"best {clean(experiment.spec.goal.metric)} {number(best[1])} ({trial_label(best[0])})" if best else ""


def _trials(experiment: Experiment) -> str:
    of = f"/{experiment.planned}" if experiment.planned else ""
    return f"{experiment.ended}{of} trials"


def _left(experiment: Experiment) -> str:
    left = experiment.meta.get("seconds_left")
    return f"about {span(left)} left" if left is not None and experiment.state == "running" else ""


def _ending(experiment: Experiment) -> str:
    label = clean(experiment.label)
    reason, best = clean(experiment.reason).rstrip("."), experiment.best
    words = [reason] if reason else []
    if best and trial_label(best[0]) not in reason:
        words.append(_best(experiment))
    told = outcome.told(outcome.known(experiment.entry, experiment.meta))
    words += [clean(one) for one in (told["promoted"], told["failed"], told["inexact"]) if one]
    after = f" `workbench best {label}` shows it." if best else ""
    return f"{label} {experiment.state}{': ' if words else ''}{'; '.join(words)}.{after}"


class _Lines:
    """Plain lines, for a pipe or a cell: one for each new state or best, and now and then one between."""

    def __init__(self) -> None:
        self._said: tuple[Any, ...] = ()
        self._ended = -1
        self._at = 0.0

    def tell(self, experiment: Experiment) -> None:
        key, ended, now = (experiment.state, experiment.best), experiment.ended, time.monotonic()
        if experiment.is_ended or (key == self._said and (ended == self._ended or now - self._at < QUIET_S)):
            return
        self._said, self._ended, self._at = key, ended, now
        words = [clean(experiment.label), experiment.state, _trials(experiment), _best(experiment), _left(experiment)]
        if experiment.state != "running":
            words.append(clean(experiment.reason))
        say("  ".join(word for word in words if word))

    def end(self) -> None:
        pass


class _Json:
    """One object a line, for each change."""

    def __init__(self) -> None:
        self._said: tuple[Any, ...] | None = None

    def tell(self, experiment: Experiment) -> None:
        data = _so_far(experiment)
        key = (data["state"], data["reason"], data["ended"], data["planned"], str(data["best"]))
        if key != self._said:
            self._said = key
            say_json(data, indent=None)

    def end(self) -> None:
        pass


class _Bar:
    """A progress bar in a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._escape = escape
        self._progress = Progress(
            TextColumn("{task.fields[label]}  {task.fields[state]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
            TimeElapsedColumn(),
            console=Console(file=sys.stdout),
            transient=True,
        )
        self._task: Any = None

    def tell(self, experiment: Experiment) -> None:
        reason = "" if experiment.state == "running" else cut(clean(experiment.reason), 60)
        said = [_best(experiment), _left(experiment), reason]
        fields: dict[str, Any] = {
            "label": self._escape(clean(experiment.label)),
            "state": experiment.state,
            "words": self._escape("  ".join(word for word in said if word)),
        }
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("", total=experiment.planned, completed=experiment.ended, **fields)
        else:
            self._progress.update(self._task, total=experiment.planned, completed=experiment.ended, **fields)

    def end(self) -> None:
        self._progress.stop()
