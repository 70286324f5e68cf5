"""The paths of everything in a store. Law: only this module knows paths; they contain ids, never names that people
choose."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from workbench.errors import BadName, NotFound, StoreError, StoreReadOnly
from workbench.records import SCHEMA, Goal, Json, Keep, Program, Scheduler, Searcher, Spec, Training, check_schema
from workbench.records.names import trial_label
from workbench.store.files import blobs
from workbench.store.files.atomic import fsync_folder, make_folder, read_json, telling, write_atomic, write_json
from workbench.store.ids import checked_id, is_id
from workbench.store.owner import ownership

FOLDER = ".workbench"
#: In an experiment: the archive of small files once it has ended, the newest attempts of its trials, their folders and
#: those of checks. In a store: the folder of its experiments.
PACKED, ATTEMPTS, TRIALS, CHECKS, EXPERIMENTS = "packed.sqlar", "attempts", "trials", "checks", "experiments"
#: How names of half-written folders begin, and of files that only a leg under way needs.
UNFINISHED = ".writing-"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_DIGEST = re.compile(r"[0-9a-f]{8,128}")
_COPIED = re.compile(r"(?P<folder>.*/snapshots/(?P<digest>[0-9a-f]{8,128}))/code(?:/(?P<name>.*))?")
_PARTS = {
    "goal": Goal, "scheduler": Scheduler, "searcher": Searcher, "program": Program, "training": Training, "keep": Keep,
}  # fmt: skip


class CopiedCode(NamedTuple):
    """A place in a snapshot's copy of project code. name: relative to the copy; empty for the copy itself."""

    snapshot: Path
    digest: str
    name: str

    @classmethod
    def at(cls, path: str) -> CopiedCode | None:
        """The place at ``path``, in whatever store; None for other paths."""
        match = _COPIED.fullmatch(path)
        return None if match is None else cls(Path(match["folder"]), match["digest"], match["name"] or "")


def bundle_of(folder: Path) -> Path:
    """The file that holds the small checkpoints of the trial in ``folder``, or of a place in it (``passing``, …)."""
    if folder.name in ("passing", "setup"):
        return folder.parent.with_name(f"{folder.parent.name}.{folder.name}.zip")
    return folder.with_name(f"{folder.name}.zip")


@dataclass(frozen=True, slots=True)
class TrialPaths:
    """One trial's paths. Its runner writes them. A short trial has files and no folder."""

    folder: Path

    @property
    def bundle(self) -> Path:
        """Its small checkpoints, all in one file. It may be packed: :mod:`workbench.store.files.packed` reads it."""
        return bundle_of(self.folder)

    @property
    def checkpoints(self) -> Path:
        """One folder for each large checkpoint, ``step-00000027``."""
        return self.folder / "checkpoints"

    @property
    def passing(self) -> Path:
        """Checkpoints between levels, of which only the newest is kept, in a separate ``checkpoints``."""
        return self.folder / "passing"

    @property
    def setup(self) -> Path:
        """The values of its set-up that are not reproducible, as a checkpoint in a ``checkpoints`` there."""
        return self.folder / "setup"

    @property
    def remote(self) -> Path:
        """What is known about its checkpoints at the storage's URL. The engine writes it."""
        return self.folder / "remote"

    @property
    def log(self) -> Path:
        """The training code's output. It may be packed: :mod:`workbench.store.files.packed` reads it."""
        older = self.folder / "log.txt"  # the path in earlier versions
        return older if older.exists() else self.folder.with_name(f"{self.folder.name}.log.txt")

    @property
    def ranks(self) -> Path:
        """Where the ranks of a trial on several slots find each other, and keep what only the first one shows."""
        return self.folder / "ranks"

    def rank_log(self, rank: int) -> Path:
        """What another rank than the first prints."""
        return self.ranks / f"{rank}.log"

    def rank_files(self, rank: int) -> Path:
        """What another rank than the first writes into ``trial.folder``: no page shows it."""
        return self.ranks / f"{rank}.files"

    @property
    def copies(self) -> Path:
        """Copies of files: those that a check writes, and those that the set-up of a resume empties."""
        return self.folder / "copies"

    @property
    def files(self) -> Path:
        """Figures and files that the training code kept."""
        return self.folder / "files"


@dataclass(frozen=True, slots=True)
class ExperimentPaths:
    """One experiment's paths. The process that launches it writes ``spec``; the engine writes ``journal`` and
    ``series``."""

    id: str
    folder: Path

    @property
    def spec(self) -> Path:
        """What defines the experiment; written once."""
        return self.folder / "spec.json"

    @property
    def journal(self) -> Path:
        """Search facts and states, each with its reason."""
        return self.folder / "events.jsonl"

    @property
    def series(self) -> Path:
        """Points, trials and legs (SQLite)."""
        return self.folder / "series.db"

    @property
    def data(self) -> Path:
        """Which blobs hold data that its trials read. The engine writes it."""
        return self.folder / "data.json"

    @property
    def foreign(self) -> Path:
        """Exists if the experiment was imported and is not trusted yet."""
        return self.folder / "foreign.json"

    @property
    def held(self) -> Path:
        """Exists if the store was adopted while the experiment was unfinished, until the user asks for it."""
        return self.folder / "held.json"

    @property
    def setup(self) -> Path:
        """The values that its set-up does not reproduce. The runner of its first leg writes it, under
        ``setup_lock``."""
        return self.folder / "setup.json"

    @property
    def crowded(self) -> Path:
        """Exists once one of its legs has told the user that its loaders start too many workers."""
        return self.folder / "crowded.told"

    @property
    def starved(self) -> Path:
        """Exists once one of its legs has told the user that it waits for a loader."""
        return self.folder / "starved.told"

    @property
    def setup_lock(self) -> Path:
        """Held by the runner that finds out which values the set-up does not reproduce."""
        return self.folder / "setup.lock"

    @property
    def trials(self) -> Path:
        """Files of trials, and a folder for each trial with large files."""
        return self.folder / TRIALS

    @property
    def packed(self) -> Path:
        """The small files of its trials, once it has ended: an SQLite archive. The engine writes it."""
        return self.folder / PACKED

    def trial(self, number: int) -> TrialPaths:
        """The paths of trial ``number``."""
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 10**9:
            raise BadName(f"{number!r} is not a trial's number: expected an integer from 0 on.")
        return TrialPaths(self.trials / trial_label(number))

    def check(self, number: int) -> TrialPaths:
        """The paths where trial ``number`` is trained again for a check. The engine removes them afterwards."""
        return TrialPaths(self.folder / CHECKS / self.trial(number).folder.name)


class Store:
    """One store: every path in it, its blobs and its specs. Creating this object does not access the disk.

    Writing to a ``readonly`` store raises StoreReadOnly, whatever the file system allows.
    """

    def __init__(self, root: Path | str, readonly: bool = False) -> None:
        self.root = Path(os.path.abspath(Path(root).expanduser()))
        self.readonly = readonly
        #: The user has allowed the contents to run, although another user published them.
        self.trusted = False

    @classmethod
    def find(cls, explicit: str | os.PathLike[str] | None = None, cwd: str | os.PathLike[str] | None = None) -> Store:
        """The store to use: ``explicit`` (``--store``), else ``WORKBENCH_HOME``, else ``.workbench`` in
        ``cwd`` (the notebook's folder). It may not exist yet: see :attr:`exists`, :meth:`create` and :meth:`check`.

        If ``.workbench`` belongs to another user and this user has trained beside it, it is this user's own store.
        """
        base = Path(cwd) if cwd is not None else Path.cwd()
        named = explicit or os.environ.get("WORKBENCH_HOME")
        return cls(base / Path(named).expanduser() if named else ownership.home(base / FOLDER))

    @classmethod
    def to_train(
        cls, explicit: str | os.PathLike[str] | None = None, cwd: str | os.PathLike[str] | None = None
    ) -> Store:
        """The same for training: if ``.workbench`` belongs to another user, a store beside it."""
        found = cls.find(explicit, cwd)
        if explicit or os.environ.get("WORKBENCH_HOME") or ownership.ownership(found).is_ours:
            return found
        return cls(ownership.beside(found.root))

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r}{', readonly=True' if self.readonly else ''})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Store) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

    # Places ----------------------------------------------------------------------------------------------------------

    @cached_property
    def published(self) -> Path:
        """Exists in a published store: its source, and when it was published."""
        return self.root / "published.json"

    @cached_property
    def catalog_path(self) -> Path:
        """TinyDB: experiments, replays, pins. The engine writes it; it can be rebuilt from specs and journals."""
        return self.root / "catalog.json"

    @cached_property
    def journal_path(self) -> Path:
        """The store's own journal: answers to requests, refusals, renames, tags, notes."""
        return self.root / "events.jsonl"

    @cached_property
    def requests(self) -> Path:
        """One file for each request that waits for the engine."""
        return self.root / "requests"

    @cached_property
    def refused_requests(self) -> Path:
        """Requests that could not be read, kept for inspection."""
        return self.requests / "refused"

    @cached_property
    def notify_path(self) -> Path:
        """The notification settings for all searches of the store. `workbench notify` writes it, the engine reads
        it."""
        return self.root / "notify.json"

    @cached_property
    def engine_json(self) -> Path:
        """The engine's identity."""
        return self.root / "engine.json"

    @cached_property
    def engine_lock(self) -> Path:
        """Locked while an engine is alive."""
        return self.root / "engine.lock"

    @cached_property
    def engine_log(self) -> Path:
        """The engine's output."""
        return self.root / "engine.log"

    @cached_property
    def cluster_json(self) -> Path:
        """The recent state of the engine's cluster: workers, slots and their trials, memory."""
        return self.root / "cluster.json"

    @cached_property
    def documents(self) -> Path:
        """Open notebooks, with unsaved edits, as of the execution of a cell."""
        return self.root / "documents"

    @cached_property
    def blobs(self) -> Path:
        """Captured values and code, by sha256."""
        return self.root / "blobs"

    @cached_property
    def snapshots(self) -> Path:
        """Frozen notebooks, code and environments, by digest."""
        return self.root / "snapshots"

    @cached_property
    def cached(self) -> Path:
        """One file for each kept result of ``trial.cached`` and ``trial.shared``, by key. Runners write them."""
        return self.root / "cached"

    @cached_property
    def environments(self) -> Path:
        """Virtual environments that were rebuilt from recorded versions."""
        return self.root / "environments"

    @cached_property
    def notebooks(self) -> Path:
        """One folder for each execution of a notebook, by id. The executing process writes it."""
        return self.root / "notebooks"

    @cached_property
    def experiments(self) -> Path:
        """One folder for each experiment, by id."""
        return self.root / EXPERIMENTS

    def experiment(self, experiment_id: str) -> ExperimentPaths:
        """The paths of the experiment. Raises BadName if ``experiment_id`` is not an id."""
        return ExperimentPaths(experiment_id, self.experiments / checked_id(experiment_id))

    def experiment_ids(self) -> list[str]:
        """Ids of the experiments that have a spec, oldest first."""
        # As strings: making thousands of Path objects takes longer than the check itself.
        folder = str(self.experiments)
        names = sorted(_entries(self.experiments))
        return [name for name in names if is_id(name) and os.path.lexists(f"{folder}/{name}/spec.json")]

    def snapshot(self, digest: str) -> Path:
        """The folder of the snapshot ``digest``. Raises BadName if ``digest`` is not a digest."""
        if not _DIGEST.fullmatch(digest):
            raise BadName(f"{digest[:40]!r} is not a digest of a snapshot: expected 8 to 128 of 0-9 and a-f.")
        return self.snapshots / digest

    def code(self, digest: str) -> Path:
        """The copy of project code in the snapshot ``digest``. Raises BadName like :meth:`snapshot`."""
        return self.snapshot(digest) / "code"

    # The store itself ------------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether the store exists."""
        return self.experiments.is_dir()

    def create(self) -> Store:
        """Create the store if it is missing, accessible only to its owner, as this user's; an existing store of theirs
        is unchanged.

        Raises NotAdopted for one that is not known as this user's.
        """
        self.check_writable()
        ownership.claim(self)
        for folder in (self.root, self.requests, self.blobs, self.snapshots, self.experiments):
            make_folder(folder, fsync=True)
        if self.root.name.startswith(FOLDER):  # a folder that someone named may hold other files
            self._ignore()
        return self

    def _ignore(self) -> None:
        """Keep git from listing the store, unless its ``.gitignore`` says something else already."""
        path = self.root / ownership.IGNORE
        if not os.path.lexists(path):
            with contextlib.suppress(StoreError):  # no reason not to train
                write_atomic(path, b"# Written by Workbench. Empty this file to commit the store.\n*\n", fsync=False)

    def check(self) -> Store:
        """The store itself. Raises NotFound if it does not exist."""
        if not self.exists:
            raise NotFound(
                f"there is no store at {self.root}. Run a %%train cell in that folder to make one, "
                "or name another with --store or WORKBENCH_HOME."
            )
        return self

    def check_writable(self) -> None:
        """Raises StoreReadOnly for a store that was opened read-only."""
        if self.readonly:
            raise StoreReadOnly(f"{self.root} was opened read-only. Open it with Store({str(self.root)!r}).")

    # Blobs -----------------------------------------------------------------------------------------------------------

    def put_blob(self, data: bytes | bytearray | memoryview) -> str:
        """Store ``data`` and return its sha256. The same bytes are stored once."""
        self.check_writable()
        return blobs.put(self.blobs, data)

    def blob_path(self, sha: str) -> Path:
        """The path of the blob ``sha``, which may not exist. Raises BadName if ``sha`` is not a sha256."""
        if not _SHA256.fullmatch(sha):
            raise BadName(f"{sha[:40]!r} is not a blob: expected a sha256, 64 of 0-9 and a-f.")
        return self.blobs / sha

    def has_blob(self, sha: str) -> bool:
        """Whether the blob ``sha`` exists."""
        return self.blob_path(sha).is_file()

    def get_blob(self, sha: str, *, verify: bool = False) -> bytes:
        """The bytes of the blob ``sha``; with ``verify`` they are hashed first. Raises NotFound, StoreError."""
        return blobs.get(self.blob_path(sha), verify=verify)

    # Specs -----------------------------------------------------------------------------------------------------------

    def write_spec(self, spec: Spec) -> Path:
        """Write ``spec`` once; it is on disk when this returns. Raises StoreError if there is one already."""
        self.check_writable()
        paths = self.experiment(spec.id)
        if paths.spec.exists():
            raise StoreError(f"experiment {spec.id} has a spec already, and specs are written once. Use a new id.")
        make_folder(paths.folder)
        write_json(paths.spec, spec.to_json())
        with telling(paths.folder):
            fsync_folder(self.experiments)
        return paths.spec

    def read_spec(self, experiment_id: str, *, viewing: bool = False) -> Spec:
        """The spec of an experiment.

        Raises NotFound if there is none, StoreError if it is damaged, NewerSchema if a later Workbench wrote it. With
        ``viewing``, the understood part of a newer one is returned: to be shown, never to be run.
        """
        return self.spec_of(experiment_id, self.read_spec_json(experiment_id), viewing=viewing)

    def spec_of(self, experiment_id: str, data: dict[str, Json], *, viewing: bool = False) -> Spec:
        """The spec in ``data``, as :meth:`read_spec_json` gives it; otherwise as :meth:`read_spec`."""
        if not viewing:
            check_schema(data, f"the spec of experiment {experiment_id}")
        try:
            return Spec.from_json(_known(Spec, data) if viewing else data)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"the spec of experiment {experiment_id} is damaged ({error!r}). Restore it from a copy."
            ) from error

    def read_spec_json(self, experiment_id: str) -> dict[str, Json]:
        """The spec of an experiment as plain data, whatever its schema."""
        path = self.experiment(experiment_id).spec
        try:
            data = read_json(path)
        except FileNotFoundError:
            raise NotFound(
                f"there is no experiment {experiment_id} in {self.root}. workbench ls shows what there is."
            ) from None
        except PermissionError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}). Give yourself permission.") from error
        except ValueError as error:
            raise StoreError(f"{path} is damaged ({error}). Restore it from a copy of the store.") from error
        if not isinstance(data, dict):
            raise StoreError(f"{path} is damaged (it is not a JSON object). Restore it from a copy of the store.")
        return data


def _entries(folder: Path) -> Iterator[str]:
    try:
        yield from os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return


def _known(kind: type[Any], data: Mapping[str, Json]) -> dict[str, Json]:
    """``data`` without fields that this version of ``kind`` does not have, recursively."""
    names = {field.name for field in dataclasses.fields(kind)}
    known = {name: value for name, value in data.items() if name in names}
    for name, part in _PARTS.items() if kind is Spec else ():
        if isinstance(known.get(name), dict):
            known[name] = _known(part, known[name])
    if "schema" in known:
        known["schema"] = min(int(known["schema"]), SCHEMA)
    return known
