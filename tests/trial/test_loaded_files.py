"""Loading a trained trial changes no file that was there: its set-up runs again, and writes copies."""

import sqlite3

import pytest
from trial.test_reopened import LOGS, REMOVED

from workbench.trial.export.loading import load

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
    "a log that is put aside": (
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
