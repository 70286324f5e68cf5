"""Modules that training has imported, for later forkservers. Law: names of installed modules only, in the user's own
state folder; without it everything works, but first legs take longer."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from workbench.errors import StoreError
from workbench.store.files.atomic import make_folder, write_json
from workbench.store.owner import personal

#: The most modules that are remembered for one environment, and the most folders of notebooks.
MOST_MODULES, MOST_FOLDERS = 6_000, 50
#: Days after which an unfit package is tried again: it may have been replaced by another version.
UNFIT_DAYS = 30
#: Of the file. By the first one, packages that draw numbers while they are imported were unfit.
_SCHEMA = 2
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class Learned:
    """The modules that training in one environment imports, and the packages used in each folder of notebooks.

    environment: its identity: the interpreter, and the folders of its packages.
    """

    def __init__(self, environment: Sequence[str]) -> None:
        key = hashlib.sha256("\0".join(environment).encode(errors="surrogateescape")).hexdigest()[:24]
        self._path = personal.folder() / "imports" / f"{key}.json"
        kept = _read(self._path)
        #: How often a new module was learned.
        self.count = 0
        #: By package: its modules in the order in which they were loaded.
        self._modules: dict[str, dict[str, None]] = {
            package: dict.fromkeys(names) for package, names in kept.get("modules", {}).items()
        }
        #: By folder of notebooks: the packages that training from there has imported; the newest folder last.
        self._folders: dict[str, list[str]] = dict(kept.get("folders", {}))
        #: By package that leaves more behind than its modules: the day on which that was found.
        self._unfit: dict[str, str] = dict(kept.get("unfit", {}))

    def take(self, folder: str, modules: Iterable[str]) -> bool:
        """A leg of a notebook in ``folder`` has loaded ``modules``. Returns whether any is new."""
        is_new, packages = False, dict.fromkeys(self._folders.pop(folder, []))
        for name in modules:
            package = name.partition(".")[0]
            known = self._modules.setdefault(package, {})
            is_new |= package not in packages or name not in known
            known[name] = packages[package] = None
        self._folders[folder] = [*packages]
        if is_new:
            self.count += 1
            self._keep()
        return is_new

    def wanted(self, folder: str, packages: Collection[str]) -> list[str]:
        """The modules to import ahead for a notebook in ``folder`` that imports ``packages``, as far as known."""
        today = _today()
        unfit = {name for name, found in self._unfit.items() if (today - date.fromisoformat(found)).days < UNFIT_DAYS}
        chosen = [name for name in dict.fromkeys([*packages, *self._folders.get(folder, ())]) if name not in unfit]
        return [name for package in chosen for name in self._modules.get(package, ())]

    def refuse(self, package: str) -> None:
        """``package`` must not be imported ahead: finding that out costs a forkserver, so it is remembered."""
        self._unfit[package] = _today().isoformat()
        self._keep()

    def _keep(self) -> None:
        while sum(map(len, self._modules.values())) > MOST_MODULES:
            del self._modules[next(iter(self._modules))]
        for folder in [*self._folders][:-MOST_FOLDERS]:
            del self._folders[folder]
        with contextlib.suppress(OSError, StoreError):
            make_folder(self._path.parent)
            modules = {package: [*names] for package, names in self._modules.items()}
            write_json(
                self._path, {"schema": _SCHEMA, "modules": modules, "folders": self._folders, "unfit": self._unfit}
            )


def _today() -> date:
    return datetime.now(UTC).date()


def _read(path: Path) -> Mapping[str, Any]:
    """The valid content of the file."""
    try:
        kept = json.loads(path.read_bytes())
        if kept["schema"] != _SCHEMA:
            return {}
        modules = {
            package: [name for name in names if _NAME.fullmatch(name)] for package, names in kept["modules"].items()
        }
        unfit = {str(name): date.fromisoformat(found).isoformat() for name, found in kept.get("unfit", {}).items()}
        folders = {str(folder): [str(one) for one in packages] for folder, packages in kept["folders"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {"modules": modules, "folders": folders, "unfit": unfit}
