"""Lasting wishes of users: deletions, pins, retention rules, quota. Law: it reads the journals.

Each wish is a line of the store's own journal; a later line replaces an earlier one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from workbench.errors import BadInput, BadName, BadOption, NotFound, StoreError
from workbench.records import Json, Keep
from workbench.records.names import trial_label, trial_number
from workbench.store import journal
from workbench.store.files.atomic import entries_in
from workbench.store.ids import checked_id
from workbench.store.layout import Store

#: The beginning of the engine's reason for a pause without disk space.
NO_ROOM = "no room: "

#: An experiment, and optionally its trial and step; None means all of them.
Pin = tuple[str, int | None, int | None]


@dataclass(slots=True)
class Said:
    """All wishes of one store."""

    deleted: set[str] = field(default_factory=set)
    #: Those of them whose folders may still be there: an engine may die after its word and before the last file.
    going: set[str] = field(default_factory=set)
    pins: set[Pin] = field(default_factory=set)
    #: Rules that users set, by experiment; other experiments have that of their spec.
    rules: dict[str, Keep] = field(default_factory=dict)
    #: Storages of deleted experiments from which not everything has been removed yet, by experiment.
    emptying: dict[str, str] = field(default_factory=dict)
    #: Bytes that the store may use; 0 for no limit, None if not set.
    quota: int | None = None
    #: The last line read.
    n: int = 0

    def take(self, line: Mapping[str, Json]) -> None:
        """Read one line of the store's journal; lines about something else change nothing."""
        kind, experiment = line.get("kind"), line.get("experiment")
        self.n = max(self.n, int(line.get("n", 0)))
        if kind == "quota":
            self.quota = line.get("bytes")
        if kind not in _ABOUT_ONE or not _is_id(experiment):
            return
        if kind == "delete" and line.get("trial") is None:
            self.deleted.add(experiment)
            self.going.add(experiment)
            storage = line.get("storage")
            if isinstance(storage, str) and storage:
                self.emptying[experiment] = storage
            self.rules.pop(experiment, None)
            self.pins = {pin for pin in self.pins if pin[0] != experiment}
        elif kind == "removed":
            self.going.discard(experiment)
        elif kind == "returned":
            self.deleted.discard(experiment)
            self.going.discard(experiment)
            self.emptying.pop(experiment, None)
        elif kind == "emptied":
            self.emptying.pop(experiment, None)
        elif kind == "pin":
            self.pins.add((experiment, line.get("trial"), line.get("step")))
        elif kind == "unpin":
            self.pins.discard((experiment, line.get("trial"), line.get("step")))
        elif kind == "keep":
            try:
                self.rules[experiment] = Keep(**line["rule"])
            except (KeyError, TypeError, BadInput):  # from a later Workbench: unknown values change nothing
                return

    def rule(self, experiment: str, otherwise: Keep) -> Keep:
        """The experiment's rule: the one that users set, or ``otherwise`` (its spec's)."""
        return self.rules.get(experiment, otherwise)

    def pins_of(self, experiment: str) -> list[str]:
        """Pins of one experiment as users write them: ``t0007:27``, ``t0007``, and empty for all of it."""
        return sorted(pin_label(trial, step) for key, trial, step in self.pins if key == experiment)


def said(store: Store) -> Said:
    """All wishes in ``store``. It is cheap to call often: only new lines are read."""
    path = store.journal_path
    try:
        inode = path.stat().st_ino
    except OSError:
        return Said()
    known = _known.get(path)
    if known is None or known[0] != inode:
        known = _known[path] = (inode, Said())
    found = known[1]
    for line in journal.read(path, after=found.n):
        found.take(line)
    deleted, going, pins, rules = set(found.deleted), set(found.going), set(found.pins), dict(found.rules)
    return dataclasses.replace(found, deleted=deleted, going=going, pins=pins, rules=rules)


#: Kinds of lines with a wish about one experiment.
_ABOUT_ONE = frozenset({"delete", "removed", "returned", "emptied", "pin", "unpin", "keep"})


def _is_id(experiment: Json) -> TypeGuard[str]:
    # It becomes the name of a folder that is removed, here and at a storage.
    with contextlib.suppress(BadName, TypeError):
        return bool(checked_id(experiment))
    return False


_known: dict[Path, tuple[int, Said]] = {}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*(B|[kmgt]i?b?)?", re.IGNORECASE)


def read_bytes(text: str) -> int:
    """``50GB``, ``1.5 TiB`` or ``800000`` in bytes. Raises BadOption."""
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise BadOption(f"{text[:40]!r} is not a size: expected a number and kB, MB, GB or TB. For example: 50GB.")
    unit = (match[2] or "").lower()
    return int(float(match[1]) * (1024 if "i" in unit else 1000) ** ("kmgt".find(unit[:1] or "b") + 1))


def shown_bytes(size: int) -> str:
    """``12.3 MB``."""
    for unit, bytes_ in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= bytes_:
            return f"{size / bytes_:.3g} {unit}"
    return f"{size} B"


def pin_label(trial: int | None, step: int | None) -> str:
    """``t0007:27``, ``t0007``, or empty for all of an experiment."""
    return "" if trial is None else trial_label(trial) + ("" if step is None else f":{step}")


# ---------------------------------------------------------------------------------------------------------------------
# Who descends from whom


@dataclass(frozen=True, slots=True)
class Descent:
    """``child`` started from a checkpoint of another experiment, or trains it again; ``step`` None means any."""

    child: str
    label: str
    experiment: str
    trial: int | None
    step: int | None


#: Fields of a spec that refer to its origin.
_LINEAGE = ("parent", "replays", "repeats")
_descents: dict[Path, tuple[Descent, ...]] = {}
#: The cached result for a store's folder of experiments, with the folder's state.
_last_descents: dict[Path, tuple[tuple[int, int], tuple[Descent, ...]]] = {}


def descents(store: Store) -> list[Descent]:
    """Which experiments descend from which, according to all specs. Specs never change, so each is read once.

    It is cheap to call for each of many experiments: nothing is read unless an experiment was added or removed.
    """
    state = _state(store.experiments)
    last = _last_descents.get(store.experiments)
    if last is not None and last[0] == state:
        return list(last[1])
    found: list[Descent] = []
    ids = store.experiment_ids()
    for key in ids:
        path = store.experiment(key).spec
        known = _descents.get(path)
        if known is None:
            try:
                known = _descents[path] = tuple(_of_spec(store.read_spec_json(key)))
            except (NotFound, StoreError):
                continue
        found += known
    # A folder is created before its spec: if one has none yet, do not cache the result.
    if all(os.path.exists(f"{entry.path}/spec.json") for entry in entries_in(str(store.experiments))):
        _last_descents[store.experiments] = state, tuple(found)
    return found


def _state(folder: Path) -> tuple[int, int]:
    try:
        stat = folder.stat()
    except OSError:
        return (0, 0)
    return stat.st_ino, stat.st_mtime_ns


def _of_spec(spec: Mapping[str, Json]) -> list[Descent]:
    label = f"{spec.get('name')}@{spec.get('version')}"
    found = []
    for name in _LINEAGE:
        one = spec.get(name)
        if isinstance(one, dict) and isinstance(one.get("experiment"), str):
            trial, step = one.get("trial"), one.get("step")
            if isinstance(trial, str):
                trial = trial_number(trial)
            found.append(Descent(str(spec.get("id")), label, one["experiment"], trial, step))
    return found


def protected(
    store: Store, wishes: Said, experiment: str, descending: list[Descent] | None = None
) -> dict[tuple[int | None, int | None], str]:
    """Why protected checkpoints of ``experiment`` stay, in the form for :func:`retention.verdict`."""
    found: dict[tuple[int | None, int | None], str] = {}
    for one in descents(store) if descending is None else descending:
        if one.experiment == experiment and one.child not in wishes.deleted:
            found[one.trial, one.step] = f"{one.label} descends from it"
    for key, trial, step in wishes.pins:
        if key == experiment:
            found[trial, step] = "it is pinned"
    return found
