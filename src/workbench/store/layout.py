"""Where everything lives. Law: the only module that knows paths; names people choose never become one, ids do."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.errors import BadName, NotFound, StoreError, StoreReadOnly
from workbench.records import (
    SCHEMA,
    Goal,
    Json,
    Keep,
    Program,
    Scheduler,
    Searcher,
    Spec,
    Training,
    check_schema,
    trial_label,
)
from workbench.store.files import blobs
from workbench.store.files.atomic import fsync_folder, make_folder, read_json, telling, write_json
from workbench.store.owner import ownership

FOLDER = ".workbench"
#: The archive of an ended experiment's small files, and the file that says which attempts of its trials are the newest.
PACKED, ATTEMPTS = "packed.sqlar", "attempts"

_ID = re.compile(r"[0-9a-z](?:[0-9a-z-]{0,62}[0-9a-z])?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DIGEST = re.compile(r"[0-9a-f]{8,128}")
_PARTS = {
    "goal": Goal, "scheduler": Scheduler, "searcher": Searcher, "program": Program, "training": Training, "keep": Keep,
}  # fmt: skip
_LETTERS = "abcdefghijkmnpqrstuvwxyz"  # neither l nor o: they look like digits


def new_id() -> str:
    """An id that nobody else has: the time (UTC) and six random letters. It sorts by time."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{''.join(secrets.choice(_LETTERS) for _ in range(6))}"


def checked_id(text: str) -> str:
    """``text`` itself, when it may be an id and so a folder's name. Raises BadName for anything else."""
    if not _ID.fullmatch(text):
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise BadName(
            f"{shown!r} is not an id: expected 1 to 64 of 0-9, a-z and -. Take the id that workbench ls shows."
        )
    return text


def bundle_of(folder: Path) -> Path:
    """The file that holds the small checkpoints of the trial in ``folder``, or of a place in it (``passing``, …)."""
    if folder.name in ("passing", "setup"):
        return folder.parent.with_name(f"{folder.parent.name}.{folder.name}.zip")
    return folder.with_name(f"{folder.name}.zip")


@dataclass(frozen=True, slots=True)
class TrialPaths:
    """One trial's places. Its runner writes them. A short trial has files and no folder."""

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
        """Checkpoints between levels, of which only the newest stays, in a ``checkpoints`` of their own."""
        return self.folder / "passing"

    @property
    def setup(self) -> Path:
        """What its set-up made and does not make again, as a checkpoint in a ``checkpoints`` there."""
        return self.folder / "setup"

    @property
    def remote(self) -> Path:
        """What is known of its checkpoints at the storage's URL. The engine writes it."""
        return self.folder / "remote"

    @property
    def log(self) -> Path:
        """What the training code printed. It may be packed: :mod:`workbench.store.files.packed` reads it."""
        older = self.folder / "log.txt"  # where earlier versions put it
        return older if older.exists() else self.folder.with_name(f"{self.folder.name}.log.txt")

    @property
    def files(self) -> Path:
        """Figures and files that the training code kept."""
        return self.folder / "files"


@dataclass(frozen=True, slots=True)
class ExperimentPaths:
    """One experiment's places. Whoever starts it writes ``spec``; the engine writes ``journal`` and ``series``."""

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
        """There where the experiment came from elsewhere and nobody has said yet that it is trusted."""
        return self.folder / "foreign.json"

    @property
    def held(self) -> Path:
        """There where the store was adopted while the experiment was unfinished, until a person asks for it."""
        return self.folder / "held.json"

    @property
    def setup(self) -> Path:
        """What its set-up does not make again. The runner of its first leg writes it, under ``setup_lock``."""
        return self.folder / "setup.json"

    @property
    def setup_lock(self) -> Path:
        """Held by the runner that finds out what the set-up does not make again."""
        return self.folder / "setup.lock"

    @property
    def trials(self) -> Path:
        """Files of trials, and a folder for each trial that has large ones."""
        return self.folder / "trials"

    @property
    def packed(self) -> Path:
        """The small files of its trials, once it has ended: an SQLite archive. The engine writes it."""
        return self.folder / PACKED

    def trial(self, number: int) -> TrialPaths:
        """The places of trial ``number``."""
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 10**9:
            raise BadName(f"{number!r} is not a trial's number: expected an integer from 0 on.")
        return TrialPaths(self.trials / trial_label(number))

    def check(self, number: int) -> TrialPaths:
        """Where trial ``number`` is trained again to be checked. The engine removes it afterwards."""
        return TrialPaths(self.folder / "checks" / self.trial(number).folder.name)


class Store:
    """One store: every path in it, its blobs and its specs. Nothing is touched before it is asked for.

    A ``readonly`` store refuses to be written with StoreReadOnly, whatever the file system would allow.
    """

    def __init__(self, root: Path | str, readonly: bool = False) -> None:
        self.root = Path(os.path.abspath(Path(root).expanduser()))
        self.readonly = readonly
        #: A person said that what lies here may run, although it was published by somebody else.
        self.trusted = False

    @classmethod
    def find(cls, explicit: str | os.PathLike[str] | None = None, cwd: str | os.PathLike[str] | None = None) -> Store:
        """The store that a person means: ``explicit`` (``--store``), else ``WORKBENCH_HOME``, else ``.workbench`` in
        ``cwd`` (the notebook's folder). It may not exist yet: see :attr:`exists`, :meth:`create` and :meth:`check`.

        Where ``.workbench`` is somebody else's and this person has trained beside it, it is the store of theirs.
        """
        base = Path(cwd) if cwd is not None else Path.cwd()
        named = explicit or os.environ.get("WORKBENCH_HOME")
        return cls(base / Path(named).expanduser() if named else ownership.home(base / FOLDER))

    @classmethod
    def to_train(
        cls, explicit: str | os.PathLike[str] | None = None, cwd: str | os.PathLike[str] | None = None
    ) -> Store:
        """The same for what is about to be trained: where ``.workbench`` is somebody else's, a store beside it."""
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
        """There in a store that was written for others to look at: what it is of, and when."""
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
        """Requests that could not be read, kept for a person to look at."""
        return self.requests / "refused"

    @cached_property
    def notify_path(self) -> Path:
        """Whom to tell of all searches of the store. `workbench notify` writes it, the engine reads it."""
        return self.root / "notify.json"

    @cached_property
    def engine_json(self) -> Path:
        """Who the engine is."""
        return self.root / "engine.json"

    @cached_property
    def engine_lock(self) -> Path:
        """Locked as long as an engine lives."""
        return self.root / "engine.lock"

    @cached_property
    def engine_log(self) -> Path:
        """What the engine printed."""
        return self.root / "engine.log"

    @cached_property
    def cluster_json(self) -> Path:
        """What the engine's cluster looked like a moment ago: workers, slots and who holds them, memory."""
        return self.root / "cluster.json"

    @cached_property
    def documents(self) -> Path:
        """Notebooks as they lay open, with unsaved edits, when a cell of them was executed."""
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
    def environments(self) -> Path:
        """Virtual environments that were built anew from recorded versions."""
        return self.root / "environments"

    @cached_property
    def notebooks(self) -> Path:
        """One folder for each execution of a notebook, by id. Whoever executes it writes it."""
        return self.root / "notebooks"

    @cached_property
    def experiments(self) -> Path:
        """One folder for each experiment, by id."""
        return self.root / "experiments"

    def experiment(self, experiment_id: str) -> ExperimentPaths:
        """The places of the experiment. Raises BadName where ``experiment_id`` is no id."""
        return ExperimentPaths(experiment_id, self.experiments / checked_id(experiment_id))

    def experiment_ids(self) -> list[str]:
        """Ids of the experiments that have a spec, oldest first."""
        # By text: a Path for each of some thousands takes longer than the look itself.
        folder = str(self.experiments)
        names = sorted(_entries(self.experiments))
        return [name for name in names if _ID.fullmatch(name) and os.path.lexists(f"{folder}/{name}/spec.json")]

    def snapshot(self, digest: str) -> Path:
        """The folder of the snapshot ``digest``. Raises BadName where ``digest`` is none."""
        if not _DIGEST.fullmatch(digest):
            raise BadName(f"{digest[:40]!r} is not a digest of a snapshot: expected 8 to 128 of 0-9 and a-f.")
        return self.snapshots / digest

    # The store itself ------------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """True where the store has been made."""
        return self.experiments.is_dir()

    def create(self) -> Store:
        """Make the store where it is missing, for its owner only, as this person's; theirs is left as it is.

        Raises NotAdopted for one that is not known as theirs.
        """
        self.check_writable()
        ownership.claim(self)
        for folder in (self.root, self.requests, self.blobs, self.snapshots, self.experiments):
            make_folder(folder, fsync=True)
        return self

    def check(self) -> Store:
        """The store itself, when it exists. Raises NotFound where it does not."""
        if not self.exists:
            raise NotFound(
                f"there is no store at {self.root}. Run a %%train cell in that folder to make one, "
                "or name another with --store or WORKBENCH_HOME."
            )
        return self

    def check_writable(self) -> None:
        """Raises StoreReadOnly for a store that was opened to be read only."""
        if self.readonly:
            raise StoreReadOnly(f"{self.root} was opened read-only. Open it with Store({str(self.root)!r}).")

    # Blobs -----------------------------------------------------------------------------------------------------------

    def put_blob(self, data: bytes | bytearray | memoryview) -> str:
        """Keep ``data`` and give its sha256. The same bytes are kept once."""
        self.check_writable()
        return blobs.put(self.blobs, data)

    def blob_path(self, sha: str) -> Path:
        """The file of the blob ``sha``, which may not be there. Raises BadName where ``sha`` is no sha256."""
        if not _SHA256.fullmatch(sha):
            raise BadName(f"{sha[:40]!r} is not a blob: expected a sha256, 64 of 0-9 and a-f.")
        return self.blobs / sha

    def has_blob(self, sha: str) -> bool:
        """True where the blob ``sha`` is there."""
        return self.blob_path(sha).is_file()

    def get_blob(self, sha: str, *, verify: bool = False) -> bytes:
        """The bytes of the blob ``sha``; with ``verify`` they are hashed first. Raises NotFound, StoreError."""
        return blobs.get(self.blob_path(sha), verify=verify)

    # Specs -----------------------------------------------------------------------------------------------------------

    def write_spec(self, spec: Spec) -> Path:
        """Write ``spec`` for good, on the disk when this returns. Raises StoreError where it has one already."""
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

        Raises NotFound where there is none, StoreError where it is damaged, NewerSchema where a later Workbench wrote
        it. With ``viewing`` a newer one is read as far as it is understood: to be shown, never to be run.
        """
        data = self.read_spec_json(experiment_id)
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
    """``data`` without the fields that this version of ``kind`` does not have, its parts too."""
    names = {field.name for field in dataclasses.fields(kind)}
    known = {name: value for name, value in data.items() if name in names}
    for name, part in _PARTS.items() if kind is Spec else ():
        if isinstance(known.get(name), dict):
            known[name] = _known(part, known[name])
    if "schema" in known:
        known["schema"] = min(int(known["schema"]), SCHEMA)
    return known
