"""Removing unneeded files. Law: files that are referenced, requested, or were touched within a day stay; in doubt, too.

Two kinds are removed: checkpoints not kept by an experiment's rule, and files that no experiment, request or snapshot
refers to (blobs, snapshots, documents), along with files left behind by dead writers. A launch writes blobs and a
snapshot first and refers to them later. So young files are kept, and a file is renamed and checked once more before it
is removed, since another process may need it at that moment.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workbench.errors import BadName, NotFound, StoreError
from workbench.records import Json, Spec
from workbench.records.names import trial_label
from workbench.store import journal
from workbench.store.files import packed
from workbench.store.files.atomic import REMOVED, WRITING, entries_in, fsync_folder, size_of, telling
from workbench.store.journal import Journal
from workbench.store.keeping import cached
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.keeping.naming import everything, named_by_experiment, named_by_requests
from workbench.store.keeping.passing import drop_passing
from workbench.store.keeping.remote import note_removal, steps_sent
from workbench.store.keeping.retention import History, verdict
from workbench.store.keeping.usage import numbers
from workbench.store.layout import UNFINISHED, ExperimentPaths, Store, TrialPaths
from workbench.store.lists import documents
from workbench.store.lists.catalog import shown_as
from workbench.store.lists.said import Said, protected

log = logging.getLogger("workbench.store")

#: Files touched within this many seconds stay.
YOUNG_S = 24 * 3600.0

KINDS = ("checkpoints", "blobs", "snapshots", "documents", "cached", "unfinished", "removed")


@dataclass(slots=True)
class Cleaned:
    """Bytes and number of removed (or removable) items, by kind.

    unfinished: files and folders whose writers died. removed: items that an engine had begun to remove.
    """

    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    things: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    @property
    def total(self) -> int:
        """Bytes of all kinds."""
        return sum(self.bytes.values())

    def add(self, kind: str, size: int) -> None:
        """Count one item."""
        self.bytes[kind] += size
        self.things[kind] += 1

    def __iadd__(self, other: Cleaned) -> Cleaned:
        for kind in KINDS:
            self.bytes[kind] += other.bytes[kind]
            self.things[kind] += other.things[kind]
        return self


# ---------------------------------------------------------------------------------------------------------------------
# Checkpoints not kept by a rule


def history_of(store: Store, spec: Spec) -> History:
    """The history of an experiment's trials from its journal."""
    from workbench.search.members import members_of

    history = History(spec.goal, spec.scheduler.last, members_of(spec).count)
    for line in journal.read(store.experiment(spec.id).journal):
        history.take(line)
    return history


def removed(store: Store, experiment_id: str, trial: int) -> dict[int, str]:
    """Steps whose checkpoints of ``trial`` were removed, and by which rule."""
    found: dict[int, str] = {}
    for line in journal.read(store.experiment(experiment_id).journal):
        if line.get("kind") == "Removed":
            found.update(dict.fromkeys(line["trials"].get(str(trial), ()), str(line.get("why"))))
        elif line.get("kind") == "Saved" and line["trial"] == trial:
            found.pop(line["step"], None)
    return found


def missing(store: Store, spec: Spec, trial: int, step: int | None) -> NotFound:
    """The error that says why there is no checkpoint of ``trial`` at ``step`` (None: at any step), and what to do."""
    label = shown_as(store, spec)
    name = f"{label}/{trial_label(trial)}"
    if not store.experiment(spec.id).spec.exists():
        return NotFound(
            f"{name} is no longer in {store.root}: {label} was deleted. `workbench ls` shows what is there."
        )
    there = Checkpoints(store.experiment(spec.id).trial(trial)).steps()
    gone = removed(store, spec.id, trial)
    has = f"It has {', '.join(map(str, there))}. " if there else ""
    at = "" if step is None else f" at step {step}"
    if gone and (step is None or step in gone):
        why = gone[max(gone) if step is None else step]
        # The rule as users write it.
        keep = "latest=2" if there else "stopped=1"
        return NotFound(
            f"{name} has no checkpoint{at}: {why} removed it. {has}To keep such checkpoints from now on: "
            f"`workbench keep {label} {keep}`, or `workbench pin {name}:{step or max(gone)}` while it is there. "
            f"To get it back, train it again."
        )
    if step is None:
        past = history_of(store, spec).trials.get(trial)
        if past is not None and not past.is_live:
            return NotFound(f"{name} {past.state} without a checkpoint. Load another trial, or train it again.")
        return NotFound(f"{name} has no checkpoint yet. Wait until it reaches its first level, or load another trial.")
    return NotFound(f"{name} has no checkpoint{at}. {has or 'It has none. '}`workbench show {name}` lists them.")


def what_stays(store: Store, spec: Spec, wishes: Said, history: History) -> dict[int, dict[int, str | None]]:
    """Why each existing checkpoint (by trial and step) stays; None if the rule does not keep it."""
    return _what_stays(store, spec, wishes, history, _There.of(store.experiment(spec.id)))


def _what_stays(
    store: Store, spec: Spec, wishes: Said, history: History, there: _There
) -> dict[int, dict[int, str | None]]:
    steps = there.steps(there.trials())
    if not steps:
        return {}
    return verdict(history, wishes.rule(spec.id, spec.keep), steps, protected(store, wishes, spec.id))


@dataclass(frozen=True, slots=True)
class _There:
    """The files of an experiment's trials, from one listing of their folder and one of the packed files."""

    paths: ExperimentPaths
    lying: frozenset[str]
    packed: packed.Within

    @classmethod
    def of(cls, paths: ExperimentPaths) -> _There:
        lying = frozenset(entry.name for entry in entries_in(str(paths.trials)))
        return cls(paths, lying, packed.within(paths.trials))

    def trials(self) -> list[int]:
        return numbers((*self.lying, *self.packed.sizes))

    def state(self) -> tuple[object, ...]:
        """A value that changes when a line is written or a checkpoint is added or removed."""
        within = [TrialPaths(self.paths.trials / name) for name in sorted(self.lying) if "." not in name]
        places = [
            place for trial in within for place in (trial.checkpoints, trial.passing / "checkpoints", trial.remote)
        ]
        found: list[object] = [self.lying]
        for path in (self.paths.journal, self.paths.trials, self.paths.packed, *places):
            try:
                stat = path.stat()
                found += [stat.st_ino, stat.st_size, stat.st_mtime_ns]
            except OSError:
                found.append(None)
        return tuple(found)

    def steps(self, trials: Iterable[int]) -> dict[int, list[int]]:
        """Steps of the checkpoints that are kept, by trial."""
        found: dict[int, list[int]] = {}
        for number in trials:
            label = trial_label(number)
            if label in self.lying or f"{label}.zip" in self.lying:
                trial = self.paths.trial(number)
                found[number] = sorted({*Checkpoints(trial).steps(), *steps_sent(trial)})
            else:
                found[number] = sorted(self.packed.steps.get(f"{label}.zip", ()))
        return {trial: steps for trial, steps in found.items() if steps}

    def between_levels(self, history: History) -> Iterator[TrialPaths]:
        """Finished trials with checkpoints between levels, which their runners died before removing.

        Trials that were stopped with the whole search keep theirs, and continue from them if the search is extended.
        """
        for number in self.trials():
            past, label = history.trials.get(number), trial_label(number)
            if past is None or past.goes_on:
                continue
            trial, name = self.paths.trial(number), f"{label}.passing.zip"
            in_folder = label in self.lying and not Checkpoints(trial.passing).is_empty
            if in_folder or name in self.lying or name in self.packed.sizes:
                yield trial


def clean_ended(
    store: Store, experiment_id: str, wishes: Said, *, spec: Spec | None = None, dry_run: bool = False
) -> Cleaned:
    """Remove the checkpoints not kept by the rule of an experiment that is not running. For the engine.

    With ``dry_run`` nothing is removed, and any process may call it, for a running experiment too. spec: the
    experiment's, if already read.
    """
    cleaned = Cleaned()
    spec = spec or store.read_spec(experiment_id, viewing=dry_run)
    paths = store.experiment(experiment_id)
    there = _There.of(paths)
    if not there.trials():
        return cleaned
    state = (*there.state(), wishes.rule(spec.id, spec.keep), *sorted(map(str, protected(store, wishes, spec.id))))
    if _nothing_goes.get(paths.folder) == state:
        return cleaned
    history = history_of(store, spec)
    told = _what_stays(store, spec, wishes, history, there)
    for one in there.between_levels(history):
        between = Checkpoints(one.passing)
        cleaned.add("unfinished", sum(between.size(step) for step in between.steps()))
        if not dry_run:
            drop_passing(one)
    going, staying = split(told)
    for trial, steps in going.items():
        checkpoints = Checkpoints(paths.trial(trial))
        for step in steps:
            cleaned.add("checkpoints", checkpoints.size(step))
    if going and not dry_run:
        with Journal.open(paths.journal) as writer:
            writer.append(removed_line(going, f"the rule {wishes.rule(spec.id, spec.keep)}"))
        remove(paths, going, staying)
    if not any(cleaned.things.values()):
        _nothing_goes[paths.folder] = state
    return cleaned


#: Experiments with nothing to remove, by folder, with the state for which that holds. Their journals are not read
#: again.
_nothing_goes: dict[Path, tuple[object, ...]] = {}


def split(told: Mapping[int, Mapping[int, str | None]]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The checkpoints to remove, and those that stay of the same trials."""
    going = {trial: [step for step, why in steps.items() if why is None] for trial, steps in told.items()}
    going = {trial: steps for trial, steps in going.items() if steps}
    staying = {trial: [step for step in told[trial] if step not in going[trial]] for trial in going}
    return going, staying


def removed_line(going: Mapping[int, Iterable[int]], why: str) -> dict[str, Json]:
    """The journal's line about removing these checkpoints, written before they are removed."""
    return {"kind": "Removed", "trials": {str(trial): sorted(steps) for trial, steps in going.items()}, "why": why}


def steps_of(paths: ExperimentPaths, trials: Iterable[int]) -> dict[int, list[int]]:
    """Steps of the checkpoints that are kept, by trial. It blocks.

    Checkpoints that exist only at the experiment's URL, after the loss of a disk, count too, or they would never be
    removed there.
    """
    return _There.of(paths).steps(trials)


def remove(paths: ExperimentPaths, going: Mapping[int, Iterable[int]], staying: Mapping[int, Collection[int]]) -> int:
    """Remove checkpoints, after the remaining ones of their trials are on disk; return the freed bytes. It blocks.

    A power cut may lose a checkpoint that is not on disk yet; the previous one must still exist then.
    """
    freed = 0
    for trial, steps in going.items():
        checkpoints = Checkpoints(paths.trial(trial))
        try:
            for step in steps:
                note_removal(paths.trial(trial), step)
            freed += checkpoints.trim([*steps], staying.get(trial, ()))
        except StoreError as error:
            log.warning("checkpoints in %s stay for now: %s", checkpoints.folder, error)
    # Code that counts bytes sees the change.
    with contextlib.suppress(OSError):
        os.utime(paths.trials)
    return freed


# ---------------------------------------------------------------------------------------------------------------------
# Whole experiments


def put_aside(folder: Path) -> Path:
    """Move ``folder`` out of the store atomically, to be removed; return its new path. It blocks."""
    gone = folder.with_name(f"{REMOVED}{folder.name}-{secrets.token_hex(4)}")
    with telling(folder):
        os.rename(folder, gone)
        fsync_folder(folder.parent)
    return gone


def begun_deletions(store: Store, wishes: Said) -> list[Path]:
    """The remaining folders of deleted experiments, moved out of the store, to be removed. For the engine.

    An engine may die after it has journaled a deletion and before it has removed the last file.
    """
    folders = [store.experiment(key).folder for key in sorted(wishes.going)]
    there = [put_aside(folder) for folder in folders if folder.is_dir()]
    aside = _named_like(store.experiments, lambda name: name.startswith(REMOVED))
    return [*there, *(path for path in aside if path not in there)]


def returned(store: Store, wishes: Said) -> set[str]:
    """Deleted experiments that are there again: imported again, or put back from a copy after they had been removed."""
    there = wishes.deleted.intersection(store.experiment_ids())
    return {key for key in there if key not in wishes.going or store.experiment(key).foreign.exists()}


# ---------------------------------------------------------------------------------------------------------------------
# Unreferenced files


def sweep(store: Store, wishes: Said, *, dry_run: bool = False, young_s: float = YOUNG_S) -> Cleaned:
    """Remove unreferenced files that were not touched for ``young_s`` seconds, and half-written ones of dead
    writers."""
    cleaned = Cleaned()
    before = time.time() - young_s
    for path in _unfinished(store, wishes):
        _remove(path, "unfinished", before, cleaned, dry_run)
    for path in _taken_out(store):
        _remove(path, "removed", None, cleaned, dry_run)
    unused = {one.id for one in documents.unused(store, _started(store))}
    for key in sorted(unused):
        _remove(documents.file_of(store, key), "documents", before, cleaned, dry_run)
    going = {path: limit for path, limit in cached.removable(store, young_s) if _is_older(path, limit)}
    for path, limit in going.items():
        _remove(path, "cached", limit, cleaned, dry_run)
    named = _named(store, unused).union(cached.named(store, frozenset(going)))
    for folder, kind, path_of in (
        (store.blobs, "blobs", store.blob_path),
        (store.snapshots, "snapshots", store.snapshot),
    ):
        for entry in entries_in(str(folder)):
            if entry.name not in named and _is_ours(entry.name, path_of):
                _remove(Path(entry.path), kind, before, cleaned, dry_run)
    return cleaned


def _is_ours(name: str, path_of: Callable[[str], object]) -> bool:
    """Whether ``path_of`` takes the name: the folder may be a link, and other files there are not the store's."""
    try:
        path_of(name)
    except BadName:
        return False
    return True


def _started(store: Store) -> Iterator[tuple[str, str]]:
    """Notebook and time of each experiment that came from one."""
    for key in store.experiment_ids():
        with contextlib.suppress(NotFound, StoreError):
            spec = store.read_spec_json(key)
            if spec.get("notebook"):
                yield str(spec["notebook"]), str(spec["created"])


def _named(store: Store, unused: set[str]) -> set[str]:
    # Read requests first: one that is taken meanwhile becomes an experiment, whose spec was written before and has the
    # same references.
    found = set(named_by_requests(store))
    for key in store.experiment_ids():
        found |= named_by_experiment(store, key)
    return found.union(*(everything(store, {one.blob}) for one in documents.documents(store) if one.id not in unused))


def _is_older(path: Path, limit: float) -> bool:
    try:
        return path.stat().st_mtime < limit
    except OSError:
        return False


def _remove(path: Path, kind: str, before: float | None, cleaned: Cleaned, dry_run: bool) -> None:
    """Remove ``path`` unless it was touched after ``before`` (seconds since 1970)."""
    try:
        if before is not None and path.lstat().st_mtime >= before:
            return
        size = size_of(path)
        if dry_run:
            cleaned.add(kind, size)
            return
        aside = path
        if before is not None:
            # A process that needs it touches it first, which is impossible under its new name; so now it is certain.
            aside = path.with_name(f"{REMOVED}{path.name.lstrip('.')}-{secrets.token_hex(4)}")
            os.rename(path, aside)
            if aside.lstat().st_mtime >= before:
                with contextlib.suppress(OSError):  # it was written again meanwhile
                    os.rename(aside, path)
                    return
        if aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            os.unlink(aside)
        cleaned.add(kind, size)
    except OSError:  # it was removed meanwhile, or cannot be removed: try again next time
        return


def _unfinished(store: Store, wishes: Said) -> Iterator[Path]:
    """Half-written files and folders, and experiments that never got their spec."""
    for folder in (store.root, store.blobs, store.snapshots, store.documents, store.cached):
        yield from _named_like(folder, lambda name: name.endswith(WRITING))
    yield from _named_like(store.root, lambda name: name.startswith(".import-"))
    for entry in entries_in(str(store.notebooks)):
        yield from _named_like(Path(entry.path), lambda name: name.endswith(WRITING))
    for entry in entries_in(str(store.experiments)):
        path = Path(entry.path)
        if entry.name not in wishes.deleted and _has_only_begun(path) and _is_ours(entry.name, store.experiment):
            yield path
        else:
            yield from _named_like(path, lambda name: name.endswith(WRITING))
    for paths in map(store.experiment, store.experiment_ids()):
        yield from _named_like(paths.trials, lambda name: name.endswith(WRITING))
        for trial in _folders_of_trials(paths):
            for folder in (trial.checkpoints, trial.ranks):
                yield from _named_like(folder, lambda name: name.startswith(UNFINISHED))


def _has_only_begun(experiment: Path) -> bool:
    """Whether it is a folder for a spec that was never written. With other content it was not made by a launch."""
    return (
        experiment.is_dir()
        and not experiment.is_symlink()
        and all(entry.name.endswith(WRITING) for entry in entries_in(str(experiment)))
    )


def _taken_out(store: Store) -> Iterator[Path]:
    """Items that were moved out for removal by a process that then died."""
    folders = [store.root, store.blobs, store.snapshots, store.documents, store.cached, store.experiments]
    for paths in map(store.experiment, store.experiment_ids()):
        for trial in _folders_of_trials(paths):
            folders += [trial.folder, trial.checkpoints]
    for folder in folders:
        yield from _named_like(folder, lambda name: name.startswith(REMOVED))


def _folders_of_trials(paths: ExperimentPaths) -> list[TrialPaths]:
    """Trials with a folder, which have large files."""
    with_folder = [entry for entry in entries_in(str(paths.trials)) if entry.is_dir(follow_symlinks=False)]
    return [TrialPaths(Path(entry.path)) for entry in with_folder]


def _named_like(folder: Path, is_like: Callable[[str], bool]) -> Iterator[Path]:
    return (Path(entry.path) for entry in entries_in(str(folder)) if is_like(entry.name))
