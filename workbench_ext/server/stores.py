"""The stores that this server shows. Law: each is below the server's root folder, or was configured; a browser names a
store by the id that it got here, never by a path."""

from __future__ import annotations

import hashlib
import math
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from logging import Logger
from pathlib import Path
from typing import Any

from workbench.errors import NotFound, WorkbenchError
from workbench.records import ENDED
from workbench.store import Store
from workbench.store.layout import FOLDER
from workbench.store.lists.catalog import read_catalog, resolve
from workbench.store.owner.ownership import ownership
from workbench_ext.server.base import bad
from workbench_ext.server.below import MOST_DEPTH, stores_below
from workbench_ext.server.experiments import engine, is_readonly

Json = Any

#: Seconds after which the folders below the root are searched again, and after which a missing store is searched for. A
#: slow search is repeated less often: it takes at most one part in ``_SHARE`` of the time.
LOOK_AGAIN_S, MISSED_S, _SHARE = 30.0, 3.0, 50
#: The same while no page lists the stores.
_UNSEEN_S = 600.0
#: A page sends a request every few seconds; this long after the last one the store counts as not shown.
ATTENDED_S = 30.0
_ID_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Known:
    """A store that may be shown.

    id: its name for browsers. folder: its place for users, relative to the root folder ("" is the root's own). real:
    its folder without links. stays: it is listed even if it does not exist.
    """

    id: str
    store: Store
    folder: str
    real: Path
    stays: bool = False


class Stores:
    """All stores that may be shown. Each method may block, and may be called from any thread."""

    def __init__(
        self, root: Path | str, configured: Sequence[str] = (), depth: int = MOST_DEPTH, hidden: bool = False
    ) -> None:
        """configured: folders of stores, relative to ``root``. hidden: whether notebooks may lie in hidden folders."""
        self.root = Path(os.path.abspath(root))
        self._configured = tuple(configured)
        self._depth = depth
        self._hidden = hidden
        #: Stores that were found, by id, in that order.
        self._met: dict[str, Known] = {}
        self._asked: dict[str, float] = {}
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._looked, self._took = -math.inf, 0.0
        self._listed = -math.inf

    @property
    def default(self) -> Known:
        """The store of the server's root folder, or of the environment's settings; meant by requests without an id."""
        store = Store.find(cwd=self.root)
        return self._known(store, Path(os.path.realpath(store.root)), stays=True)

    def all(self) -> list[Known]:
        """The existing stores, and those that are always listed; the default is the first."""
        fixed = self._fixed()
        with self._lock:
            met = list(self._met.values())
        return [*fixed.values(), *(known for known in met if known.id not in fixed and _is_in_place(known))]

    def listed(self) -> list[Known]:
        """All of them, for a page that lists them; the folders below the root were searched at least once."""
        self._listed = time.monotonic()
        self.look(math.inf)
        return self.all()

    @property
    def count(self) -> int:
        """How many were found so far, besides those that are always listed."""
        return len(self._met)

    def known(self, given: str | None) -> Known:
        """The store with the id ``given``, or the default. Raises NotFound."""
        if not given:
            return self.default
        for older_s in (math.inf, MISSED_S):
            self.look(older_s)
            found = self._fixed().get(given) or self._met.get(given)
            if found is not None and (found.stays or _is_in_place(found)):
                return found
        raise NotFound(
            f"this server shows no store {given[:40]!r}: it was moved or removed. Take one from the list of stores."
        )

    def look(self, older_s: float) -> None:
        """Search the folders below the root, unless that was done within ``older_s`` seconds.

        It takes seconds at most; a second caller waits for the first one.
        """
        with self._looking:
            began = time.monotonic()
            if began - self._looked < max(older_s, _SHARE * self._took):
                return
            for folder in stores_below(self.root, self._depth):
                self._meet(Store(folder))
            self._looked = time.monotonic()
            self._took = self._looked - began

    def look_if_due(self) -> None:
        """Search the folders below the root; often while a page lists the stores."""
        self.look(LOOK_AGAIN_S if time.monotonic() - self._listed < ATTENDED_S else _UNSEEN_S)

    def beside(self, path: str) -> Known | None:
        """The store of the notebook ``path``'s folder; None if there is none, or if it may not be shown.

        Raises Refused if the path leads out of the root folder.
        """
        return self._meet(Store.find(cwd=notebook_below(self.root, path, self._hidden).parent))

    def holding(self, name: str, path: str | None = None) -> Known | None:
        """The store that holds the experiment ``name``: preferably the one next to the notebook ``path``."""
        beside = None if path is None else self.beside(path)
        for older_s in (math.inf, MISSED_S):
            self.look(older_s)
            for known in [*([beside] if beside else []), *self.all()]:
                try:
                    resolve(known.store.check(), name)
                except (WorkbenchError, OSError):
                    continue
                return known
        return None

    # Stores that pages show ------------------------------------------------------------------------------------------

    def attend(self, known: Known) -> None:
        """Remember that a page shows this store."""
        self._asked[known.id] = time.monotonic()

    def is_attended(self, key: str) -> bool:
        """Whether a page shows the store with this id: only then are its changes sent."""
        return time.monotonic() - self._asked.get(key, -math.inf) < ATTENDED_S

    # Inside ----------------------------------------------------------------------------------------------------------

    def _fixed(self) -> dict[str, Known]:
        """The default and the configured stores, by id: they are listed even if they do not exist."""
        named = (Store(self.root / Path(folder).expanduser()) for folder in self._configured)
        others = [self._known(store, Path(os.path.realpath(store.root)), stays=True) for store in named]
        return {known.id: known for known in (self.default, *others)}

    def _known(self, store: Store, real: Path, stays: bool = False) -> Known:
        digest = hashlib.sha256(os.fsencode(real)).hexdigest()
        return Known(digest[:_ID_LENGTH], store, self._folder(store.root), real, stays)

    def _folder(self, root: Path) -> str:
        """A store's place for users: the folder whose notebooks use it."""
        place = root.parent if root.name == FOLDER else root
        if place == self.root:
            return ""
        return place.relative_to(self.root).as_posix() if place.is_relative_to(self.root) else place.as_posix()

    def _meet(self, store: Store) -> Known | None:
        """Add a store that exists, if it may be shown."""
        real = Path(os.path.realpath(store.root))
        fixed = {known.real: known for known in self._fixed().values()}
        if real in fixed:
            return fixed[real]
        if not real.is_relative_to(os.path.realpath(self.root)) or not store.exists:
            return None
        # It is served by its real folder: a link on the way may lead elsewhere tomorrow.
        below = Path(os.path.relpath(real, os.path.realpath(self.root)))
        known = self._known(Store(self.root / below), real)
        with self._lock:
            return self._met.setdefault(known.id, known)


def _is_in_place(known: Known) -> bool:
    """Whether the store exists, and its folder is still the one that was found and not a link to another."""
    return known.store.exists and Path(os.path.realpath(known.store.root)) == known.real


def notebook_below(root: Path, given: str, hidden: bool = True) -> Path:
    """The notebook's file for a page's path. It must be below ``root``.

    Raises Refused if it is not, or if it is in a hidden folder and ``hidden`` is False.
    """
    # With real-time collaboration the path starts with the name of its drive.
    path = Path(os.path.abspath(root / given.removeprefix("RTC:").lstrip("/")))
    try:
        is_below = "\0" not in given and path.parent.resolve(strict=True).is_relative_to(root.resolve())
        is_below = is_below and path != root and path.parent.is_relative_to(root)
        is_below = is_below and (hidden or not any(part.startswith(".") for part in path.relative_to(root).parts))
    except (OSError, ValueError, RuntimeError):
        is_below = False
    if not is_below:
        raise bad("path", given, "a notebook below the server's root folder")
    return path


def described_or_why(known: Known, log: Logger) -> Json:
    """A store's entry in a list, even if it cannot be read: then the entry says why, and the others are listed too."""
    try:
        return described(known)
    except Exception as error:  # another person may have written anything into it
        log.warning("Workbench's store %s could not be read", known.store.root, exc_info=True)
        nothing = {"alive": False, "state": "none", "host": None, "pid": None, "heartbeat": None, "address": None}
        return {
            "id": known.id,
            "folder": known.folder,
            "root": str(known.store.root),
            "exists": True,
            "readonly": True,
            "published": False,
            "ours": False,
            "why": f"it cannot be read ({error})"[:500],
            "engine": nothing,
            "experiments": 0,
            "under_way": 0,
        }


def described(known: Known) -> Json:
    """A store's entry in a list of stores."""
    store, owned = known.store, ownership(known.store)
    rows = read_catalog(store) if store.exists else []
    return {
        "id": known.id,
        "folder": known.folder,
        "root": str(store.root),
        "exists": store.exists,
        "readonly": is_readonly(store),
        "published": store.published.exists(),
        "ours": owned.is_ours,
        "why": owned.why,
        "engine": engine(store),
        "experiments": len(rows),
        "under_way": sum(row["state"] not in ENDED for row in rows),
    }
