"""The second run of a set-up changes no file that the first trial has made, or that was there before."""

import json

import pytest
import torch
from trial.world import points

#: Set-ups that write, steps that write on, and what is there in the end. The steps sleep, so that the second run of the
#: set-up, which nothing else shows, comes between them.
WRITES = {
    "a log": (
        "log = open(FILE, 'w'); print('step', file=log, flush=True)",
        "print(epoch, file=log, flush=True); time.sleep(.2)",
        "step\n0\n1\n2\n",
    ),
    "a log that goes on": (
        "log = open(FILE, 'a'); print('step', file=log, flush=True)",
        "print(epoch, file=log, flush=True); time.sleep(.2)",
        "before\nstep\n0\n1\n2\n",
    ),
    "an array": (
        "import numpy as np; log = np.memmap(FILE, dtype='S2', mode='w+', shape=(3,))",
        "log[epoch] = b'%d\\n' % epoch; log.flush(); time.sleep(.2)",
        "0\n1\n2\n",
    ),
    "a path": (
        "import pathlib; log = pathlib.Path(FILE); log.write_text('step\\n')",
        "log.write_text(log.read_text() + f'{epoch}\\n'); time.sleep(.2)",
        "step\n0\n1\n2\n",
    ),
    "a descriptor": (
        "log = os.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)",
        "os.write(log, b'%d\\n' % epoch); time.sleep(.2)",
        "0\n1\n2\n",
    ),
    "a logger": (
        "from logging import *; log = getLogger('own'); log.addHandler(FileHandler(FILE, 'w')); log.warning('step')",
        "log.warning(str(epoch)); time.sleep(.2)",
        "step\n0\n1\n2\n",
    ),
    "a file that is replaced": (
        "import pathlib; new = pathlib.Path(FILE + '.new'); new.write_text('[7'); new.replace(FILE)",
        "new.write_text(open(FILE).read() + f', {epoch}'); os.rename(new, FILE); time.sleep(.2)",
        "[7, 0, 1, 2",
    ),
    "a file that is made again": (
        "import json; json.dump([7], open(FILE, 'w')); log = json.load(open(FILE))",
        "log.append(epoch); json.dump(log, open(FILE, 'w')); time.sleep(.2)",
        "[7, 0, 1, 2]",
    ),
}
#: Set-ups whose second run is ended, with the reason.
ENDS = {
    "removed": "if os.path.exists(FILE): os.remove(FILE)\nopen(FILE, 'w').write('new\\n')",
    "put aside": "os.replace(FILE, FILE + '.old'); open(FILE, 'w').write('new\\n')",
    "a folder made anew": (
        "import shutil; folder = os.path.dirname(FILE); shutil.rmtree(folder); os.mkdir(folder)\n"
        "open(FILE, 'w').write('new\\n')"
    ),
    "a database": (
        "import sqlite3; db = sqlite3.connect(FILE + '.db'); db.execute('create table if not exists log (step)')\n"
        "open(FILE, 'w').write('new\\n')"
    ),
}


def source_of(file, set_up, step):
    return f"""
import os, time
FILE = {str(file)!r}
{set_up}
for epoch in trial.steps():
    {step}
    trial.report(score=epoch)
"""


def trained(server, cell):
    runner = server.runner()
    told = runner.leg(cell.order())
    runner.kill()
    assert told[-1]["outcome"] == "completed", told[-1]["error"]
    return told, runner.output()


def setup_of(cell):
    """What is known of the set-up."""
    return json.loads(cell.store.experiment(cell.spec.id).setup.read_text())


@pytest.mark.parametrize("where", ["beside the cell", "in the trial's folder"])
@pytest.mark.parametrize("name", WRITES)
def test_a_file_that_the_set_up_opens_is_the_first_trials_alone(server, experiment, tmp_path, name, where):
    set_up, step, expected = WRITES[name]
    place = tmp_path / "own"
    place.mkdir()
    file = place / "log.txt"
    source = source_of(file, set_up, step)
    if where == "in the trial's folder":
        source = source.replace(f"FILE = {str(file)!r}", "FILE = str(trial.folder / 'log.txt')")
    elif "before" in expected:
        file.write_text("before\n")
    cell = experiment(source, steps=3)
    told, output = trained(server, cell)
    if where == "in the trial's folder":
        (file,) = cell.store.root.rglob("log.txt")
        expected = expected.removeprefix("before\n")
    assert file.read_text() == expected
    assert [value for _, value in sorted(points(told).items())] == [0, 1, 2]
    assert setup_of(cell).get("failed", "") == "", output
    assert [one.name for one in file.parent.iterdir()] == ["log.txt"]


def test_weights_that_the_set_up_saves_are_the_first_trials_alone(server, experiment, tmp_path):
    file = tmp_path / "weights.pt"
    set_up = "import torch; torch.save([0], FILE); value = torch.load(FILE)"
    # The steps take long enough for the second run of the set-up to come between them.
    cell = experiment(source_of(file, set_up, "epoch or torch.save([7], FILE); time.sleep(.2)"), steps=3)
    trained(server, cell)
    assert torch.load(file) == [7]
    assert setup_of(cell).get("failed", "") == ""


#: Files that HDF5 opens in C: the set-up, what a step does, and what the file then holds.
HDF5 = {
    "HDF5": (
        "import h5py; file = h5py.File(FILE, 'w'); rows = file.create_dataset('rows', (3,), 'f4')",
        "rows[epoch] = epoch + 1; file.flush()",
        "file.close(); print('RESULT', h5py.File(FILE)['rows'][:].tolist())",
    ),
    "HDF5 that goes on": (
        "import h5py; file = h5py.File(FILE, 'a'); rows = file.require_dataset('rows', (3,), 'f4')",
        "rows[epoch] = epoch + 1; file.flush()",
        "file.close(); print('RESULT', h5py.File(FILE)['rows'][:].tolist())",
    ),
}


@pytest.mark.parametrize("name", HDF5)
def test_a_file_of_hdf5_is_the_first_trials_alone(server, experiment, tmp_path, name):
    set_up, step, end = HDF5[name]
    # The second run opens the file while the first still writes into it.
    cell = experiment(source_of(tmp_path / "rows", set_up, step + "; time.sleep(.5)") + end + "\n", steps=3)
    _, output = trained(server, cell)
    assert "RESULT [1.0, 2.0, 3.0]" in output
    assert setup_of(cell).get("failed", "") == "", output
    assert [one.name for one in tmp_path.glob("rows*")] == ["rows"]


@pytest.mark.parametrize("name", ENDS)
def test_what_would_change_a_file_otherwise_ends_the_second_run(server, experiment, tmp_path, name):
    place = tmp_path / "own"
    place.mkdir()
    file = place / "log.txt"
    file.write_text("old\n")
    cell = experiment(source_of(file, ENDS[name], "open(FILE, 'a').write(f'{epoch}\\n'); time.sleep(.2)"), steps=3)
    _, output = trained(server, cell)
    assert file.read_text() == "new\n0\n1\n2\n"
    assert setup_of(cell)["failed"].startswith(f"it changes {place}")
    assert "the set-up was not compared with a second run of it (it changes" in output


def test_new_files_of_the_second_run_are_nowhere_to_be_seen(server, experiment, tmp_path):
    set_up = (
        "name = FILE + str(os.getpid()); open(name, 'x').close(); os.remove(name); open(name, 'a').write('1')\n"
        "assert os.path.getsize(name) == 1; os.rename(name, name + '.b'); os.remove(name + '.b')\n"
        "assert not os.path.exists(name + '.b'); open(name, 'w').write('2'); value = int(open(name).read())"
    )
    cell = experiment(source_of(tmp_path / "own", set_up, "pass"), steps=2)
    trained(server, cell)
    assert setup_of(cell).get("failed", "") == ""
    (made,) = tmp_path.glob("own*")
    assert made.read_text() == "2"


def test_what_the_second_run_makes_itself_it_may_change(server, experiment, tmp_path):
    set_up = (
        "import tempfile, shutil; folder = tempfile.mkdtemp(); open(folder + '/a', 'w').write('1')\n"
        "os.replace(folder + '/a', folder + '/b'); value = int(open(folder + '/b').read()); shutil.rmtree(folder)\n"
        "with tempfile.NamedTemporaryFile('w+') as file: file.write('2'); file.flush()\n"
        "with tempfile.TemporaryDirectory() as other: open(other + '/c', 'w').close()"
    )
    cell = experiment(source_of(tmp_path / "none", set_up, "pass"), steps=2)
    trained(server, cell)
    assert setup_of(cell).get("failed", "") == ""
