"""The recorded notebook: the cells that the kernel executed, in order, and the file on disk. Law: the two are kept
separate and labelled, since a kernel sees neither unsaved edits nor executions before it started.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from workbench.records import Json
from workbench.snapshot.secrets.literals import masked_cell
from workbench.snapshot.secrets.masking import HEADS, MASK, is_secret, masked

#: An encoded picture: it is not searched for secrets, and masking would break it.
_PICTURE = re.compile(r"(?:image/(?!svg)|application/pdf|audio/|video/)")
#: Longer parts of a file without a blank are treated as pictures.
_LONG = 4096
#: The minimum length of keys without a fixed prefix.
_RUN = re.compile(rb"[a-z0-9_-]{26}")
_HEADS = tuple(head.encode() for head in HEADS)


class Blobs(Protocol):
    """The part of a store that a notebook's file needs."""

    def put_blob(self, data: bytes | bytearray | memoryview) -> str:
        """Keep bytes by content; their sha256."""


@dataclass(frozen=True, slots=True)
class Executed:
    """One executed cell: its place in the order of execution (from 1), its text, and its id if known.

    failed: it ended with an error.
    """

    number: int
    source: str
    digest: str
    cell_id: str | None = None
    failed: bool = False

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        found = {"number": self.number, "sha256": self.digest, "cell_id": self.cell_id, "source": self.source}
        return {**found, **({"failed": True} if self.failed else {})}


def executed_cells(cells: Iterable[Any], cell_id: str | None = None) -> list[Executed]:
    """The executed cells in order.

    cells: texts like IPython's ``In`` or ``input_hist_raw`` (the first entry is empty), or mappings with ``source`` and
    optionally ``cell_id`` and ``failed``. cell_id: the id of the last one, which is the one being executed.
    """
    found: list[Executed] = []
    for number, cell in enumerate(cells):
        source = str(cell.get("source", "")) if isinstance(cell, Mapping) else str(cell)
        if source.strip():
            told = cell if isinstance(cell, Mapping) else {}
            failed = bool(told.get("failed"))
            found.append(Executed(number, masked_cell(source), _sha(source), told.get("cell_id"), failed))
    if found and cell_id is not None and found[-1].cell_id is None:
        last = found[-1]
        found[-1] = replace(last, cell_id=cell_id)
    return found


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def order_digest(cells: Sequence[Executed]) -> str:
    """The digest of all executed texts in their order."""
    return _sha("\n".join(cell.digest for cell in cells))


def keep_file(path: str | os.PathLike[str] | None, store: Blobs) -> dict[str, Json] | None:
    """Keep the notebook's file as it is on disk, with secrets masked, in the store once by content.

    Returns its path, size, time of the last save (UTC) and the digest of the kept bytes; None if there is no notebook.
    """
    if path is None:
        return None
    file = Path(path)
    try:
        status = file.stat()
        digest = store.put_blob(masked_notebook(file.read_bytes()))
    except OSError:
        return {"path": str(path), "missing": True}
    return {
        "path": str(file),
        "size": status.st_size,
        "saved": datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="milliseconds"),
        "sha256": digest,
    }


def link_file(blob: Path, folder: Path) -> None:
    """Link a kept notebook into ``folder`` as ``notebook.ipynb``, without a second copy if the disk supports it."""
    target = folder / "notebook.ipynb"
    try:
        os.link(blob, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(blob, target)


# ---------------------------------------------------------------------------------------------------------------------
# Secrets


def masked_notebook(data: bytes) -> bytes:
    """A notebook's file without secrets in code, texts, outputs and metadata; ``data`` itself if there are none.

    It scans the bytes first, and parses the notebook only if they contain a word that may name a secret.
    """
    if not _may_hold(data):
        return data
    try:
        content = json.loads(data)
    except ValueError:
        text = data.decode(errors="surrogateescape")
        found = masked_cell(text)
        return data if found == text else found.encode(errors="surrogateescape")
    found_content = masked_json(content)
    if found_content == content:
        return data
    return (json.dumps(found_content, indent=1, ensure_ascii=False) + "\n").encode(errors="surrogatepass")


def _may_hold(data: bytes) -> bool:
    parts = [part for part in data.split(b'"') if len(part) < _LONG or b" " in part or part.find(b"=", 0, -8) >= 0]
    lowered = b'"'.join(parts).lower()
    if any(head in lowered for head in _HEADS) or (b"@" in lowered and b"://" in lowered):
        return True
    return _RUN.search(lowered) is not None


def masked_json(value: Json, mask_code: Callable[[str], str] = masked, *, by_name: bool = False) -> Json:
    """Plain data in the form of a notebook or a snapshot, with secrets in its texts masked; code under ``source`` is
    masked as a cell.

    by_name: also mask every text under a secret's name.
    """
    if isinstance(value, str):
        return mask_code(value)
    if isinstance(value, list):
        return _masked_list(value, mask_code, by_name)
    if isinstance(value, dict):
        return {key: _masked_field(value, key, one, mask_code, by_name) for key, one in value.items()}
    return value


def _masked_field(
    whole: dict[str, Json], key: str, value: Json, mask_code: Callable[[str], str], by_name: bool
) -> Json:
    if _PICTURE.match(key):
        return value
    if key in ("source", "input") and whole.get("cell_type", "code") == "code":
        return masked_json(value, masked_cell)
    if isinstance(value, str) and by_name and is_secret(key) and value:
        return MASK
    return masked_json(value, mask_code, by_name=by_name or key in ("metadata", "application/json"))


def _masked_list(value: list[Any], mask_code: Callable[[str], str], by_name: bool) -> list[Any]:
    """Lines of one text are masked together: a value may be on the line below its name."""
    if len(value) > 1 and all(isinstance(one, str) for one in value) and all(one.endswith("\n") for one in value[:-1]):
        text = "".join(value)
        found = mask_code(text)
        return value if found == text else found.splitlines(keepends=True)
    return [masked_json(one, mask_code, by_name=by_name) for one in value]
