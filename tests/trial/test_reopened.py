"""A log that the set-up empties holds what an undisturbed run writes, through promotions and kills."""

import contextlib
import sqlite3
import subprocess
import sys
import time

import pytest
from trial.world import said

LOGS = {
    "a file": ("log = open(FILE, 'w'); print('step', file=log)", "print(epoch, file=log)"),
    "rows": (
        "import csv; log = csv.writer(open(FILE, 'w', newline='')); log.writerow(['step'])",
        "log.writerow([epoch])",
    ),
    "a head": (
        "with open(FILE, 'w') as log: log.write('step\\n')",
        "with open(FILE, 'a') as log: log.write(f'{epoch}\\n')",
    ),
    "a path": (
        "import pathlib; log = pathlib.Path(FILE); log.write_text('step\\n')",
        "log.write_text(log.read_text() + f'{epoch}\\n')",
    ),
    "bytes": ("log = open(FILE, 'wb'); log.write(b'step\\n')", "log.write(b'%d\\n' % epoch)"),
}


#: Set-ups that remove what earlier runs have left.
REMOVED = {
    "removed": ("if os.path.exists(FILE): os.remove(FILE)", ""),
    "unlinked": ("import pathlib; pathlib.Path(FILE).unlink(missing_ok=True)", ""),
    "removed, with a head": ("if os.path.exists(FILE): os.remove(FILE)\nopen(FILE, 'w').write('step\\n')", "step"),
    "a folder made anew": (
        "import shutil; shutil.rmtree(os.path.dirname(FILE), ignore_errors=True); os.makedirs(os.path.dirname(FILE))",
        "",
    ),
    "replaced": ("open(FILE + '.new', 'w').write('step\\n'); os.replace(FILE + '.new', FILE)", "step"),
}
APPENDS = """
import os, tempfile
FILE = os.path.abspath("own/log.txt")
os.makedirs("own", exist_ok=True)
SET_UP
open("own/passing", "w").close(); os.remove("own/passing")
with tempfile.NamedTemporaryFile(dir="own") as passing: pass
for epoch in trial.steps():
    with open(FILE, "a") as log: log.write(f"{epoch}\\n")
    trial.report(score=epoch)
"""


def killed_in_its_second_set_up(server, cell, folder):
    """Two steps of a trial whose set-up kills its process where the file ``kill`` is, and removes that."""
    for start in (0, 1, 1):
        runner = server.runner()
        runner.leg(cell.order(2 if start else 1, start=start))
        runner.kill()
        if not start:
            (folder / "kill").touch()


@pytest.mark.parametrize("name", REMOVED)
def test_what_earlier_steps_wrote_stays_where_the_set_up_removes_it(server, experiment, tmp_path, name):
    set_up, head = REMOVED[name]
    cell = experiment(APPENDS.replace("SET_UP", set_up))
    file = tmp_path / "own" / "log.txt"
    file.parent.mkdir()
    file.write_text("of another run\n")
    for start in range(4):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        runner.kill()
    assert file.read_text().split() == [*head.split(), "0", "1", "2", "3"]
    assert [one.name for one in file.parent.iterdir()] == ["log.txt"]
    assert not [*tmp_path.rglob("copies")]


def test_a_set_up_that_is_killed_after_it_has_removed_the_log_loses_nothing(server, experiment, tmp_path):
    killed = "if os.path.exists(FILE): os.remove(FILE)\nif os.path.exists('kill'):\n    os.remove('kill')\n"
    cell = experiment(APPENDS.replace("SET_UP", killed + "    os.kill(os.getpid(), 9)"))
    killed_in_its_second_set_up(server, cell, tmp_path)
    assert (tmp_path / "own" / "log.txt").read_text().split() == ["0", "1"]


@pytest.mark.parametrize("where", ["str('log.txt')", "str(trial.folder / 'log.txt')"])
@pytest.mark.parametrize("name", LOGS)
def test_what_earlier_steps_wrote_stays(server, experiment, tmp_path, name, where):
    set_up, step = LOGS[name]
    cell = experiment(
        f"""
import os
FILE = {where}
{set_up}
for epoch in trial.steps():
    {step}
    trial.report(score=epoch)
"""
    )
    for start in range(4):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        runner.kill()
    (file,) = tmp_path.rglob("log.txt")
    assert file.read_text().split() == ["step", "0", "1", "2", "3"]
    assert not [*tmp_path.rglob("copies")]


def test_a_set_up_that_is_killed_after_it_has_emptied_the_log_loses_nothing(server, experiment, tmp_path):
    cell = experiment(
        """
import os
log = open("log.txt", "w")
print("step", file=log, flush=True)
if os.path.exists("kill"):
    os.remove("kill")
    os.kill(os.getpid(), 9)
for epoch in trial.steps():
    print(epoch, file=log)
    trial.report(score=epoch)
"""
    )
    killed_in_its_second_set_up(server, cell, tmp_path)
    assert (tmp_path / "log.txt").read_text().split() == ["step", "0", "1"]
    assert not (tmp_path / "kill").exists()


#: Set-ups that empty the table ``log``, and the connection that steps use.
TABLES = {
    "dropped": (
        "db = sqlite3.connect(FILE); db.executescript('drop table if exists log; create table log (n);')",
        "db",
    ),
    "emptied, and not committed": (
        (
            "with sqlite3.connect(FILE) as db: db.execute('create table if not exists log (n)')\n"
            "db.close(); db = sqlite3.connect(FILE); db.execute('delete from log')"
        ),
        "db",
    ),
    "with a head, and a log of SQLite's own": (
        (
            "db = sqlite3.connect(FILE); db.execute('pragma journal_mode=wal')\n"
            "db.executescript('drop table if exists log; create table log (n); insert into log values (-1)')"
        ),
        "db",
    ),
    "closed": (
        "db = sqlite3.connect(FILE); db.executescript('drop table if exists log; create table log (n)'); db.close()",
        "sqlite3.connect(FILE)",
    ),
}
ROWS = """
import os, sqlite3
FILE = 'log.db'
SET_UP
if os.path.exists("kill"):
    os.remove("kill")
    os.kill(os.getpid(), 9)
for epoch in trial.steps():
    rows = CONNECTION
    rows.execute("insert into log values (?)", (epoch,)); rows.commit()
    trial.report(score=rows.execute("select count(*) from log").fetchone()[0])
"""
OWN_ROWS = ROWS.replace("'log.db'", "trial.folder / 'log.db'")


def rows_in(file):
    with contextlib.closing(sqlite3.connect(file)) as db:
        return [row for (row,) in db.execute("select n from log")]


def legs(server, cell, steps=4, first=0, before=lambda start: None):
    """Legs of one step each, each in a process of its own; returns what the last one names as resumed inexactly."""
    found = []
    for start in range(first, steps):
        before(start)
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        runner.kill()
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
        found = said(told, "begun")[0]["found"].get("inexact", [])
    return [f"{one['name']}: {one['reason']}" for one in found]


@pytest.mark.parametrize("name", TABLES)
def test_rows_that_earlier_steps_wrote_into_the_trials_own_file_stay(server, experiment, tmp_path, name):
    set_up, connection = TABLES[name]
    cell = experiment(OWN_ROWS.replace("SET_UP", set_up).replace("CONNECTION", connection))
    killed_in_its_second_set_up(server, cell, tmp_path)
    assert legs(server, cell, 3, first=2) == []
    assert legs(server, cell, 4, first=3) == []
    (file,) = tmp_path.rglob("log.db")
    assert rows_in(file) == [*([-1] if "head" in name else []), 0, 1, 2, 3]
    assert not [*tmp_path.rglob("copies")]


#: Set-ups whose connection the steps use, and the rows that the set-up itself writes.
CONNECTED = {
    "dropped": ("db = sqlite3.connect(FILE); db.executescript('drop table if exists log; create table log (n)')", []),
    "with a head, and a log of SQLite's own": (TABLES["with a head, and a log of SQLite's own"][0], [-1]),
    "emptied, and not committed": (
        "db = sqlite3.connect(FILE); db.execute('create table if not exists log (n)'); db.execute('delete from log')",
        [],
    ),
    "while a statement reads": (
        (
            "db = sqlite3.connect(FILE)\n"
            "db.executescript('drop table if exists log; create table log (n); drop table if exists data;'\n"
            "                 'create table data (n); insert into data values (1), (2)')\n"
            "reads = db.execute('select * from data'); next(reads)"
        ),
        [],
    ),
    "removed": (
        "if os.path.exists(FILE): os.remove(FILE)\ndb = sqlite3.connect(FILE); db.execute('create table log (n)')",
        [],
    ),
    "removed, with a head": (
        (
            "if os.path.exists(FILE): os.remove(FILE)\n"
            "db = sqlite3.connect(FILE); db.executescript('create table log (n); insert into log values (-1)')"
        ),
        [-1],
    ),
    "beside a table with a time": (
        (
            "import time; db = sqlite3.connect(FILE, detect_types=sqlite3.PARSE_DECLTYPES)\n"
            "db.executescript('drop table if exists log; create table if not exists runs (began);'\n"
            "                 'create table log (n, at timestamp default \"2020-01-01 10:00:00\")')\n"
            "db.execute('insert into runs values (?)', (time.time_ns(),)); db.commit()"
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", CONNECTED)
def test_rows_that_earlier_steps_wrote_stay(server, experiment, tmp_path, name):
    set_up, head = CONNECTED[name]
    rows = OWN_ROWS.replace("insert into log values", "insert into log (n) values")
    assert legs(server, experiment(rows.replace("SET_UP", set_up).replace("CONNECTION", "db"))) == []
    (file,) = tmp_path.rglob("log.db")
    assert rows_in(file) == [*head, 0, 1, 2, 3]
    assert not [*tmp_path.rglob("copies")]


@pytest.mark.parametrize("name", CONNECTED)
def test_rows_that_are_lost_in_a_file_of_several_trials_are_named(server, experiment, tmp_path, name):
    set_up, head = CONNECTED[name]
    rows = ROWS.replace("insert into log values", "insert into log (n) values")
    (lost,) = legs(server, experiment(rows.replace("SET_UP", set_up).replace("CONNECTION", "db")), steps=2)
    assert lost.startswith(str(tmp_path / "log.db"))
    assert "the set-up empties tables of it" in lost
    assert rows_in(tmp_path / "log.db") == [*head, 1]
    assert not [*tmp_path.rglob("copies")]


def test_a_connection_that_is_closed_and_leaves_all_rows_is_not_named(server, experiment, tmp_path):
    set_up = "db = sqlite3.connect(FILE); db.execute('create table if not exists log (n)'); db.close()"
    cell = experiment(ROWS.replace("SET_UP", set_up).replace("CONNECTION", "sqlite3.connect(FILE)"))
    assert legs(server, cell) == []
    assert rows_in(tmp_path / "log.db") == [0, 1, 2, 3]


#: What another trial does meanwhile, and the rows that it leaves.
OTHERS = {
    "writes a row": ("insert into log values (107)", [106, 107, 2]),
    "removes its rows": ("delete from log", [2]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_another_process_does_during_the_set_up_stays(server, experiment, tmp_path, name):
    does, rows = OTHERS[name]
    other = f"import sqlite3; db = sqlite3.connect('log.db'); db.execute('{does}'); db.commit()"
    set_up = f"""
import subprocess, sys
db = sqlite3.connect(FILE); db.execute('create table if not exists log (n)')
db.execute('delete from log where n < 100'); db.commit()
if os.path.exists('other'): subprocess.run([sys.executable, '-c', {other!r}], check=True)
"""

    def before(start):
        if start == 2:
            (tmp_path / "other").touch()
            with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as db, db:
                db.execute("insert into log values (106)")

    cell = experiment(ROWS.replace("SET_UP", set_up).replace("CONNECTION", "db"))
    (lost,) = legs(server, cell, 3, before=before)
    assert "other trials may write this file" in lost
    assert rows_in(tmp_path / "log.db") == rows


def test_rows_of_a_table_that_the_set_up_fills_otherwise_are_named(server, experiment, tmp_path):
    set_up = (
        "import time; db = sqlite3.connect(FILE); db.executescript('drop table if exists log; create table log (n)')\n"
        "db.execute('insert into log values (?)', (time.time_ns(),)); db.commit()"
    )
    (lost,) = legs(server, experiment(OWN_ROWS.replace("SET_UP", set_up).replace("CONNECTION", "db")), steps=2)
    assert "in log the set-up has written other rows" in lost
    (file,) = tmp_path.rglob("log.db")
    assert rows_in(file)[1:] == [1]


@contextlib.contextmanager
def locked(folder):
    """Within it, another process holds the database ``log.db`` in ``folder`` exclusively."""
    locks = (
        "import sqlite3; db = sqlite3.connect('log.db'); db.execute('begin exclusive'); print(1, flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", locks], cwd=folder, **pipes) as other:
        try:
            other.stdout.readline()
            yield
        finally:
            other.kill()


def test_a_database_that_another_process_has_locked_is_named_in_time(server, experiment, tmp_path):
    cell = experiment(
        ROWS.replace("SET_UP", "db = sqlite3.connect(FILE)")
        .replace("CONNECTION", "sqlite3.connect('other.db')")
        .replace('("insert', '("create table if not exists log (n)"); rows.execute("insert')
    )
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as db:
        db.executescript("create table log (n); insert into log values (7)")
    legs(server, cell, steps=1)
    with locked(tmp_path):
        began = time.monotonic()
        (lost,) = legs(server, cell, steps=2, first=1)
        assert time.monotonic() - began < 60
    assert "a copy of it could not be made before the set-up" in lost
    assert rows_in(tmp_path / "log.db") == [7]


def test_a_table_that_holds_other_rows_than_the_set_up_writes_is_as_that_writes_it(server, experiment, tmp_path):
    set_up, connection = TABLES["with a head, and a log of SQLite's own"]
    cell = experiment(ROWS.replace("SET_UP", set_up).replace("CONNECTION", connection))
    for start in (0, 1):
        runner = server.runner()
        runner.leg(cell.order(start + 1, start=start))
        runner.kill()
        if start == 0:
            with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as db:
                db.executescript("delete from log; insert into log values (7)")
    assert rows_in(tmp_path / "log.db") == [-1, 1]


def test_a_file_that_is_not_a_log_is_what_the_set_up_has_written(server, experiment, tmp_path):
    cell = experiment(
        """
file = open("made.txt", "w")
print("mine", file=file, flush=True)
for epoch in trial.steps():
    trial.report(score=len(open("made.txt").read()))
"""
    )
    runner = server.runner()
    runner.leg(cell.order(1))
    runner.kill()
    (tmp_path / "made.txt").write_text("another trial's")
    runner = server.runner()
    told = runner.leg(cell.order(2, start=1))
    runner.kill()
    assert told[-1]["error"] is None
    assert (tmp_path / "made.txt").read_text() == "mine\n"


OWN = """
log = open("log.txt", "w")
print("step", file=log)
saved = trial.restore()
epoch = int((saved / "step").read_text()) if saved else 0
while epoch < trial.max_steps:
    print(epoch, file=log, flush=True)
    epoch += 1
    (trial.folder / "step").write_text(str(epoch))
    trial.save(trial.folder, step=epoch)
    if not trial.report(score=epoch, step=epoch):
        break
"""


def test_what_earlier_steps_wrote_stays_in_a_loop_that_counts_for_itself(server, experiment, tmp_path):
    cell = experiment(OWN)
    for start in (0, 1, 2):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1 if start < 2 else 4, start=start, resume=bool(start)))
        runner.kill()
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    assert (tmp_path / "log.txt").read_text().split() == ["step", "0", "1", "2", "3"]


def test_lost_rows_are_named_in_a_loop_that_counts_for_itself(server, experiment, tmp_path):
    set_up = "import sqlite3; db = sqlite3.connect('log.db')\n"
    set_up += "db.executescript('drop table if exists log; create table log (n)')"
    step = "db.execute('insert into log values (?)', (epoch,)); db.commit()"
    source = OWN.replace('log = open("log.txt", "w")', set_up).replace('print("step", file=log)\n', "")
    cell = experiment(source.replace("print(epoch, file=log, flush=True)", step))
    for start in (0, 1):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start, resume=bool(start)))
        runner.kill()
        assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
    assert [one for one in told if "rows that earlier steps wrote are lost" in str(one)]


def test_a_loop_that_never_restores_what_it_saved_begins_its_log_again(server, experiment, tmp_path):
    cell = experiment(OWN.replace("saved = trial.restore()", "saved = None"))
    for _ in range(2):
        runner = server.runner()
        runner.leg(cell.order(4, resume=True))
        runner.kill()
    assert (tmp_path / "log.txt").read_text().split() == ["step", "0", "1", "2", "3"]
    assert not [*tmp_path.rglob("copies")]


def test_a_trial_that_begins_again_from_its_start_empties_its_log(server, experiment, tmp_path):
    cell = experiment("log = open('log.txt', 'w')\nfor epoch in trial.steps(): print(epoch, file=log)\n")
    for _ in range(2):
        runner = server.runner()
        runner.leg(cell.order(4))
        runner.kill()
    assert (tmp_path / "log.txt").read_text().split() == ["0", "1", "2", "3"]


def test_a_set_up_that_looks_into_a_folder_first_goes_on(server, experiment, tmp_path):
    """Asking for the folder for temporary files makes a file there and removes it, under a lock."""
    cell = experiment(
        """
import os, tempfile
tempfile.tempdir = None
os.listdir(".")
for epoch in trial.steps(): trial.report(score=epoch)
"""
    )
    for start in (0, 1):
        runner = server.runner()
        runner.connection.send(cell.order(start + 1, start=start))
        runner.connection.socket.settimeout(30)
        assert runner.until("left")[-1]["error"] is None
        runner.kill()
