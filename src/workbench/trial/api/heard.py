"""Metrics of a script that does not report them: those that it prints, or gives to a logger. Law: what the script calls
does what it did before; a value is reported besides.

Step k is the k-th time that the script says the goal's metric: its own counts (of batches, or from 0) are not needed.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workbench.errors import BadMetric
from workbench.records import Program
from workbench.snapshot.surroundings.arriving import when_imported
from workbench.trial.api.trial import Trial

#: From the arguments of a logger's function: the values that it is given, and the step of the script's own count.
_Said = Callable[..., tuple[Mapping[str, Any], Any]]
#: The characters of a longest unfinished line.
_LONGEST = 65_536


class Heard:
    """Counts what the script says, and reports it."""

    def __init__(self, trial: Trial, goal: str) -> None:
        self._trial, self._goal = trial, goal
        self._count = 0
        #: What was said since the goal's last value, for the next one.
        self._waiting: dict[str, float] = {}
        self._at: Any = None
        self._pid = os.getpid()
        self._is_taking = False

    def take(self, values: Mapping[str, Any], at: Any = None) -> None:
        """The script said ``values``, at a step of its own count if it gave one. Raises as ``trial.report`` does."""
        if os.getpid() != self._pid or self._is_taking:  # a loader's worker; or what reporting itself prints
            return
        self._is_taking = True
        try:
            self._take(values, at)
        finally:
            self._is_taking = False

    def _take(self, values: Mapping[str, Any], at: Any) -> None:
        numbers = {str(name): number for name, value in values.items() if (number := _number(value)) is not None}
        if self._goal in numbers:
            self._count, self._at = self._count + 1, at
            numbers, self._waiting = {**self._waiting, **numbers}, {}
        elif not (self._count and at is not None and at == self._at):
            self._waiting.update(numbers)
            return
        if numbers and not self._trial.report(numbers, step=self._count):
            # Nothing can be saved, so the script has nothing more to do in this leg.
            left = getattr(self._trial._course, "left", None)
            if left is not None:
                raise left


def _number(value: Any) -> float | None:
    if isinstance(value, str | bytes | Mapping) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # an image, a histogram, a tensor of many values
        return None


@contextlib.contextmanager
def listening(program: Program, goal: str, trial: Trial) -> Iterator[None]:
    """While this context is active, report what the script prints or logs, if its spec says that it reports nothing."""
    if program.metrics:
        heard = Heard(trial, goal)
        patterns = [re.compile(text) for text in program.metrics]
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (_Printed(stream, patterns, goal, heard) for stream in before)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
    elif program.listens:
        global _heard
        _listen()
        for name, value in _alone(trial).items():
            os.environ.setdefault(name, value)
        _heard = Heard(trial, goal)
        try:
            yield
        finally:
            _heard = None
    else:
        yield


# ---------------------------------------------------------------------------------------------------------------------
# What it prints


class _Printed:
    """A text stream that also reads what passes."""

    def __init__(self, stream: Any, patterns: list[re.Pattern[str]], goal: str, heard: Heard) -> None:
        self._stream, self._patterns, self._goal, self._heard = stream, patterns, goal, heard
        self._line = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write ``text``, then look at the lines that it ends."""
        written: int = self._stream.write(text)
        *lines, rest = re.split(r"[\r\n]", self._line + text)
        self._line = rest[-_LONGEST:]
        for line in lines:
            for pattern in self._patterns:
                if match := pattern.search(line):
                    self._heard.take(self._read(match, line))
        return written

    def writelines(self, lines: Any) -> None:
        """Write each line."""
        for line in lines:
            self.write(line)

    def _read(self, match: re.Match[str], line: str) -> dict[str, float]:
        found = match.groupdict() or {self._goal: match[1]}
        values = {}
        for name, text in found.items():
            if text is not None:
                # At the end of a sentence a pattern such as [\d.]+ takes its full stop along.
                values[name] = _read(text.strip().rstrip(".,;%"))
                if math.isnan(values[name]) and text.strip().lower() != "nan":
                    raise BadMetric(
                        f"{name} is {text!r} in the line {line.strip()[:200]!r}, by --metric {match.re.pattern!r}. "
                        "Expected a number; give the group a narrower pattern, such as ([\\d.]+)."
                    )
        return values


def _read(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


# ---------------------------------------------------------------------------------------------------------------------
# What it logs

_heard: Heard | None = None


def _alone(trial: Trial) -> dict[str, str]:
    """Variables by which loggers need no account and no server, where the user has not chosen one."""
    runs = {"MLFLOW_TRACKING_URI": f"file:{trial._folder}/mlruns", "MLFLOW_ALLOW_FILE_STORE": "true"}
    return {"WANDB_MODE": "disabled", **runs}


@functools.cache
def _listen() -> None:
    """Put the listeners in place, for this process's life."""
    for name in ("torch.utils.tensorboard.writer", "tensorboardX.writer"):
        when_imported(name, _tensorboard)
    when_imported("wandb", _wandb)
    when_imported("mlflow", _mlflow)


def _noting(original: Callable[..., Any], said: _Said) -> Callable[..., Any]:
    """``original``, after which what was ``said`` is taken."""

    @functools.wraps(original)
    def logs(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if _heard is not None:
            try:
                values, at = said(*args, **kwargs)
            except TypeError:  # other arguments than those that are documented
                return result
            _heard.take(values, at)
        return result

    return logs


def _tensorboard(module: types.ModuleType) -> None:
    writer: Any = module.SummaryWriter

    def scalar(_: Any, tag: str, scalar_value: Any, global_step: Any = None, *__: Any, **___: Any) -> Any:
        return {tag: scalar_value}, global_step

    def scalars(_: Any, main_tag: str, tag_scalar_dict: Any, global_step: Any = None, *__: Any, **___: Any) -> Any:
        return {f"{main_tag}/{name}": value for name, value in tag_scalar_dict.items()}, global_step

    writer.add_scalar = _noting(writer.add_scalar, scalar)
    writer.add_scalars = _noting(writer.add_scalars, scalars)


def _wandb(module: types.ModuleType) -> None:
    begin = module.init

    def said(data: Any, step: Any = None, *_: Any, **__: Any) -> Any:
        return dict(data), step

    @functools.wraps(begin)
    def init(*args: Any, **kwargs: Any) -> Any:
        run = begin(*args, **kwargs)
        # A run that is disabled has functions of its own, not those of its class.
        run.log = module.log = _noting(run.log, said)  # type: ignore[attr-defined]
        return run

    module.init = init  # type: ignore[attr-defined]


def _mlflow(module: types.ModuleType) -> None:
    def metric(key: str, value: Any, step: Any = None, *_: Any, **__: Any) -> Any:
        return {key: value}, step

    def metrics(metrics: Any, step: Any = None, *_: Any, **__: Any) -> Any:
        return dict(metrics), step

    module.log_metric = _noting(module.log_metric, metric)  # type: ignore[attr-defined]
    module.log_metrics = _noting(module.log_metrics, metrics)  # type: ignore[attr-defined]
