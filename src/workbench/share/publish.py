"""An experiment for others to look at: a read-only store and a page. Law: secrets are masked before it is written.

The page needs no network and no server. ``wb.open(DEST)`` shows, compares, loads and replays what lies beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec

from workbench.errors import BadInput, StoreError
from workbench.records import SCHEMA
from workbench.share.caches import cache
from workbench.share.contents import copy_series, files_of
from workbench.share.masking import masked_data, masked_lines, masked_spec
from workbench.share.page import page
from workbench.snapshot.notebook import is_secret, masked
from workbench.store import Store
from workbench.store.atomic import telling
from workbench.store.catalog import read_catalog, resolve

PAGE = "index.html"
PUBLISHED = "workbench publication"


def publish(store: Store, ref: str, destination: str, *, checkpoints: bool = True) -> dict[str, Any]:
    """Write the experiment ``ref`` for others into ``destination``: a folder, or a URL that fsspec knows.

    It must not be there yet, or be empty. checkpoints: with the trials' checkpoints, so that models can be loaded.
    Raises BadInput where a captured value bears a secret's name: it would go along as it is.
    """
    experiment_id = resolve(store.check(), ref).experiment
    _refuse_secret_values(store, experiment_id)
    if "://" in destination:
        return _send(store, experiment_id, destination, checkpoints)
    target = Path(destination).expanduser().absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(f"{target} exists and is no empty folder. Name another one.")
    with telling(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
        try:
            size = _write(store, experiment_id, aside, checkpoints)
            if target.exists():
                target.rmdir()
            os.rename(aside, target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return {"destination": str(target), "page": str(target / PAGE), "experiment": experiment_id, "bytes": size}


def _send(store: Store, experiment_id: str, destination: str, checkpoints: bool) -> dict[str, Any]:
    try:
        system, path = fsspec.core.url_to_fs(destination)
        if system.exists(path) and system.ls(path):
            raise BadInput(f"{destination} is there and not empty. Name another one.")
        with tempfile.TemporaryDirectory(prefix="workbench-publish-") as folder:
            size = _write(store, experiment_id, Path(folder), checkpoints)
            system.put(f"{folder}/", path, recursive=True)
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, BadInput):
            raise
        raise StoreError(f"{destination} cannot be written: {error}") from error
    return {
        "destination": destination,
        "page": f"{destination.rstrip('/')}/{PAGE}",
        "experiment": experiment_id,
        "bytes": size,
    }


def _refuse_secret_values(store: Store, experiment_id: str) -> None:
    path = store.snapshots / str(store.read_spec(experiment_id).snapshot or "") / "snapshot.json"
    try:
        captured = json.loads(path.read_text())["capture"]["kinds"]
    except (OSError, ValueError, KeyError, TypeError):
        captured = {}
    known = captured if isinstance(captured, dict) else {}
    secret = sorted(
        name
        for name, about in known.items()
        if is_secret(name) and isinstance(about, dict) and about.get("kind") == "value"
    )
    if secret:
        raise BadInput(
            f"the training code uses {', '.join(secret)} from the notebook, by name a secret, and its value would be "
            "published. Read it inside the train cell (from the environment, say) and train again."
        )


def _write(store: Store, experiment_id: str, folder: Path, checkpoints: bool) -> int:
    """The read-only store and the page in ``folder``; their bytes."""
    for name, path in files_of(store, experiment_id, checkpoints=checkpoints):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/spec.json"):
            target.write_text(json.dumps(masked_spec(json.loads(path.read_text()))))
        elif name.endswith("/events.jsonl"):
            target.write_bytes(masked_lines(path.read_bytes()))
        elif path.name.startswith("log.txt") and "/trials/" in name:
            target.write_text(masked(path.read_text(errors="replace")))
        else:
            shutil.copyfile(path, target)
    paths = Store(folder).experiment(experiment_id)
    copy_series(store, experiment_id, paths.series)
    for needed in ("blobs", "snapshots", "requests"):
        (folder / needed).mkdir(exist_ok=True)
    entry = next((entry for entry in read_catalog(store) if entry["id"] == experiment_id), None)
    if entry is not None:
        tables = {"experiments": {"1": masked_data(entry)}, "about": {"1": {"schema": SCHEMA}}}
        (folder / "catalog.json").write_text(json.dumps(tables))
    about = {
        "schema": SCHEMA,
        "kind": PUBLISHED,
        "experiment": experiment_id,
        "label": store.read_spec(experiment_id).label,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    (folder / "published.json").write_text(json.dumps(about))
    (folder / PAGE).write_text(page(Store(folder, readonly=True), experiment_id), encoding="utf-8")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def opened(source: str) -> Store | None:
    """The published store at ``source``, a folder or a URL; None where it is neither. A URL is fetched into a cache."""
    if "://" in source:
        return _fetched(source)
    folder = Path(source).expanduser()
    return Store(folder, readonly=True) if (folder / "published.json").is_file() else None


def _fetched(source: str) -> Store:
    folder = cache()
    try:
        system, path = fsspec.core.url_to_fs(source)
        system.get(f"{path.rstrip('/')}/", f"{folder}/", recursive=True)
    except (OSError, ValueError, ImportError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StoreError(f"{masked(source)} cannot be read: {masked(str(error))}") from error
    if not (folder / "published.json").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        raise BadInput(f"{masked(source)} is nothing that `workbench publish` wrote: it has no published.json.")
    return Store(folder, readonly=True)
