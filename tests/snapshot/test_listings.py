"""Names that training asks for in folders: what counts, what does not, and how it is told."""

from __future__ import annotations

import glob
import importlib.metadata
import os
import pkgutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.snapshot.surroundings import listings
from workbench.snapshot.surroundings.listings import Asked, Listed, Listings
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


def told(seen: Seen) -> dict[str, Any]:
    here, found = os.getcwd(), seen.listed()["listed"]
    return {os.path.relpath(os.path.join(one["folder"], one["pattern"]), here): one for one in found}


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
    "an installed package's": (lambda: os.listdir(os.path.dirname(pytest.__file__)), set()),
    "a folder that is not there": (lambda: Path("none").exists(), set()),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_asking_is_told_once(seen: Seen, way: str) -> None:
    ask, expected = WAYS[way]
    ask()
    ask()
    assert set(told(seen)) == expected


CHANGES: dict[str, tuple[Any, str]] = {
    "a file comes": (lambda: Path("data/e.csv").write_text("1\n"), "new: e.csv"),
    "a folder comes": (lambda: Path("data/more").mkdir(), "new: more"),
    "a file goes": (lambda: Path("data/a.csv").unlink(), "gone: a.csv"),
    "a file gets another name": (lambda: Path("data/a.csv").rename("data/z.csv"), "new: z.csv, gone: a.csv"),
    "many come": (lambda: [Path(f"data/{n}").mkdir() for n in range(5)], "new: 0, 1 and 3 more"),
    "a file changes": (lambda: Path("data/a.csv").write_text("2\n"), ""),
    "a hidden file comes": (lambda: Path("data/.DS_Store").write_text(""), ""),
    "a module comes": (lambda: Path("data/more.py").write_text(""), ""),
    "a notebook comes": (lambda: Path("data/more.ipynb").write_text(""), ""),
    "compiled code comes": (lambda: Path("data/__pycache__").mkdir(), ""),
    "a file comes deeper": (lambda: Path("data/deep/e.csv").write_text("1\n"), ""),
}


def every(name: str) -> bool:
    return True


def names_of(one: Asked) -> frozenset[str]:
    found = one.names()
    assert found is not None
    return found


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("most", [0, 200])
def test_names_count_and_contents_do_not(seen: Seen, monkeypatch: pytest.MonkeyPatch, change: str, most: int) -> None:
    monkeypatch.setattr(listings, "MOST_NAMES", most)
    one = Asked(os.path.abspath("data"), "*")
    names = names_of(one)
    before = Listed.from_json(Listed.of(one, names, names, frozenset()).to_json())
    act, words = CHANGES[change]
    act()
    assert str(before.change(names_of(one), every) or "") == (words if most or not words else "other names")


#: What training does with the names of a folder that it has listed, which holds ``there.csv``.
WRITES: dict[str, Callable[[], object]] = {
    "it writes a file": lambda: Path("data/new.bin").write_text(""),
    "it writes over a file": lambda: Path("data/there.csv").write_text(""),
    "it writes deeper, into a new folder": lambda: (Path("data/out").mkdir(), Path("data/out/x").write_text("")),
    "it makes a folder": lambda: Path("data/out").mkdir(),
    "it writes a file and gives it its name": lambda: os.replace(written("data/t.tmp"), "data/t"),
    "it removes a file": lambda: Path("data/there.csv").unlink(),
    "it removes a folder": lambda: os.rmdir("data/empty"),
    "it writes many files": lambda: [Path(f"data/{number}.bin").write_text("") for number in range(150)],
}  # fmt: skip


def written(path: str) -> str:
    Path(path).write_text("")
    return path


@pytest.mark.parametrize("is_told_before", [True, False])
@pytest.mark.parametrize("what", WRITES)
def test_what_training_writes_is_no_change_and_all_else_is(seen: Seen, what: str, is_told_before: bool) -> None:
    Path("data/there.csv").write_text("")
    Path("data/empty").mkdir()
    seen.begin(Path("store"))
    os.listdir("data")
    if is_told_before:
        told(seen)
    WRITES[what]()
    [one] = map(Listed.from_json, seen.listed()["listed"])
    assert not one.changing
    assert one.change(names_of(one.asked), every) is None
    os.link("data/a.csv", "data/zz.csv")
    assert str(one.change(names_of(one.asked), every)) == "new: zz.csv"


def test_names_that_another_program_changes_meanwhile_are_said_and_all_else_counts(seen: Seen) -> None:
    os.listdir("data")
    os.link("data/a.csv", "data/e.csv")  # no audit event: as another program does it
    [one] = map(Listed.from_json, seen.listed()["listed"])
    assert one.changing
    assert one.change(names_of(one.asked), every) is None
    Path("data/f.csv").write_text("")
    assert str(one.change(names_of(one.asked), every)) == "new: f.csv"


def test_legs_are_told_together(seen: Seen) -> None:
    one = Asked(os.path.abspath("data"), "*")

    def leg(names: str, own: str = "") -> Listed:
        return Listed.of(one, frozenset(names), frozenset(names) | set(own), frozenset(own))

    both = leg("ab", own="x").together(leg("abx", own="y"))
    assert (both.names, both.own, both.changing) == (frozenset("ab"), frozenset("xy"), False)
    moved = both.together(leg("abc"))
    assert (moved.names, moved.own, moved.changing) == (frozenset("ab"), frozenset("xyc"), True)
    assert leg("ab").together(Listed(one, changing=True)).changing


def test_names_asked_for_in_forked_and_started_processes_are_told(seen: Seen) -> None:
    pid = os.fork()
    if pid == 0:
        glob.glob("data/*.csv")
        os._exit(0)
    os.waitpid(pid, 0)
    seen.told()
    assert set(told(seen)) == {"data/*.csv"}


def test_each_leg_begins_without_any(seen: Seen, tmp_path: Path) -> None:
    os.listdir("data")
    seen.begin(tmp_path / "store")
    assert told(seen) == {}


def test_many_folders_side_by_side_are_told_as_the_one_above_them(seen: Seen) -> None:
    for number in range(100):
        Path(f"classes/{number}").mkdir(parents=True)
        os.listdir(f"classes/{number}")
    Path("classes/labels.json").write_text("{}")
    [one] = map(Listed.from_json, seen.listed()["listed"])
    assert one.asked == Asked(os.path.abspath("classes"), "**")
    assert one.change(names_of(one.asked), every) is None
    Path("classes/7/new").write_text("")
    seen.begin(Path("store"))


def test_those_beyond_the_limit_are_counted(seen: Seen) -> None:
    for number in range(100):
        Path(f"s{number}").mkdir()
        os.listdir(f"s{number}")
    found = seen.listed()
    assert len(found["listed"]) + found["unlisted"] == 100


def test_a_folder_with_a_wildcard_in_its_name_is_a_folder(seen: Seen) -> None:
    folder = Path("data[1]*")
    folder.mkdir()
    (folder / "a.csv").write_text("")
    seen.begin(Path("store"))
    [*folder.glob("*.csv")], [*folder.rglob("*.csv")], glob.glob("*.csv", root_dir=folder), os.listdir(folder)
    found = [Listed.from_json(one) for one in seen.listed()["listed"]]
    assert [(one.asked.pattern, one.names) for one in found] == [
        (pattern, frozenset({"a.csv"})) for pattern in ("*.csv", "**/*.csv", "*")
    ]
    assert {one.asked.folder for one in found} == {str(folder.absolute())}


def test_links_that_lead_upwards_are_not_followed(seen: Seen) -> None:
    for number in range(3):
        Path(f"loops/{number}").mkdir(parents=True)
        Path(f"loops/{number}/up").symlink_to("..")
        Path(f"loops/{number}/a.csv").write_text("")
    assert names_of(Asked(os.path.abspath("loops"), "**/*.csv")) == {f"{number}/a.csv" for number in range(3)}


def test_too_many_names_are_said(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "_MOST_ENTRIES", 3)
    os.listdir("data")
    [one] = map(Listed.from_json, seen.listed()["listed"])
    assert (one.names, one.digest, one.changing) == (None, "", True)


def test_looking_for_installed_packages_is_no_question_for_names(seen: Seen, tmp_path: Path) -> None:
    for name in ("importlib_metadata", "pkg_resources"):
        code = compile("import os\ndef look(): return os.listdir('data')", f"/x/{name}/__init__.py", "exec")
        names: dict[str, Any] = {}
        exec(code, names)
        names["look"]()
    assert told(seen) == {}


def test_a_home_and_the_folder_of_temporary_files_are_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Listings(lambda path: path)
    monkeypatch.setenv("HOME", "/usr")
    for folder in ("/", "/usr", tempfile.gettempdir()):
        found.note(Asked(folder, "*"))
    assert found.told(()) == ([], 0)
    monkeypatch.chdir("/usr")
    assert len(found.told(())[0]) == 1


def test_an_installed_packages_own_folders_are_not_looked_at(seen: Seen) -> None:
    os.listdir(os.path.dirname(pytest.__file__))
    assert seen._listings._found == {}
