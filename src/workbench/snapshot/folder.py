"""A snapshot's folder: everything that was frozen, named by the digest of its content. Law: written once, completely or
not at all; taking the same snapshot again writes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import NotFound
from workbench.records import SCHEMA, Json, check_schema
from workbench.snapshot.capture import Capture
from workbench.snapshot.modules import ProjectModule, copied, copy_code, digests_of, project_modules, sources, stale
from workbench.snapshot.notebook import executed_cells, keep_file, link_file, order_digest
from workbench.snapshot.reading.cell import Cell
from workbench.snapshot.secrets.masking import masked
from workbench.snapshot.surroundings import data as files
from workbench.snapshot.surroundings.environment import environment
from workbench.store import Store
from workbench.store.files.atomic import MOST_JSON, REMOVED, fsync_folder, read_file, telling
from workbench.store.owner.trust import is_marked

#: The parts of the environment that make two snapshots differ: neither the host nor the time.
_STABLE = ("python", "threads", "libraries", "variables", "distributions")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was frozen.

    digest: of its content. path: its folder. code: the folder with the project's code, first on a runner's search path,
    or None if there is none. notes: what the user should know. seconds: how long it took.
    """

    digest: str
    path: Path
    code: Path | None = None
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)


def take(
    store: Store,
    *,
    cell: Cell | None = None,
    namespace: Mapping[str, Any] | None = None,
    capture: Capture | None = None,
    notebook: str | os.PathLike[str] | None = None,
    cells: Iterable[Any] = (),
    cell_id: str | None = None,
    typed: str = "",
    expanded: str = "",
    seed: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    data: Iterable[str | os.PathLike[str]] = (),
) -> Snapshot:
    """Freeze what surrounds ``cell``: executed cells, notebook file, project code, packages, machine, named files.

    cells, cell_id: as for :func:`executed_cells`. folder: the notebook's working directory; its file names are relative
    to it. data: files that the user names, besides those that the cells name. ``namespace`` is not inspected: the
    captured names are in ``capture``.
    """
    begun = time.perf_counter()
    here = Path(folder) if folder is not None else Path.cwd()
    executed = executed_cells(cells, cell_id)
    modules = project_modules(cell.imports if cell is not None else ())
    surroundings = environment()
    texts = [one.source for one in executed] + ([cell.source] if cell is not None else [])
    found = {one.path: one for one in files.named_files(texts, here)}
    for path in data:
        with contextlib.suppress(OSError):
            found[str(path)] = files.describe(here / path)
    store.check_writable()
    with telling(store.snapshots):
        kept = keep_file(notebook, store)
    frozen: dict[str, Json] = {
        "schema": SCHEMA,
        "typed": masked(typed),
        "expanded": masked(expanded),
        "seed": seed,
        "cell": cell.content if cell is not None else None,
        "cells": order_digest(executed),
        "notebook": kept,
        "capture": _capture(capture),
        "modules": sources([*modules.values()]),
        "project": digests_of(modules),
        "copied": copied(modules),
        "folder": str(here),
        "notes": [*stale(modules), *(capture.notes if capture is not None else ())],
    }
    stable = {key: surroundings[key] for key in _STABLE}
    digest = _digest([frozen, stable, [one.digest for one in found.values()]])
    target = store.snapshot(digest)
    if not _touched(target):
        parts = {
            "cells": {"cells": [one.to_json() for one in executed]},
            "environment": surroundings,
            "data": {"files": [one.to_json() for one in found.values()]},
            "snapshot": frozen,
        }
        with telling(target):
            _write_folder(store, target, parts, modules, kept)
    code = store.code(digest)
    return Snapshot(
        digest=digest,
        path=target,
        code=code if code.is_dir() else None,
        notes=tuple(frozen["notes"]),
        seconds=round(time.perf_counter() - begun, 6),
    )


def retake(store: Store, digest: str, *, environment: Mapping[str, Json], data: Iterable[files.DataFile]) -> Snapshot:
    """The snapshot ``digest`` with another environment and the data files as they are now, but without its copied code.

    The code stays in its first place, which a replay has on its search path, and a process with that path may be
    waiting already. Returns the same snapshot if nothing differs. Raises NotFound if it no longer exists.
    """
    begun = time.perf_counter()
    old = read_snapshot(store, digest)
    frozen = {key: value for key, value in old.items() if key not in ("cells", "environment", "data")}
    # The parts that ``read_snapshot`` adds are separate files; under ``cells`` is the digest of their order.
    frozen["cells"] = old["cells_digest"]
    described = [*data]
    parts = {
        "cells": {"cells": old["cells"]["cells"]},
        "environment": dict(environment),
        "data": {"files": [one.to_json() for one in described]},
        "snapshot": {key: value for key, value in frozen.items() if key != "cells_digest"},
    }
    stable = {key: environment.get(key) for key in _STABLE}
    found = _digest([parts["snapshot"], stable, [one.digest for one in described]])
    target = store.snapshot(found)
    if not _touched(target) and found != digest:
        store.check_writable()
        with telling(target):
            _write_folder(store, target, parts, {}, frozen.get("notebook"))
    return Snapshot(found, target, None, tuple(old.get("notes") or ()), time.perf_counter() - begun)


def _touched(target: Path) -> bool:
    """Whether the snapshot exists; marks it as used, since cleaning up keeps what was touched within a day."""
    with contextlib.suppress(PermissionError):  # it belongs to another user; no need to mark it
        try:
            os.utime(target)
        except FileNotFoundError:
            return False
    return target.is_dir() and not is_marked(target)


def _write_folder(
    store: Store,
    target: Path,
    parts: Mapping[str, dict[str, Json]],
    modules: Mapping[str, ProjectModule],
    notebook: Mapping[str, Json] | None,
) -> None:
    temporary = target.with_name(f".{secrets.token_hex(8)}.writing")
    aside = target.with_name(f"{REMOVED}{secrets.token_hex(8)}")
    temporary.mkdir(mode=0o700, parents=True)
    try:
        copy_code(modules, temporary / "code")
        if notebook is not None and "sha256" in notebook and store.has_blob(notebook["sha256"]):
            link_file(store.blob_path(notebook["sha256"]), temporary)
        for name, part in parts.items():
            _write(temporary / f"{name}.json", {"schema": SCHEMA, **part})
        if is_marked(target):  # of the same name, from elsewhere
            os.rename(target, aside)
        try:
            os.rename(temporary, target)
        except OSError:
            if not target.is_dir():  # otherwise another process took the same snapshot at the same moment
                raise
        fsync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)


def read_snapshot(store: Store, digest: str) -> dict[str, Json]:
    """All parts of a snapshot: the content of ``snapshot.json``, and the rest under ``cells``, ``environment``,
    ``data``.

    Raises NotFound, NewerSchema, and ValueError for a damaged one.
    """
    path = store.snapshot(digest)
    try:
        found: dict[str, Json] = _part(path / "snapshot.json")
        check_schema(found, "this snapshot")
        found["cells_digest"] = found.get("cells")
        for part in ("cells", "environment", "data"):
            found[part] = _part(path / f"{part}.json")
    except FileNotFoundError:
        raise NotFound(
            f"snapshot {digest[:12]} is not in {store.root}. It was cleaned up, or copied without it."
        ) from None
    return found


def _part(path: Path) -> Json:
    # Texts may contain half a surrogate pair, which `read_json` refuses.
    try:
        return json.loads(read_file(path, MOST_JSON))
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None


def _capture(capture: Capture | None) -> Json:
    if capture is None:
        return None
    return {
        "digest": capture.digest,
        "fingerprint": capture.fingerprint,
        "names": capture.names,
        "modules": capture.modules,
        "size": capture.size,
        "kinds": capture.kinds,
    }


def _digest(value: Json) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _write(path: Path, value: Json) -> None:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
