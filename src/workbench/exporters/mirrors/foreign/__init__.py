"""Runs of other programs, one per trial. Law: each point is written once."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from workbench.errors import BadOption
from workbench.exporters.mirrors.words import KINDS
from workbench.records import Json, Spec
from workbench.records.names import trial_label
from workbench.records.texts import written
from workbench.snapshot.secrets.masking import MASK, is_secret, masked
from workbench.store import Store
from workbench.store.lists.mirrors import Mirror

#: A point of one trial: metric, step, value, seconds since 1970.
Point = tuple[str, int, float, float]


@dataclass(frozen=True, slots=True)
class Run:
    """One trial, in the form that other programs get.

    id: unique to the trial. parameters: its configuration, as numbers and words. started, ended: seconds since 1970.
    """

    id: str
    group: str
    name: str
    parameters: dict[str, bool | int | float | str]
    tags: dict[str, str]
    state: str
    metric: str
    value: float | None
    started: float | None
    ended: float | None
    #: Its printed output, which may be packed, and the folder of files that it kept.
    log: Path
    files: Path


class Writer(Protocol):
    """Writes into one program. ``known`` is what the writer needs to remember about a run; it outlives the process."""

    def names(self, metrics: Sequence[str]) -> dict[str, str]:
        """The program's name of each metric. metrics: in the order of their first report, so that a name stays."""

    def begin(self, run: Run, known: Json) -> Json:
        """Make sure that the run exists."""

    def points(self, run: Run, known: Json, points: Sequence[Point], again: bool) -> Json:
        """Write points, under the program's names. again: an earlier process may already have written some of them."""

    def end(self, run: Run, known: Json) -> Json:
        """The trial has ended (and may continue if it is extended): write its state, last value, log and files."""

    def close(self) -> None:
        """Finish; everything is written when this returns."""


def writer(mirror: Mirror, spec: Spec) -> Writer:
    """The writer for ``mirror``. Raises BadOption if its package is missing."""
    module, how = KINDS[mirror.kind]
    try:
        made: Writer = importlib.import_module(f"{__name__}.{mirror.kind}").Writer(mirror, spec)
    except ModuleNotFoundError as error:
        raise BadOption(f"{mirror.kind} needs the package {error.name or module}: {how}.") from None
    return made


def run_of(store: Store, spec: Spec, row: dict[str, Any], started: float | None = None) -> Run:
    """The trial in a row of the series, in the form that other programs get, without secrets. started: the start of its
    first leg.
    """
    number = int(row["number"])
    label = f"{spec.label}/{trial_label(number)}"
    tags = {
        "workbench.id": f"{spec.id}/{trial_label(number)}",
        "workbench.experiment": spec.label,
        "workbench.trial": label,
        "workbench.state": str(row["state"]),
        "workbench.reason": masked(str(row.get("reason") or ""))[:500],
        "workbench.goal": str(spec.goal),
        "workbench.scheduler": spec.scheduler.kind,
        "workbench.seed": str(spec.seed),
        "workbench.bracket": str(row.get("bracket")),
        "workbench.snapshot": spec.snapshot or "",
        "workbench.notebook": Path(spec.notebook).name if spec.notebook else "",
        "workbench.parent": str(spec.parent["label"]) if spec.parent else "",
        "workbench.replays": str((spec.replays or spec.repeats or {}).get("label") or ""),
    }
    places = store.experiment(spec.id).trial(number)
    return Run(
        id=tags["workbench.id"],
        group=spec.name,
        name=label,
        parameters={name: _plain(name, value) for name, value in (row.get("configuration") or {}).items()},
        tags={key: value for key, value in tags.items() if value not in ("", "None")},
        state=str(row["state"]),
        metric=spec.goal.metric,
        value=row.get("value"),
        started=started,
        ended=_seconds(row.get("ended")),
        log=places.log,
        files=places.files,
    )


def _plain(name: str, value: Any) -> bool | int | float | str:
    if isinstance(value, bool | int | float):
        return value
    return MASK if is_secret(name) else masked(written(str(value)))


def _seconds(text: str | None) -> float | None:
    from datetime import datetime

    return None if text is None else datetime.fromisoformat(text).timestamp()
