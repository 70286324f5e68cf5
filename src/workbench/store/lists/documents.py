"""Open notebooks as of the execution of a cell. Law: they are kept as the page sent them.

A kernel sees neither unsaved edits nor the cells that were not executed; the page does. Jupyter's server writes these
files, one for each time, and the bytes as a blob, once by content.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

from workbench.errors import BadName, StoreError
from workbench.records import SCHEMA
from workbench.store.files.atomic import make_folder, read_json, write_json
from workbench.store.ids import checked_id, new_id
from workbench.store.layout import Store

#: A document belongs to an experiment if it was sent at most this long before: cells may wait in the queue.
BEFORE = timedelta(days=1)
#: It may also arrive this much later, since sending takes a moment.
AFTER = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Document:
    """A kept document.

    at: when (UTC). path: the notebook's file. cell_id: of the executed cell. source: sha256 of that cell's text.
    unsaved: whether the page had unsaved edits. blob: the document's bytes.
    """

    id: str
    at: str
    path: str
    cell_id: str
    source: str
    unsaved: bool
    blob: str


def keep(store: Store, path: Path, cell_id: str, source: str, unsaved: bool, content: bytes) -> Document:
    """Keep ``content``, the notebook at ``path`` as JSON. Raises StoreFull, StoreReadOnly."""
    store.check_writable()
    make_folder(store.documents)
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    document = Document(new_id(), at, str(path), cell_id, source, unsaved, store.put_blob(content))
    write_json(file_of(store, document.id), {"schema": SCHEMA, **asdict(document)})
    return document


def document_of(
    store: Store, notebook: str, cell_id: str | None, created: str, source: str | None = None
) -> Document | None:
    """The document from which the experiment made at ``created`` was started, or None.

    source: sha256 of the executed text. A document with the same text is preferred to a newer one.
    """
    latest = _time(created) + AFTER
    found = [
        one
        for one in documents(store)
        if one.path == notebook
        and (cell_id is None or one.cell_id == cell_id)
        and latest - BEFORE - AFTER <= _time(one.at) <= latest
    ]
    return max(found, key=lambda one: (one.source == source, one.at), default=None)


def documents(store: Store) -> Iterator[Document]:
    """All kept documents, in any order. Unreadable files are skipped."""
    names = {field.name for field in fields(Document)}
    with contextlib.suppress(OSError):
        for name in os.listdir(store.documents):
            with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, BadName):
                if name.endswith(".json"):
                    data = read_json(store.documents / name)
                    found = Document(**{key: value for key, value in data.items() if key in names})
                    if name == f"{checked_id(found.id)}.json":
                        yield found


def prune(store: Store, started: Iterable[tuple[str, str]]) -> list[str]:
    """Remove documents that no experiment used within a day; return their ids.

    started: notebook and time of each experiment. The next clean-up of the store removes the bytes.
    """
    removed = []
    for one in unused(store, started):
        with contextlib.suppress(OSError):
            os.unlink(file_of(store, one.id))
            removed.append(one.id)
    return removed


def unused(store: Store, started: Iterable[tuple[str, str]]) -> list[Document]:
    """Documents that no experiment used within a day. ``started`` as for :func:`prune`."""
    experiments = [(notebook, _time(created)) for notebook, created in started]
    now, found = datetime.now(UTC), []
    for one in documents(store):
        at = _time(one.at)
        is_used = any(notebook == one.path and at - AFTER <= made <= at + BEFORE for notebook, made in experiments)
        if not is_used and now - at > BEFORE:
            found.append(one)
    return found


def file_of(store: Store, document_id: str) -> Path:
    """The path of a document's description. Raises BadName for an invalid id."""
    return store.documents / f"{checked_id(document_id)}.json"


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise StoreError(f"{text!r} is not a time: expected ISO 8601.") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
