"""A cell that is run again reattaches while all that its training was seen to depend on is as it was, and only then.

One real search is recorded; each row of the two tables changes something around it and asks what Shift-Enter would do.
"""

import dataclasses
import importlib
import os
import shutil
import sys

import pytest
from running import engine
from same_world import World, inside, write

from workbench.compare.same import Now
from workbench.launch import changes

#: Files that are there only where a row makes them.
EXTRA = ("data/absent.csv", "data/folder.csv", "data/more.csv", "unused.py", "data/many/40.txt")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = World(tmp_path_factory.mktemp("same"))
    with inside(found.folder), engine(found.store, workers=1):
        found.spec = found.train(found.draft())
        yield found


@pytest.fixture(autouse=True)
def as_it_was(world):
    yield
    for name in EXTRA:
        world.path(name).unlink(missing_ok=True)
    for name in ("site-packages/fakelib-2.0.dist-info", "site-packages/other-1.0.dist-info"):
        shutil.rmtree(world.path(name), ignore_errors=True)
    world.put_back()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("package", "helper", "late", "plugin")]:
        del sys.modules[name]


def now(**changes):
    return dataclasses.replace(Now.here(), **changes)


def upgrade(world, name="fakelib", version="2.0"):
    shutil.rmtree(world.path(f"site-packages/{name}-1.0.dist-info"), ignore_errors=True)
    folder = f"site-packages/{name}-{version}.dist-info"
    write(world.path(f"{folder}/METADATA"), f"Name: {name}\nVersion: {version}\n")
    write(world.path(f"{folder}/RECORD"), f"{name}/__init__.py,,\n{folder}/METADATA,,\n")


def rewrite(name, text):
    return lambda world: write(world.path(name), text)


def same_size_and_date(world):
    path = world.path("data/train.csv")
    before = path.stat()
    path.write_text("2\n1\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


def replaced_with_its_date(world):
    """As a synchronising program leaves it: another file, with the old one's size and time."""
    path, other = world.path("data/train.csv"), world.path("data/train.new")
    before = path.stat()
    other.write_text("2\n1\n")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)


def folder_in_its_place(world):
    world.path("data/best.json").unlink()
    world.path("data/train.csv").unlink()
    world.path("data/train.csv").mkdir()


def linked_elsewhere(world):
    write(world.path("data/more.csv"), "7\n7\n")
    world.path("data/train.csv").unlink()
    world.path("data/train.csv").symlink_to(world.path("data/more.csv"))


#: What changed, how, and what the header says of it.
CHANGES = {
    "rows are added": (rewrite("data/train.csv", "1\n1\n1\n1\n"), "data/train.csv (content)"),
    "rows are taken away": (rewrite("data/train.csv", "1\n"), "data/train.csv (content)"),
    "a file is emptied": (rewrite("data/train.csv", ""), "data/train.csv (content)"),
    "a value is edited": (same_size_and_date, "data/train.csv (content)"),
    "a file is replaced by one as old and as large": (replaced_with_its_date, "data/train.csv (content)"),
    "line ends are changed": (rewrite("data/train.csv", "1\r\n1\r\n"), "data/train.csv (content)"),
    "a file is removed": (lambda world: world.path("data/train.csv").unlink(), "data/train.csv (gone)"),
    "a link leads elsewhere": (linked_elsewhere, "data/train.csv (content)"),
    "a file appears that was looked for": (rewrite("data/absent.csv", "1\n"), "data/absent.csv (was not there)"),
    "a second one does": (rewrite("data/folder.csv", ""), "data/folder.csv (was not there)"),
    "one of many files is edited": (rewrite("data/many/07.txt", "8\n"), "data/many/ (content)"),
    "one of many files is removed": (
        lambda world: world.path("data/many/07.txt").unlink(),
        "data/many/ (content)",
    ),
    "one more file is put beside many": (rewrite("data/many/40.txt", "40\n"), "data/many/ (content)"),
    "many files get another name": (
        lambda world: world.path("data/many/39.txt").rename(world.path("data/many/40.txt")),
        "data/many/ (content)",
    ),
    "a helper is edited": (rewrite("helper.py", "def gain():\n    return 2.0\n"), "helper"),
    "a helper gets a default": (rewrite("helper.py", "def gain(by=1):\n    return 1.0\n"), "helper"),
    "a module that is imported by a computed name is edited": (
        rewrite("late.py", "def gain():\n    return 2.0\n"),
        "late.py",
    ),
    "it is removed": (lambda world: world.path("late.py").unlink(), "late.py (gone)"),
    "a module of a package is edited": (
        rewrite("package/deep.py", "def gain():\n    return 3.0\n"),
        "package/deep.py",
    ),
    "one that is imported inside a function is edited": (
        rewrite("package/deeper.py", "def zero():\n    return 1.0\n"),
        "package/deeper.py",
    ),
    "what runs when a package is imported is edited": (
        rewrite("package/__init__.py", "import os\n"),
        "package/__init__.py",
    ),
    "a module from a folder that training adds is edited": (
        rewrite("lib/plugin.py", "def gain():\n    return 1.0\n"),
        "lib/plugin.py",
    ),
    "a package is upgraded": (upgrade, "fakelib 1.0 → 2.0"),
    "a package comes from elsewhere": (
        rewrite("site-packages/fakelib-1.0.dist-info/direct_url.json", '{"url": "https://example.org/fakelib"}'),
        "fakelib (from elsewhere)",
    ),
    "a package is removed": (
        lambda world: [shutil.rmtree(path) for path in world.path("site-packages").glob("fakelib*")],
        "fakelib 1.0 (gone)",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_makes_a_new_version_and_is_named(world, name):
    plant, words = CHANGES[name]
    plant(world)
    made = world.draft()
    assert (made.twin, made.version) == (None, 2)
    assert words in header(world, made)
    assert made.shown(again=False, same=False) is None


def header(world, made):
    """What the header of the new version would say, were it launched."""
    return ", ".join(changes(world.store, world.spec, made.spec(None)))


def touched(*names):
    return lambda world: [os.utime(world.path(name), (1, 1)) for name in names]


def copied(world):
    """As a synchronising program leaves it: the same content as another file."""
    path = world.path("data/train.csv")
    text = path.read_text()
    path.unlink()
    path.write_text(text)


def through_a_link(world):
    write(world.path("data/more.csv"), world.path("data/train.csv").read_text())
    world.path("data/train.csv").unlink()
    world.path("data/train.csv").symlink_to("more.csv")


def twice(world):
    write(world.path("data/train.csv"), "2\n")
    world.draft()
    world.put_back()


def many_anew(world):
    for path in sorted(world.path("data/many").iterdir()):
        text = path.read_text()
        path.unlink()
        path.write_text(text)


#: What must not count.
NO_CHANGES = {
    "nothing": lambda world: None,
    "a file is touched": touched("data/train.csv"),
    "a file is dated back": lambda world: os.utime(world.path("data/train.csv"), (1, 1)),
    "a file is written anew with the same content": copied,
    "a file is changed and put back": twice,
    "a link leads to the same content": through_a_link,
    "its rights change": lambda world: world.path("data/train.csv").chmod(0o600),
    "one of many files is touched": touched("data/many/07.txt"),
    "all of many files are written anew": many_anew,
    "a hidden file comes beside many": rewrite("data/many/.DS_Store", "x"),
    "a checkpoint folder of Jupyter comes beside many": rewrite("data/many/.ipynb_checkpoints/07.txt", "x"),
    "a file comes that is not read": rewrite("data/more.csv", "1\n"),
    "a file that is not read is edited": rewrite("data/more.csv", "2\n"),
    "the log that training writes grows": rewrite("training.log", "0\n1\n2\n"),
    "it is removed": lambda world: world.path("training.log").unlink(missing_ok=True),
    "what training wrote and read is edited": rewrite("data/cache.json", "[]"),
    "what training wrote and read is removed": lambda world: world.path("data/cache.json").unlink(missing_ok=True),
    "what training read and wrote is edited": rewrite("data/best.json", '{"best": 9}'),
    "a helper's comment is edited": rewrite("helper.py", "# a remark\n\ndef gain():\n    return 1.0  # why\n"),
    "a late module's comment is edited": rewrite("late.py", "def gain():\n    return 1.0\n"),
    "a helper is touched": touched("helper.py", "late.py", "lib/plugin.py"),
    "a module comes that is not imported": rewrite("unused.py", "raise SystemExit"),
    "compiled files come and go": lambda world: [
        shutil.rmtree(path) for path in list(world.folder.rglob("__pycache__")) if ".workbench" not in path.parts
    ],
    "a package is installed that is not imported": lambda world: upgrade(world, "other", "1.0"),
    "the kernel has imported more of a package": lambda world: importlib.import_module("package.deeper"),
    "a notebook is saved beside it": rewrite("data.ipynb", "{}"),
}


@pytest.mark.parametrize("name", NO_CHANGES)
def test_what_does_not_reach_training_is_no_change(world, name):
    NO_CHANGES[name](world)
    made = world.draft()
    assert made.standing.differences == ()
    assert made.twin == world.spec.id
