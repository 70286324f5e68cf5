"""Names that training asks for in folders: what counts, what does not, and how it is told."""

from __future__ import annotations

import glob
import importlib.metadata
import os
import pkgutil
from pathlib import Path
from typing import Any

import pytest

from workbench.snapshot.surroundings.listings import Asked, Listings
from workbench.snapshot.surroundings.seen import Seen

_seen = Seen()


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seen:
    folder = tmp_path / "work"
    for name in ("a.csv", "b.csv", "c.txt", ".hidden", "code.py", "deep/d.csv"):
        (folder / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "data" / name).write_text("1\n")
    monkeypatch.chdir(folder)
    _seen.begin(tmp_path / "store")
    return _seen


def told(seen: Seen) -> dict[str, str]:
    here = os.getcwd()
    return {os.path.relpath(os.path.join(one["folder"], one["pattern"]), here): one["names"] for one in seen.listed()}


def walked() -> None:
    for _ in os.walk("data"):
        pass


WAYS = {
    "os.listdir": (lambda: os.listdir("data"), {"data/*"}),
    "os.listdir of bytes": (lambda: os.listdir(b"data"), {"data/*"}),
    "os.scandir": (lambda: [*os.scandir(Path("data"))], {"data/*"}),
    "os.walk": (walked, {"data/*", "data/deep/*"}),
    "Path.iterdir": (lambda: [*Path("data").iterdir()], {"data/*"}),
    "Path.glob": (lambda: [*Path("data").glob("*.csv")], {"data/*.csv"}),
    "Path.rglob": (lambda: [*Path("data").rglob("*.csv")], {"data/**/*.csv"}),
    "glob.glob": (lambda: glob.glob("data/*.csv"), {"data/*.csv"}),
    "glob.glob of another folder": (lambda: glob.glob("*.csv", root_dir="data"), {"data/*.csv"}),
    "glob.iglob, deep": (lambda: [*glob.iglob(f"{os.getcwd()}/**/*.csv", recursive=True)], {"**/*.csv"}),
    "a pattern that finds nothing": (lambda: glob.glob("none/*.csv"), {"none/*.csv"}),
    "a name without a wildcard": (lambda: glob.glob("data/a.csv"), {"data/a.csv"}),
    "looking for packages": (lambda: [*importlib.metadata.distributions(path=["data"])], set()),
    "looking for modules": (lambda: [*pkgutil.iter_modules(["data"])], set()),
    "a folder that was opened": (lambda: os.listdir(os.open("data", os.O_RDONLY)), set()),
    "the system's": (lambda: os.listdir("/proc/self"), set()),
    "a folder that is not there": (lambda: Path("none").exists(), set()),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_asking_is_told_once(seen: Seen, way: str) -> None:
    ask, expected = WAYS[way]
    ask()
    ask()
    assert set(told(seen)) == expected


CHANGES: dict[str, tuple[Any, bool]] = {
    "a file comes": (lambda: Path("data/e.csv").write_text("1\n"), True),
    "a folder comes": (lambda: Path("data/more").mkdir(), True),
    "a file goes": (lambda: Path("data/a.csv").unlink(), True),
    "a file gets another name": (lambda: Path("data/a.csv").rename("data/z.csv"), True),
    "a file changes": (lambda: Path("data/a.csv").write_text("2\n"), False),
    "a hidden file comes": (lambda: Path("data/.DS_Store").write_text(""), False),
    "a module comes": (lambda: Path("data/more.py").write_text(""), False),
    "a notebook comes": (lambda: Path("data/more.ipynb").write_text(""), False),
    "compiled code comes": (lambda: Path("data/__pycache__").mkdir(), False),
    "a file comes deeper": (lambda: Path("data/deep/e.csv").write_text("1\n"), False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_names_count_and_contents_do_not(seen: Seen, change: str) -> None:
    one = Asked(os.path.abspath("data"), "*")
    before = one.names()
    act, counts = CHANGES[change]
    act()
    assert (one.names() != before) is counts


def test_what_training_writes_itself_is_no_change(seen: Seen) -> None:
    one = Asked(os.path.abspath("data"), "**")
    before = one.names()
    made = {os.path.abspath(name) for name in ("data/e.csv", "data/new/f.csv")}
    for name in made:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("1\n")
    assert one.names() != before
    assert one.names(made) == before


def test_a_folder_in_which_training_writes_is_left_out(seen: Seen) -> None:
    os.listdir("data")
    assert set(told(seen)) == {"data/*"}
    Path("data/e.csv").write_text("1\n")
    assert told(seen) == {}


def test_names_that_another_program_changes_meanwhile_are_told_without_a_digest(seen: Seen) -> None:
    os.listdir("data")
    assert all(told(seen).values())
    os.link("data/a.csv", "data/e.csv")  # no audit event: as another program does it
    assert told(seen) == {"data/*": ""}


def test_each_leg_begins_without_any(seen: Seen, tmp_path: Path) -> None:
    os.listdir("data")
    seen.begin(tmp_path / "store")
    assert told(seen) == {}


def test_many_folders_side_by_side_are_told_as_the_one_above_them(seen: Seen) -> None:
    for number in range(100):
        Path(f"classes/{number}").mkdir(parents=True)
        os.listdir(f"classes/{number}")
    assert set(told(seen)) == {"classes/**"}


def test_a_home_and_the_folder_of_temporary_files_are_nobodys() -> None:
    listings = Listings(lambda path: path)
    for folder in ("/", os.path.expanduser("~"), "/tmp"):
        listings.note(Asked(folder, "*"), ())
    assert listings.told(()) == []
