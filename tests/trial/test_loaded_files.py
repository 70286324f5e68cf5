"""Loading a trained trial changes no file that was there: its set-up runs again, and writes copies."""

import builtins
import contextlib
import os
import shutil
import sqlite3
import threading

import pytest
from trial.test_reopened import LOGS, REMOVED, locked

from workbench.errors import CannotResume
from workbench.trial.export.loading import load
from workbench.trial.export.untouched import Untouched

#: The set-ups leave files open, as people do.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

#: Set-ups that write, and what a step does.
WRITES = {
    **{name: (f"{set_up}", step) for name, (set_up, step) in LOGS.items()},
    **{
        f"a log that is {name}": (set_up, "with open(FILE, 'a') as log: log.write(f'{epoch}\\n')")
        for name, (set_up, _) in REMOVED.items()
    },
    "a log that gets another name": (
        "if os.path.exists(FILE): os.replace(FILE, FILE + '.old')",
        "with open(FILE, 'a') as log: log.write(f'{epoch}\\n')",
    ),
    "weights": ("import torch; torch.save([0], FILE); assert torch.load(FILE) == [0]", "torch.save([epoch], FILE)"),
    "HDF5": (
        "import h5py; file = h5py.File(FILE, 'w'); rows = file.create_dataset('rows', (9,), 'f4')",
        "rows[epoch] = epoch + 1; file.flush()",
    ),
    "an array": ("import numpy as np; rows = np.memmap(FILE, 'i4', 'w+', shape=(9,))", "rows[epoch] = 7; rows.flush()"),
    "a file made exclusively": (
        "if os.path.exists(FILE): os.remove(FILE)\nopen(FILE, 'x').close()",
        "with open(FILE, 'a') as log: log.write(f'{epoch}\\n')",
    ),
    "a database": (
        "import sqlite3; db = sqlite3.connect(FILE); db.executescript('drop table if exists log; create table log(n)')",
        "db.execute('insert into log values (?)', (epoch,)); db.commit()",
    ),
}


def trained(server, cell):
    runner = server.runner()
    told = runner.leg(cell.order(3))
    runner.kill()
    assert told[-1]["error"] is None, told[-1]["error"]["traceback"]


def files_in(folder):
    return {one.name: one.read_bytes() for one in folder.iterdir()}


@pytest.mark.parametrize("name", WRITES)
def test_a_file_that_the_set_up_would_empty_or_remove_stays(server, experiment, tmp_path, name):
    set_up, step = WRITES[name]
    place = tmp_path / "own"
    place.mkdir()
    source = f"import os\nFILE = {str(place / 'log.txt')!r}\n{set_up}\nhistory = []\n"
    cell = experiment(
        source + f"for epoch in trial.steps():\n    {step}\n    history.append(epoch); trial.report(score=epoch)\n",
        steps=3,
    )
    trained(server, cell)
    before = files_in(place)
    assert before["log.txt"]
    functions = open, sqlite3.connect
    assert load(cell.store, cell.spec, 0, {}).history == [0, 1, 2]
    assert files_in(place) == before
    assert (open, sqlite3.connect) == functions


def test_a_database_that_another_process_has_locked_is_refused_in_time(server, experiment, tmp_path):
    set_up, step = WRITES["a database"]
    cell = experiment(
        f"FILE = 'log.db'\n{set_up}\nfor epoch in trial.steps():\n    {step}\n    trial.report(score=1)\n"
    )
    trained(server, cell)
    before = (tmp_path / "log.db").read_bytes()
    with locked(tmp_path), pytest.raises(sqlite3.OperationalError, match="could not be copied within 5 seconds"):
        load(cell.store, cell.spec, 0, {})
    assert (tmp_path / "log.db").read_bytes() == before


def test_a_map_of_the_set_up_is_as_it_was_at_that_step(server, experiment, tmp_path):
    set_up = f"import numpy as np; rows = np.memmap({str(tmp_path / 'rows')!r}, 'i4', 'w+', shape=(3,))"
    cell = experiment(
        f"{set_up}\nfor epoch in trial.steps(): rows[epoch] = epoch + 1; trial.report(score=epoch)\n", steps=3
    )
    trained(server, cell)
    assert load(cell.store, cell.spec, 0, {}).rows.tolist() == [1, 2, 3]


def test_what_the_set_up_makes_anew_is_there_afterwards(server, experiment, tmp_path):
    set_up = (
        "import os, tempfile\nif not os.path.exists(FILE):\n    os.makedirs(os.path.dirname(FILE))\n"
        "    with open(FILE + '.part', 'w') as part: part.write('data')\n"
        "    os.replace(FILE + '.part', FILE)\n"
        "with tempfile.TemporaryDirectory() as other: open(other + '/c', 'w').close()\n"
        "assert not os.path.exists(other)\n"
    )
    file = tmp_path / "data" / "set.txt"
    cell = experiment(
        f"FILE = {str(file)!r}\n{set_up}value = open(FILE).read()\nfor _ in trial.steps(): trial.report(score=1)\n"
    )
    trained(server, cell)
    file.unlink()
    file.parent.rmdir()
    assert load(cell.store, cell.spec, 0, {}).value == "data"
    assert files_in(file.parent) == {"set.txt": b"data"}


@pytest.fixture
def untouched(tmp_path, monkeypatch):
    """What makes one in a folder with a file, a folder that is not empty, and a link."""
    (tmp_path / "runs" / "a").mkdir(parents=True)
    for name in ("data", "runs/a/log"):
        (tmp_path / name).write_text("old")
    (tmp_path / "latest").symlink_to("runs")
    with contextlib.closing(sqlite3.connect(tmp_path / "rows.db")) as rows:
        rows.executescript("create table log(n); insert into log values (1)")
    monkeypatch.chdir(tmp_path)
    return lambda: Untouched(str(tmp_path / "store"), str(tmp_path / "store" / "files"))


def _swap_the_link():
    os.symlink("data", "new")
    os.replace("new", "latest")


def _make_the_link_again():
    os.remove("latest")
    assert not os.path.lexists("new")
    os.symlink("data", "latest")


def _copy_with_its_time():
    with open("source", "w") as file:
        file.write("new")
    os.utime("source", (5, 5))
    shutil.copy2("source", "data")
    os.chmod("data", 0o400)
    os.remove("source")


def _remove_what_is_not_empty():
    with pytest.raises(OSError, match="not empty"):
        os.rmdir("runs")
    with pytest.raises(IsADirectoryError):
        os.remove("runs")
    os.makedirs("runs/a/b/c")
    os.removedirs("runs/a/b/c")
    os.remove("runs/a/log")
    os.removedirs("runs/a")
    assert not os.path.exists("runs/a")


def _empty_a_database():
    for database, options in (
        ("rows.db", {}),
        ("file:rows.db?mode=rw", {"uri": True}),
        ("file:rows.db", {"uri": True}),
    ):
        with contextlib.closing(sqlite3.connect(database, **options)) as there:
            there.execute("delete from log")
            there.commit()
            assert there.execute("select count(*) from log").fetchone() == (0,)


def _move_a_folder():
    with pytest.raises(CannotResume, match="moves the folder 'runs'"):
        shutil.move("runs", "runs.old")


@pytest.mark.parametrize(
    "does",
    [
        *(_swap_the_link, _make_the_link_again, _copy_with_its_time, _remove_what_is_not_empty, _move_a_folder),
        _empty_a_database,
    ],
)
def test_links_folders_times_and_modes_stay(untouched, does):
    def is_there():
        return {
            one: (os.lstat(one).st_mtime, os.lstat(one).st_mode) for one in ("data", "latest", "rows.db", "runs/a/log")
        }

    before = is_there()
    with untouched():
        does()
    assert is_there() == before
    assert sorted(os.listdir()) == ["data", "latest", "rows.db", "runs"]
    assert (os.readlink("latest"), os.listdir("runs/a"), open("data").read()) == ("runs", ["log"], "old")


def test_what_the_set_up_keeps_of_it_is_the_real_thing_afterwards(untouched):
    with untouched():
        from os import remove, replace

        opens = open
        with open("data", "w") as file:
            file.write("a copy")
    with opens("data") as file:
        assert file.read() == "old"
    with opens("new", "w") as file:
        file.write("new")
    replace("new", "data")
    assert open("data").read() == "new"
    remove("data")
    assert not os.path.exists("data")


def test_two_threads_load_one_after_the_other_and_all_is_as_before(untouched):
    before = builtins.open, os.replace, os.remove
    inside, leaves, told = threading.Event(), threading.Event(), []

    def first():
        with untouched():
            inside.set()
            leaves.wait(20)
            told.append("first")

    def second():
        with untouched():
            told.append("second")
            with open("data", "w") as file:
                file.write("new")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert inside.wait(20)
    threads[1].start()
    leaves.set()
    for one in threads:
        one.join(20)
    assert told == ["first", "second"]
    assert (builtins.open, os.replace, os.remove) == before
    assert open("data").read() == "old"
