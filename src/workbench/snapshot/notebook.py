"""The notebook as it was: the cells that the kernel executed, in order, and the file on the disk. Law: the two are kept
apart and labelled, since a kernel sees neither unsaved edits nor what was executed before it started.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from workbench.records import Json

#: Words in a name whose value is nobody's business.
_SECRET_NAME = re.compile(
    r"(?i)key|token|secret|passw|passphrase|credential|(?:^|_)auth(?:$|_)|cookie|(?:^|_)pwd?(?:$|_)|private|signature"
)
_IN_TEXT = re.compile(
    r"""(?ix)
    (?P<name>[\w-]*(?:key|token|secret|passw(?:or)?d|passphrase|credential|pwd)[\w-]*)  # API_KEY, --token, password
    (?P<between>['"]?\]?\s*[=:]\s*|\s+(?=[^\s=:]{8}))
    (?P<value>"[^"]*"|'[^']*'|[^\s,;)]+)
    """
)
_IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@'\"]+@")
MASK = "***"


class Blobs(Protocol):
    """What a notebook's file needs of a store."""

    def put_blob(self, data: bytes | bytearray | memoryview) -> str:
        """Keep bytes by content; their sha256."""


@dataclass(frozen=True, slots=True)
class Executed:
    """One executed cell: its place in the order of execution (from 1), its text, and its id where that is known.

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

    cells: texts as IPython's ``In`` or ``input_hist_raw`` has them (their first entry is empty), or mappings with
    ``source`` and perhaps ``cell_id`` and ``failed``. cell_id: the id of the last one, which is the one being executed.
    """
    found: list[Executed] = []
    for number, cell in enumerate(cells):
        source = str(cell.get("source", "")) if isinstance(cell, Mapping) else str(cell)
        if source.strip():
            told = cell if isinstance(cell, Mapping) else {}
            failed = bool(told.get("failed"))
            found.append(Executed(number, masked(source), _sha(source), told.get("cell_id"), failed))
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
    """Keep the notebook's file as it is on the disk, in the store once by content.

    What is known of it: its path, size, time of its last saving (UTC) and digest; None where there is no notebook.
    """
    if path is None:
        return None
    file = Path(path)
    try:
        status = file.stat()
        digest = store.put_blob(file.read_bytes())
    except OSError:
        return {"path": str(path), "missing": True}
    return {
        "path": str(file),
        "size": status.st_size,
        "saved": datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="milliseconds"),
        "sha256": digest,
    }


def link_file(blob: Path, folder: Path) -> None:
    """Show a kept notebook in ``folder`` as ``notebook.ipynb``, without a second copy where the disk allows it."""
    target = folder / "notebook.ipynb"
    try:
        os.link(blob, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(blob, target)


# ---------------------------------------------------------------------------------------------------------------------
# Secrets


def masked(text: str) -> str:
    """``text`` with the values of keys, tokens and passwords, and credentials in addresses, replaced by ``***``."""
    if "://" in text:
        text = _IN_ADDRESS.sub(rf"\g<scheme>{MASK}@", text)
    lowered = text.lower()
    if not any(word in lowered for word in ("key", "token", "secret", "passw", "passphrase", "credential", "pwd")):
        return text
    return _IN_TEXT.sub(_without_value, text)


def _without_value(match: re.Match[str]) -> str:
    name, between, value = match["name"], match["between"], match["value"]
    quoted = value[:1] in "\"'"
    if between.isspace() and not name.startswith("--"):
        return match[0]  # prose, or `del key other`
    if not quoted and not name.startswith("--") and not _looks_random(value):
        return match[0]  # a name, a number or a call: `token = tokenizer(x)`, `key=None`
    if quoted and (len(value) < 8 or not name.strip("-_")):
        return match[0]
    return f"{name}{between}{value[0] + MASK + value[0] if quoted else MASK}"


def _looks_random(value: str) -> bool:
    return len(value) >= 12 and bool(re.search(r"\d", value)) and bool(re.fullmatch(r"[\w+/=.-]+", value))


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds something that must not be written down."""
    return _SECRET_NAME.search(name) is not None
