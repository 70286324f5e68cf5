"""Reading an experiment's journal and spec to continue it. Law: invalid content is refused, not guessed.

A journal contains the lines of its engines, in order. A journal changed by another program would lead a search to
decisions that cannot be explained, so its experiment is not continued, and lists say why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from typing import Any

from workbench.errors import Unreadable
from workbench.records import ENDED, MANY, Spec
from workbench.records.sizes import MOST_PER_SLOT
from workbench.store.journal import Damage, lasting, read
from workbench.store.layout import ExperimentPaths

#: The maximum of a trial, step, attempt or number of slots.
MOST = 10**9
#: The largest meaningful time limit in seconds.
MOST_S = 10**10

Check = Callable[[Any], bool]


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST  # True and False are ints too


def _step(value: Any) -> bool:
    return value is None or _whole(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _words(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _value(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or value in ("nan", "inf", "-inf") or (is_number and abs(value) < math.inf)


def _seconds(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and 0 < value <= MOST_S)


def _few(value: Any) -> bool:
    return _whole(value) and value <= 10 * MANY


def _capacity(value: Any) -> bool:
    # Until 2026-11-26 an engine could write a number below zero, which means none.
    return _few(value) or (type(value) is int and -10 * MANY <= value < 0)


_GOAL: Mapping[str, Check] = {"trial": _whole, "step": _whole, "value": _value}
_TOLD: Mapping[str, Check] = {"trial": _whole, "reason": _text}
#: The fields that affect decisions, by kind. Lines of other kinds do not.
LINES: Mapping[str, Mapping[str, Check]] = {
    "CapacityChanged": {"slots": _capacity},
    "Reached": _GOAL,
    "Ended": _GOAL,
    "Failed": _TOLD,
    "Lost": _TOLD,
    "Left": {"trial": _whole},
    "StopAsked": {"trial": _step, "reason": _text},
    "PauseAsked": {"reason": _text, "trial": _step},
    "RoomAsked": _TOLD,
    "ResumeAsked": {"reason": _text, "trial": _step},
    "Run": {**_TOLD, "start": _whole, "until": _whole},
    "Stop": _TOLD,
    "Settle": {**_TOLD, "state": lambda value: value == "paused" or value in ENDED},
    "Rest": {"reason": _text},
    "Finish": {"state": lambda value: value in ENDED, "reason": _text},
    "LegStarted": {"trial": _whole, "attempt": _whole},
    "LegSized": {"trial": _whole, "attempt": _whole, "slots": _whole},
    "SlotsDivided": {"parts": lambda value: _whole(value) and 1 <= value <= MOST_PER_SLOT},
    "LegLeft": {"trial": _whole, "attempt": _whole, "outcome": _text, "step": _step, "reason": _words},
    "Saved": {"trial": _whole, "step": _whole},
    "VerifyDue": {"trial": _whole, "start": _whole, "until": _whole, "resumed": _step, "why": _text},
}
_EXTENDED: Mapping[str, Check] = {
    "trials": _few, "last": _step, "seconds": _seconds, "reason": _text, "request": _text,
}  # fmt: skip
#: Kinds of lines about a started trial.
_ABOUT = frozenset(
    {
        "Reached",
        "Ended",
        "Failed",
        "Lost",
        "Left",
        "RoomAsked",
        "Run",
        "Stop",
        "Settle",
        "LegStarted",
        "LegLeft",
        "Saved",
    }
)


def lines_of(paths: ExperimentPaths) -> list[dict[str, Any]]:
    """The lines of an experiment's journal. Raises Unreadable if one is damaged or no engine could have written it."""
    damage: list[Damage] = []
    lines = list(read(paths.journal, damage=damage))
    for piece in lasting(paths.journal, damage):
        raise Unreadable(f"{piece}. Restore the journal from a copy; then resume the experiment.")
    if not lines and paths.trials.is_dir():
        raise Unreadable(
            f"{paths.journal} is missing or empty, and trials were trained. Restore it from a copy; then resume the "
            "experiment."
        )
    check_lines(paths, lines)
    return lines


def check_lines(paths: ExperimentPaths, lines: list[dict[str, Any]]) -> None:
    """Raises Unreadable for a line with an invalid field."""
    for line in lines:
        kind: Any = line.get("kind")
        checks = LINES.get(kind)
        if checks is None:
            if kind != "Extended":
                continue
            checks = {name: is_sound for name, is_sound in _EXTENDED.items() if name in line}
        for name, is_sound in checks.items():
            if not is_sound(line.get(name)):
                raise nonsense(paths, line, f"{name} is {str(line.get(name))[:60]!r}")


def check_order(paths: ExperimentPaths, line: Mapping[str, Any], begun: Container[int]) -> None:
    """Raises Unreadable for a line about a trial that was not started before. begun: the started trials."""
    if line["kind"] in _ABOUT and line["trial"] not in begun:
        raise nonsense(paths, line, f"trial {line['trial']} was not started before it")


def nonsense(paths: ExperimentPaths, line: Mapping[str, Any], why: str) -> Unreadable:
    """The error for an invalid line of the journal."""
    return Unreadable(
        f"{paths.journal}, line {line.get('n')} ({str(line.get('kind'))[:40]}) is not valid: {why}. Restore the "
        "journal from a copy; then resume the experiment."
    )


def check_spec(spec: Spec) -> Spec:
    """``spec`` itself. Raises Unreadable for one with impossible numbers."""
    scheduler = spec.scheduler
    sizes = {"trials": spec.trials or 0, "steps": scheduler.last, "parallel": spec.parallel or 0, "eta": scheduler.eta}
    for name, value in sizes.items():
        if not _whole(value):
            raise Unreadable(f"the spec of experiment {spec.id} has {str(value)[:40]} {name}; expected up to {MOST:,}.")
    if scheduler.kind == "hyperband" and max(scheduler.last // max(scheduler.first, 1), spec.trials or 0) > 10 * MANY:
        raise Unreadable(f"the spec of experiment {spec.id} asks for more than {10 * MANY:,} trials of Hyperband.")
    return spec
