"""What the store says of experiments and trials. Law: it reads, and calls nothing running that has no engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import BadOption, Broken, NotFound, StoreError
from workbench.records import ENDED, UNREADABLE, Spec, trial_label
from workbench.store import Store, outcome, own_cluster
from workbench.store.catalog import Reference, read_catalog, resolve
from workbench.store.lease import read_engine

Row = dict[str, Any]

#: How a series that is lost is made anew.
MEND = "`workbench doctor --mend` puts back what the journal and checkpoints hold."
#: States in which an experiment needs no engine.
RESTING = ENDED | {UNREADABLE}
#: What is said of an experiment whose engine is gone.
NO_ENGINE = "no engine runs; `workbench engine start` goes on"


def store_of(options: Any) -> Store:
    """The store that the command line means. Raises NotFound where it does not exist."""
    return Store.find(options.store).check()


def is_engine_alive(store: Store) -> bool:
    """True where an engine holds the store."""
    info = read_engine(store)
    return info is not None and info.alive


def no_engine(store: Store) -> str:
    """What is said of an experiment in a store without an engine: whether its trials train on meanwhile."""
    return own_cluster.trains_on(store.root) or NO_ENGINE


def honest(state: str, alive: bool) -> str:
    """``state``, except that without an engine nothing is running or stopping: it waits for one."""
    return "waiting" if not alive and state in ("running", "stopping") else state


@dataclass(slots=True)
class Experiment:
    """One experiment as the store tells it now. ``close`` it after use."""

    store: Store
    reference: Reference
    spec: Spec
    entry: Row
    alive: bool
    meta: Row = field(default_factory=dict)
    series: Any = None
    #: Why its curves and trials cannot be read; None where they can.
    trouble: str | None = None

    @classmethod
    def found(cls, store: Store, text: str, *, trial: bool | None = None) -> Experiment:
        """What ``text`` names. ``trial``: whether it must name one (True), must not (False), or may (None)."""
        reference = resolve(store, text)
        if trial is True and reference.trial is None:
            raise BadOption(f"{text!r} names an experiment; wanted a trial of it. Write for example {reference}/t0000.")
        if trial is False and reference.trial is not None:
            raise BadOption(f"{text!r} names a trial; wanted an experiment. Write {reference.label}.")
        entry = next((row for row in read_catalog(store) if row["id"] == reference.experiment), {})
        spec = store.read_spec(reference.experiment, viewing=True)
        found = cls(store, reference, spec, entry, is_engine_alive(store))
        found.look()
        return found

    def look(self) -> None:
        """Read what is new."""
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
        """Look whether the engine lives, and at the catalog."""
        self.alive = is_engine_alive(self.store)
        self.entry = next((row for row in read_catalog(self.store) if row["id"] == self.id), self.entry)

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
    def told_by(self) -> Row:
        """Whoever knows more: catalog and series are written one after the other, and an end is never taken back."""
        return self.entry if self.entry.get("state") in RESTING or not self.meta.get("state") else self.meta

    @property
    def state(self) -> str:
        """Its state, as it really is."""
        return honest(str(self.told_by.get("state") or "waiting"), self.alive)

    @property
    def reason(self) -> str:
        """Why it is in this state."""
        if self.state not in RESTING and not self.alive:
            return no_engine(self.store)
        return str(self.told_by.get("reason") or "")

    @property
    def is_ended(self) -> bool:
        """True once it is in a state that it never leaves."""
        return self.state in ENDED

    @property
    def planned(self) -> int | None:
        """How many trials there will be, where that is known."""
        return (self.meta.get("planned") or {}).get("trials") or self.spec.trials

    @property
    def ended(self) -> int:
        """How many trials have ended."""
        return ended_of(self.meta.get("counts"))

    @property
    def best(self) -> tuple[int, float] | None:
        """The best trial so far and its value."""
        best = self.meta.get("best") or self.entry.get("best")
        return (int(best["trial"]), float(best["value"])) if best else None

    @property
    def started(self) -> str | None:
        """When its first leg began."""
        return self.meta.get("started") or self.entry.get("started")

    @property
    def finished(self) -> str | None:
        """When it ended."""
        return (self.meta.get("ended") or self.entry.get("ended")) if self.is_ended else None

    def trials(self) -> list[Row]:
        """Its trials, the best first; those without a value last, older first."""
        try:
            rows = self.series.trials() if self.series is not None else []
        except Broken as error:
            self.trouble, rows = f"{error} {MEND}", []
        for row in rows:
            self._made_honest(row)
        sign = -1.0 if self.spec.goal.mode == "max" else 1.0

        def rank(row: Row) -> tuple[bool, float, int]:
            value = best_of(row)
            return (value is None, sign * value if value is not None else 0.0, row["number"])

        return sorted(rows, key=rank)

    def trial(self, number: int) -> Row:
        """One trial. Raises NotFound."""
        if self.series is None:
            why = self.trouble or f"it has not begun. {self.reason}"
            raise NotFound(f"{self.label} has no trial {trial_label(number)}: {why}".strip())
        row: Row = self.series.trial(number)
        return self._made_honest(row)

    def _made_honest(self, row: Row) -> Row:
        row["label"] = trial_label(row["number"])
        state = row.get("state") or "waiting"
        row["state"] = honest(state, self.alive)
        if row["state"] != state:
            row["reason"] = no_engine(self.store)
        return row

    def line(self) -> Row:
        """What a list says of it."""
        return line_of(
            {
                **self.entry,
                "id": self.id,
                "label": self.label,
                "created": self.spec.created,
                "goal": str(self.spec.goal),
                "state": self.state,
                "reason": self.reason,
                "best": {"trial": self.best[0], "value": self.best[1]} if self.best else None,
                "notebook": self.spec.notebook,
            },
            self.meta,
            self.alive,
        )


def lines(store: Store) -> list[Row]:
    """A line for each experiment, the newest first."""
    alive = is_engine_alive(store)
    entries = sorted(read_catalog(store), key=lambda row: (str(row.get("created")), row["id"]), reverse=True)
    found = [line_of(entry, _meta(store, entry), alive) for entry in entries]
    if not alive and any(row["reason"] == NO_ENGINE for row in found):
        why = no_engine(store)
        found = [{**row, "reason": why} if row["reason"] == NO_ENGINE else row for row in found]
    return found


def line_of(entry: Mapping[str, Any], meta: Mapping[str, Any], alive: bool) -> Row:
    """One line of a list, as plain data."""
    state = str(entry.get("state") or "waiting")
    shown = honest(state, alive)
    counts = meta.get("counts") or entry.get("counts")
    begun = max(int(entry.get("trials") or 0), sum((counts or {}).values()))
    planned = (meta.get("planned") or entry.get("planned") or {}).get("trials")
    mode, _, metric = str(entry.get("goal") or "").partition(" ")
    best = meta.get("best") or entry.get("best")  # the catalog is written more seldom
    return {
        "id": entry["id"],
        "label": entry.get("label"),
        "state": shown,
        "reason": NO_ENGINE if not alive and state not in RESTING else entry.get("reason"),
        "goal": {"metric": metric, "mode": mode} if metric else None,
        "best": {"value": best["value"], "trial": trial_label(best["trial"])} if best else None,
        "trials": {
            # Whoever has ended has no trial left that has not.
            "ended": begun if state in ENDED and counts is None else ended_of(counts),
            "begun": begun,
            "planned": planned,
        },
        "outcome": outcome.told(outcome.known(entry, meta)),
        "created": entry.get("created"),
        "started": entry.get("started"),
        "ended": entry.get("ended"),
        "tags": list(entry.get("tags") or ()),
        "note": entry.get("note"),
        "notebook": entry.get("notebook"),
        "parent": entry.get("parent"),
    }


def _meta(store: Store, entry: Mapping[str, Any]) -> Row:
    # The series of what has ended are not opened: a store may hold thousands of experiments.
    if entry.get("state") in RESTING or "counts" in entry:
        return {}
    from workbench.store.series import Series

    try:
        with Series.read(store.experiment(entry["id"]).series) as series:
            return dict(series.meta())
    except (NotFound, StoreError):  # one damaged experiment must not hide the others
        return {}


def ended_of(counts: Mapping[str, int] | None) -> int:
    """How many of the trials counted by state have ended."""
    return sum(number for state, number in (counts or {}).items() if state in ENDED)


def best_of(row: Mapping[str, Any]) -> float | None:
    """A trial's best value of the goal, where it has a finite one."""
    for value in (row.get("best"), row.get("value")):
        if value is not None and math.isfinite(value):
            return float(value)
    return None
