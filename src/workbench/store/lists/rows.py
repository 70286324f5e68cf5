"""The form of a line of the list of experiments. Law: what shows a line may rely on it; a line of another form was not
written by Workbench, and is not shown.

A store may come from elsewhere, with a list in which its author wrote anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from workbench.errors import BadName
from workbench.store.ids import checked_id

#: Texts that each line has.
_NEEDED = ("label", "state", "created")
#: Fields of a line by type: None and no such field mean the same.
_TEXTS = frozenset(
    {*_NEEDED, "name", "reason", "goal", "started", "ended", "notebook", "content", "note", "keep", "storage", "mirror"}
)
_LISTS = frozenset({"tags", "pins"})
_OBJECTS = frozenset({"best", "planned", "counts"})
_NUMBERS = frozenset({"version", "trials"})


def is_line(row: object) -> TypeGuard[dict[str, Any]]:
    """Whether ``row`` is a line with which every viewer can do something."""
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in _NEEDED):
        return False
    try:
        checked_id(row["id"])
    except (BadName, KeyError, TypeError):
        return False
    return all(is_field(name, value) for name, value in row.items())


def is_field(name: str, value: object) -> bool:
    """Whether the field ``name`` of a line may have this value."""
    if value is None:
        return True
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _NUMBERS:
        return isinstance(value, int)
    if name in _LISTS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return name not in _OBJECTS or isinstance(value, Mapping)
