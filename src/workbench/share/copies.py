"""An experiment's files for others. Law: texts are masked, what cannot be masked is searched, and each secret is
reported with its place and kind.

A blob must match its name: the notebook's blob is left out if it contains a secret, and the snapshot shows the
notebook masked.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from workbench.errors import BadInput
from workbench.replay.executing import unpacked
from workbench.share.contents import copy_series, files_of, opened_file
from workbench.share.looking import (
    CARRIED,
    LEFT_OUT,
    MASKED,
    Findings,
    captured_blobs,
    checkpoint_of,
    kinds_in,
    place_of,
)
from workbench.share.masking import masked_lines, masked_spec, masked_word
from workbench.snapshot.notebook import masked_notebook
from workbench.snapshot.secrets.literals import masked_code
from workbench.snapshot.secrets.masking import MASK, hearing, is_secret, masked
from workbench.store import Store

#: The log of a trial, its older parts, and those of its other ranks.
_LOG = re.compile(r"/((t\d+\.)?log\.txt(\.\d+)?|ranks/\d+\.log)$")


def copied(
    store: Store,
    experiment_id: str,
    folder: Path,
    aside: Path,
    findings: Findings,
    *,
    checkpoints: bool,
    data: bool = False,
) -> list[tuple[str, Path]]:
    """Names and paths of the files for others: masked ones are in ``folder``, unpacked ones in ``aside``. Secrets are
    added to ``findings``.

    Raises BadInput if a captured value is a secret: the experiment is incomplete without it.
    """
    files = [*files_of(store, experiment_id, aside, checkpoints=checkpoints, data=data)]
    kept, raw = [], []
    for name, path, shown in _looked_at(files, findings, MASKED):
        if shown is None:
            raw.append((name, path))
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(shown)
        kept.append((name, target))
    series = f"experiments/{experiment_id}/series.db"
    (folder / series).parent.mkdir(parents=True, exist_ok=True)
    if copy_series(store, experiment_id, folder / series):
        with hearing() as heard:
            mask_series(folder / series)
        findings.hear(place_of(series), heard)
        kept.append((series, folder / series))
    return [*kept, *_without_secrets(raw, findings)]


def look(files: Sequence[tuple[str, Path]], findings: Findings) -> None:
    """Search files that are included unchanged."""
    raw = [(name, path) for name, path, shown in _looked_at(files, findings, CARRIED) if shown is None]
    for name, path in raw:
        with contextlib.suppress(FileNotFoundError):  # a checkpoint that has been deleted since
            findings.add(place_of(name), kinds_in(path, findings.known), CARRIED)


def _looked_at(
    files: Sequence[tuple[str, Path]], findings: Findings, done: str
) -> Iterable[tuple[str, Path, bytes | None]]:
    """Each file, and its masked content; None if it is not a text. The spec comes first: a log may print the secrets
    that the command line had. Secrets found in texts are searched for in files that are none.
    """
    notebooks = _notebooks(files)
    for name, path in sorted(files, key=lambda one: not one[0].endswith("/spec.json")):
        if name in notebooks and masked_notebook(before := _bytes(path)) != before:
            continue
        with hearing() as heard:
            shown = _shown(name, path, findings.known)
        findings.hear(place_of(name), heard, done, has_lines=_has_lines(name))
        yield name, path, shown


def refuse_secrets(store: Store, experiment_id: str) -> None:
    """Raise BadInput if the name of a captured value or a notebook's parameter marks it as a secret."""
    _refuse_secret_values(store, experiment_id)
    _refuse_secret_parameters(files_of(store, experiment_id, checkpoints=False))


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
    """Whether a captured value may be a secret: ``max_tokens = 100`` is not."""
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
    """Batches of notebook executions among the blobs of an experiment."""
    return [found for name, path in files if name.startswith("blobs/") and (found := unpacked(path)) is not None]


def _without_secrets(files: Sequence[tuple[str, Path]], findings: Findings) -> list[tuple[str, Path]]:
    """Files without a secret, of those that are included unchanged. Raises BadInput if a captured value is a secret:
    the experiment is incomplete without it.
    """
    captured = captured_blobs(files)
    holding = {name: kinds for name, path in files if (kinds := kinds_in(path, findings.known))}
    if inside := sorted({kind for name, kinds in holding.items() if name in captured for kind in kinds}):
        raise BadInput(
            f"a value that the training code uses from the notebook holds a secret ({', '.join(inside)}), and would be "
            "published. Read it inside the train cell (from the environment, say) and train again."
        )
    # A checkpoint is unusable without one of its files.
    broken = {checkpoint_of(name) for name in holding} - {None}
    left = {name for name, _ in files if name in holding or checkpoint_of(name) in broken}
    for name, kinds in holding.items():
        findings.add(place_of(name), kinds, LEFT_OUT)
    return [(name, path) for name, path in files if name not in left]


def _notebooks(files: Sequence[tuple[str, Path]]) -> set[str]:
    """Names of blobs that are notebooks: those in snapshots, and those that are executed with parameters."""
    found = [batch.get("source") for batch in _batches(files)]
    for name, path in files:
        if name.startswith("snapshots/") and name.endswith("/snapshot.json"):
            with contextlib.suppress(ValueError, AttributeError):
                found.append((json.loads(_bytes(path)).get("notebook") or {}).get("sha256"))
    return {f"blobs/{sha}" for sha in found if sha}


def _bytes(path: Path) -> bytes:
    """A file's bytes. A link that replaced it after it was listed is not followed."""
    with opened_file(path) as file:
        return file.read()


def _shown(name: str, path: Path, known: Collection[bytes]) -> bytes | None:
    """The masked content of a file; None if it may be shown unchanged. known: secrets that other texts contain."""
    kind, _, *parts = name.split("/")
    if kind == "snapshots" and len(parts) == 1:
        return masked_notebook(_bytes(path))  # and text in the same format
    if kind == "snapshots" and parts[0] == "code" and name.endswith(".py"):
        return masked_code(_bytes(path).decode(errors="surrogateescape")).encode(errors="surrogateescape")
    if kind == "experiments" and parts == ["spec.json"]:
        return json.dumps(masked_spec(json.loads(_bytes(path)))).encode()
    if kind == "experiments" and parts == ["events.jsonl"]:
        return masked_lines(_bytes(path))
    if kind == "experiments" and parts[0] == "trials" and _LOG.search(name):
        text = masked(_bytes(path).decode(errors="replace")).encode()
        return functools.reduce(lambda shown, secret: shown.replace(secret, MASK.encode()), known, text)
    if kind == "experiments" and parts[0] == "trials" and "files" in parts[2:3]:
        return _masked_file(_bytes(path))
    if kind == "experiments" and parts in (["data.json"], ["setup.json"]):
        return masked_notebook(_bytes(path))
    return None


def _masked_file(data: bytes) -> bytes | None:
    """Mask a file that training code kept, if it is a text; None for an image, audio, or other binary files."""
    if b"\0" in data[:4096]:
        return None
    try:
        text = data.decode()
    except ValueError:
        return None
    return masked(text).encode()


def _has_lines(name: str) -> bool:
    """Whether the lines of a file are those that its readers see."""
    return name.endswith((".py", ".txt", ".jsonl")) or _LOG.search(name) is not None


def mask_series(path: Path) -> None:
    """Mask secrets in a copied series: in texts of errors and reasons, and in all other texts."""
    with closing(sqlite3.connect(path)) as copy:
        copy.execute("PRAGMA secure_delete=ON")
        for table in ("meta", "trials", "legs"):
            columns = [row[1] for row in copy.execute(f"PRAGMA table_info({table})") if row[2] == "TEXT" and not row[5]]
            for column in columns:
                told = copy.execute(f'SELECT DISTINCT "{column}" FROM {table} WHERE typeof("{column}") = \'text\'')
                changed = [(shown, text) for (text,) in told.fetchall() if (shown := masked_word(text)) != text]
                copy.executemany(f'UPDATE {table} SET "{column}" = ? WHERE "{column}" = ?', changed)
        copy.commit()
        copy.execute("VACUUM")  # remove rows that were deleted before the copy
