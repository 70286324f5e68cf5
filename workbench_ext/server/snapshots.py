"""An experiment's frozen cells, environment, data and notebook. Law: it reads, and trusts no output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import nbformat

from workbench.errors import NotFound, StoreError
from workbench.records import Spec
from workbench.store import Store
from workbench.store.files.atomic import MOST_JSON, read_file
from workbench.store.lists.documents import Document, document_of
from workbench_ext.server.experiments import found

Json = Any

#: The kinds of notebook.
WHICH = ("executed", "file", "document")


def snapshot(store: Store, name: str) -> Json:
    """The experiment's surroundings when it was started. Raises NotFound if it was started without a snapshot."""
    experiment_id, spec = found(store, name)
    digest, parts = _parts(store, name, experiment_id)
    document = _document(store, spec, parts)
    cells = [
        {"n": cell["number"], "source": cell["source"], "cell_id": cell.get("cell_id"), "hash": cell.get("sha256")}
        for cell in parts["cells"].get("cells", ())
    ]
    kept = parts.get("notebook") or {}
    return {
        "digest": digest,
        "typed": parts.get("typed", ""),
        "cells": cells,
        "train_cell": cells[-1]["n"] if cells else None,
        "environment": {**_summary(parts["environment"]), **_given(spec)},
        "data": list(parts["data"].get("files", ())),
        "modules": parts.get("modules") or [],
        "captured": sorted((parts.get("capture") or {}).get("names") or {}),
        "notes": list(parts.get("notes") or ()),
        "notebook": _file(store, digest, kept) is not None,
        "saved": kept.get("saved"),
        "document": None if document is None else {"at": document.at, "unsaved": document.unsaved},
    }


def notebook(store: Store, name: str, which: str) -> Json:
    """The recorded notebook: ``executed`` (the cells that the kernel ran, in order), ``file`` (as it was saved), or
    ``document`` (as the page held it, with unsaved changes). Raises NotFound if that was not kept."""
    experiment_id, spec = found(store, name)
    digest, parts = _parts(store, name, experiment_id)
    if which == "executed":
        return _executed(parts)
    data = None
    if which == "file":
        data = _file(store, digest, parts.get("notebook") or {})
    elif (document := _document(store, spec, parts)) is not None and store.has_blob(document.blob):
        data = store.get_blob(document.blob)
    if data is None:
        what = "the notebook's file" if which == "file" else "the open document"
        raise NotFound(f"{what} was not kept with {name}. which=executed has the cells that were executed.")
    return _read(data, name)


def _parts(store: Store, name: str, experiment_id: str) -> tuple[str, Mapping[str, Json]]:
    digest = store.read_spec(experiment_id, viewing=True).snapshot
    if digest is None:
        raise NotFound(f"{name} was started without a snapshot: from a function or a script outside of a notebook.")
    from workbench.snapshot import read_snapshot  # imports the capturing modules too, so not at the server's start

    try:
        parts = read_snapshot(store, digest)
        if not all(isinstance(parts[part], dict) for part in ("cells", "environment", "data")):
            raise ValueError("a part of it is not a JSON object")
    except (ValueError, KeyError) as error:
        raise StoreError(
            f"snapshot {digest[:12]} is damaged ({error}). Restore it from a copy of the store."
        ) from error
    return digest, parts


def _given(spec: Spec) -> dict[str, Json]:
    """What training got from the notebook's process; specs of earlier versions name only a few variables."""
    training = spec.training
    if not training.is_whole:
        return {}
    hidden = {name: f"a secret, #{known[:6]}" for name, known in training.secrets.items()}
    return {
        "threads": training.threads,
        "settings": training.settings,
        "variables": dict(sorted({**training.env, **hidden}.items())),
    }


def _summary(environment: Mapping[str, Json]) -> Json:
    """The most important facts first, then all packages."""
    python, machine = environment.get("python") or {}, environment.get("machine") or {}
    return {
        "python": python.get("version"),
        "executable": python.get("executable"),
        "system": " ".join(str(machine[key]) for key in ("system", "release", "architecture") if machine.get(key)),
        "host": machine.get("host"),
        "processor": machine.get("processor"),
        "cores": machine.get("usable_cores"),
        "memory": machine.get("memory"),
        "gpus": machine.get("gpus") or [],
        "threads": environment.get("threads"),
        "libraries": environment.get("libraries") or {},
        "variables": environment.get("variables") or {},
        "distributions": environment.get("distributions") or {},
    }


def _file(store: Store, digest: str, kept: Mapping[str, Json]) -> bytes | None:
    """The notebook's file that was kept, or None."""
    try:
        return read_file(store.snapshot(digest) / "notebook.ipynb", MOST_JSON)
    except FileNotFoundError:
        pass
    except ValueError as error:
        raise StoreError(
            f"the notebook in snapshot {digest[:12]} cannot be read: {error}. Restore it from a copy of the store."
        ) from None
    try:
        return store.get_blob(kept["sha256"])
    except (KeyError, NotFound):
        return None


def _document(store: Store, spec: Spec, parts: Mapping[str, Json]) -> Document | None:
    """The document that was open when the experiment was started, if a page sent it."""
    cells = parts["cells"].get("cells") or [{}]
    notebook = spec.notebook or (parts.get("notebook") or {}).get("path")
    if notebook is None:
        return None
    return document_of(store, notebook, cells[-1].get("cell_id"), spec.created, cells[-1].get("sha256"))


def _executed(parts: Mapping[str, Json]) -> Json:
    cells = [
        nbformat.v4.new_code_cell(
            cell["source"],
            id=f"executed-{int(cell['number'])}",
            execution_count=int(cell["number"]),
            metadata={"workbench": {"cell_id": cell.get("cell_id")}},
        )
        for cell in parts["cells"].get("cells", ())
    ]
    return nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})


def _read(data: bytes, name: str) -> Json:
    try:
        found_notebook = nbformat.reads(data.decode(), as_version=4)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError, ValueError, KeyError, AttributeError) as error:
        raise StoreError(f"the notebook kept with {name} cannot be read ({str(error)[:200]}).") from error
    for cell in found_notebook.cells:
        cell.get("metadata", {}).pop("trusted", None)
    return found_notebook
