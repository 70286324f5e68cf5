"""One experiment's line, from its spec and journal. Law: it reads; the same lines give the same summary."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from workbench.errors import WorkbenchError
from workbench.facts import CapacityChanged, Finish, Rest, fact_from_line
from workbench.records import ENDED, UNREADABLE, Json, Spec
from workbench.store import journal
from workbench.store.files.atomic import kind_of
from workbench.store.journal import Damage
from workbench.store.layout import Store
from workbench.store.lists import outcome
from workbench.store.lists.rows import is_field, is_line
from workbench.store.lists.said import said
from workbench.store.recalled import check_lines, check_spec

#: Lines of the store's own journal with which users label an experiment, and the field that each of them sets.
LABELS = {"rename": "name", "tag": "tags", "note": "note"}


@dataclass(frozen=True, slots=True)
class _Look:
    """The cached result for a journal, with the file's state."""

    state: tuple[int, int, int]
    entry: dict[str, Any] | None


Looks: TypeAlias = Mapping[Path, _Look]
#: By journal: for a store without a list, only journals that grew are read again.
_looks: dict[Path, _Look] = {}


def given_names(spec: Spec, trial: int) -> list[str]:
    """The hyperparameters whose values the user gave for this trial."""
    from workbench.search.plan import given_of

    return list(given_of(spec, trial))


def summary(spec: Spec, lines: Sequence[Mapping[str, Json]]) -> dict[str, Any]:
    """The catalog's fields of the experiment with this spec and these journal lines.

    The search itself reads them, so that its best trial here is its best trial everywhere. Raises BadSpace or
    BadOption for a spec that cannot be searched.
    """
    from workbench.search import Search  # lists are rebuilt rarely, and `ls` starts often
    from workbench.search.life import Life

    search, life = Search.of(spec), Life()
    steps: dict[int, int] = {}
    checks, checked = 0, None
    told: dict[int, int] = {}
    lost = None
    for line in lines:
        kind = line.get("kind")
        if (fact := fact_from_line(line)) is not None:
            if isinstance(fact, CapacityChanged):
                # Each started leg has a line. A forged journal may claim millions of slots.
                fact = CapacityChanged(min(fact.slots, len(lines)))
            life = life.after(fact, line["at"])
            search.handle(fact)
        if kind == "LegStarted":
            life = life.began(line["at"])
        elif kind in ("Reached", "Ended"):
            steps[line["trial"]] = max(line["step"], steps.get(line["trial"], 0))
        elif kind == "Finish":
            life = life.after(Finish(line["state"], line["reason"]), line["at"])
        elif kind == "Rest":
            life = life.after(Rest(line["reason"]), line["at"])
        elif kind == "VerifyDue":
            checks += 1
        elif kind == "Verified":
            checks, checked = checks - 1, line["verdict"]
        elif kind == "SeriesLost":
            lost = {name: line.get(name) for name in ("before", "points", "put_back", "sources", "file")}
        elif kind == "Telling":
            told[line["id"]] = len(line["ways"])
        elif kind == "Notified" and line.get("id") in told:
            told[line["id"]] -= 1
    best, (planned, legs, _) = search.best, search.plan.predicted
    return {
        "id": spec.id,
        "name": spec.name,
        "version": spec.version,
        "label": spec.label,
        "created": spec.created,
        "started": life.started,
        "ended": life.ended,
        "state": life.state,
        "reason": life.reason,
        "pause": life.pause if life.state == "paused" else None,
        "goal": str(spec.goal),
        "trials": len(search.trials),
        "planned": {"trials": planned, "legs": legs},
        "counts": search.counts,
        "failures": outcome.failures(one.reason for _, one in sorted(search.trials.items()) if one.state == "failed"),
        "steps": sum(steps.values()),
        "best": best.to_json() if best else None,
        "content": spec.content,
        "notebook": spec.notebook,
        "parent": spec.parent["label"] if spec.parent else None,
        "verify": "waiting" if checks > 0 else checked,
        "tells": any(told.values()),
        "lost": lost,
    }


def entry_of(store: Store, experiment_id: str) -> dict[str, Any] | None:
    """The catalog's fields of one experiment; None if no engine has started it.

    One with an invalid spec or journal is *unreadable*, unless it has ended: then its valid part is shown.
    """
    found = _looked(store, experiment_id)
    return None if found is None or found.entry is None else dict(found.entry)


def known(store: Store, experiment_ids: Iterable[str]) -> Looks:
    """This process's cache for these experiments' journals, for another one to :func:`learn`."""
    paths = [store.experiment(one).journal for one in experiment_ids]
    return {path: _looks[path] for path in paths if path in _looks}


def learn(looks: Looks) -> None:
    """Merge another process's cache."""
    _looks.update(looks)


def _looked(store: Store, experiment_id: str) -> _Look | None:
    path = store.experiment(experiment_id).journal
    try:
        stat = path.lstat()
    except OSError:
        return None
    state = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    found = _looks.get(path)
    if found is not None and found.state == state:
        return found
    return _looks_like(store, experiment_id, state, None, [])


def lines_of(store: Store, experiment_id: str, damage: list[Damage], spec: Spec | None = None) -> list[dict[str, Any]]:
    """The lines of an experiment's journal. A later call for its entry uses this reading.

    Unreadable parts are added to ``damage``. spec: the experiment's, if it was read and checked already. Raises
    OSError.
    """
    path = store.experiment(experiment_id).journal
    stat = path.lstat()
    lines = list(journal.read(path, damage=damage))
    _looks_like(store, experiment_id, (stat.st_ino, stat.st_size, stat.st_mtime_ns), lines, damage, spec)
    return lines


def _looks_like(
    store: Store,
    experiment_id: str,
    state: tuple[int, int, int],
    lines: list[dict[str, Any]] | None,
    damage: list[Damage],
    spec: Spec | None = None,
) -> _Look:
    """The result for a journal in ``state``. lines, spec: its lines and the experiment's spec, if already read."""
    path = store.experiment(experiment_id).journal
    try:
        lines = list(journal.read(path, damage=damage)) if lines is None else lines
        whole = state[1] or kind_of(path.lstat().st_mode)
        entry = None
        if whole:
            # Reading a search of a billion trials or slots would take forever.
            spec = spec or check_spec(store.read_spec(experiment_id, viewing=True))
            check_lines(store.experiment(experiment_id), lines)
            entry = summary(spec, lines)
            if not is_line(entry):
                raise ValueError("a field of the spec has another type")
        wrong = next((str(piece) for piece in journal.lasting(path, damage)), None)
        if entry is not None and wrong is not None and entry["state"] not in ENDED:
            entry = unreadable(store, experiment_id, wrong)
    except (WorkbenchError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"its spec or journal is not valid ({error})"[:500]
        return _Look(state, unreadable(store, experiment_id, why))  # the spec may be repaired
    _looks[path] = found = _Look(state, entry)
    return found


def unreadable(store: Store, experiment_id: str, why: str) -> dict[str, Any]:
    """The catalog's fields of an experiment with an invalid spec or journal: its name, if it has one."""
    known: dict[str, Any] = {"name": experiment_id, "version": 1, "created": _created(experiment_id), "goal": ""}
    with contextlib.suppress(WorkbenchError, OSError, ValueError):
        spec = store.read_spec(experiment_id, viewing=True)
        told = {"name": spec.name, "version": spec.version, "created": spec.created, "goal": str(spec.goal)}
        told |= {"content": spec.content, "notebook": spec.notebook}
        known |= {name: value for name, value in told.items() if value is not None and is_field(name, value)}
    label = f"{known['name']}@{known['version']}"
    nothing = {"started": None, "ended": None, "trials": 0, "best": None, "verify": None, "tells": False}
    return {"id": experiment_id, **known, "label": label, "state": UNREADABLE, "reason": why, **nothing}


def _created(experiment_id: str) -> str:
    """When an experiment was made, from its id; empty if the id does not show it."""
    try:
        return datetime.strptime(experiment_id[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).isoformat()
    except ValueError:
        return ""


def labels_of(store: Store) -> dict[str, dict[str, Any]]:
    """Labels of experiments (name, tags, note, pins, keep), by id, from the store's own journal."""
    found: dict[str, dict[str, Any]] = {}
    for line in journal.read(store.journal_path):
        if line.get("kind") == "delete" and line.get("trial") is None:
            found.pop(str(line.get("experiment")), None)
        field = LABELS.get(line.get("kind", ""))
        is_given = field is not None and field in line and is_field(field, line[field])
        if field is not None and is_given and isinstance(line.get("experiment"), str):
            found.setdefault(line["experiment"], {})[field] = line[field]
    wishes = said(store)
    for experiment, rule in wishes.rules.items():
        found.setdefault(experiment, {})["keep"] = str(rule)
    for experiment in {pin[0] for pin in wishes.pins}:
        found.setdefault(experiment, {})["pins"] = wishes.pins_of(experiment)
    return found
