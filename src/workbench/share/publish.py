"""An experiment for others to look at: a read-only store and a page. Law: secrets are masked before it is written.

The page needs no network and no server. ``wb.open(DEST)`` shows, compares, loads and replays what lies beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec

from workbench.errors import BadInput, Declined, StoreError
from workbench.records import SCHEMA
from workbench.replay.executing import unpacked
from workbench.share.caches import cache
from workbench.share.contents import copy_series, files_of, is_name
from workbench.share.looking import (
    LEFT_OUT,
    Finding,
    Findings,
    captured_blobs,
    checkpoint_of,
    kinds_in,
    place_of,
)
from workbench.share.masking import masked_data, masked_lines, masked_spec, masked_word
from workbench.share.page import page
from workbench.snapshot.literals import masked_code
from workbench.snapshot.masking import hearing, is_secret, masked
from workbench.snapshot.notebook import masked_notebook
from workbench.store import Store
from workbench.store.atomic import telling
from workbench.store.catalog import read_catalog, resolve

PAGE = "index.html"
_LOG = re.compile(r"/(t\d+\.)?log\.txt(\.\d+)?$")
PUBLISHED = "workbench publication"
#: What a publication holds beside the files of a store.
_OWN = ("published.json", "catalog.json", PAGE)


#: Hears what was found and masked, before anything can be seen by others; says whether to go on.
Consent = Callable[[Sequence[Finding]], bool]


def publish(
    store: Store, ref: str, destination: str, *, checkpoints: bool = True, consent: Consent | None = None
) -> dict[str, Any]:
    """Write the experiment ``ref`` for others into ``destination``: a folder, or a URL that fsspec knows.

    It must not be there yet, or be empty. checkpoints: with the trials' checkpoints, so that models can be loaded; one
    that holds a secret is left out. consent: asked before the destination is written; where it says no, Declined is
    raised, and nothing is left. ``findings`` of the answer says what was masked and left out.
    Raises BadInput where a captured value or a notebook's parameter is a secret: it would go along as it is.
    """
    experiment_id = resolve(store.check(), ref).experiment
    _refuse_secret_values(store, experiment_id)
    with tempfile.TemporaryDirectory(prefix="workbench-publish-") as laid_out:
        _refuse_secret_parameters(files_of(store, experiment_id, Path(laid_out), checkpoints=False))
    if "://" in destination:
        return _send(store, experiment_id, destination, checkpoints, consent)
    target = Path(destination).expanduser().absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(f"{target} exists and is no empty folder. Name another one.")
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
    return {**about, "findings": [one.to_json() for one in findings]}


def _ask(consent: Consent | None, findings: Sequence[Finding], destination: object) -> None:
    if consent is not None and not consent(findings):
        raise Declined(f"{destination} was not written: you declined.")


def _send(
    store: Store, experiment_id: str, destination: str, checkpoints: bool, consent: Consent | None
) -> dict[str, Any]:
    try:
        system, path = fsspec.core.url_to_fs(destination)
        if system.exists(path) and system.ls(path):
            raise BadInput(f"{masked(destination)} is there and not empty. Name another one.")
        with tempfile.TemporaryDirectory(prefix="workbench-publish-") as folder:
            size, findings = _write(store, experiment_id, Path(folder), checkpoints)
            _ask(consent, findings, masked(destination))
            system.put(f"{folder}/", path, recursive=True)
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, BadInput):
            raise
        raise StoreError(f"{masked(destination)} cannot be written: {masked(str(error))}") from error
    return {
        "destination": destination,
        "page": f"{destination.rstrip('/')}/{PAGE}",
        "experiment": experiment_id,
        "bytes": size,
        "findings": [one.to_json() for one in findings],
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
        if is_secret(name) and isinstance(about, dict) and about.get("kind") == "value" and _may_be_secret(about)
    )
    if secret:
        raise BadInput(
            f"the training code uses {', '.join(secret)} from the notebook, by name a secret, and its value would be "
            "published. Read it inside the train cell (from the environment, say) and train again."
        )


def _may_be_secret(about: dict[str, Any]) -> bool:
    """Whether a captured value may be a secret: ``max_tokens = 100`` is none."""
    return about.get("words") not in ("int", "float", "bool", "NoneType")


def _refuse_secret_parameters(files: Iterable[tuple[str, Path]]) -> None:
    tasks = [task for batch in _batches(files) for task in batch["tasks"]]
    given = {(name, value) for task in tasks for name, value in task["parameters"].items() if isinstance(value, str)}
    secret = sorted({name for name, value in given if value and is_secret(name)})
    if secret:
        raise BadInput(
            f"the notebooks were executed with {', '.join(secret)}, by name a secret, and its value would be "
            "published. Read it inside the notebook (from the environment, say) and execute them again."
        )


def _batches(files: Iterable[tuple[str, Path]]) -> list[dict[str, Any]]:
    """Executions of notebooks among the blobs of an experiment."""
    return [found for name, path in files if name.startswith("blobs/") and (found := unpacked(path)) is not None]


def _write(store: Store, experiment_id: str, folder: Path, checkpoints: bool) -> tuple[int, list[Finding]]:
    """The read-only store and the page in ``folder``; their bytes, and the secrets that were found."""
    laid_out = folder / "packed"
    laid_out.mkdir()
    files = [*files_of(store, experiment_id, laid_out, checkpoints=checkpoints)]
    notebooks = _notebooks(files)
    findings = Findings()
    raw = []
    for name, path in files:
        if name in notebooks and masked_notebook(data := path.read_bytes()) != data:
            continue  # a blob is what its name says, or is not there; the snapshot shows it masked
        with hearing() as heard:
            shown = _shown(name, path)
        if shown is None:
            raw.append((name, path))
            continue
        findings.hear(place_of(name), heard, has_lines=_has_lines(name))
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(shown)
    for name, path in _without_secrets(raw, findings):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    shutil.rmtree(laid_out)
    paths = Store(folder).experiment(experiment_id)
    if copy_series(store, experiment_id, paths.series):
        with hearing() as heard:
            mask_series(paths.series)
        findings.hear("errors and reasons of trials", heard)
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
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), findings.found


def _without_secrets(files: Sequence[tuple[str, Path]], findings: Findings) -> list[tuple[str, Path]]:
    """Of files that go along as they are, those without a secret. Raises BadInput where a captured value is one:
    without it the experiment is none.
    """
    captured = captured_blobs(files)
    holding = {name: kinds for name, path in files if (kinds := kinds_in(path, findings.known))}
    if inside := sorted({kind for name, kinds in holding.items() if name in captured for kind in kinds}):
        raise BadInput(
            f"a value that the training code uses from the notebook holds a secret ({', '.join(inside)}), and would be "
            "published. Read it inside the train cell (from the environment, say) and train again."
        )
    # A checkpoint without one of its files is none.
    broken = {checkpoint_of(name) for name in holding} - {None}
    left = {name for name, _ in files if name in holding or checkpoint_of(name) in broken}
    for name, kinds in holding.items():
        findings.add(place_of(name), kinds, LEFT_OUT)
    return [(name, path) for name, path in files if name not in left]


def _notebooks(files: Sequence[tuple[str, Path]]) -> set[str]:
    """Names of blobs that are notebooks: those that snapshots kept, and those that are executed with parameters."""
    found = [batch.get("source") for batch in _batches(files)]
    for name, path in files:
        if name.startswith("snapshots/") and name.endswith("/snapshot.json"):
            with contextlib.suppress(ValueError, AttributeError):
                found.append((json.loads(path.read_bytes()).get("notebook") or {}).get("sha256"))
    return {f"blobs/{sha}" for sha in found if sha}


def _shown(name: str, path: Path) -> bytes | None:
    """What others may see of a file; None for all of it."""
    kind, _, *parts = name.split("/")
    if kind == "snapshots" and len(parts) == 1:
        return masked_notebook(path.read_bytes())  # and what is written in its way
    if kind == "snapshots" and parts[0] == "code" and name.endswith(".py"):
        return masked_code(path.read_bytes().decode(errors="surrogateescape")).encode(errors="surrogateescape")
    if kind == "experiments" and parts == ["spec.json"]:
        return json.dumps(masked_spec(json.loads(path.read_text()))).encode()
    if kind == "experiments" and parts == ["events.jsonl"]:
        return masked_lines(path.read_bytes())
    if kind == "experiments" and parts[0] == "trials" and _LOG.search(name):
        return masked(path.read_text(errors="replace")).encode()
    if kind == "experiments" and parts[0] == "trials" and "files" in parts[2:3]:
        return _masked_file(path.read_bytes())
    if kind == "experiments" and parts == ["data.json"]:
        return masked_notebook(path.read_bytes())
    return None


def _masked_file(data: bytes) -> bytes | None:
    """A file that training code kept, if it is a text; None for a picture, a sound, or what else has its bytes."""
    if b"\0" in data[:4096]:
        return None
    try:
        text = data.decode()
    except ValueError:
        return None
    return masked(text).encode()


def _has_lines(name: str) -> bool:
    """Whether a file's lines are those that its readers see."""
    return name.endswith((".py", ".txt", ".jsonl")) or _LOG.search(name) is not None


def mask_series(path: Path) -> None:
    """Take secrets out of a copied series: texts of errors and reasons, and whatever else is text in it."""
    with closing(sqlite3.connect(path)) as copy:
        copy.execute("PRAGMA secure_delete=ON")
        for table in ("meta", "trials", "legs"):
            columns = [row[1] for row in copy.execute(f"PRAGMA table_info({table})") if row[2] == "TEXT" and not row[5]]
            for column in columns:
                told = copy.execute(f'SELECT DISTINCT "{column}" FROM {table} WHERE typeof("{column}") = \'text\'')
                changed = [(shown, text) for (text,) in told.fetchall() if (shown := masked_word(text)) != text]
                copy.executemany(f'UPDATE {table} SET "{column}" = ? WHERE "{column}" = ?', changed)
        copy.commit()
        copy.execute("VACUUM")  # what was deleted before it was copied


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
        # A server's names are its own: what has no place in a publication is not fetched.
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
        raise BadInput(f"{masked(source)} is nothing that `workbench publish` wrote: it has no published.json.")
    return Store(folder, readonly=True)
