"""Variables that closures share with a function around the loop, where the loop has made the closure. Law: after a
resume they share them again.

Python gives no access to the cell of a running function's variable. So it is found by what is put into it: a mark that
is written to a cell and read as the variable, or the other way round.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.trial.discovery import Names

_NOTHING = object()


def of_function(function: types.FunctionType, roots: Iterable[Names]) -> dict[int, tuple[str, str]]:
    """The label of the root, and the name there, of each cell of ``function`` that is a variable of a running one: by
    the cell's id."""
    found: dict[int, tuple[str, str]] = {}
    for root in roots:
        if root.frame is None:
            continue
        code = root.frame.f_code
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name in (*code.co_cellvars, *code.co_freevars) and _is_variable(cell, root.frame, name):
                found[id(cell)] = (root.label, name)
    return found


def _is_variable(cell: types.CellType, frame: types.FrameType, name: str) -> bool:
    held = _held(cell)
    if frame.f_locals.get(name, _NOTHING) is not held:
        return False
    mark = cell.cell_contents = object()
    try:
        return frame.f_locals.get(name) is mark
    finally:
        _fill(cell, held)
        _ = frame.f_locals  # up to Python 3.12, reading it takes the mark out of what ``locals()`` gave


def cell_of(root: Names, name: str) -> types.CellType | None:
    """The cell of a variable of a running function; None if no closure shares it."""
    held = root.values().get(name, _NOTHING)
    mark = object()
    root.set({name: mark}, [])
    try:
        cell = next((one for one in gc.get_referrers(mark) if type(one) is types.CellType), None)
    finally:
        root.set(*(({}, [name]) if held is _NOTHING else ({name: held}, [])))
    if cell is not None:
        _fill(cell, held)  # from Python 3.13 on, a variable cannot be deleted by its name
    return cell


def _held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return _NOTHING


def _fill(cell: types.CellType, held: Any) -> None:
    if held is _NOTHING:
        del cell.cell_contents
    else:
        cell.cell_contents = held
