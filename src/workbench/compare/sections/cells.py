"""The executed cells of a side, and those of two sides matched. Law: it matches texts as they were executed."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.compare.sides import Side
from workbench.errors import WorkbenchError
from workbench.records import Json

_MAGIC = re.compile(r"\s*[%!?]")


@dataclass(frozen=True, slots=True)
class Cell:
    """One executed cell as it was last executed. ``trains``: it is the train cell or function itself."""

    id: str
    source: str
    trains: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names that it defines in the notebook; empty if it is not Python."""
        return _given(self.source)


def cells(side: Side) -> list[Cell]:
    """The executed cells in order, each text once, at its last execution; the training code comes last, without its
    magic."""
    recorded: list[Mapping[str, Json]] = (side.snapshot.get("cells") or {}).get("cells") or []
    program = side.spec.program
    ids = _ids(side)
    train_id = ""
    found: dict[str, Cell] = {}
    for number, entry in enumerate(recorded):
        source = str(entry["source"])
        if source.lstrip().startswith("%%train"):
            train_id = str(entry.get("cell_id") or train_id)
            continue  # earlier ones are other experiments, the last is the program
        key = str(entry.get("cell_id") or ids.get(source.strip()) or source.strip())
        found.pop(key, None)
        found[key] = Cell(key if len(key) < 100 and "\n" not in key and key != source.strip() else f"#{number}", source)
    # It contains the magic's line as a comment; the section on arguments shows the options.
    source = re.sub(r"\A# %%train.*\n?", "", program.source)
    return [*found.values(), Cell(train_id or "train", source, trains=True)]


def _ids(side: Side) -> dict[str, str]:
    """The ids of the notebook's cells by their text, from the file as it was on disk."""
    return {text: cell for cell, text in (file_cells(side) or {}).items()}


def file_cells(side: Side) -> dict[str, str] | None:
    """The texts of the notebook's cells by their ids, from the file as it was on disk; None if none is known."""
    notebook = side.snapshot.get("notebook") or {}
    try:
        document = json.loads(side.store.get_blob(str(notebook["sha256"])))
        listed = [cell for cell in document["cells"] if cell.get("cell_type") == "code"]
        return {str(cell["id"]): _joined(cell["source"]).strip() for cell in listed if cell.get("id")}
    except (KeyError, TypeError, ValueError, OSError, WorkbenchError):
        return None


def _joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def aligned(one: Sequence[Cell], other: Sequence[Cell]) -> list[tuple[Cell | None, Cell | None]]:
    """Cells side by side, in the order of ``other``. The training code of both sides is always matched."""
    left, right = one[:-1], other[:-1]
    twins = _twins(left, right)
    gone = [place for place in range(len(left)) if place not in twins.values()]
    pairs: list[tuple[Cell | None, Cell | None]] = []
    for place, cell in enumerate(right):
        twin = twins.get(place)
        while gone and twin is not None and gone[0] < twin:
            pairs.append((left[gone.pop(0)], None))
        pairs.append((None if twin is None else left[twin], cell))
    return [*pairs, *((left[place], None) for place in gone), (one[-1], other[-1])]


def _twins(left: Sequence[Cell], right: Sequence[Cell]) -> dict[int, int]:
    """For places in ``right``, the place in ``left`` of the same cell: by text, then by id, then as nbdime matches."""
    found: dict[int, int] = {}
    keys: tuple[Callable[[Cell], str], ...] = (lambda cell: cell.source, lambda cell: cell.id)
    for key in keys:
        waiting: dict[str, list[int]] = {}
        for place, cell in enumerate(left):
            if place not in found.values() and not key(cell).startswith("#"):
                waiting.setdefault(key(cell), []).append(place)
        for place, cell in enumerate(right):
            if place not in found and waiting.get(key(cell)):
                found[place] = waiting[key(cell)].pop(0)
    rest = [place for place in range(len(left)) if place not in found.values()]
    new = [place for place in range(len(right)) if place not in found]
    if rest and new:
        found |= {
            new[b]: rest[a] for a, b in _similar([left[at].source for at in rest], [right[at].source for at in new])
        }
    return found


def _similar(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of texts that are versions of the same cell."""
    # Imported here: it loads nbformat's schemas, which takes a second.
    from nbdime.diffing.notebooks import diff_notebooks
    from nbformat.v4 import new_code_cell, new_notebook

    one, other = (
        new_notebook(cells=[new_code_cell(source, id=f"c{number}") for number, source in enumerate(sources)])
        for sources in (left, right)
    )
    operations: list[Any] = next((op.diff for op in diff_notebooks(one, other) if op.key == "cells"), [])
    pairs: list[tuple[int, int]] = []
    before = after = 0
    for operation in operations:
        same = operation.key - before
        pairs += [(before + step, after + step) for step in range(same)]
        before, after = before + same, after + same
        if operation.op == "addrange":
            after += len(operation.valuelist)
        elif operation.op == "removerange":
            before += operation.length
        else:
            pairs.append((before, after))
            before, after = before + 1, after + 1
    return [*pairs, *zip(range(before, len(left)), range(after, len(right)), strict=True)]


def _given(source: str) -> frozenset[str]:
    found = set()
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            # `X[0] = 1` changes X as well.
            found |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found |= {inner.id for inner in ast.walk(node.func) if isinstance(inner, ast.Name)}
    return frozenset(found)


def tree_of(source: str) -> ast.Module:
    """A cell as Python, without its magics; empty if it cannot be parsed."""
    lines = ["" if _MAGIC.match(line) else line for line in source.splitlines()]
    try:
        return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])
