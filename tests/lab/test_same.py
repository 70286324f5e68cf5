"""A cell that is run again reattaches while all that its training was seen to depend on is as it was, and only then.

One real search is recorded; each row of the two tables changes something around it and asks what Shift-Enter would do.
"""

import importlib
import os
import shutil
import sys

import numpy as np
import pytest
import torch
from running import engine
from same_world import World, inside, write

from workbench.experiment.versions import changes

#: Files that are there only where a row makes them.
EXTRA = (
    *("data/absent.csv", "data/folder.csv", "data/more.csv", "unused.py", "data/many/40.txt", "package/more.yaml"),
    *(
        "data/few/c.txt",
        "data/few/deep/c.txt",
        "data/listed/other.txt",
        "data/walked/deep/b.txt",
        "data/walked/b.ipynb",
    ),
    *("data/few/c.csv",),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SAME_FLAG", "SAME_GAIN", "CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED", "TZ", "MKL_CBWR"):
            patch.delenv(name, raising=False)
        for name, value in {"SAME_SCALE": "1", "SAME_TOKEN": "secret", "OMP_NUM_THREADS": "1"}.items():
            patch.setenv(name, value)
        yield from recorded(World(tmp_path_factory.mktemp("same")))


def recorded(found):
    with inside(found.folder), engine(found.store, workers=1):
        found.spec = found.train(found.draft())
        yield found


@pytest.fixture(autouse=True)
def as_it_was(world):
    before, threads, errors = dict(os.environ), torch.get_num_threads(), np.geterr()
    yield
    os.environ.clear()
    os.environ.update(before)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(threads)
    np.seterr(**errors)
    for name in EXTRA:
        world.path(name).unlink(missing_ok=True)
    for name in ("site-packages/fakelib-2.0.dist-info", "site-packages/other-1.0.dist-info"):
        shutil.rmtree(world.path(name), ignore_errors=True)
    world.put_back()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("package", "helper", "late", "plugin")]:
        del sys.modules[name]


def upgrade(world, name="fakelib", version="2.0"):
    shutil.rmtree(world.path(f"site-packages/{name}-1.0.dist-info"), ignore_errors=True)
    folder = f"site-packages/{name}-{version}.dist-info"
    write(world.path(f"{folder}/METADATA"), f"Name: {name}\nVersion: {version}\n")
    write(world.path(f"{folder}/RECORD"), f"{name}/__init__.py,,\n{folder}/METADATA,,\n")


def rewrite(name, text):
    return lambda world: write(world.path(name), text)


def same_size(name, text, later=0):
    """The same file with other content of the same size, dated ``later`` (ns) than before."""

    def plant(world):
        path = world.path(name)
        before = path.stat()
        path.write_text(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + later))

    return plant


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


def sets(**values):
    """Variables of the environment, and None for one that goes; the fixture puts all back."""

    def plant(world):
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    return plant


def calls(module, name, *values):
    return lambda world: getattr(importlib.import_module(module), name)(*values)


#: What changed, how, and what the header says of it.
CHANGES = {
    "rows are added": (rewrite("data/train.csv", "1\n1\n1\n1\n"), "data/train.csv (content)"),
    "rows are taken away": (rewrite("data/train.csv", "1\n"), "data/train.csv (content)"),
    "a file is emptied": (rewrite("data/train.csv", ""), "data/train.csv (content)"),
    "a value is edited": (same_size("data/train.csv", "2\n1\n", later=1), "data/train.csv (content)"),
    "a value is edited and the date put back": (same_size("data/train.csv", "2\n1\n"), "data/train.csv (content)"),
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
    "a helper is edited": (rewrite("helper.py", "def gain():\n    return 2.0\n"), "helper.py"),
    "a helper gets a default": (rewrite("helper.py", "def gain(by=1):\n    return 1.0\n"), "helper.py"),
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
    "one is edited and the date put back": (
        same_size("helper.py", "def gain():\n    return 3.0\n"),
        "helper.py",
    ),
    "a small file in a package that its code reads is edited": (
        rewrite("package/parts/gain.yaml", "1\n"),
        "package/parts/gain.yaml (content)",
    ),
    "it is edited and the date put back": (
        same_size("package/parts/gain.yaml", "1\n"),
        "package/parts/gain.yaml (content)",
    ),
    "it is removed from the package": (
        lambda world: world.path("package/parts/gain.yaml").unlink(),
        "package/parts/gain.yaml (gone)",
    ),
    "a file appears in a package that its code looked for": (
        rewrite("package/more.yaml", "1\n"),
        "package/more.yaml (was not there)",
    ),
    "a file appears that a pattern finds": (rewrite("data/few/c.txt", "3\n"), "data/few/*.txt (new: c.txt)"),
    "one appears deeper": (rewrite("data/few/deep/c.txt", "3\n"), "data/few/**/*.txt (new: deep/c.txt)"),
    "a file appears in a folder that is listed": (
        rewrite("data/listed/other.txt", ""),
        "data/listed/* (new: other.txt)",
    ),
    "a file is renamed in a folder that is listed": (
        lambda world: world.path("data/listed/a.txt").rename(world.path("data/listed/other.txt")),
        "data/listed/* (new: other.txt, gone: a.txt)",
    ),
    "a file appears in a folder that is walked": (
        rewrite("data/walked/deep/b.txt", ""),
        "data/walked/deep/* (new: b.txt)",
    ),
    "a variable is set that training asks for by `in`": (sets(SAME_FLAG="1"), "SAME_FLAG not set → 1"),
    "one that it gets with a default": (sets(SAME_GAIN="2"), "SAME_GAIN not set → 2"),
    "one that it looks up by getenv": (sets(SAME_SCALE="3"), "SAME_SCALE 1 → 3"),
    "one that was set goes": (sets(SAME_SCALE=None), "SAME_SCALE 1 → not set"),
    "a secret that it asks for": (sets(SAME_TOKEN="other"), "SAME_TOKEN (another secret)"),
    "threads of a library": (sets(OMP_NUM_THREADS="4"), "OMP_NUM_THREADS 1 → 4"),
    "what libraries ask for in C": (sets(MKL_CBWR="COMPATIBLE"), "MKL_CBWR not set → COMPATIBLE"),
    "which GPUs there are": (sets(CUDA_VISIBLE_DEVICES="1"), "CUDA_VISIBLE_DEVICES not set → 1"),
    "the seed of hashes": (sets(PYTHONHASHSEED="7"), "PYTHONHASHSEED 0 → 7"),
    "the time zone": (sets(TZ="Asia/Tokyo"), "TZ not set → Asia/Tokyo"),
    "torch's default type": (
        calls("torch", "set_default_dtype", torch.float64),
        "torch.set_default_dtype as usual → torch.float64",
    ),
    "torch's threads": (calls("torch", "set_num_threads", 7), "threads 1 → 7"),
    "NumPy's error state": (lambda world: np.seterr(divide="raise"), "numpy.seterr"),
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
    "another terminal": sets(TERM="vt100", COLUMNS="40", LINES="9", COLORTERM="x", SHLVL="7", TERM_PROGRAM="y"),
    "another login": sets(SSH_CLIENT="10.0.0.7 1 22", SSH_TTY="/dev/pts/9", SSH_AUTH_SOCK="/x", XDG_SESSION_ID="9"),
    "another shell's folder": sets(PWD="/", OLDPWD="/usr", _="/bin/x"),
    "another kernel": sets(JPY_PARENT_PID="1", JPY_SESSION_NAME="x.ipynb", JUPYTER_TOKEN="x", KERNEL_ID="9"),
    "another editor": sets(VSCODE_PID="1", EDITOR="ed", PAGER="cat", GIT_PAGER="cat", CLICOLOR="1"),
    "another desktop": sets(DISPLAY=":9", DBUS_SESSION_BUS_ADDRESS="unix:x", XAUTHORITY="/x"),
    "another search path of programs": sets(PATH=f"/opt/other/bin:{os.environ['PATH']}"),
    "another place of temporary files and caches": sets(TMPDIR="/var/tmp", PIP_CACHE_DIR="/x", XDG_CACHE_HOME="/x"),
    "a variable that nothing reads": sets(UNREAD="1", APP_DEBUG="2"),
    "a variable that a library sets when it is imported": sets(KMP_DUPLICATE_LIB_OK="True", KMP_INIT_AT_FORK="FALSE"),
    "a job's number": sets(SLURM_JOB_ID="9", SLURM_JOBID="9"),
    "a secret that nothing reads": sets(OTHER_TOKEN="x"),
    "a notebook is saved beside it": rewrite("data.ipynb", "{}"),
    "one is saved in a folder that is walked": rewrite("data/walked/b.ipynb", "{}"),
    "a file comes that a pattern does not find": rewrite("data/few/c.csv", "3\n"),
    "a small file in a package that is not read is edited": rewrite("package/parts/unread.yaml", "1\n"),
    "a small file in a package is touched": touched("package/parts/gain.yaml"),
}


@pytest.mark.parametrize("name", NO_CHANGES)
def test_what_does_not_reach_training_is_no_change(world, name):
    NO_CHANGES[name](world)
    made = world.draft()
    assert made.standing.differences == ()
    assert made.twin == world.spec.id
