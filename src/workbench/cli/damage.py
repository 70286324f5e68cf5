"""Damage to the files of a store, one line each. Law: it opens only plain files, and changes nothing."""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import multiprocessing
import os
import re
import stat
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import NewerSchema, StoreError, WorkbenchError
from workbench.records import UNREADABLE, Goal, Spec
from workbench.snapshot.loading import blobs_of
from workbench.store import Store, journal
from workbench.store.files import database, kinds, packed
from workbench.store.files.atomic import kind_of, open_file, read_json
from workbench.store.files.bundle import Bundle
from workbench.store.journal import Damage
from workbench.store.keeping.checkpoints import Checkpoints, Skipped, small, unreadable
from workbench.store.layout import ExperimentPaths, TrialPaths
from workbench.store.lists import outcome, summary
from workbench.store.lists.summary import Looks
from workbench.store.recalled import check_lines, check_spec
from workbench.store.restored import Known
from workbench.store.series import Series

#: Bytes of blobs and checkpoints that are digested in one run; for the rest, only sizes are compared.
MOST_DIGESTED = 200_000_000
#: How to rebuild a lost series.
MEND = "`workbench doctor --mend` rebuilds it from the journal and checkpoints"
_BLOCK = 1 << 20
#: The number of experiments from which on several processes check, the maximum number of processes, and the experiments
#: that each checks in one task.
_MANY, _MOST_PROCESSES, _PART = 64, 8, 16
#: A trial's folder, and the files of small checkpoints.
_TRIAL, _BUNDLE = re.compile(r"t\d+"), re.compile(r"t\d+\.(?:\w+\.)?zip(?:\.old)?")

_Lines = list[dict[str, Any]]
#: The subject, whether it is more than a warning, and what is wrong.
Found = tuple[str, bool, str]


class Left:
    """The number of bytes that all checking processes may still digest."""

    def __init__(self, count: int = MOST_DIGESTED) -> None:
        self._count = multiprocessing.get_context("fork").Value("q", count)

    def take(self, count: int) -> bool:
        """Whether ``size`` bytes may be digested; if so, subtract them."""
        with self._count.get_lock():
            if count > self._count.value:
                return False
            self._count.value -= count
            return True


@dataclass(slots=True)
class Walk:
    """The findings in all files of a store."""

    store: Store
    left: Left
    #: Paths below the store, with ``/``, of the plain files that can be read, each with its kind.
    files: dict[str, kinds.Kind] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)

    def see(self, folder: str = "") -> None:
        """Check the names, kinds and modes of everything below ``folder``."""
        try:
            with os.scandir(self.store.root / folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.found.append((folder or "store", True, f"{self.store.root / folder}: {error.strerror}"))
            return
        for entry in listed:
            relative = f"{folder}/{entry.name}" if folder else entry.name
            kind = kinds.kind_of(relative)
            if kind is not None and kind.name in ("environment", "unfinished", "refused request"):
                continue
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except OSError:
                continue  # it was removed meanwhile
            if stat.S_ISDIR(mode) and not _is_file(kind, relative):
                if relative != "requests/refused" and relative != "environments":
                    self.see(relative)
                continue
            self._see_file(relative, kind, mode)

    def _see_file(self, relative: str, kind: kinds.Kind | None, mode: int) -> None:
        wrong, path = kind_of(mode), self.store.root / relative
        name, loss = (kind.name, kind.loss) if kind is not None else ("files", "")
        if name == "snapshot's code" and stat.S_ISLNK(mode) and path.suffix != ".py":
            return  # data beside a module: the copy of the module finds the original there
        if wrong is not None:
            self.found.append((name, True, f"{path} is {wrong}, expected a file. Lost with it: {loss or '–'}"))
        elif not mode & stat.S_IRUSR or not os.access(path, os.R_OK):
            self.found.append((name, True, f"{path} cannot be read. Give yourself permission: chmod 600"))
        elif kind is not None:
            if kind.name == "broken" and not relative.endswith(database.BESIDE):
                self.found.append((name, False, f"{path}: {kind.loss}"))
            self.files[relative] = kind

    def read(self) -> None:
        """Read the files that can be checked by themselves."""
        for relative, kind in self.files.items():
            path = self.store.root / relative
            if kind.look == "json" and kind.name not in ("catalog", "spec", "manifest"):
                try:
                    data = read_json(path)
                    if not isinstance(data, dict):
                        raise ValueError("it is not a JSON object")
                except (OSError, ValueError) as error:
                    is_lost = kind.loss != kinds.ANEW
                    self.found.append((kind.name, is_lost, f"{path} is damaged ({error}). Lost with it: {kind.loss}"))
            elif kind.name == "blob" and not self._is_sound(path):
                says = f"the bytes of {path} do not match its name. Lost with it: {kind.loss}. Restore it from a copy"
                self.found.append((kind.name, True, says))

    def _is_sound(self, path: Path) -> bool:
        """Whether a blob's bytes match its name; True if the blob is too large to check."""
        hasher = hashlib.sha256()
        try:
            with open_file(path) as file:
                size = os.fstat(file.fileno()).st_size
                if not self.left.take(size):
                    return True
                while block := file.read(_BLOCK):
                    hasher.update(block)
        except FileNotFoundError:
            return True  # it was cleaned up meanwhile
        except (OSError, ValueError):
            return False
        return hasher.hexdigest() == path.name

    def experiment(self, experiment: str) -> None:
        """Check one experiment: everything it refers to must exist, and its files must agree."""
        paths = self.store.experiment(experiment)
        spec: dict[str, Any] = {}
        parsed: Spec | None = None
        try:
            spec = self.store.read_spec_json(experiment)
            parsed = check_spec(self.store.spec_of(experiment, spec))
        except NewerSchema as error:
            self.found.append(("spec", False, str(error)))
        except (WorkbenchError, OSError) as error:
            self.found.append(("spec", True, str(error)))
        lines = self.journal(
            "journal", paths.journal, lambda damage: summary.lines_of(self.store, experiment, damage, parsed)
        )
        entry = summary.entry_of(self.store, experiment)
        try:
            if entry is not None and entry["state"] == UNREADABLE:  # its lines were checked when they were read
                check_lines(paths, lines)
        except WorkbenchError as error:
            self.found.append(("journal", True, str(error)))
        try:
            self._named(spec)
            self._series(paths, spec, lines)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            self.found.append(("journal", True, f"{paths.journal} is not valid ({error!r}). Restore it from a copy"))
        self._checkpoints(paths)

    def journal(self, about: str, path: Path, lines_of: Callable[[list[Damage]], _Lines]) -> _Lines:
        """The lines of a journal, as ``lines_of`` reads them; unreadable parts are noted."""
        damage: list[Damage] = []
        try:
            lines = lines_of(damage)
        except FileNotFoundError:
            return []
        except OSError as error:
            self.found.append((about, True, f"{path}: {error.strerror or error}"))
            return []
        for piece in damage:
            # The next engine cuts off a torn end; a bad line further up means that the file was changed.
            is_lost = not piece.is_torn or not lines
            advice = ". Its content is lost; restore the file from a copy" if is_lost else ""
            self.found.append((about, is_lost, f"{piece}{advice}"))
        return lines

    def _named(self, spec: dict[str, Any]) -> None:
        """Check that everything a spec refers to exists."""
        label = f"{spec.get('name')}@{spec.get('version')}"
        digest, capture = spec.get("snapshot"), (spec.get("program") or {}).get("capture")
        if digest:
            for part in ("snapshot", "cells", "environment", "data"):
                path = self.store.snapshot(str(digest)) / f"{part}.json"
                if not os.path.lexists(path):
                    says = f"{path} is missing, and {label} names it. Restore it from a copy"
                    self.found.append(("snapshot", True, says))
        if capture and not os.path.lexists(self.store.blob_path(str(capture))):
            says = f"{self.store.blob_path(str(capture))} is missing, and {label} names it. Restore it from a copy"
            self.found.append(("blob", True, says))
        elif missing := [sha for sha in _captured(self.store, spec) if not self.store.has_blob(sha)]:
            more = f" and {len(missing) - 1} more are" if missing[1:] else " is"
            says = f"{self.store.blob_path(missing[0])}{more} missing, and {label} has captured values in them"
            says += ". Restore them from a copy"
            self.found.append(("blob", True, says))

    def _series(self, paths: ExperimentPaths, spec: dict[str, Any], lines: _Lines) -> None:
        if not lines and paths.trials.is_dir():
            says = f"{paths.journal} is missing or empty, and trials were trained. Restore it from a copy"
            self.found.append(("journal", True, says))
        goal = Goal(spec["goal"]["metric"], spec["goal"]["mode"]) if spec else Goal("")
        known = Known.of(goal, lines)
        if known.lost is not None:
            self.found.append(("curves", False, f"{_label(spec)}: {outcome.curves_words(known.lost)}"))
        is_there = os.path.lexists(paths.series)
        if not is_there and not known.legs and not known.levels:
            return
        wrong = database.what_is_wrong(paths.series)
        if wrong is not None:
            self.found.append(("series", True, f"{paths.series}: {wrong}; {MEND}"))
            return
        try:
            with Series.read(paths.series) as series:
                if (wrong := series.what_is_wrong()) is not None:
                    self.found.append(("series", True, f"{paths.series}: {wrong}; {MEND}"))
                    return
                meta, attempts = series.meta(), series.attempts()
                self.found += [("series", True, f"{piece}; {MEND}") for piece in series.damage]
                lacking = known.lacking(series)
                if lacking:
                    says = (
                        f"{paths.series} is missing {lacking} of the {len(known.levels)} levels of the journal; {MEND}"
                    )
                    self.found.append(("series", True, says))
        except NewerSchema as error:
            self.found.append(("series", False, str(error)))
            return
        except StoreError as error:
            self.found.append(("series", True, f"{error} {MEND}"))
            return
        unknown = attempts - known.legs.keys()
        has_finish = any(line.get("kind") == "Finish" for line in lines)
        if unknown or (meta.get("state") in ("completed", "stopped", "failed") and not has_finish):
            says = f"{paths.journal} ends before {paths.series.name} does: its end is lost. Restore it from a copy"
            self.found.append(("journal", True, says))

    def _checkpoints(self, paths: ExperimentPaths) -> None:
        try:
            there = os.listdir(paths.trials)
        except OSError:
            return
        lying = {paths.trials / name.removesuffix(".old") for name in there if _BUNDLE.fullmatch(name)}
        looked_at: set[Path] = set()
        for name in sorted(filter(_TRIAL.fullmatch, there)):
            trial = TrialPaths(paths.trials / name)
            for kept in map(Checkpoints, (trial.folder, trial.passing, trial.setup)):
                if kept.folder.is_dir():
                    self._kept(kept)
                    looked_at.add(kept.bundle)
        for path in sorted(lying - looked_at):
            self._small(Bundle(path))
        why = self._packed(paths.trials, lying | looked_at)
        if why is not None:
            says = (
                f"{paths.packed} holds checkpoints and logs of trials, and is damaged ({why}). Restore it from a copy"
            )
            self.found.append(("packed", True, says))

    def _packed(self, trials: Path, others: Collection[Path]) -> str | None:
        """Check the packed checkpoints except those at ``others``; return why the rest cannot be read."""
        try:
            for path, data in packed.bundles(trials):
                if path not in others:
                    self._small(Bundle(path, data))
        except (StoreError, OSError, ValueError, zlib.error) as error:
            return str(error)
        return None

    def _small(self, held: Bundle) -> None:
        """Check a trial's small checkpoints, which are in memory."""
        read = [small(held, step) for step in held.steps()]
        self._skipped("small checkpoints", [*unreadable(held), *(one for one in read if isinstance(one, Skipped))])

    def _kept(self, kept: Checkpoints) -> None:
        """Check a trial's checkpoints one by one; those beyond the total limit are not digested."""
        self._skipped("small checkpoints", unreadable(Bundle(kept.bundle)))
        for step in kept.steps():
            try:
                kept.at(step, verify="digest" if self.left.take(kept.size(step)) else "size")
            except WorkbenchError:
                self._skipped("checkpoint", kept.skipped)

    def _skipped(self, about: str, skipped: Iterable[Skipped]) -> None:
        self.found += [
            (about, True, f"{one.folder}: {one.why}. Its trial continues from the previous one") for one in skipped
        ]


def damage(store: Store) -> Iterator[Found]:
    """All damage to the files of ``store``, each once."""
    walk = Walk(store, Left())
    with _looked_at(walk) as in_experiments:
        walk.see()
        walk.read()
        lines_of = functools.partial(journal.read, store.journal_path)
        walk.journal("store journal", store.journal_path, lambda damage: [*lines_of(damage=damage)])
        walk.found += in_experiments()
    for relative in walk.files:
        folder, _, name = relative.rpartition("/")
        if (
            folder.startswith("experiments/")
            and name == "events.jsonl"
            and not os.path.lexists(store.root / folder / "spec.json")
        ):
            says = (
                f"{store.root / folder / 'spec.json'} is missing: what defines the experiment. Restore it from a copy"
            )
            walk.found.append(("spec", True, says))
    yield from dict.fromkeys(walk.found)


@contextlib.contextmanager
def _looked_at(walk: Walk) -> Iterator[Callable[[], list[Found]]]:
    """Yield what is wrong in each experiment of the store that ``walk`` checks. If there are many, other processes
    check them in parallel."""
    experiments = walk.store.experiment_ids()
    cores = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
    # A forked child has no other threads, so locks that they hold would stay locked.
    if len(experiments) < _MANY or cores < 2 or threading.active_count() > 1:
        yield lambda: _in_some(walk.store, walk.left, experiments)
        return
    fork = multiprocessing.get_context("fork")
    parts = [experiments[begin : begin + _PART] for begin in range(0, len(experiments), _PART)]
    with ProcessPoolExecutor(cores, fork, _begin, (walk.store, walk.left)) as pool:
        yield functools.partial(_joined, pool.map(_in_part, parts))


def _joined(parts: Iterable[tuple[list[Found], Looks]]) -> list[Found]:
    found: list[Found] = []
    for one, looks in parts:
        found += one
        summary.learn(looks)
    return found


def _in_some(store: Store, left: Left, experiments: Sequence[str]) -> list[Found]:
    walk = Walk(store, left)
    for experiment in experiments:
        walk.experiment(experiment)
    return walk.found


#: The walk of a child process.
_looking: list[tuple[Store, Left]] = []


def _begin(store: Store, left: Left) -> None:
    # The collector would repeatedly traverse all imported and read objects, and find nothing to free.
    gc.disable()
    _looking.append((store, left))


def _in_part(experiments: Sequence[str]) -> tuple[list[Found], Looks]:
    [(store, left)] = _looking
    return _in_some(store, left, experiments), summary.known(store, experiments)


def _is_file(kind: kinds.Kind | None, relative: str) -> bool:
    """Whether this path, which is a folder, should be a file."""
    if kind is None or kind.name in ("broken", "snapshot's code", "notebook's file", "kept file", "mirror", "storage"):
        return False
    return kind.name not in ("checkpoint", "passing") and relative != "requests/refused"


def _captured(store: Store, spec: dict[str, Any]) -> list[str]:
    """The blobs of the values that the spec's training code uses; of a damaged list none, which is said elsewhere."""
    program = spec.get("program") or {}
    found: list[str] = []
    for capture in (program.get("capture"), *(one for one, _ in program.get("overlays") or ())):
        if capture:
            with contextlib.suppress(WorkbenchError, ValueError, KeyError, TypeError):
                found += blobs_of(store, str(capture))
    return found


def _label(spec: dict[str, Any]) -> str:
    return f"{spec.get('name')}@{spec.get('version')}"
