"""Imports only go down. Law: the table below is the building; an import that is not in it is a crack."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "workbench"

#: The floor of each room: a module or package directly under ``workbench``.
FLOORS = {
    "errors": 0,
    "interpreter": 0,
    "pace": 0,
    "records": 0,
    "space": 0,
    "standing": 0,
    "search": 1,
    "store": 1,
    "snapshot": 1,
    "status": 2,
    "trial": 2,
    "cluster": 2,
    "compare": 2,
    "engine": 3,
    "replay": 3,
    "launch": 4,
    "experiment": 4,
    "lab": 4,
    "cli": 4,
    "share": 4,
    "kernel": 4,
}

#: The faces that one person sees of one experiment; they may know each other.
TOP = 4

#: Rooms that stand side by side and may know each other, beyond what the floors allow.
DOORS = {
    ("records", "errors"),
    ("space", "errors"),
    ("space", "records"),
    ("snapshot", "store"),  # captured values and code are the store's blobs
    ("engine", "replay"),  # a panel's request becomes a replay's spec in the engine
    ("store", "search"),  # the search itself reads a journal again
    ("trial", "cluster"),  # one wire between worker and runner
    ("cluster", "trial"),
}

#: What a room never imports, not even inside a function. The search core reads no clock and no file; Jupyter's
#: environment, the engine's and the training code's may be three, and only the last is sure to hold torch.
FORBIDDEN = {
    "errors": {"*"},
    "pace": {"*"},
    "records": {"*"},
    "space": {"*"},
    "standing": {"*"},
    "search": {"dask", "distributed", "torch", "IPython", "ipykernel", "jupyter_server", "sqlite3", "time", "os"},
    "store": {"dask", "distributed", "torch", "IPython", "ipykernel", "jupyter_server"},
    "engine": {"torch", "IPython", "ipykernel"},
    "cluster": {"torch", "IPython", "ipykernel"},
    "trial": {"dask", "distributed", "IPython", "ipykernel"},
    "compare": {"dask", "distributed", "torch", "IPython", "ipykernel", "jupyter_server"},
    "lab": {"dask", "distributed", "torch"},
    "cli": {"dask", "distributed", "torch"},
    "experiment": {"dask", "distributed", "torch"},
}

#: JupyterLab's face is a package of its own.
_FACE = "workbench_ext"
_SERVER = ROOT / _FACE / "server"


def files_of(room: str) -> list[Path]:
    """Every source file of a room that exists already."""
    if room == _FACE:
        return sorted(p for p in (ROOT / _FACE).rglob("*.py") if "node_modules" not in p.parts)
    return sorted((PACKAGE / room).rglob("*.py")) or [p for p in (PACKAGE / f"{room}.py",) if p.exists()]


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """The dotted names that a file imports when it runs, with their lines. What only type checkers read is left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}:{node.lineno}: imports are absolute here"
            module = node.module or ""
            if module == "workbench":  # `from workbench import store` names a room
                yield from ((f"workbench.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield module, node.lineno


def imported_rooms(room: str) -> Iterator[tuple[str, str]]:
    """Our rooms that ``room`` imports, each with the place where it does."""
    for path in files_of(room):
        for name, line in imports(path):
            if name.startswith("workbench."):
                yield name.split(".")[1], f"{path.relative_to(ROOT)}:{line}"


def rooms_on_disk() -> set[str]:
    return {
        path.stem
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))) and not path.stem.startswith("__")
    }


def test_every_room_has_a_floor():
    assert rooms_on_disk() <= FLOORS.keys()


@pytest.mark.parametrize("room", sorted(FLOORS))
def test_imports_only_go_down(room):
    cracks = [
        f"{where}: {room} imports {other}"
        for other, where in imported_rooms(room)
        if other != room and FLOORS[other] >= FLOORS[room] != TOP and (room, other) not in DOORS
    ]
    assert not cracks, "\n".join(cracks)


@pytest.mark.parametrize("room", sorted(FORBIDDEN))
def test_a_room_imports_nothing_that_its_law_forbids(room):
    forbidden = FORBIDDEN[room]
    cracks = []
    for path in files_of(room):
        for name, line in imports(path):
            top = name.split(".")[0]
            foreign = top not in sys.stdlib_module_names and top != "workbench"
            if top in forbidden or ("*" in forbidden and foreign):
                cracks.append(f"{path.relative_to(ROOT)}:{line}: {room} imports {name}")
    assert not cracks, "\n".join(cracks)


def test_the_jupyterlab_face_reads_and_asks_only():
    """It reads the store, how experiments stand, snapshots and comparisons; it asks the engine for all else (decision
    009)."""
    rooms = {"errors", "records", "store", "status", "snapshot", "compare"}
    cracks = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files_of(_FACE)
        for name, line in imports(path)
        if name.startswith("workbench.") and name.split(".")[1] not in rooms and name != "workbench.engine.ask"
    ]
    assert not cracks, "\n".join(cracks)


def test_what_serves_jupyterlab_loads_neither_dask_nor_torch():
    """A notebook server lives for weeks: it carries no cluster, and Jupyter's environment may hold no torch."""
    modules = ".".join(_SERVER.relative_to(ROOT).parts)
    code = f"""
import importlib, pkgutil, sys
import {modules} as server
import workbench.engine.ask
for module in pkgutil.iter_modules(server.__path__):
    importlib.import_module(f"{modules}.{{module.name}}")
print(sorted({{"dask", "distributed", "torch", "sklearn"}} & sys.modules.keys()))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert said.stdout.strip() == "[]"
