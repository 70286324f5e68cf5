"""A project whose training depends on all sorts of things, trained once by a real engine, to be changed by tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from running import ended

from workbench.launch import Draft, Origin, draft
from workbench.records import Goal, Spec
from workbench.settled import settled
from workbench.snapshot.reading.cell import read_cell
from workbench.store import Store, requests

#: Nothing in its text names what it reads and imports.
CELL = """
# what it does
import importlib, json, os, sys
import helper, package
from pathlib import Path

late = importlib.import_module("la" + "te")
deep = importlib.import_module("pac" + "kage.deep")
fake = importlib.import_module("fakelib")
sys.path.insert(0, "li" + "b")
plugin = importlib.import_module("plug" + "in")
here = Path("da" + "ta")
few = sorted([*here.glob("few/*.t" + "xt"), *(here / "few").rglob("*.t" + "xt")])
listed = len(os.listdir(here / "listed")) + sum(len(names) for _, _, names in os.walk(here / "walked"))
few_texts = [path.read_text() for path in few]
rows = [float(line) for line in (here / "train.csv").read_text().split()]
many = sum(len(path.read_text()) for path in sorted((here / "many").glob("*.txt")))
for name in ("absent.csv", "folder.csv"):
    try:
        (here / name).read_text()
    except OSError:
        pass
if "SAME_FLAG" in os.environ:
    rows = rows * 2
gain = float(os.environ.get("SAME_GAIN", "1")) * float(os.getenv("SAME_" + "SCALE", "1")) * helper.gain() * late.gain()
token = os.environ.get("SAME_" + "TOKEN")
log = open("training.log", "a")
cache = here / "cache.json"
cache.write_text(json.dumps(rows))
rows = json.loads(cache.read_text())
notes = here / "best.json"
best = json.loads(notes.read_text())["best"]
for epoch in trial.steps():
    log.write(f"{epoch}\\n")
    trial.report(score=sum(rows) * gain + deep.gain() + plugin.gain() + fake.GAIN)
notes.write_text(json.dumps({"best": sum(rows)}))
"""
#: A module of a package with a small file, which it reads, and another one that it looks for.
DEEP = """
from pathlib import Path
parts = Path(__file__).parent / "parts"
def gain():
    from package.deeper import zero
    more = Path(__file__).with_name("more.yaml")
    return zero() + float((parts / "gain.yaml").read_text()) + (float(more.read_text()) if is_there(more) else 0)
def is_there(path):
    try:
        return bool(path.read_text())
    except OSError:
        return False
"""
FILES = {
    "data/train.csv": "1\n1\n",
    "data/best.json": '{"best": 0}',
    "helper.py": "def gain():\n    return 1.0\n",
    "late.py": "# imported late\ndef gain():\n    return 1.0\n",
    "package/__init__.py": "",
    "package/parts/gain.yaml": "0\n",
    "package/parts/unread.yaml": "0\n",
    "package/deep.py": DEEP,
    "data/few/a.txt": "1\n",
    "data/few/b.txt": "2\n",
    "data/few/deep/a.txt": "1\n",
    "data/listed/a.txt": "",
    "data/walked/deep/a.txt": "",
    "package/deeper.py": "def zero():\n    return 0.0\n",
    "lib/plugin.py": "def gain():\n    return 0.0\n",
    "site-packages/fakelib/__init__.py": "GAIN = 0.0\n",
    "site-packages/fakelib-1.0.dist-info/METADATA": "Name: fakelib\nVersion: 1.0\n",
    "site-packages/fakelib-1.0.dist-info/RECORD": "fakelib/__init__.py,,\nfakelib-1.0.dist-info/METADATA,,\n",
    **{f"data/many/{number:02}.txt": f"{number}\n" for number in range(40)},
}


class World:
    """The project in ``folder``, and what was recorded of its training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / ".workbench").create()
        for name, text in FILES.items():
            write(folder / name, text)

    def draft(self, name: str = "same", cell: str = CELL, store: Store | None = None, **options: Any) -> Draft:
        """What pressing Shift-Enter finds out now."""
        read = read_cell(cell, {})
        chosen = {"trials": 1, "verify": False, **options}
        settings = settled(read, goal=Goal("score"), steps=(1, 2), scheduler="all", **chosen)
        return draft(read, {}, name, settings, store or self.store, Origin())

    def train(self, made: Draft, wanted: str = "completed") -> Spec:
        """Train it to its end, by the engine of the store."""
        spec = begin(made)
        assert ended(made.store, spec) == wanted
        return spec

    def path(self, name: str) -> Path:
        return self.folder / name

    def put_back(self) -> None:
        """Write all files as they were; what is not among them goes."""
        for name, text in FILES.items():
            if self.path(name).is_symlink():
                self.path(name).unlink()
            if not self.path(name).is_file() or self.path(name).read_text() != text:
                write(self.path(name), text)


def begin(made: Draft) -> Spec:
    """Have it trained."""
    spec = made.launch()
    requests.put(made.store, {"kind": "start", "experiment": spec.id})
    return spec


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in ``folder`` as a notebook there does, with a folder of installed packages in it."""
    before, path = os.getcwd(), list(sys.path)
    os.chdir(folder)
    sys.path[:0] = [str(folder), str(folder / "site-packages")]
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path
