"""Paths whose existence training asks for: what counts, what does not; and the wrappers behave as what they wrap."""

from __future__ import annotations

import glob
import inspect
import linecache
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from workbench.snapshot.surroundings import lookups
from workbench.snapshot.surroundings.seen import Seen

_seen = Seen()


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seen:
    folder = tmp_path / "work"
    (folder / "data").mkdir(parents=True)
    (folder / "there.pt").write_text("1")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(lookups, "_told", _seen._looked_up)
    _seen.begin(tmp_path / "store")
    return _seen


def told(seen: Seen) -> dict[str, list[str]]:
    """What is told of each kind, relative to here."""
    seen.told()
    found = {**seen.looked_up(), "made": seen.written().get("made", [])}
    here = os.getcwd()
    return {kind: [os.path.relpath(path, here) for path in paths] for kind, paths in found.items() if paths}


WAYS: dict[str, Callable[[str], object]] = {
    "os.path.exists": os.path.exists,
    "os.path.lexists": os.path.lexists,
    "os.path.isfile": os.path.isfile,
    "os.path.isdir": os.path.isdir,
    "os.path.islink": os.path.islink,
    "os.path.exists of bytes": lambda name: os.path.exists(os.fsencode(name)),
    "os.path.exists of an absolute path": lambda name: os.path.exists(os.path.abspath(name)),
    "os.stat": os.stat,
    "os.lstat": os.lstat,
    "os.access": lambda name: os.access(name, os.R_OK),
    "Path.exists": lambda name: Path(name).exists(),
    "Path.is_file": lambda name: Path(name).is_file(),
    "Path.stat": lambda name: Path(name).stat(),
    "in a thread": lambda name: [*ThreadPoolExecutor(1).map(os.path.exists, [name])],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "kind"), [("gone.pt", "absent"), ("there.pt", "there")])
def test_each_way_of_asking_is_told_once(seen: Seen, way: str, name: str, kind: str) -> None:
    for _ in range(2):
        try:
            WAYS[way](name)
        except FileNotFoundError:
            assert kind == "absent"
    assert told(seen) == {kind: [name]}


def called(code: str, file: str, module: str = "some_library") -> None:
    """Run ``code`` as a file of ``module`` would."""
    exec(compile(code, file, "exec"), {"__name__": module})


LIBRARY = os.path.join(os.path.dirname(pytest.__file__), "some_library.py")
OTHERS: dict[str, Callable[[], object]] = {
    "where a path leads": lambda: os.path.realpath("data/x"),
    "a folder that is made where it is not there": lambda: os.makedirs("data", exist_ok=True),
    "the same by pathlib": lambda: Path("data").mkdir(exist_ok=True),
    "a program": lambda: shutil.which("none"),
    "code that is shown": lambda: linecache.getlines("none.py"),
    "a pattern": lambda: glob.glob("none.txt"),
    "a folder for temporary files": tempfile.gettempdir,
    "the system's": lambda: os.path.exists("/proc/none"),
    "an installed package's": lambda: os.path.exists(LIBRARY),
    "an open file": lambda: os.stat(0),
    "the working directory, and above": lambda: os.path.isdir(".") and os.path.isdir(".."),
    "a library's hidden file": lambda: called("import os; os.path.exists('.settings')", LIBRARY),
    "Workbench's own": lambda: called("import os; os.path.exists('x')", lookups.__file__, "workbench.some"),
    "what was read": lambda: os.path.exists("there.pt") and Path("there.pt").read_text(),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_dependency_is_not_told(seen: Seen, what: str) -> None:
    OTHERS[what]()
    assert told(seen) == {}


def test_what_a_library_asks_for_counts_unless_it_is_being_imported(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    called("import os; os.path.exists('model.bin')", LIBRARY)
    assert told(seen) == {"absent": ["model.bin"]}
    folder = Path("site-packages")
    folder.mkdir()
    (folder / "asking_library.py").write_text("import os; os.path.exists('on_import.bin')")
    monkeypatch.syspath_prepend(str(folder))
    __import__("asking_library")
    assert told(seen)["absent"] == ["model.bin"]


def cached() -> None:
    if not os.path.exists("cache.bin"):
        Path("cache.bin").write_text("")


MAKES: dict[str, tuple[Callable[[], object], dict[str, list[str]]]] = {
    "it writes what was not there": (cached, {"made": ["cache.bin"]}),
    "it makes a folder": (lambda: os.path.isdir("out") or os.mkdir("out"), {"made": ["out"]}),
    "it gives a file this name": (
        lambda: (os.path.exists("new"), Path("tmp").write_text(""), os.replace("tmp", "new")),
        {"made": ["new"]},
    ),
    "it removes what was there": (lambda: os.path.exists("there.pt") and os.remove("there.pt"), {"made": ["there.pt"]}),
    "it reads and removes what was there": (
        lambda: (os.path.exists("there.pt"), Path("there.pt").read_text(), os.remove("there.pt")),
        {},
    ),
    "a program writes it": (
        lambda: (os.path.exists("new"), subprocess.run(["/bin/sh", "-c", ": > new"], check=True)),
        {"came": ["new"]},
    ),
}


@pytest.mark.parametrize("what", MAKES)
def test_what_training_makes_or_removes_itself_is_told_apart(seen: Seen, what: str) -> None:
    act, expected = MAKES[what]
    act()
    found = told(seen)
    made = [path for path in found.pop("made", []) if path != "tmp"]
    assert {**found, **({"made": made} if made else {})} == expected


def test_a_childs_lookups_are_told(seen: Seen) -> None:
    child = os.fork()
    if child == 0:
        os.path.exists("gone.pt")
        os.path.exists("there.pt")
        os._exit(0)
    os.waitpid(child, 0)
    assert told(seen) == {"absent": ["gone.pt"], "there": ["there.pt"]}


def test_a_relative_path_is_another_one_in_another_folder(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    os.path.exists("gone.pt")
    monkeypatch.chdir("data")
    os.path.exists("gone.pt")
    assert told(seen) == {"absent": ["../gone.pt", "gone.pt"]}


def test_many_are_counted(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "_MOST_NOTED", lookups._MOST_TOLD + 20)
    for number in range(lookups._MOST_TOLD + 50):
        os.path.exists(f"{number}.pt")
    seen.told()
    found = seen.looked_up()
    assert (len(found["absent"]), found["unasked"]) == (lookups._MOST_TOLD, 50)


@pytest.mark.parametrize("name", ["stat", "lstat", "access"])
def test_a_wrapper_looks_like_what_it_wraps(seen: Seen, name: str) -> None:
    wrapper, original = getattr(os, name), getattr(lookups, f"_{name}")
    assert wrapper is not original
    assert (wrapper.__name__, wrapper.__qualname__, wrapper.__doc__) == (name, name, original.__doc__)
    assert inspect.signature(wrapper) == inspect.signature(original)
    assert pickle.loads(pickle.dumps(wrapper)) is wrapper
    for kind in ("dir_fd", "effective_ids", "fd", "follow_symlinks"):
        supports = getattr(os, f"supports_{kind}")
        assert (wrapper in supports) == (original in supports)


def test_the_wrappers_behave_as_what_they_wrap(seen: Seen) -> None:
    os.symlink("there.pt", "link")
    assert os.stat(path="link") == os.stat(Path("there.pt")) == os.stat(b"there.pt", follow_symlinks=True)
    assert os.stat("link", follow_symlinks=False) == os.lstat("link") != os.stat("link")
    folder = os.open(".", os.O_RDONLY)
    assert os.stat("there.pt", dir_fd=folder) == os.stat("there.pt")
    assert os.stat(folder) == os.stat(".")
    os.close(folder)
    wrong: list[Any] = [None, 1.5, "a\0b", [], "none"]
    for path in wrong:
        with pytest.raises((TypeError, ValueError, OSError)) as before:
            lookups._stat(path)
        with pytest.raises(before.type) as now:
            os.stat(path)
        assert str(now.value) == str(before.value)
    shutil.copytree("data", "tree")
    shutil.rmtree("tree")
    assert shutil.rmtree.avoids_symlink_attacks


#: What a fresh interpreter finds, with names that were bound before the wrappers were installed.
BEFORE = """
from os import stat
from os.path import exists
import os, sys
from workbench.snapshot.surroundings.seen import Seen
seen = Seen()
seen.begin(sys.argv[1])
import shutil
assert shutil.rmtree.avoids_symlink_attacks and os.stat in os.supports_fd and stat in os.supports_fd
assert stat(".") == os.stat(".")
exists("gone.pt")
print(*seen.looked_up()["absent"])
"""


def test_names_bound_before_keep_working(tmp_path: Path) -> None:
    file = tmp_path / "before.py"
    file.write_text(BEFORE)
    ran = subprocess.run([sys.executable, file, "store"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(tmp_path / "gone.pt")]
