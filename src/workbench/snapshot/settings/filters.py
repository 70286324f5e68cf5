"""Warning filters set by cells, as plain data. Law: all are passed on; those that modules add are not compared."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.errors import BadSetting
from workbench.records import Json

#: Packages of a kernel. Filters for their warnings are not settings of the notebook.
_KERNELS = ("IPython", "ipykernel", "jupyter_client", "jupyter_core", "traitlets")


def refused(what: str, why: str, do: str) -> BadSetting:
    """The error for a setting that cannot be passed on."""
    return BadSetting(
        f"{what} cannot be sent to the processes that train: {why}. {do} before the train cell, or write it inside."
    )


def here() -> list[dict[str, Json]]:
    """The filters before Python's initial ones, in order."""
    own, _ = _divided(warnings.filters)
    return [_written(entry) for entry in own if entry[2].__module__.partition(".")[0] not in _KERNELS]


def _divided(filters: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Split ``filters`` into added ones and Python's own at the end, as far as these are there in order.

    Some modules append filters for their own warnings after Python's (urllib3 does).
    """
    at, place = len(filters), len(_PYTHONS)
    while at and _place(filters[at - 1]) is None and filters[at - 1][2].__module__ != "builtins":
        at -= 1
    while at and (known := _place(filters[at - 1])) is not None and known < place:
        at, place = at - 1, known
    return [*filters[:at]], [*filters[at:]]


def _place(entry: Any) -> int | None:
    key = _key(entry)
    return _PYTHONS.index(key) if key in _PYTHONS else None


_PYTHONS: list[tuple[Any, ...]] = [
    ("default", None, DeprecationWarning, "__main__", 0),
    ("ignore", None, DeprecationWarning, None, 0),
    ("ignore", None, PendingDeprecationWarning, None, 0),
    ("ignore", None, ImportWarning, None, 0),
    ("ignore", None, ResourceWarning, None, 0),
]


def _pattern(part: Any) -> str | None:
    return part if isinstance(part, str) or part is None else str(part.pattern)


def _written(entry: Any) -> dict[str, Json]:
    action, message, category, module, line = entry
    if category.__module__ == "__main__":
        raise refused(
            f"warnings' filter {action!r} for {category.__name__}",
            "the class is this notebook's, and they do not have it when filters are set",
            "Take the class from a module",
        )
    return {
        "action": action,
        "message": _pattern(message),
        "category": f"{category.__module__}:{category.__qualname__}",
        "module": _pattern(module),
        "line": line,
    }


def put(filters: list[dict[str, Json]]) -> None:
    """Insert ``filters`` before Python's own; filters that only this process has (added by a module) stay first."""
    known, pythons = _divided(warnings.filters)
    ours = [entry for one in filters if (entry := _read(one)) is not None]
    written = [_key(entry) for entry in ours]
    others = [entry for entry in known if _key(entry) not in written]
    warnings.resetwarnings()  # which also clears Python's cache of the old ones
    warnings.filters.extend([*others, *ours, *pythons])  # type: ignore[attr-defined]


def _key(entry: Any) -> tuple[Any, ...]:
    action, message, category, module, line = entry
    return (action, _pattern(message), category, _pattern(module), line)


def _read(one: Mapping[str, Any]) -> Any:
    """The filter; None while its class is not imported, so that such a warning cannot occur."""
    home, _, name = one["category"].partition(":")
    category: Any = sys.modules.get(home)
    for part in name.split("."):
        category = getattr(category, part, None)
    if not isinstance(category, type) or not issubclass(category, Warning):
        return None
    message = re.compile(one["message"], re.IGNORECASE) if one["message"] is not None else None
    module = re.compile(one["module"]) if one["module"] is not None else None
    return (one["action"], message, category, module, one["line"])


def compared(filters: Iterable[Mapping[str, Any]]) -> list[dict[str, Json]]:
    """The filters that the user probably wrote: filters of modules specify a message, a module, or the module's own
    class."""
    return [
        dict(one)
        for one in filters
        if one["action"] == "error"
        or (one["message"] is None and one["module"] is None and one["category"].startswith("builtins:"))
    ]


def modules(filters: Iterable[Mapping[str, Any]]) -> set[str]:
    """The modules that define the classes of ``filters``."""
    return {one["category"].partition(":")[0] for one in filters}
