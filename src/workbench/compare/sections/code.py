"""Which code differs: executed cells side by side, captured functions and classes, and modules of the project.

A runner has nothing but the train cell, the names that it takes from the notebook, and the project's modules. So a
changed cell matters only if it defines one of those names; other changed cells are shown with a note that they do not
matter.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.compare.section import Item, Section, counted
from workbench.compare.sides import Side
from workbench.errors import WorkbenchError
from workbench.records import Json
from workbench.store.files.below import open_below

_MAGIC = re.compile(r"\s*[%!?]")
#: Changed texts longer than this are shown without a line-by-line comparison, which would take long.
_LINES = 4000
#: The most bytes of a module that are read.
_MOST_CODE = 16 << 20


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


def code(a: Side, b: Side) -> Section | None:
    """The section on code, or None if the code is the same."""
    one, other = cells(a), cells(b)
    changed = _captured(a, b)
    shown: list[dict[str, Json]] = []
    items: list[Item] = []
    idle = 0
    explained: set[str] = set()
    pairs = aligned(one, other)
    moved = _moved(pairs, one)
    for place, (before, after) in enumerate(pairs):
        state = _state(before, after, place in moved)
        shown.append(_shown(before, after, state))
        if state in ("same", "moved"):
            continue
        either = after or before
        assert either is not None
        if before is not None and after is not None and either.trains and _trained(a, before) == _trained(b, after):
            continue  # only its hyperparameters differ: the section on configuration shows them
        names = (before.names if before else frozenset()) | (after.names if after else frozenset())
        if either.trains:
            items.insert(0, _item(_trains(a, b), before, after))
        elif names & changed.keys():
            explained |= names & changed.keys()
            given = sorted(name for name in names & changed.keys() if changed[name])
            if given:
                items.append(_item(f"cell of {', '.join(given)}", before, after))
        else:
            idle += 1
    left = [name for name, is_code in changed.items() if is_code and name not in explained]
    # A function's fingerprint includes everything it reaches: it also changes if only a value did.
    if not items and not [name for name, is_code in changed.items() if not is_code]:
        items += [Item(name, "as before", "changed", "it, or what it uses, is different") for name in left]
    modules = _modules(a, b)
    shown += modules
    items += [
        Item(f"module {cell['id']}", _count(cell["a"]), _count(cell["b"]), _lines_note(cell["diff"]))
        for cell in modules
    ]
    if not items and not idle and not moved:
        return None
    short = _short(items)
    if idle:
        items.append(Item("other cells", None, None, f"{counted(idle, 'cell')} changed that do not affect training"))
    if idle and not short:
        short = [f"{counted(idle, 'cell')} changed that do not affect training"]
    if moved and not items:
        items = [Item("other order", None, None, f"{counted(len(moved), 'cell')} moved")]
        return Section("code", items, [f"{counted(len(moved), 'cell')} moved"], shown, causes=False)
    return Section("code", items, short, shown, causes=len(items) > bool(idle))


def _short(items: Sequence[Item]) -> list[str]:
    cells = [item for item in items if not item.name.startswith("module ")]
    modules = [item.name.removeprefix("module ") for item in items if item.name.startswith("module ")]
    kinds = ["removed" if item.b is None else "added" if item.a is None else "changed" for item in cells]
    told = [f"{counted(kinds.count(kind), 'cell')} {kind}" for kind in ("changed", "removed", "added") if kind in kinds]
    return [*told, *(f"{name} changed" for name in modules)]


def _trains(a: Side, b: Side) -> str:
    kinds = {a.spec.program.kind, b.spec.program.kind}
    return {"cell": "train cell", "script": "script"}.get(kinds.pop() if len(kinds) == 1 else "", "training function")


def _item(name: str, before: Cell | None, after: Cell | None) -> Item:
    one, other = (None if cell is None else cell.source for cell in (before, after))
    return Item(name, _count(one), _count(other), _lines_note(diff(one, other)))


def _count(source: str | None) -> str | None:
    return None if source is None else counted(len(source.splitlines()), "line")


def _lines_note(lines: Sequence[Sequence[str]]) -> str:
    come, gone = (sum(1 for sign, _ in lines if sign == wanted) for wanted in "+-")
    return f"+{come} −{gone} lines"


# ---------------------------------------------------------------------------------------------------------------------
# Cells


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


def _moved(pairs: Sequence[tuple[Cell | None, Cell | None]], one: Sequence[Cell]) -> set[int]:
    """Positions of pairs with equal text that moved relative to the other pairs."""
    order = {cell.id: place for place, cell in enumerate(one)}
    same = [(place, order[a.id]) for place, (a, b) in enumerate(pairs) if a is not None and b is not None]
    places = [before for _, before in same]
    kept = difflib.SequenceMatcher(None, sorted(places), places, autojunk=False).get_matching_blocks()
    staying = {same[at][0] for block in kept for at in range(block.b, block.b + block.size)}
    return {place for place, _ in same} - staying


def _state(before: Cell | None, after: Cell | None, moved: bool) -> str:
    if before is None or after is None:
        return "added" if before is None else "removed"
    if before.source != after.source:
        return "changed"
    return "moved" if moved else "same"


def _trained(side: Side, cell: Cell) -> str:
    """The training code without comments, layout and hyperparameters, if it can be parsed."""
    names = {entry["name"] for entry in side.spec.space.get("parameters", ())}
    try:
        tree = ast.parse(cell.source)
    except (SyntaxError, ValueError, RecursionError):
        return cell.source
    tree.body = [node for node in tree.body if not _gives(node, names)]
    return ast.dump(tree)


def _gives(node: ast.stmt, names: set[str]) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return bool(targets) and all(isinstance(one, ast.Name) and one.id in names for one in targets)


def _shown(before: Cell | None, after: Cell | None, state: str) -> dict[str, Json]:
    one, other = (None if cell is None else cell.source for cell in (before, after))
    either = after or before
    assert either is not None
    lines = diff(one, other) if state in ("changed", "added", "removed") else []
    return {"id": either.id, "state": state, "a": one, "b": other, "diff": lines}


def diff(one: str | None, other: str | None) -> list[list[str]]:
    """The lines of both texts in order, each preceded by a blank (in both), ``-`` (only before) or ``+`` (only
    after)."""
    left, right = (one or "").splitlines(), (other or "").splitlines()
    if len(left) + len(right) > _LINES:
        return [*(["-", line] for line in left), *(["+", line] for line in right)]
    found: list[list[str]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [[" ", line] for line in left[a:b]]
        else:
            found += [["-", line] for line in left[a:b]]
            found += [["+", line] for line in right[c:d]]
    return found


# ---------------------------------------------------------------------------------------------------------------------
# What travelled


def _captured(a: Side, b: Side) -> dict[str, bool]:
    """Captured names that differ; True for functions and classes, False for data and values."""
    found = {}
    for name in {**a.captured, **b.captured}:
        one, other = a.captured.get(name), b.captured.get(name)
        if one is None or other is None or one.digest != other.digest:
            either = other or one
            assert either is not None
            side = b if other is not None else a
            found[name] = defines_code(side, name) if either.kind == "unknown" else either.kind == "code"
    return found


def defines_code(side: Side, name: str) -> bool:
    """Whether an executed cell defines a function or a class of this name."""
    for cell in cells(side)[:-1]:
        for node in _tree(cell.source).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
                return True
    return False


def _given(source: str) -> frozenset[str]:
    found = set()
    for node in ast.walk(_tree(source)):
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


def _tree(source: str) -> ast.Module:
    lines = ["" if _MAGIC.match(line) else line for line in source.splitlines()]
    try:
        return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _modules(a: Side, b: Side) -> list[dict[str, Json]]:
    """Modules of the project that differ, with their lines if both copies exist."""
    one, other = (
        {str(entry["name"]): entry for entry in side.snapshot.get("modules") or () if isinstance(entry, dict)}
        for side in (a, b)
    )
    used = {name for side in (a, b) for name in _used(side)}
    found = []
    for name in sorted({*one, *other}):
        before, after = one.get(name), other.get(name)
        if name.partition(".")[0] not in used or (before and after and before["digest"] == after["digest"]):
            continue
        texts = [_text(side, name) if entry else None for side, entry in ((a, before), (b, after))]
        state = "added" if before is None else "removed" if after is None else "changed"
        found.append({"id": f"{name}", "state": state, "a": texts[0], "b": texts[1], "diff": diff(*texts)})
    return found


def _used(side: Side) -> set[str]:
    """The project's packages that the training uses; all of them if that is not known."""
    project: dict[str, Any] = side.snapshot.get("project") or {}
    imported = {name.partition(".")[0] for name in _imports(side.spec.program.source)}
    reached = {*((side.snapshot.get("capture") or {}).get("modules") or {}), *imported}
    if side.spec.program.module:
        reached.add(side.spec.program.module.partition(".")[0])
    return {name for name in project if name in reached}


def _imports(source: str) -> set[str]:
    found = set()
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def _text(side: Side, name: str) -> str | None:
    folder = side.code
    if folder is None:
        return None
    root, parts = side.store.snapshots, name.split(".")
    for path in (folder.joinpath(*parts, "__init__.py"), folder.joinpath(*parts[:-1], f"{parts[-1]}.py")):
        # The names come from the snapshot, whose author may be another person.
        with contextlib.suppress(OSError, ValueError), open_below(root, path.relative_to(root)) as file:
            return file.read(_MOST_CODE).decode(errors="replace")
    return None
