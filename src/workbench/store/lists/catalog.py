"""The list of experiments. Law: everything in it is also in specs and journals, so it can be rebuilt from them.

It uses TinyDB, on a storage that replaces the file atomically. Changes wait in memory and are written together: each
write contains the whole list. Points, trials and legs are never stored here.
"""

from __future__ import annotations

import contextlib
import difflib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinydb import TinyDB, where
from tinydb.storages import Storage
from tinydb.table import Document

from workbench.errors import BadName, BadOption, NotFound, StoreError, WorkbenchError
from workbench.records import SCHEMA, Json, Spec, check_schema
from workbench.records.names import trial_label, trial_number
from workbench.store.files.atomic import MOST_JSON, move_away, read_json, write_json
from workbench.store.ids import checked_id
from workbench.store.journal import Damage
from workbench.store.layout import Store
from workbench.store.lists.rows import is_line
from workbench.store.lists.said import said
from workbench.store.lists.summary import entry_of, labels_of

#: The minimum interval between two writes of the file.
FLUSH_S = 0.5

#: A list of this many bytes is read in any store, and this many more for each experiment.
_USUAL, _A_LINE = 4 << 20, 16 << 10

Entry = dict[str, Any]


class AtomicStorage(Storage):
    """TinyDB's storage: the whole list in memory, and a file that is replaced, never changed.

    TinyDB's own storage rewrites its file in place, so a crash or a second reader may find half of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: list[Damage] = []
        self.is_changed = False
        self._data = self._load()

    def read(self) -> dict[str, dict[str, Any]] | None:
        """The list in memory."""
        return self._data

    def write(self, data: dict[str, dict[str, Any]]) -> None:
        """Keep ``data`` until :meth:`save` writes it."""
        self._data, self.is_changed = data, True

    def save(self) -> None:
        """Replace the file if something changed. Raises StoreFull and the like; the next call tries again."""
        if self.is_changed:
            write_json(self.path, self._data, fsync=False)
            self.is_changed = False

    def _load(self) -> dict[str, dict[str, Any]] | None:
        try:
            return _tables(self.path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.damage.append(Damage(self.path, 0, f"it is not a catalog ({error}); rebuilt from the journals"))
            if self.path.is_dir():  # a file cannot replace a folder
                move_away(self.path)
            return None


class Catalog:
    """The engine's access to the list. Several threads may use it; only ``flush`` waits for the disk."""

    def __init__(self, store: Store) -> None:
        """Raises NewerSchema if a later Workbench wrote the list."""
        store.check_writable()
        self.store = store
        self._storage = AtomicStorage(store.catalog_path)
        check_schema(_about(self._storage.read()), str(store.catalog_path))
        self._db = TinyDB(storage=lambda: self._storage)
        self._table = self._db.table("experiments", cache_size=0)
        self._documents = {document["id"]: document.doc_id for document in self._table}
        self._waiting: dict[str, Entry] = {}
        self._taking = threading.Lock()
        self._using = threading.RLock()
        self._written = 0.0

    @property
    def damage(self) -> list[Damage]:
        """Problems of the file that were worked around."""
        return self._storage.damage

    def upsert_experiment(self, experiment_id: str, fields: Mapping[str, Json]) -> None:
        """Set fields of a new or existing experiment; other fields are unchanged."""
        checked_id(experiment_id)
        with self._taking:
            self._waiting.setdefault(experiment_id, {}).update(fields)

    def remove(self, experiment_id: str) -> None:
        """Remove an experiment from the list, if it is there."""
        with self._using:
            self._take()
            number = self._documents.pop(experiment_id, None)
            if number is not None:
                self._table.remove(doc_ids=[number])

    def experiments(self) -> list[Entry]:
        """All experiments, oldest first."""
        with self._using:
            self._take()
            return sorted((dict(document) for document in self._table), key=_id)

    def knows(self, experiment_id: str) -> bool:
        """Whether an experiment is on the list. It is cheap, and does not write waiting changes."""
        return experiment_id in self._waiting or experiment_id in self._documents

    def get(self, experiment_id: str) -> Entry | None:
        """One experiment, or None."""
        with self._using:
            self._take()
            number = self._documents.get(experiment_id)
            found = None if number is None else self._table.get(doc_id=number)
            return dict(found) if found else None

    def find(self, name: str, version: int | None = None) -> Entry | None:
        """The experiment with this name and version (None: the newest version); None if there is none."""
        with self._using:
            self._take()
            return _newest([dict(document) for document in self._table.search(where("name") == name)], version)

    def rebuild_if_needed(self) -> list[str]:
        """Add experiments that specs and journals have and the list lacks; return their ids.

        A list may be missing or damaged, or older than a journal if the engine was killed before writing it.
        """
        try:
            written = self.store.catalog_path.stat().st_mtime_ns if self._documents else 0
        except OSError:
            written = 0
        known = {} if not written else {entry["id"]: entry for entry in self.experiments()}
        stale = []
        deleted = said(self.store).deleted
        for experiment_id in known.keys() & deleted:
            self.remove(experiment_id)
        for experiment_id in self.store.experiment_ids():
            if experiment_id in deleted:
                continue  # its folder is about to go
            behind = _modified(self.store.experiment(experiment_id).journal) >= written
            entry = entry_of(self.store, experiment_id) if behind or experiment_id not in known else None
            if entry is not None:
                self.upsert_experiment(experiment_id, entry)
                stale.append(experiment_id)
        # A line that was read from a spec has the spec's name.
        if stale or _modified(self.store.journal_path) >= written:
            there = {*known, *stale}
            for experiment_id, fields in labels_of(self.store).items():
                if experiment_id in there:
                    self.upsert_experiment(experiment_id, fields)
        return stale

    @classmethod
    def rebuild(cls, store: Store) -> Catalog:
        """Rebuild the list from specs and journals, and write it."""
        store.check_writable()
        store.catalog_path.unlink(missing_ok=True)
        catalog = cls(store)
        catalog.rebuild_if_needed()
        catalog.close()
        return catalog

    def flush(self) -> None:
        """Write changes. It blocks, so it is called in a thread; within half a second of the last time it waits first.
        Raises StoreFull and the like; the changes then wait for the next call.
        """
        with self._taking:
            nothing = not (self._waiting or self._storage.is_changed)
        if not nothing:
            time.sleep(max(0.0, self._written + FLUSH_S - time.monotonic()))
            self.close()

    def close(self) -> None:
        """Write changes at once. The catalog remains usable."""
        with self._using:
            self._take()
            if self._storage.is_changed:
                self._db.table("about").truncate()
                self._db.table("about").insert(Document({"schema": SCHEMA}, doc_id=1))
                self._written = time.monotonic()
            self._storage.save()

    def _take(self) -> None:
        """Write waiting changes to TinyDB: two writes for any number of experiments."""
        with self._taking:
            waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        known = [number for id_, number in self._documents.items() if id_ in waiting]
        new = [{"id": id_, **fields} for id_, fields in waiting.items() if id_ not in self._documents]
        if known:
            self._table.update(lambda document: _set(document, waiting[document["id"]]), doc_ids=known)
        if new:
            for entry in new:
                _set(entry, {})
            numbers = self._table.insert_multiple(new)
            self._documents.update((entry["id"], number) for entry, number in zip(new, numbers, strict=True))


def read_catalog(store: Store) -> list[Entry]:
    """All experiments, oldest first, for viewers; it works without an engine.

    It is cheap to call often: an unchanged file is not read again. A missing or damaged list is rebuilt from specs and
    journals, in memory.
    """
    return [dict(entry) for entry in _read(store).values()]


def read_entry(store: Store, experiment_id: str) -> Entry:
    """One experiment's line of :func:`read_catalog`; empty if it is not listed (yet)."""
    return dict(_read(store).get(experiment_id, {}))


def _read(store: Store) -> Mapping[str, Entry]:
    path = store.catalog_path
    try:
        stat = path.lstat()
        state = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    except OSError:
        state = None
    known = _read_lists.get(path)
    if known is None or known[0] != state:
        known = state, None if state is None else _listed_in(store, state[1])
        if len(_read_lists) > 16:
            _read_lists.clear()
        _read_lists[path] = known
    return known[1] if known[1] is not None else {_id(entry): entry for entry in _from_journals(store)}


def _listed_in(store: Store, size: int) -> dict[str, Entry] | None:
    """The lines of the list, which has ``size`` bytes; None if it cannot be read, or has lines that no engine wrote."""
    try:
        rows = _tables(store.catalog_path, _most_bytes(store, size)).get("experiments", {}).values()
    except (OSError, ValueError):
        return None
    return {_id(row): row for row in sorted(rows, key=_id)} if all(map(is_line, rows)) else None


def _most_bytes(store: Store, size: int) -> int:
    """The most bytes of a list that is read. Another person's may have any size, and takes many times that in memory:
    so a list larger than usual must also have the experiments that make it large."""
    return _USUAL if size <= _USUAL else _USUAL + _A_LINE * len(store.experiment_ids())


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed name: an experiment, and optionally its trial and step."""

    experiment: str
    label: str
    trial: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        trial = "" if self.trial is None else f"/{trial_label(self.trial)}"
        return f"{self.label}{trial}{'' if self.step is None else f':{self.step}'}"


def resolve(store: Store, text: str) -> Reference:
    """Resolve ``digits``, ``digits@2``, ``digits@2/t0007``, ``digits@2/t0007:27``, or the same with an id for the name.

    Without a version it is the newest. Raises NotFound, suggesting the nearest name, and BadName for an invalid name.
    """
    head, slash, tail = text.strip().partition("/")
    trial = step = None
    if slash:
        label, colon, digits = tail.partition(":")
        trial = trial_number(label)
        step = _number(digits, text, "a step") if colon else None
    name, at, digits = head.partition("@")
    version = _number(digits, text, "a version") if at else None
    entry = _named(store, name, version)
    if trial is not None:
        _check_trial(store, entry, trial)
    return Reference(entry["id"], entry["label"], trial, step)


#: The lines of a store's list, with the state of its file; None if the journals are read instead.
_read_lists: dict[Path, tuple[tuple[int, int, int] | None, dict[str, Entry] | None]] = {}


def resolve_experiment(store: Store, text: str) -> Reference:
    """The same for what takes a whole experiment. Raises BadOption for a trial of it."""
    return whole(resolve(store, text), text)


def whole(reference: Reference, text: str) -> Reference:
    """``reference``, which ``text`` named. Raises BadOption if it is a trial."""
    if reference.trial is not None:
        raise BadOption(f"{text!r} names a trial; expected an experiment. Write {reference.label}.")
    return reference


def label_of(store: Store, experiment_id: str) -> str:
    """A name that means exactly this experiment in this store: its label in the catalog, otherwise its id.

    The label in a spec was chosen by its author, and another experiment here may have it.
    """
    label = read_entry(store, experiment_id).get("label")
    with contextlib.suppress(WorkbenchError):
        if label and resolve(store, str(label)).experiment == experiment_id:
            return str(label)
    return experiment_id


def shown_as(store: Store, spec: Spec) -> str:
    """The experiment's label in this store: that of its spec, unless it was renamed or imported under another name."""
    return str(read_entry(store, spec.id).get("label") or spec.label)


def _named(store: Store, name: str, version: int | None) -> Entry:
    entries = read_catalog(store)
    found = _newest([entry for entry in entries if entry.get("name") == name], version)
    if found is None:
        found = next((entry for entry in entries if entry["id"] == name), None)
    if found is None or (version is None and found["id"] != name):
        written = _just_written(store, entries, name, version)
        found = _newest([one for one in (found, written) if one is not None], version)
    if found is not None:
        return found
    versions = sorted({int(entry["version"]) for entry in entries if entry.get("name") == name})
    if versions:
        raise NotFound(f"{name!r} has no version {version}: it has {_listed(versions)}.")
    names = {str(entry["name"]): None for entry in reversed(entries)}
    near = difflib.get_close_matches(name, [*names, *(entry["id"] for entry in entries)], n=1, cutoff=0.5)
    if near:
        hint = f"Did you mean {near[0]}?"
    elif names:
        hint = f"There is {_listed(list(names))}; workbench ls shows all."
    else:
        hint = "There is none yet; a %%train cell creates one."
    raise NotFound(f"{store.root} has no experiment {name[:60]!r}. {hint}")


def _just_written(store: Store, entries: list[Entry], name: str, version: int | None) -> Entry | None:
    """An experiment with a spec that is not on the list yet, which is written at most twice a second."""
    known = {entry["id"] for entry in entries}
    new: list[Entry] = []
    for experiment_id in store.experiment_ids():
        if experiment_id in known:
            continue
        try:
            spec = store.read_spec(experiment_id, viewing=True)
        except (BadName, NotFound, StoreError):
            continue
        if spec.name == name or (spec.id == name and version is None):
            new.append({"id": spec.id, "name": spec.name, "version": spec.version, "label": spec.label})
    return _newest(new, version)


def _check_trial(store: Store, entry: Entry, trial: int) -> None:
    from workbench.store.series import Series  # import SQLite only if a trial is asked for

    paths = store.experiment(entry["id"])
    if paths.series.exists():
        with Series.read(paths.series) as series:
            series.trial(trial)


def _newest(entries: list[Entry], version: int | None) -> Entry | None:
    wanted = [entry for entry in entries if version is None or entry.get("version") == version]
    return max(wanted, key=lambda entry: (entry.get("version", 0), entry["id"]), default=None)


def _number(digits: str, text: str, what: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise BadName(f"{text[:80]!r}: {digits[:20]!r} is no {what[2:]}. For example: digits@2/t0007:27.")
    return int(digits)


def _listed(names: Sequence[object]) -> str:
    """The first and the last few, for messages."""
    shown = names if len(names) <= 6 else [*names[:3], "…", *names[-3:]]
    return ", ".join(map(str, shown))


def _from_journals(store: Store) -> list[Entry]:
    labels = labels_of(store)
    found = []
    deleted = said(store).deleted
    for experiment_id in store.experiment_ids():
        entry = None if experiment_id in deleted else entry_of(store, experiment_id)
        if entry is not None:
            found.append(_set(entry, labels.get(experiment_id, {})))
    return found


def _set(entry: Any, fields: Mapping[str, Json]) -> Any:
    """``entry`` with ``fields``; its label follows its name and version."""
    entry.update(fields)
    if "name" in entry:
        entry["label"] = f"{entry['name']}@{entry.get('version', 1)}"
    return entry


def _tables(path: Path, most: int = MOST_JSON) -> dict[str, dict[str, Any]]:
    data = read_json(path, most)
    if not isinstance(data, dict) or not all(map(_is_table, data.values())):
        raise ValueError("it holds no tables")
    if not all(isinstance(row.get("id"), str) for row in data.get("experiments", {}).values()):
        raise ValueError("it holds lines without an id")
    return data


def _is_table(table: object) -> bool:
    return isinstance(table, dict) and all(
        len(number) < 20 and number.isdecimal() and isinstance(row, dict) for number, row in table.items()
    )


def _about(data: Mapping[str, Any] | None) -> Mapping[str, Json]:
    documents: Iterator[Mapping[str, Json]] = iter((data or {}).get("about", {}).values())
    return next(documents, {})


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


def _id(entry: Mapping[str, Any]) -> str:
    return str(entry["id"])
