"""One trial's page: its legs, its state, its checkpoints and restarts. Law: it unpickles nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from workbench.errors import NotFound
from workbench.records.names import trial_label
from workbench.status import Around
from workbench.store import Store, TrialPaths, journal
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists import outcome
from workbench.store.lists.said import said
from workbench.store.lists.summary import given_names
from workbench_ext.server.experiments import found, leg_line, lineage, series_of, trial_row

Json = Any


def page(store: Store, name: str, number: int) -> Json:
    """All that is known of one trial besides its points, its log and its files. Raises NotFound."""
    experiment_id, spec = found(store, name)
    row, legs = _rows(store, name, experiment_id, number)
    paths = store.experiment(experiment_id).trial(number)
    details = [leg.get("detail") or {} for leg in legs]
    newest: dict[str, Json] = {}
    for detail in details:
        newest |= {key: value for key, value in detail.items() if value}
    return {
        "trial": trial_row(Around.of(store), row),
        "legs": [leg_line(leg) for leg in legs],
        "found": newest.get("found") or {"objects": [], "names": [], "left_out": []},
        "environment": newest.get("environment") or {},
        # Data that the training code named, and that it was seen to read: perhaps not all that it read.
        "data": {"named": newest.get("data") or {}, "seen": newest.get("seen")},
        "checkpoints": checkpoints(paths, legs, _pins(store, experiment_id, number)),
        # A single leg was never restarted, and a journal may be long.
        "restarts": restarts(store.experiment(experiment_id).journal, number) if len(legs) > 1 else [],
        "seeds": {"experiment": spec.seed, "trial": number, "deterministic": spec.deterministic},
        "verify": row.get("verify"),
        "inexact": outcome.lost_words(row.get("inexact")),
        "lineage": lineage(spec.to_json()),
        "given": given_names(spec, number),
    }


def _rows(store: Store, name: str, experiment_id: str, number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    series = series_of(store, experiment_id)
    if series is None:
        raise NotFound(f"{name} has no trial {trial_label(number)}: it has not started.")
    with series:
        return series.trial(number), series.legs(number)


def paths_of(store: Store, name: str, number: int) -> TrialPaths:
    """The paths of an existing trial. Raises NotFound."""
    experiment_id, _ = found(store, name)
    _rows(store, name, experiment_id, number)
    return store.experiment(experiment_id).trial(number)


@dataclass(frozen=True)
class Pins:
    """What of a trial is pinned. whole: the trial or its experiment, if one is, whose pin must be removed to free a
    checkpoint. steps: checkpoints with pins of their own."""

    whole: Literal["trial", "experiment"] | None
    steps: frozenset[int | None]

    def of(self, step: int) -> dict[str, bool | str | None]:
        """As the answer about the checkpoint at ``step`` says it."""
        return {"pinned": self.whole is not None or step in self.steps, "pinned_with": self.whole}


def _pins(store: Store, experiment_id: str, number: int) -> Pins:
    pins = said(store).pins
    if (experiment_id, None, None) in pins:
        return Pins("experiment", frozenset())
    whole: Literal["trial"] | None = "trial" if (experiment_id, number, None) in pins else None
    return Pins(
        whole, frozenset(step for experiment, trial, step in pins if (experiment, trial) == (experiment_id, number))
    )


def checkpoints(paths: TrialPaths, legs: list[dict[str, Any]], pins: Pins) -> list[Json]:
    """A trial's checkpoints by step, according to their manifests; damaged ones with the reason."""
    kept = Checkpoints(paths)
    by_attempt = {leg["attempt"]: (leg.get("detail") or {}).get("found") or {} for leg in legs}
    sound: list[Json] = [
        {
            "step": one.step,
            "attempt": one.attempt,
            "bytes": one.manifest.size,
            "at": one.manifest.created,
            "sound": True,
            "why": None,
            "holds": _holds(one.manifest.details, by_attempt.get(one.attempt, {})),
            "files": {name: file.size for name, file in one.manifest.files.items()},
            **pins.of(one.step),
        }
        for one in kept.all()
    ]
    nothing = dict.fromkeys(("attempt", "bytes", "at"))
    damaged: list[Json] = [
        {
            "step": one.step,
            **nothing,
            "sound": False,
            "why": one.why,
            "holds": [],
            "files": {},
            **pins.of(one.step),
        }
        for one in kept.skipped
    ]
    return sorted([*sound, *damaged], key=lambda one: one["step"])


def _holds(details: Mapping[str, Json], found_then: Mapping[str, Json]) -> list[str]:
    """What a checkpoint holds, according to its manifest or else to its leg's first message."""
    told = details.get("holds")
    if isinstance(told, list):
        return [str(one) for one in told]
    return [*map(str, found_then.get("objects") or ()), *map(str, found_then.get("names") or ())]


def restarts(path: Path, number: int) -> list[Json]:
    """Each restart of the trial in the journal, with the reason."""
    told: list[Json] = []
    before: Mapping[str, Json] | None = None  # how the previous attempt ended; None while it is under way
    attempt = None
    for line in journal.read(path):
        if line.get("trial") != number:
            continue
        if line.get("kind") == "LegLeft":
            before = line
        elif line.get("kind") == "LegStarted":
            gone = attempt is not None and before is None
            if gone or (before is not None and before.get("cause")):
                why = before or {"cause": "engine", "reason": "its engine ended; the next one continues"}
                told.append(
                    {
                        "attempt": line.get("attempt"),
                        "at": line.get("at"),
                        "cause": why.get("cause"),
                        "reason": why.get("reason"),
                        "step": line.get("start"),
                    }
                )
            before, attempt = None, line.get("attempt")
    return told
