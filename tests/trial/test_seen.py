"""What a leg reads is seen: by Python, by readers that keep it open or mapped, and by loaders' workers; the rest is not
told as data."""

from pathlib import Path

import pytest
from trial.world import said

from workbench.snapshot.surroundings.seen import MOST_TOLD, grouped

READS = """
import ctypes, json, mmap, os, numpy as np, sys, tempfile
from pathlib import Path
rows = Path("rows.csv").read_text(); Path(".env").read_text()
table = np.load("table.npy", mmap_mode="r")
libc = ctypes.CDLL(None, use_errno=True)
held = libc.open(b"{folder}/held.bin", 0)
mapped = libc.open(b"{folder}/mapped.bin", 0)
libc.mmap.restype = ctypes.c_void_p
libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, mapped, ctypes.c_long(0))
libc.close(mapped)
open("made.txt", "w").write("1")
open("made.txt").read()
sys.path.insert(0, os.getcwd())
import helper
open("/etc/hostname").read() if os.path.exists("/etc/hostname") else None
open(json.__file__).read()
for epoch in trial.steps():
    if epoch == 1:
        open("late.csv").read()
    trial.report(score=float(table[0]))
"""


def seen(told: list) -> list[str]:
    [begun], [left] = said(told, "begun"), said(told, "left")
    assert left["error"] is None, left["error"]["traceback"]
    return [Path(path).name for path in (left.get("seen") or begun["seen"])["paths"]]


@pytest.fixture
def folder(tmp_path):
    import numpy as np

    for name in (".env", "rows.csv", "held.bin", "mapped.bin", "late.csv"):
        (tmp_path / name).write_text(name)
    (tmp_path / "helper.py").write_text("")
    np.save(tmp_path / "table.npy", np.arange(3.0))
    return tmp_path


def test_files_that_a_leg_reads_are_seen_by_whoever_reads_them(server, experiment, folder):
    told = server.runner().leg(experiment(READS.format(folder=folder), steps=2).order(1))
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    [begun] = said(told, "begun")
    # The module is one of which there is no copy: the process that starts the training has its folder on no path.
    read = {".env", "rows.csv", "table.npy", "held.bin", "mapped.bin", "helper.py"}
    assert {Path(path).name for path in begun["seen"]["paths"]} == read
    assert begun["seen"]["beyond"] == 0
    assert told[-1]["seen"] is None  # nothing was read since


def test_what_is_read_later_is_told_when_the_leg_leaves(server, experiment, folder):
    runner = server.runner()
    assert "late.csv" in seen(runner.leg(experiment(READS.format(folder=folder), steps=2).order()))
    # The next leg of the same process does not report the files of the first.
    assert seen(runner.leg(experiment("for _ in trial.steps():\n    trial.report(score=1.0)").order())) == []


SECOND = """
import ctypes, os, time
if os.getsid(0) != os.getpid():  # the second run of the set-up: a runner leads its own session
    ctypes.CDLL(None).open(b"held.bin", 0)
    time.sleep(4)  # it still holds the file then
for epoch in trial.steps():
    time.sleep(0.5)  # the processes are looked at after one or two seconds
    trial.report(score=1.0)
"""


def test_what_the_second_run_of_a_set_up_holds_open_is_not_the_trials(server, experiment, folder):
    assert seen(server.runner().leg(experiment(SECOND, steps=6).order(6))) == []


WORKERS = """
import torch
from pathlib import Path
from torch.utils.data import DataLoader, Dataset
class Texts(Dataset):
    def __len__(self): return 4
    def __getitem__(self, at): return float(len(Path(f"part{{at}}.txt").read_text()))
loader = DataLoader(Texts(), 2, num_workers=2, multiprocessing_context={context!r})
for epoch in trial.steps():
    trial.report(score=sum(batch.sum().item() for batch in loader))
"""


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_what_loaders_workers_read_is_seen(server, experiment, tmp_path, context):
    for number in range(4):
        (tmp_path / f"part{number}.txt").write_text("x" * number)
    told = server.runner().leg(experiment(WORKERS.format(context=context), steps=1).order())
    assert sorted(seen(told)) == [f"part{number}.txt" for number in range(4)]


def test_many_files_of_a_folder_are_told_as_the_folder():
    here = "/home/ada/work"
    images = [f"{here}/images/{kind}/{number:04}.png" for kind in ("cat", "dog") for number in range(500)]
    assert grouped([*images, f"{here}/labels.csv"], here) == [
        f"{here}/images/cat/",
        f"{here}/images/dog/",
        f"{here}/labels.csv",
    ]
    deep = [f"/data/set/{kind}/{number}.png" for kind in range(400) for number in range(3)]
    assert len(grouped(deep, here)) <= MOST_TOLD
    loose = [f"{here}/{number}.csv" for number in range(200)]
    assert grouped(loose, here) == loose  # never the notebook's folder as a whole
