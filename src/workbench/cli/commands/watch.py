"""`watch`: an experiment until it ends. Law: it asks for nothing; to stop watching does not affect the experiment. An
engine that was killed is replaced, as wherever one waits for an experiment."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

from workbench.asking import Tending
from workbench.cli.codes import FAILED, INTERRUPTED, OK, STOPPED
from workbench.cli.found import Experiment, store_of
from workbench.cli.words import clean, cut, is_terminal, number, say, say_json, span
from workbench.errors import ClusterError
from workbench.facts import ENDS_BY_ITSELF
from workbench.records import SETTING_UP
from workbench.records.names import trial_label
from workbench.status import Status, setups_words
from workbench.status.waiting import pause_of, paused
from workbench.store.lists import outcome

#: Seconds between looks at the store.
LOOK_S = 0.2
#: Seconds between checks that the engine is alive.
ENGINE_S = 1.0
#: Seconds without an engine after which there is nothing to watch; one that starts takes a second or two.
GONE_S = 10.0
#: Seconds between plain lines that only say how many trials have ended.
QUIET_S = 5.0

_CODES = {"completed": OK, "stopped": STOPPED, "failed": FAILED}


class Teller(Protocol):
    """Prints changes; the interface of the three forms below."""

    def tell(self, experiment: Experiment) -> None:
        """Print the present state."""

    def end(self) -> None:
        """Print the last words."""


def watch(options: Any) -> int:
    """Follow an experiment until it ends, or is paused and will not resume by itself; the exit code is its outcome."""
    with Experiment.found(store_of(options), options.ref, trial=False) as experiment:
        teller: Teller = _Json() if options.json else _Bar() if is_terminal() else _Lines()
        try:
            try:
                _follow(experiment, teller)
            finally:
                teller.end()
        except KeyboardInterrupt:
            label = clean(experiment.label)
            sys.stderr.write(f"stopped watching; {label} continues. `workbench stop {label}` ends it.\n")
            return INTERRUPTED
        pause = None if experiment.is_ended else pause_of(experiment.meta)
        if pause is not None:
            raise paused(clean(experiment.label), {**pause, "reason": clean(pause["reason"])})
        if not options.json:
            say(_ending(experiment))
        return _CODES[experiment.status.state]


def _follow(experiment: Experiment, teller: Teller) -> None:
    gone_since: float | None = None
    looked_around = time.monotonic()
    tend = Tending(experiment.store)
    while True:
        teller.tell(experiment)
        pause = pause_of(experiment.meta)
        if experiment.is_ended or (pause is not None and pause["cause"] not in ENDS_BY_ITSELF):
            return
        time.sleep(LOOK_S)
        tend()
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
                f"{experiment.label} waits and no engine runs in {experiment.store.root}, so it does not continue. "
                "`workbench engine start` starts one; `workbench doctor` looks for problems."
            )


def _so_far(experiment: Experiment) -> dict[str, Any]:
    status = experiment.status
    best = status.best
    return {
        "label": experiment.label,
        "state": status.state,
        "reason": status.reason,
        "ended": status.progress.ended,
        "planned": status.progress.planned,
        "setting_up": status.counts.get(SETTING_UP, 0),
        "best": best and {**best.to_json(), "trial": trial_label(best.trial)},
        "slots": status.slots,
        "seconds_left": status.seconds_left,
    }


def _best(experiment: Experiment, status: Status) -> str:
    if status.best is None:
        return ""
    best = status.best
    return f"best {clean(experiment.spec.goal.metric)} {best.words(number)} ({trial_label(best.trial)})"


def _left(status: Status) -> str:
    left = status.seconds_left
    return f"about {span(left)} left" if left is not None and status.state == "running" else ""


def _ending(experiment: Experiment) -> str:
    label, status = clean(experiment.label), experiment.status
    reason = clean(status.reason).rstrip(".")
    words = [reason] if reason else []
    if status.best and trial_label(status.best.trial) not in reason:
        words.append(_best(experiment, status))
    told = outcome.told(status.outcome)
    words += [clean(one) for one in (told["promoted"], told["failed"], told["inexact"], told["seeds"]) if one]
    after = f" `workbench best {label}` shows it." if status.best else ""
    return f"{label} {status.state}{': ' if words else ''}{'; '.join(words)}.{after}"


class _Lines:
    """Plain lines, for a pipe or a cell: one for each new state or best, and one from time to time between."""

    def __init__(self) -> None:
        self._said: tuple[Any, ...] = ()
        self._ended = -1
        self._at = 0.0

    def tell(self, experiment: Experiment) -> None:
        status, now = experiment.status, time.monotonic()
        setups = setups_words(status.counts)
        key, ended = (status.state, status.best, bool(setups)), status.progress.ended
        if status.is_ended or (key == self._said and (ended == self._ended or now - self._at < QUIET_S)):
            return
        self._said, self._ended, self._at = key, ended, now
        words = [clean(experiment.label), status.state, str(status.progress)]
        words += [setups, _best(experiment, status), _left(status)]
        if status.state != "running":
            words.append(clean(status.reason))
        say("  ".join(word for word in words if word))

    def end(self) -> None:
        pass


class _Json:
    """One object a line, for each change."""

    def __init__(self) -> None:
        self._said: tuple[Any, ...] | None = None

    def tell(self, experiment: Experiment) -> None:
        data = _so_far(experiment)
        key = (data["state"], data["reason"], data["ended"], data["planned"], data["setting_up"], str(data["best"]))
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
        status = experiment.status
        reason = "" if status.state == "running" else cut(clean(status.reason), 60)
        said = [setups_words(status.counts), _best(experiment, status), _left(status), reason]
        fields: dict[str, Any] = {
            "label": self._escape(clean(experiment.label)),
            "state": status.state,
            "words": self._escape("  ".join(word for word in said if word)),
            "total": status.progress.of,
            "completed": status.progress.ended,
        }
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("", **fields)
        else:
            self._progress.update(self._task, **fields)

    def end(self) -> None:
        self._progress.stop()
