"""A small store with every kind of file, and the ways in which a file can be damaged."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from workbench.cli import main
from workbench.store import Store, requests
from workbench.store.files import packed
from workbench.store.journal import Journal
from workbench.store.keeping import cached
from workbench.store.keeping.cached import Result
from workbench.store.keeping.checkpoints import Checkpoints
from workbench.store.lists import documents
from workbench.store.lists.catalog import read_catalog
from workbench.store.owner.ownership import enlist

RECORDED = Path(__file__).parents[1] / "fixtures" / "stores" / "v1"
#: Larger than anything that is read at once. The file is sparse: it takes no room.
HUGE = 300 << 20


def small_store(root: Path) -> Store:
    """A store that a released engine wrote, and beside it a file of each kind that it does not have."""
    shutil.copytree(RECORDED, root)
    store = Store(root)
    enlist(store)
    for folder in (store.requests, store.documents, store.notebooks):
        folder.mkdir(exist_ok=True)
    experiment = store.experiment_ids()[0]
    paths = store.experiment(experiment)
    documents.keep(store, Path("/a.ipynb"), "c", "", True, b"{}")
    requests.put(store, {"kind": "pin", "experiment": experiment, "trial": 2})
    with Journal.open(store.journal_path) as journal:
        journal.append({"kind": "pin", "experiment": experiment, "trial": 0, "step": None})
    store.engine_log.write_text("2026-11-22 10:00:00 INFO workbench.engine: it began\n")
    store.engine_lock.touch()
    one = {"schema": 1, "blobs": {}}
    (root / "notify.json").write_text(json.dumps({"webhook": "https://example.org"}))
    (root / "cluster.json").write_text("{}")
    (root / "engine.json").write_text("{}")
    paths.data.write_text(json.dumps(one))
    paths.setup.write_text(json.dumps({"schema": 1}))
    paths.setup_lock.touch()
    result = Result("ab" * 32, "load", store.put_blob(b"value"), (), (), {}, (), 1.0, (experiment,))
    with cached.held(store, result.key):
        cached.write(store, result)
    (store.notebooks / experiment).mkdir()
    (store.notebooks / experiment / "run.json").write_text("{}")
    (store.notebooks / experiment / "out.ipynb").write_text("{}")
    for folder in (paths.folder / "mirror", paths.trial(2).remote, paths.trial(2).files):
        folder.mkdir()
        (folder / "tensorboard.json").write_text("{}")
    for trial in (7, 8):
        Checkpoints(paths.trial(trial)).put({"state.pkl": b"state"}, 1, 1)
        if trial == 7:
            packed.pack(paths.trials)
    for path in [root, *root.rglob("*")]:
        os.chmod(path, 0o700 if path.is_dir() else 0o600)
    read_catalog(store)
    return store


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[len(data) // 2] ^= 0x80
        path.write_bytes(bytes(data))


def _instead(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


#: What can happen to one file.
DAMAGES: dict[str, Callable[[Path], None]] = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b"") and None,
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "flipped": _flipped,
    "junk": lambda path: path.write_bytes(b"\xff\x00junk" * 300) and None,
    "unreadable": lambda path: os.chmod(path, 0),
    "folder": _instead(Path.mkdir),
    "pipe": _instead(os.mkfifo),
    "link": _instead(lambda path: path.symlink_to("/nowhere/at/all")),
    "huge": lambda path: os.truncate(path, HUGE),
    "deep": lambda path: path.write_bytes(b'{"a":' * 100_000) and None,
}


def typed(store: Store, *words: str) -> tuple[int, str]:
    """Type ``workbench …`` in this process: its exit code, and all that it said."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(["--store", str(store.root), *words])
    return code, out.getvalue()


def files(store: Store) -> Iterator[str]:
    """The paths of all files, below the store."""
    for path in sorted(store.root.rglob("*")):
        if path.is_file():
            yield path.relative_to(store.root).as_posix()
