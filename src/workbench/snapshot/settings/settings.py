"""Settings of a process that cells made before training: torch's flags, NumPy's error state, filters of warnings, …

Law: it examines only modules that are already imported. A value that a fresh process has too is not a setting. The
table of them is ``libraries.py``, and ``outputs.py`` for those that change no result.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from workbench.errors import BadSetting
from workbench.records import Json
from workbench.snapshot.imported import imported, loaded
from workbench.snapshot.settings import filters, libraries, outputs
from workbench.snapshot.settings.libraries import OF_LOOPS, Setting, Table

#: The warning filters, which are inserted before a runner's own.
FILTERS = "warnings.filters"
_TABLE = {**libraries.TABLE, **outputs.TABLE}


def here() -> dict[str, Json]:
    """The present settings of this process, in the form of ``Training.settings``.

    Raises BadSetting for one that cannot be passed on.
    """
    taken = _taken.get()
    if taken is not None:
        return dict(taken)
    found: dict[str, Json] = {}
    for name, settings in _TABLE.items():
        module = imported(name)
        if module is None:
            continue
        if name == "torch":
            libraries.check_torch(module)
        for setting in settings:
            value = setting.read(module)
            if value != setting.usual:
                found[setting.name] = value
    if made := filters.here():
        found[FILTERS] = made
    return found


#: The settings of the thread on whose behalf another one launches.
_taken: ContextVar[dict[str, Json] | None] = ContextVar("taken", default=None)


@contextlib.contextmanager
def taken() -> Iterator[None]:
    """Make :func:`here` return this thread's present settings, also in threads that get this context: some settings of
    torch belong to one thread.
    """
    token = _taken.set(here())
    try:
        yield
    finally:
        _taken.reset(token)


def put(settings: Mapping[str, Json], module: str | None = None) -> None:
    """Apply ``settings`` in this process, if their modules are imported. module: only the settings of this module.

    Raises BadSetting for one that cannot be applied here.
    """
    for name, known in _TABLE.items():
        home = loaded(name) if module in (None, name) else None
        for setting in known if home is not None else ():
            if setting.name in settings:
                _put(setting, home, settings[setting.name])
    if module is None:
        for name in ("decimal", "locale", "logging"):  # small, and used without being named
            if name not in sys.modules and any(one.name in settings for one in _TABLE[name]):
                importlib.import_module(name)
                put(settings, name)
        if FILTERS in settings:
            filters.put(settings[FILTERS])


def read(table: Table = OF_LOOPS) -> dict[str, Json]:
    """The present values of the settings of ``table``, in modules that are imported; None for a value that cannot be
    passed on. By default those that a training loop may change."""
    return {setting.name: _read(setting, module) for setting, module in _loaded(table)}


def changed(before: Mapping[str, Json], table: Table = OF_LOOPS) -> dict[str, Json]:
    """Those of these values that differ from ``before``, or for modules imported since, from a fresh process."""
    return {
        setting.name: value
        for setting, module in _loaded(table)
        if (value := _read(setting, module)) != before.get(setting.name, setting.usual)
    }


def put_changed(settings: Mapping[str, Json]) -> None:
    """Apply what :func:`changed` returned, where it differs now. Raises BadSetting."""
    for name, known in OF_LOOPS.items():
        if loaded(name) is None and any(one.name in settings for one in known):
            importlib.import_module(name)
    for setting, module in _loaded(OF_LOOPS):
        value = settings.get(setting.name)
        if value is not None and value != _read(setting, module):
            _put(setting, module, value)


def _loaded(table: Table) -> list[tuple[Setting, Any]]:
    found = []
    for name, known in table.items():
        module = loaded(name)
        if module is not None:
            found += [(setting, module) for setting in known]
    return found


def _read(setting: Setting, module: Any) -> Json:
    try:
        return setting.read(module)
    except BadSetting:
        return None


@contextlib.contextmanager
def lent(settings: Mapping[str, Json]) -> Iterator[None]:
    """Apply those of ``settings`` that can change a result temporarily, in modules that are already imported."""
    settings = {name: value for name, value in settings.items() if name not in outputs.NAMES}
    before = [
        (setting, module, setting.read(module))
        for name, known in libraries.TABLE.items()
        if (module := loaded(name)) is not None
        for setting in known
        if setting.name in settings
    ]
    with warnings.catch_warnings():
        try:
            put(settings)
            yield
        finally:
            for setting, module, value in before:
                setting.put(module, value)


class Holding:
    """Settings that apply from now on, also in modules imported later; and torch's number of threads."""

    def __init__(self, settings: Mapping[str, Json], threads: int) -> None:
        self._settings = settings
        self._threads = threads
        self._absent = {name for name in _TABLE if loaded(name) is None and (name == "torch" or _of(name, settings))}
        self._classes = _absent(filters.modules(settings.get(FILTERS) or ()))
        put(settings)
        if loaded("torch") is not None:
            self.hold_threads()

    def hold_threads(self) -> None:
        """Set torch's number of threads: torch starts with fewer if the environment asks for more threads than
        cores."""
        torch: Any = sys.modules["torch"]
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)

    def imported(self) -> None:
        """Apply the settings of a module that was just imported."""
        for name in [name for name in self._absent if loaded(name) is not None]:
            self._absent.discard(name)
            put(self._settings, name)
            if name == "torch":
                self.hold_threads()
        if any(name in sys.modules for name in self._classes):
            self._classes = _absent(self._classes)
            filters.put(self._settings[FILTERS])


def _absent(names: Iterable[str]) -> set[str]:
    return {name for name in names if name not in sys.modules}


def compared(settings: Mapping[str, Json]) -> dict[str, Json]:
    """The part of ``settings`` that can change a result.

    A filter of warnings that names a message, a module or a library's own class is left out, unless it raises: modules
    add such filters while they are imported.
    """
    found = {name: value for name, value in settings.items() if name not in outputs.NAMES}
    telling = filters.compared(found.pop(FILTERS, None) or ())
    return found | ({FILTERS: telling} if telling else {})


def shown(name: str, value: Json) -> str:
    """The value of a setting in a few words."""
    if value is None:
        return "as usual"
    if name == FILTERS:
        return ", ".join(f"{one['action']} {one['category'].rpartition(':')[2]}" for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    return str(value)


def _of(module: str, settings: Mapping[str, Json]) -> bool:
    return any(setting.name in settings for setting in _TABLE[module])


def _put(setting: Setting, module: Any, value: Json) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # already reported where it was first set
            setting.put(module, value)
    except Exception as error:
        raise BadSetting(
            f"the notebook had set {setting.name} to {shown(setting.name, value)}, and that is not available where "
            f"this trains ({type(error).__name__}: {error}). Undo it before the train cell, or train on a machine "
            "that can."
        ) from None
