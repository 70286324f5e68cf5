"""How many bytes a store uses, and for what. Law: it reads; files shared by two experiments count once.

It is called every few seconds while a panel is open: an unchanged experiment costs a few system calls, whatever the
number of its trials. Bytes are the files' lengths, as in `ls`.
"""

from __future__ import annotations

import math
import os
import re
import stat as kinds
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workbench.errors import NotFound
from workbench.store.files import packed
from workbench.store.files.atomic import entries_in, size_of, tree_size
from workbench.store.files.parts import NAMED
from workbench.store.files.space import space_left
from workbench.store.keeping import cached
from workbench.store.keeping.naming import named_by_experiment
from workbench.store.layout import ATTEMPTS, ExperimentPaths, Store

#: Seconds for which an experiment with a growing journal is not scanned again.
BUSY_S = 5.0
#: Seconds after its journal's last line at which an experiment counts as inactive; it is then scanned only after a
#: change.
STILL_S = 30.0


@dataclass(frozen=True, slots=True)
class TrialUsage:
    """Bytes of one trial: its checkpoints (by step), its log, the files it kept."""

    checkpoints: int = 0
    log: int = 0
    files: int = 0

    @property
    def bytes(self) -> int:
        """The sum."""
        return self.checkpoints + self.log + self.files


@dataclass(frozen=True, slots=True)
class ExperimentUsage:
    """Bytes of one experiment.

    checkpoints, log, files: of all its trials. series, journal, spec: of its own files. own: blobs and snapshots that
    only it needs, and that its deletion frees. shared: those that others need as well.
    """

    id: str
    checkpoints: int = 0
    log: int = 0
    files: int = 0
    series: int = 0
    journal: int = 0
    spec: int = 0
    own: int = 0
    shared: int = 0
    trials: dict[int, TrialUsage] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> int:
        """Bytes in its folder."""
        return self.checkpoints + self.log + self.files + self.series + self.journal + self.spec

    @property
    def bytes(self) -> int:
        """The bytes that its deletion frees: its folder, and blobs and snapshots that only it needs."""
        return self.folder + self.own


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes of a store. other: requests, catalog, journal of the store, documents, the engine's log.

    free: free bytes on its disk for this user, None if not known. unnamed: bytes of blobs
    and snapshots that no experiment and no cached result needs.
    """

    root: str
    experiments: dict[str, ExperimentUsage]
    blobs: int
    snapshots: int
    other: int
    unnamed: int
    free: int | None

    @property
    def bytes(self) -> int:
        """The sum, each blob and snapshot counted once."""
        return sum(one.folder for one in self.experiments.values()) + self.blobs + self.snapshots + self.other


def usage(store: Store) -> Usage:
    """The store's present usage; figures of running experiments may be some seconds old."""
    things = _things(store)
    needs = {key: named_by_experiment(store, key, there=things) & things.keys() for key in store.experiment_ids()}
    counts = Counter(name for names in needs.values() for name in names)
    counts.update(cached.named(store))  # no experiment's own: its deletion frees none of them
    experiments = {}
    for key, names in needs.items():
        own = sum(things[name] for name in names if counts[name] == 1)
        shared = sum(things[name] for name in names if counts[name] > 1)
        found = _looked(store.experiment(key))
        experiments[key] = ExperimentUsage(**{**found, "own": own, "shared": shared})
    snapshots = sum(things[name] for name in _names(store.snapshots) if name in things)
    blobs = sum(things[name] for name in _names(store.blobs) if name in things)
    unnamed = sum(size for name, size in things.items() if not counts[name])
    return Usage(str(store.root), experiments, blobs, snapshots, _other(store), unnamed, free(store))


def experiment_usage(store: Store, experiment_id: str) -> ExperimentUsage:
    """One experiment's present usage, scanned again. ``own`` and ``shared`` as in :func:`usage`. Raises NotFound."""
    with _looking:
        _known.pop(store.experiment(experiment_id).folder, None)
    found = usage(store).experiments.get(experiment_id)
    if found is None:  # deleted a moment ago, by another program
        raise NotFound(f"experiment {experiment_id} is not in {store.root}. `workbench ls` lists those that are.")
    return found


def folder_usage(store: Store, experiment_id: str) -> ExperimentUsage:
    """What is in one experiment's folder, scanned again; ``own`` and ``shared`` stay 0. It costs the same in any store,
    where :func:`experiment_usage` looks at what every other experiment needs. Raises NotFound."""
    paths = store.experiment(experiment_id)
    if not paths.folder.is_dir():
        raise NotFound(f"experiment {experiment_id} is not in {store.root}. `workbench ls` lists those that are.")
    with _looking:
        _known.pop(paths.folder, None)
    return ExperimentUsage(**_looked(paths))


def forget(store: Store) -> None:
    """Scan every experiment again with the next call."""
    with _looking:
        for folder in [folder for folder in _known if folder.parent == store.experiments]:
            del _known[folder]


def checkpoint_bytes(paths: ExperimentPaths) -> int:
    """Bytes of all checkpoints of one experiment, now."""
    return sum(one.checkpoints for _, one in _trials_in(paths))


def trial_checkpoint_bytes(paths: ExperimentPaths) -> dict[int, int]:
    """Bytes of the checkpoints of each trial of one experiment, now."""
    return {number: one.checkpoints for number, one in _trials_in(paths)}


def free(store: Store) -> int | None:
    """Free bytes on the store's disk for this user; None if not known."""
    try:
        return space_left(store.root)
    except OSError:
        return None


def trials_of(paths: ExperimentPaths) -> list[int]:
    """Trials with a file or a folder."""
    return numbers((*_names(paths.trials), *packed.within(paths.trials).sizes))


def numbers(names: Iterable[str]) -> list[int]:
    """The trials of these names of files and folders, rising."""
    return sorted({int(match[1]) for name in names if (match := _TRIAL.match(name))})


# ---------------------------------------------------------------------------------------------------------------------


_State = tuple[int, ...]
_TRIAL = re.compile(r"t(\d{4,9})(?![0-9])")
_looking = threading.Lock()
#: The cached result for an experiment's folder: its state, the expiry (monotonic seconds), and the usage.
_known: dict[Path, tuple[_State, float, dict[str, Any]]] = {}
#: The cached result for a trial's folder, with the folder's state.
_trials: dict[str, tuple[_State, TrialUsage]] = {}
#: Sizes of snapshots and of checkpoints, which never change: (inode, time) and bytes.
_sizes: dict[str, tuple[_State, int]] = {}
#: Bytes of a checkpoint's files that others may share, by inode; and the state of its folder.
_parts: dict[str, tuple[_State, dict[int, int]]] = {}


def _looked(paths: ExperimentPaths) -> dict[str, Any]:
    """The fields of ExperimentUsage that come from its folder."""
    about = (paths.journal, paths.series, paths.trials, paths.packed, paths.spec)
    state = tuple(number for path in about for number in _state(path))
    now = time.monotonic()
    with _looking:
        known = _known.get(paths.folder)
    if known is not None and now < known[1] and (known[0] == state or known[1] < math.inf):
        return known[2]
    # If a journal was just written, files are changing right now.
    holds = math.inf if _age(paths.journal) > STILL_S else now + BUSY_S
    trials = dict(_trials_in(paths))
    found: dict[str, Any] = {
        "id": paths.id,
        "checkpoints": sum(one.checkpoints for one in trials.values()) + _shared(paths),
        "log": sum(one.log for one in trials.values()),
        "files": sum(one.files for one in trials.values()),
        "series": sum(size_of(path) for path in paths.folder.glob("series.db*")),
        "journal": size_of(paths.journal),
        "spec": size_of(paths.spec),
        "trials": trials,
    }
    with _looking:
        _known[paths.folder] = (state, holds, found)
    return found


def _shared(paths: ExperimentPaths) -> int:
    """Bytes of files that trials share, without the packed files of each."""
    archive = size_of(paths.packed)
    besides = archive - sum(packed.within(paths.trials).sizes.values()) if archive else 0
    return size_of(paths.trials / ATTEMPTS) + besides


def _names_by_trial(paths: ExperimentPaths) -> dict[int, dict[str, int | None]]:
    """The files of each trial: names below the folder of trials, each with its size if packed."""
    found: dict[int, dict[str, int | None]] = {}
    lying = _names(paths.trials)
    there: dict[str, int | None] = {**packed.within(paths.trials).sizes, **dict.fromkeys(lying)}
    for name, size in there.items():
        match = _TRIAL.match(name)
        if match:
            found.setdefault(int(match[1]), {})[name] = size
    return found


def _trials_in(paths: ExperimentPaths) -> Iterator[tuple[int, TrialUsage]]:
    for number, names in sorted(_names_by_trial(paths).items()):
        folder = paths.trial(number).folder
        if folder.name in names:
            kept = _in_folder(str(folder))
        else:
            kept = TrialUsage()
        for name, size in names.items():
            length = _state(paths.trials / name)[3] if size is None else size
            if name.endswith(".zip"):
                kept = replace(kept, checkpoints=kept.checkpoints + length)
            elif ".log.txt" in name:
                kept = replace(kept, log=kept.log + length)
        yield number, kept


def _in_folder(folder: str) -> TrialUsage:
    # Adding or removing a checkpoint or a file changes the time of its parent folder.
    state = (
        *_state(f"{folder}/checkpoints"),
        *_state(f"{folder}/passing"),
        *_state(f"{folder}/files"),
        *_state(f"{folder}/log.txt"),
    )
    known = _trials.get(folder)
    if known is None or known[0] != state:
        log = state[-1]
        known = _trials[folder] = (state, TrialUsage(_kept(folder), log, tree_size(f"{folder}/files")))
    return known[1]


def _kept(trial: str) -> int:
    """Bytes of a trial's large checkpoints; a file shared by several counts once."""
    total, parts = 0, dict[int, int]()
    for place in (f"{trial}/checkpoints", f"{trial}/passing/checkpoints"):
        for name in _names(place):
            own, shared = _checkpoint(f"{place}/{name}")
            total += own
            parts |= shared
    return total + sum(parts.values())


def _checkpoint(folder: str) -> tuple[int, dict[int, int]]:
    """Its own bytes, and those of files that others may share, by inode."""
    whole = _size_once(folder)
    state = _sizes[folder][0]
    known = _parts.get(folder)
    if known is None or known[0] != state:
        found = {}
        for entry in entries_in(folder) if kinds.S_ISDIR(state[2]) else ():
            if NAMED.fullmatch(entry.name):
                try:
                    found[entry.inode()] = entry.stat(follow_symlinks=False).st_size
                except OSError:
                    continue
        known = _parts[folder] = (state, found)
    return whole - sum(known[1].values()), known[1]


def _things(store: Store) -> dict[str, int]:
    """Bytes of each blob and each snapshot, by name. A notebook that is a link to its blob counts as the blob."""
    found = {}
    for entry in entries_in(str(store.blobs)):
        try:
            found[entry.name] = entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    for name in _names(store.snapshots):
        found[name] = found.get(name, 0) + _size_once(f"{store.snapshots}/{name}", links=False)
    return found


def _other(store: Store) -> int:
    apart = {store.blobs.name, store.snapshots.name, store.experiments.name}
    return sum(size_of(Path(entry.path)) for entry in entries_in(str(store.root)) if entry.name not in apart)


def _size_once(folder: str, links: bool = True) -> int:
    state = _state(folder)
    known = _sizes.get(folder)
    if known is None or known[0] != state:
        known = _sizes[folder] = (state, tree_size(folder, links) if kinds.S_ISDIR(state[2]) else state[3])
    return known[1]


def _state(path: Path | str) -> _State:
    """Inode, time, kind and length; zeros where there is nothing."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return (0, 0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_mode, found.st_size)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _names(folder: Path | str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
