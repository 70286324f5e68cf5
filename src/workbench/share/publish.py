"""An experiment published for others: a read-only store and a page. Law: secrets are masked before it is written.

The page needs no network and no server. ``wb.open(DEST)`` shows, compares, loads and replays the store beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fsspec

from workbench.errors import BadInput, Declined, StoreError, WorkbenchError
from workbench.records import SCHEMA
from workbench.share import manifest
from workbench.share.caches import cache
from workbench.share.contents import is_name, may_vanish, opened_file, read_out, undisturbed
from workbench.share.copies import copied, refuse_secrets
from workbench.share.looking import Finding, Findings, told
from workbench.share.manifest import Listed
from workbench.share.masking import masked_data
from workbench.share.page import page
from workbench.snapshot.secrets.masking import masked
from workbench.store import Store
from workbench.store.files.atomic import telling
from workbench.store.lists.catalog import read_entry, resolve_experiment, shown_as

PAGE = "index.html"
PUBLISHED = "workbench publication"
#: What a publication contains besides the files of a store.
_OWN = ("published.json", "catalog.json", PAGE)


#: Gets the findings before others can see anything; returns whether to continue.
Consent = Callable[[Sequence[Finding]], bool]


def publish(
    store: Store, ref: str, destination: str, *, checkpoints: bool = True, consent: Consent | None = None
) -> dict[str, Any]:
    """Write the experiment ``ref`` for others into ``destination``: a folder, or a URL that fsspec knows.

    The destination must not exist, or be empty. checkpoints: include the trials' checkpoints, so that models can be
    loaded; one that contains a secret is left out. consent: called before the destination is written; if it returns
    False, Declined is raised, and nothing is left. ``findings`` of the answer lists what was masked and left out.
    Raises BadInput if a captured value or a notebook's parameter is a secret: it would be included unchanged.
    """
    experiment_id = resolve_experiment(store.check(), ref).experiment
    refuse_secrets(store, experiment_id)
    if "://" in destination:
        return _send(store, experiment_id, destination, checkpoints, consent)
    target = Path(destination).expanduser().absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(f"{target} exists and is not an empty folder. Name another one.")
    with telling(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
        try:
            size, findings = _write(store, experiment_id, aside, checkpoints)
            _ask(consent, findings, target)
            if target.exists():
                target.rmdir()
            os.rename(aside, target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    about = {"destination": str(target), "page": str(target / PAGE), "experiment": experiment_id, "bytes": size}
    return {**about, **told(findings)}


def _ask(consent: Consent | None, findings: Sequence[Finding], destination: object) -> None:
    if consent is not None and not consent(findings):
        raise Declined(f"{destination} was not written: you declined.")


def _send(
    store: Store, experiment_id: str, destination: str, checkpoints: bool, consent: Consent | None
) -> dict[str, Any]:
    try:
        system, path = fsspec.core.url_to_fs(destination)
        if system.exists(path) and system.ls(path):
            raise BadInput(f"{masked(destination)} exists and is not empty. Name another one.")
        with tempfile.TemporaryDirectory(prefix="workbench-publish-") as folder:
            size, findings = _write(store, experiment_id, Path(folder), checkpoints)
            _ask(consent, findings, masked(destination))
            system.put(f"{folder}/", path, recursive=True)
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, WorkbenchError):
            raise
        raise StoreError(f"{masked(destination)} cannot be written: {masked(str(error))}") from error
    return {
        "destination": destination,
        "page": f"{destination.rstrip('/')}/{PAGE}",
        "experiment": experiment_id,
        "bytes": size,
        **told(findings),
    }


def _write(store: Store, experiment_id: str, folder: Path, checkpoints: bool) -> tuple[int, list[Finding]]:
    """Write the read-only store and the page into ``folder``; their size in bytes, and the secrets found."""
    findings, listed = Findings(), []
    with tempfile.TemporaryDirectory(prefix="workbench-publish-") as unpacked, undisturbed(store, experiment_id):
        files = copied(store, experiment_id, folder, Path(unpacked), findings, checkpoints=checkpoints)
        for name, path in files:
            with may_vanish(name):
                listed.append(_copied_file(name, path, folder / name))
    for needed in ("blobs", "snapshots", "requests"):
        (folder / needed).mkdir(exist_ok=True)
    entry = read_entry(store, experiment_id)
    if entry:
        tables = {"experiments": {"1": masked_data(entry)}, "about": {"1": {"schema": SCHEMA}}}
        (folder / "catalog.json").write_text(json.dumps(tables))
    label, labels = shown_as(store, store.read_spec(experiment_id)), manifest.protection(store, experiment_id)
    about = manifest.described(PUBLISHED, experiment_id, label, labels, listed)
    (folder / "published.json").write_text(json.dumps(about))
    (folder / PAGE).write_text(page(Store(folder, readonly=True), experiment_id), encoding="utf-8")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), findings.found


def _copied_file(name: str, path: Path, target: Path) -> Listed:
    with opened_file(path) as source:
        if path == target:  # it was masked
            return read_out(name, source)
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "wb") as copy:
            return read_out(name, source, copy.write)


def opened(source: str) -> Store | None:
    """The published store at ``source``, a folder or a URL; None if it is neither. A URL is fetched into a cache."""
    if "://" in source:
        return _fetched(source)
    folder = Path(source).expanduser()
    return Store(folder, readonly=True) if (folder / "published.json").is_file() else None


def _fetched(source: str) -> Store:
    folder = cache()
    try:
        system, path = fsspec.core.url_to_fs(source)
        # The server chooses the names: only those that belong to a publication are fetched.
        root = path.rstrip("/")
        found = {one.removeprefix(root).lstrip("/"): one for one in system.find(f"{root}/") if one.startswith(root)}
        wanted = {name: one for name, one in found.items() if name in _OWN or is_name(name)}
        targets = [folder / name for name in wanted]
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
        system.get([*wanted.values()], [str(target) for target in targets])
    except (OSError, ValueError, ImportError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StoreError(f"{masked(source)} cannot be read: {masked(str(error))}") from error
    if not (folder / "published.json").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        raise BadInput(f"{masked(source)} was not written by `workbench publish`: it has no published.json.")
    return Store(folder, readonly=True)
