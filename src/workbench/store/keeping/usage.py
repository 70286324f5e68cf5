"""How many bytes a store takes, and for what. Law: it reads; what two experiments share is counted once.

It is asked every few seconds while a panel is open: an experiment in which nothing changed costs a few looks at its
folder, whatever the number of its trials. Bytes are those of the files' lengths, as `ls` says them.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import stat as kinds
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workbench.store.files import packed
from workbench.store.files.atomic import entries_in, size_of, tree_size
from workbench.store.files.parts import NAMED
from workbench.store.keeping.naming import named_by_experiment
from workbench.store.layout import ATTEMPTS, ExperimentPaths, Store

#: Seconds for which an experiment whose journal still moves is not looked through again.
BUSY_S = 5.0
#: Seconds after its journal's last line at which an experiment is still; it is then looked through when that changes.
STILL_S = 30.0


@dataclass(frozen=True, slots=True)
class TrialUsage:
    """Bytes of one trial: its checkpoints (by step), its log, the files it kept."""

    checkpoints: int = 0
    log: int = 0
    files: int = 0

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.checkpoints + self.log + self.files


@dataclass(frozen=True, slots=True)
class ExperimentUsage:
    """Bytes of one experiment.

    checkpoints, log, files: of all its trials. series, journal, spec: of its own files. own: blobs and snapshots that
    no other experiment needs, and that deleting it frees. shared: those that others need as well.
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
        """What deleting it frees: its folder, and blobs and snapshots that only it needs."""
        return self.folder + self.own


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes of a store. other: requests, catalog, journal of the store, documents, the engine's log.

    free: bytes that are left on its disk for this user, None where the system does not say. unnamed: bytes of blobs
    and snapshots that no experiment needs.
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
        """All of it, each blob and snapshot counted once."""
        return sum(one.folder for one in self.experiments.values()) + self.blobs + self.snapshots + self.other


def usage(store: Store) -> Usage:
    """What the store takes now; parts of experiments that are under way may be some seconds old."""
    things = _things(store)
    needs = {key: named_by_experiment(store, key) & things.keys() for key in store.experiment_ids()}
    counts = Counter(name for names in needs.values() for name in names)
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
    """What one experiment takes now, looked through afresh. ``own`` and ``shared`` as :func:`usage` has them."""
    with _looking:
        _known.pop(store.experiment(experiment_id).folder, None)
    return usage(store).experiments[experiment_id]


def forget(store: Store) -> None:
    """Look through every experiment afresh when asked the next time."""
    with _looking:
        for folder in [folder for folder in _known if folder.parent == store.experiments]:
            del _known[folder]


def checkpoint_bytes(paths: ExperimentPaths) -> int:
    """Bytes of all checkpoints of one experiment, now."""
    return sum(one.checkpoints for _, one in _trials_in(paths))


def free(store: Store) -> int | None:
    """Bytes left on the store's disk for this user; None where the system does not say."""
    try:
        return shutil.disk_usage(store.root).free
    except OSError:
        return None


def trials_of(paths: ExperimentPaths) -> list[int]:
    """Trials that have a file or a folder, whatever is in it."""
    return numbers((*_names(paths.trials), *packed.within(paths.trials).sizes))


def numbers(names: Iterable[str]) -> list[int]:
    """The trials to which these names of files and folders belong, rising."""
    return sorted({int(match[1]) for name in names if (match := _TRIAL.match(name))})


# ---------------------------------------------------------------------------------------------------------------------


_State = tuple[int, ...]
_TRIAL = re.compile(r"t(\d{4,9})(?![0-9])")
_looking = threading.Lock()
#: What was found in an experiment's folder: in which state of it, until when that holds (monotonic seconds), and what.
_known: dict[Path, tuple[_State, float, dict[str, Any]]] = {}
#: What was found in a trial's folder, and in which state of it.
_trials: dict[str, tuple[_State, TrialUsage]] = {}
#: Sizes of snapshots and of checkpoints, which do not change once they are there: (inode, time) and bytes.
_sizes: dict[str, tuple[_State, int]] = {}
#: Bytes of a checkpoint's files that others may have as well, by inode; and the state of its folder.
_parts: dict[str, tuple[_State, dict[int, int]]] = {}


def _looked(paths: ExperimentPaths) -> dict[str, Any]:
    """The fields of ExperimentUsage that its folder tells."""
    about = (paths.journal, paths.series, paths.trials, paths.packed, paths.spec)
    state = tuple(number for path in about for number in _state(path))
    now = time.monotonic()
    with _looking:
        known = _known.get(paths.folder)
    if known is not None and now < known[1] and (known[0] == state or known[1] < math.inf):
        return known[2]
    # A journal that has just been written speaks of files that come and go right now.
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
    """Bytes of files that all trials have together, besides what of each is packed there."""
    archive = size_of(paths.packed)
    besides = archive - sum(packed.within(paths.trials).sizes.values()) if archive else 0
    return size_of(paths.trials / ATTEMPTS) + besides


def _names_by_trial(paths: ExperimentPaths) -> dict[int, dict[str, int | None]]:
    """What there is of each trial: names below the folder of trials, each with its bytes where it is packed."""
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
    # A checkpoint that comes or goes changes the time of the folder around it, and so does a file.
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
    """Bytes of a trial's large checkpoints; a file that several of them have is counted once."""
    total, parts = 0, dict[int, int]()
    for place in (f"{trial}/checkpoints", f"{trial}/passing/checkpoints"):
        for name in _names(place):
            own, shared = _checkpoint(f"{place}/{name}")
            total += own
            parts |= shared
    return total + sum(parts.values())


def _checkpoint(folder: str) -> tuple[int, dict[int, int]]:
    """Bytes that are its own, and those of files that others may have as well, by inode."""
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
    """Bytes of each blob and each snapshot, by name. A notebook that is a link to its blob counts there."""
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
