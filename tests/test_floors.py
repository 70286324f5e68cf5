"""Imports only go down. Law: the table below is the building; an import that is not in it is a crack."""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "workbench"

#: The floor of each room: a module or package directly under ``workbench``.
FLOORS = {
    "errors": 0,
    "facts": 0,
    "interpreter": 0,
    "asked": 0,
    "messages": 0,
    "pace": 0,
    "records": 0,
    "space": 0,
    "standing": 0,
    "terminal": 0,
    "words": 0,
    "exporter": 1,
    "search": 1,
    "store": 1,
    "snapshot": 1,
    "status": 2,
    "trial": 2,
    "cluster": 2,
    "compare": 2,
    "engine": 3,
    "replay": 3,
    "frameworks": 3,
    "keras": 4,
    "lightgbm": 4,
    "lightning": 4,
    "transformers": 4,
    "xgboost": 4,
    "amounts": 4,
    "given": 4,
    "choices": 4,
    "nursery": 3,
    "asking": 3,
    "launch": 4,
    "settled": 4,
    "experiment": 4,
    "lab": 4,
    "live": 4,
    "cli": 4,
    "share": 4,
    "kernel": 4,
    "exporters": 5,  # entry points lead here; nothing imports it
    "workbench": 5,  # the package itself: it gives out the names of all rooms
}

#: What one room imports of another beyond what the floors allow: rooms side by side, and a few ways up.
DOORS = {
    ("facts", "records"),
    ("asked", "errors"),
    ("asked", "records"),
    ("messages", "errors"),
    ("messages", "records"),
    ("records", "errors"),
    ("space", "errors"),
    ("space", "records"),
    ("snapshot", "store"),  # captured values and code are the store's blobs
    ("engine", "replay"),  # a panel's request becomes a replay's spec in the engine
    ("store", "search"),  # the search itself reads a journal again
    ("status", "cluster"),  # what slots use is measured in one way
    ("cluster", "trial"),  # one wire between worker and runner
    ("trial", "workbench"),  # training code is given `wb`
    ("asking", "nursery"),  # a kernel's engines are forked from there
    # The faces that one person sees of one experiment.
    ("cli", "amounts"),
    ("cli", "experiment"),
    ("cli", "launch"),  # `workbench run`
    ("cli", "settled"),
    ("cli", "share"),
    ("experiment", "amounts"),
    ("experiment", "choices"),
    ("experiment", "launch"),
    ("experiment", "settled"),
    ("experiment", "live"),  # `Experiment.watch()`
    ("experiment", "share"),
    ("launch", "choices"),
    ("launch", "settled"),
    ("experiment", "given"),
    ("lab", "given"),
    ("settled", "choices"),
    ("settled", "given"),
    ("lab", "cli"),  # `%workbench` is the command line in a cell
    ("lab", "experiment"),
    ("lab", "launch"),
    ("lab", "settled"),
    ("lab", "live"),
}

#: What a room never imports, not even inside a function. The search core reads no clock and no file; Jupyter's
#: environment, the engine's and the training code's may be three, and only the last is sure to hold torch.
FORBIDDEN = {
    "errors": {"*"},
    "exporter": {"*"},
    "facts": {"*"},
    "pace": {"*"},
    "records": {"*"},
    "space": {"*"},
    "standing": {"*"},
    "terminal": {"*"},
    "words": {"*"},
    "search": {"dask", "distributed", "torch", "IPython", "ipykernel", "jupyter_server", "sqlite3", "time", "os"},
    "store": {"dask", "distributed", "torch", "IPython", "ipykernel", "jupyter_server"},
    "engine": {"torch", "IPython", "ipykernel"},
    "cluster": {"torch", "IPython", "ipykernel"},
    "trial": {"dask", "distributed", "IPython", "ipykernel"},
    "compare": {"dask", "distributed", "torch", "IPython", "ipykernel", "jupyter_server"},
    "lab": {"dask", "distributed", "torch"},
    "live": {"dask", "distributed", "torch"},
    "cli": {"dask", "distributed", "torch"},
    "experiment": {"dask", "distributed", "torch"},
}

#: Modules that a folder may hold, the package's own file among them (decision 040).
MOST_MODULES = 20

#: Lines that a source file may have. One of more knows a second thing, which can be split off.
MOST_LINES = 500

#: JupyterLab's face is a package of its own.
_FACE = "workbench_ext"
_SERVER = ROOT / _FACE / "server"


def files_of(room: str) -> list[Path]:
    """Every source file of a room that exists already."""
    if room == _FACE:
        return sorted(p for p in (ROOT / _FACE).rglob("*.py") if "node_modules" not in p.parts)
    return sorted((PACKAGE / room).rglob("*.py")) or [p for p in (PACKAGE / f"{room}.py",) if p.exists()]


def sources() -> list[Path]:
    """Every source file of both packages."""
    return [*sorted(PACKAGE.rglob("*.py")), *files_of(_FACE)]


@functools.cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """The dotted names that a file imports when it runs, with their lines. What only type checkers read is left out."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
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
            if module == "workbench":  # `from workbench import store` names a room, `import choice` the package's own
                for alias in node.names:
                    yield f"workbench.{alias.name}" if alias.name in FLOORS else module, node.lineno
            else:
                yield module, node.lineno


def room_of(name: str) -> str | None:
    """The room that a dotted name lies in; ``workbench`` for the package itself; None where it is not ours."""
    package, _, inner = name.partition(".")
    return None if package != "workbench" else inner.partition(".")[0] or package


def imported_rooms(room: str) -> Iterator[tuple[str, str]]:
    """Our rooms that ``room`` imports, each with the place where it does."""
    for path in files_of(room):
        for name, line in imports(path):
            if (other := room_of(name)) is not None:
                yield other, f"{path.relative_to(ROOT)}:{line}"


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
        if other != room and FLOORS[other] >= FLOORS[room] and (room, other) not in DOORS
    ]
    assert not cracks, "\n".join(cracks)


def test_every_door_is_used():
    assert {(room, other) for room, other in DOORS if other not in dict(imported_rooms(room))} == set()


def test_rooms_know_each_other_in_no_circle():
    # The package is imported before any of its rooms, so training code that is given `wb` closes no circle.
    known = {room: {other for other, _ in imported_rooms(room)} - {room, "workbench"} for room in FLOORS}
    graphlib.TopologicalSorter(known).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("import workbench", "workbench"),
        ("import workbench as wb", "workbench"),
        ("from workbench import choice", "workbench"),
        ("from workbench import store", "store"),
        ("import workbench.store.journal", "store"),
        ("from workbench.store import journal", "store"),
        ("import workbenches", None),
    ],
)
def test_an_import_is_seen_however_it_is_written(tmp_path, line, room):
    file = tmp_path / "file.py"
    file.write_text(f"def later():\n    {line}\n")
    assert [room_of(name) for name, _ in imports(file)] == [room]


def test_no_folder_is_a_list_too_long_to_read():
    folders = Counter(path.parent.relative_to(ROOT) for path in sources())
    assert {str(folder): count for folder, count in folders.items() if count > MOST_MODULES} == {}


def test_no_source_file_is_too_long_to_read():
    lines = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8").count("\n") for path in sources()}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


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


def test_exporters_are_named_nowhere_but_where_they_are_looked_up():
    """They can leave for a distribution of their own: no import names them, and no command line or text does."""
    naming = {
        str(path.relative_to(ROOT))
        for path in (*PACKAGE.rglob("*.py"), *files_of(_FACE))
        if "workbench.exporters" in path.read_text(encoding="utf-8") and PACKAGE / "exporters" not in path.parents
    }
    assert naming == {"src/workbench/exporter.py"}


def test_the_jupyterlab_face_reads_and_asks_only():
    """It reads the store, how experiments stand, snapshots and comparisons; it asks the engine for all else (decision
    009)."""
    rooms = {"errors", "records", "store", "status", "snapshot", "compare", "asked", "asking"}
    cracks = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files_of(_FACE)
        for name, line in imports(path)
        if room_of(name) not in {*rooms, None}
    ]
    assert not cracks, "\n".join(cracks)


def test_what_serves_jupyterlab_loads_neither_dask_nor_torch():
    """A notebook server lives for weeks: it carries no cluster, and Jupyter's environment may hold no torch."""
    modules = ".".join(_SERVER.relative_to(ROOT).parts)
    code = f"""
import importlib, pkgutil, sys
import {modules} as server
import workbench.asking
for module in pkgutil.walk_packages(server.__path__, "{modules}."):
    importlib.import_module(module.name)
print(sorted({{"dask", "distributed", "torch", "sklearn"}} & sys.modules.keys()))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert said.stdout.strip() == "[]"
