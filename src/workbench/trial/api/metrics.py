"""Reported values. Law: a metric is one number (nan and infinities included); other values are refused there."""

from __future__ import annotations

from typing import Any

from workbench.errors import BadMetric
from workbench.records import Goal
from workbench.records.names import trial_label


def number(value: Any, name: str, trial: int, step: int) -> float:
    """``value`` as a float: numbers, NumPy scalars, tensors and arrays of one element. Raises BadMetric for others.

    Reading a tensor on a GPU waits for the GPU, as ``.item()`` does.
    """
    do = None
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            given = "an integer beyond all floating-point numbers"
            do = f"Report its logarithm: trial.report({name}=math.log({name}))."
    elif value is None:
        given = "None"
    elif isinstance(value, str | bytes):
        given = f"the text {value!r}" if len(value) <= 40 else "a text"
    elif isinstance(value, complex):
        given = f"the complex number {value!r}"
    else:
        size = _size(value)
        if size is not None and size != 1:
            given = f"{_article(type(value).__name__)} of {size} elements"
            do = f"Report its mean: trial.report({name}={name}.mean())."
        else:
            try:
                return float(value.item() if hasattr(value, "item") else value)
            except (TypeError, ValueError, OverflowError):
                given = _article(type(value).__name__)
    what = f"trial {trial_label(trial)} reported {name}={given} at step {step}"
    raise BadMetric(f"{what}, but a metric is one number. {do or f'For example: trial.report({name}=float({name})).'}")


def missing_goal(goal: Goal, trial: int, step: int, reported: dict[str, float]) -> BadMetric:
    """The error of a level at which the goal was not reported."""
    said = f"reported {{{', '.join(map(repr, sorted(reported)))}}}" if reported else "reported nothing"
    return BadMetric(
        f"trial {trial_label(trial)} {said} at step {step}, but the goal is {goal}. Report {goal.metric} in every turn "
        "of the loop, or change --goal."
    )


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiouAEIOU' or kind == 'ndarray' else 'a'} {kind}"


def _size(value: Any) -> int | None:
    for name in ("numel", "size"):
        size = getattr(value, name, None)
        if callable(size):
            try:
                size = size()
            except TypeError:
                continue
        if isinstance(size, int):
            return size
    try:
        return len(value)
    except TypeError:
        return None
