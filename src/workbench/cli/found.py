"""The experiments and trials that a command refers to, as :mod:`workbench.status` reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import MEND, BadOption, Broken, NotFound, StoreError
from workbench.records import Spec
from workbench.records.names import trial_label
from workbench.standing import ranked
from workbench.status import RESTING, Around, Status, asked_trials
from workbench.store import Store
from workbench.store.lists import outcome
from workbench.store.lists.catalog import Reference, read_entry, resolve, whole
from workbench.store.lists.known import experiments

Row = dict[str, Any]


def store_of(options: Any) -> Store:
    """The store of the command line. Raises NotFound if it does not exist."""
    return Store.find(options.store).check()


@dataclass(slots=True)
class Experiment:
    """One experiment as it is in the store now. ``close`` it after use."""

    store: Store
    reference: Reference
    spec: Spec
    entry: Row
    around: Around
    meta: Row = field(default_factory=dict)
    series: Any = None
    #: Why its curves and trials cannot be read; None if they can.
    trouble: str | None = None

    @classmethod
    def found(cls, store: Store, text: str, *, trial: bool | None = None) -> Experiment:
        """The experiment or trial that ``text`` refers to. ``trial``: whether it must name a trial (True), must not
        (False), or may (None)."""
        reference = resolve(store, text)
        if trial is True and reference.trial is None:
            raise BadOption(f"{text!r} names an experiment; expected a trial of it. For example: {reference}/t0000.")
        if trial is False:
            whole(reference, text)
        entry = read_entry(store, reference.experiment)
        spec = store.read_spec(reference.experiment, viewing=True)
        found = cls(store, reference, spec, entry, Around.of(store))
        found.look()
        return found

    def look(self) -> None:
        """Read what is new. Raises NotFound once the experiment is gone."""
        self._check_there()
        if self.series is None:
            from workbench.store.series import Series

            path = self.store.experiment(self.id).series
            self.trouble = None
            try:
                self.series = Series.read(path)
            except NotFound:
                if self.entry.get("trials"):
                    self.trouble = f"{path} is missing. {MEND}"
            except Broken as error:
                self.trouble = f"{error} {MEND}"
        if self.series is not None:
            try:
                self.meta = self.series.meta()
            except Broken as error:
                self.trouble = f"{error} {MEND}"
                self.close()

    def look_around(self) -> None:
        """Check whether the engine is alive, and read the catalog. Raises NotFound once the experiment is gone."""
        self._check_there()
        self.around = Around.of(self.store)
        self.entry = read_entry(self.store, self.id) or self.entry

    def _check_there(self) -> None:
        if not self.store.experiment(self.id).spec.exists():
            raise NotFound(
                f"{self.label} is gone: it was deleted, or {self.store.root} was removed or moved. Nothing of it is "
                "trained any more."
            )

    def close(self) -> None:
        """Close its database."""
        if self.series is not None:
            self.series.close()
            self.series = None

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """Its id."""
        return self.reference.experiment

    @property
    def label(self) -> str:
        """``digits@2``."""
        return self.reference.label

    @property
    def alive(self) -> bool:
        """Whether the store has an engine."""
        return self.around.alive

    @property
    def status(self) -> Status:
        """Its status."""
        return Status.of(self.entry, self.meta, self.around, asked_trials(self.spec))

    @property
    def is_ended(self) -> bool:
        """True once it is in a state that only an extension can change."""
        return self.status.is_ended

    def trials(self) -> list[Row]:
        """Its trials, the best first, in the order in which the search compares them."""
        try:
            rows = self.series.trials() if self.series is not None else []
        except Broken as error:
            self.trouble, rows = f"{error} {MEND}", []
        best = self.status.best
        return ranked((self.around.trial(row) for row in rows), self.spec.goal.mode, best and best.trial)

    def trial(self, number: int) -> Row:
        """One trial. Raises NotFound."""
        if self.series is None:
            why = self.trouble or f"it has not started. {self.status.reason}"
            raise NotFound(f"{self.label} has no trial {trial_label(number)}: {why}".strip())
        return self.around.trial(self.series.trial(number))

    def line(self) -> Row:
        """Its line in a list."""
        named = {
            "id": self.id,
            "label": self.label,
            "created": self.spec.created,
            "goal": str(self.spec.goal),
            "notebook": self.spec.notebook,
        }
        return line_of({**self.entry, **named}, self.status)


def lines(store: Store) -> list[Row]:
    """A line for each experiment, the newest first."""
    around = Around.of(store)
    entries = sorted(experiments(store), key=lambda row: (str(row.get("created")), row["id"]), reverse=True)
    return [line_of(entry, Status.of(entry, _meta(store, entry), around)) for entry in entries]


def line_of(entry: Mapping[str, Any], status: Status) -> Row:
    """One line of a list, as plain data."""
    mode, _, metric = str(entry.get("goal") or "").partition(" ")
    best, progress = status.best, status.progress
    return {
        "id": entry["id"],
        "label": entry.get("label"),
        "state": status.state,
        "reason": status.reason,
        "disk": status.disk,
        "goal": {"metric": metric, "mode": mode} if metric else None,
        "best": {**best.to_json(), "trial": trial_label(best.trial)} if best else None,
        "trials": progress.numbers,
        "outcome": outcome.told(status.outcome),
        "created": entry.get("created"),
        "started": status.started,
        "ended": status.ended,
        "tags": list(entry.get("tags") or ()),
        "note": entry.get("note"),
        "notebook": entry.get("notebook"),
        "parent": entry.get("parent"),
    }


def _meta(store: Store, entry: Mapping[str, Any]) -> Row:
    # Do not open the series of ended experiments: a store may hold thousands. The catalog is up to half a second behind
    # the series of the others, and would call one running that a command has just waited for.
    if entry.get("state") in RESTING:
        return {}
    from workbench.store.series import Series

    try:
        with Series.read(store.experiment(entry["id"]).series) as series:
            return dict(series.meta())
    except (NotFound, StoreError):  # one damaged experiment must not hide the others
        return {}


def best_of(row: Mapping[str, Any]) -> float | None:
    """A trial's best value of the goal, or None if it has no finite one."""
    for value in (row.get("best"), row.get("value")):
        if value is not None and math.isfinite(value):
            return float(value)
    return None
