"""Which code differs: executed cells side by side, captured functions and classes, and modules of the project.

A runner has nothing but the train cell, the names that it takes from the notebook, and the project's modules. So a
changed cell matters only if one of those names that differ was made with it; other changed cells are shown with a note
that they do not matter.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from workbench.compare.section import Item, Section, counted
from workbench.compare.sections.cells import Cell, cells, tree_of
from workbench.compare.sections.makers import Makers
from workbench.compare.sides import Side
from workbench.records import Json
from workbench.store.files.below import open_below

#: Changed texts longer than this are shown without a line-by-line comparison, which would take long.
_LINES = 4000
#: The most bytes of a module that are read.
_MOST_CODE = 16 << 20


def code(a: Side, b: Side) -> Section | None:
    """The section on code, or None if the code is the same."""
    changed = _captured(a, b)
    shown: list[dict[str, Json]] = []
    items: list[Item] = []
    idle = 0
    explained: set[str] = set()
    makers = Makers(a, b)
    made = {part.source for name in changed for part in makers.parts(name)}
    moved = _moved(makers.pairs, makers.one)
    for place, (before, after) in enumerate(makers.pairs):
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
        elif not {cell.source for cell in (before, after) if cell is not None} & made:
            idle += 1
    short = _short(items)
    # A name that only one side takes came or went with the code that uses it.
    both = a.captured.keys() & b.captured.keys()
    for name in [name for name in _unexplained(changed, explained, makers) if name in both]:
        if _is_functions(a, b) and (items or not all(changed.values())):
            continue  # what a function holds, such as a closure's variables, is listed by itself
        note = ", ".join(part for part in ("it, or what it uses, is different", makers.note(name)) if part)
        items.append(Item(name, "as before", "changed", note))
        short.append(f"{name} changed")
    modules = _modules(a, b)
    shown += modules
    items += [
        Item(f"module {cell['id']}", _count(cell["a"]), _count(cell["b"]), _lines_note(cell["diff"]))
        for cell in modules
    ]
    if not items and not idle and not moved:
        return None
    short += [f"{cell['id']} changed" for cell in modules]
    if idle:
        items.append(Item("other cells", None, None, f"{counted(idle, 'cell')} changed that do not affect training"))
    if idle and not short:
        short = [f"{counted(idle, 'cell')} changed that do not affect training"]
    if moved and not items:
        items = [Item("other order", None, None, f"{counted(len(moved), 'cell')} moved")]
        return Section("code", items, [f"{counted(len(moved), 'cell')} moved"], shown, causes=False)
    return Section("code", items, short, shown, causes=len(items) > bool(idle))


def _short(cells: Sequence[Item]) -> list[str]:
    kinds = ["removed" if item.b is None else "added" if item.a is None else "changed" for item in cells]
    return [f"{counted(kinds.count(kind), 'cell')} {kind}" for kind in ("changed", "removed", "added") if kind in kinds]


def _unexplained(changed: Mapping[str, bool], explained: Collection[str], makers: Makers) -> list[str]:
    """Functions and classes that differ although no cell that defines them was changed.

    A function's fingerprint includes everything it reaches: it also changes if only a value did that it looks up by its
    name. That value, or function, is listed by itself. Those that a closure holds have no name, and what a file of
    ``%run`` defines is not known: such functions are listed.
    """
    found = {name: makers.looked_up(name) for name, is_code in changed.items() if is_code and name not in explained}
    listed = {name for name in changed if not found.get(name)}
    while more := {name for name, looked_up in found.items() if name not in listed and looked_up & listed}:
        # They follow from those that are listed.
        listed |= more
        found = {name: looked_up for name, looked_up in found.items() if name not in more}
    return [*found]


def _is_functions(a: Side, b: Side) -> bool:
    """Whether both sides train a function that was given, and no notebook's cells."""
    return a.spec.program.kind == b.spec.program.kind == "function"


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
        for node in tree_of(cell.source).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
                return True
    return False


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
    for node in ast.walk(tree_of(source)):
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
