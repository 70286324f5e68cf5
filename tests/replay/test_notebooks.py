"""Notebooks executed with parameters: on slots of a real engine, by their own processes, and by papermill."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
from replay.notebooks import command, done, printed, write
from running import alive, engine, spec_of, until

import workbench as wb
from workbench.errors import NotebookFailed
from workbench.store import Store, new_id
from workbench.store.files import packed
from workbench.store.keeping.usage import trials_of
from workbench.store.lists import notebooks
from workbench.store.owner.lease import read_engine

#: What a cell writes that says that it was executed, once more each time.
TRACE = "with open('trace.txt', 'a') as file: print(lr, file=file)"
TRAIN = """%%train tiny --goal max score --steps 1-2 --scheduler all --trials 2 --seed $seed
x = uniform(0.0, 1.0)
for step in trial.steps():
    trial.report(score=x * step)"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with a living engine of two slots."""
    found = Store(tmp_path_factory.mktemp("notebooks") / "store")
    with engine(found, workers=2):
        yield found


@pytest.fixture
def replayed(store, tmp_path):
    """Type ``workbench replay …`` in this test's folder; what it said."""

    def type_(*words: str, code: int = 0):
        found = done(command("--store", str(store.root), "replay", *words, folder=tmp_path))
        assert found.returncode == code, found
        return found

    return type_


def of(store: Store, folder: Path) -> list[notebooks.NotebookRun]:
    return [run for run in notebooks.runs(store) if Path(run.path).parent == folder]


def test_a_grid_is_a_batch_on_slots_and_goes_on_at_the_failed_notebook(store, replayed, tmp_path):
    """Without a mistake in the notebook: the data for one of three is missing at first."""
    for lr in (0.1, 0.2):
        (tmp_path / f"{lr}.txt").write_text("there")
    read = "print(lr, open(f'{lr}.txt').read())"
    write(tmp_path / "a.ipynb", TRACE, read, parameters="lr = 0.5")
    first = replayed("a.ipynb", "--grid", "lr=0.1,0.2,0.3", code=1)
    assert "3 notebooks to execute, each on a slot." in first.stdout
    assert "lr=0.3: failed in code cell 3: FileNotFoundError" in first.stdout
    assert "2 of 3 notebooks completed. The same command continues with the others." in first.stdout
    (tmp_path / "0.3.txt").write_text("now")
    again = replayed("a.ipynb", "--grid", "lr=0.1,0.2,0.3")
    assert "1 notebook to execute, each on a slot; 2 executed before." in again.stdout
    assert again.stdout.count(": before: completed") == 2
    assert sorted((tmp_path / "trace.txt").read_text().split()) == ["0.1", "0.2", "0.3", "0.3"]
    runs = {run.parameters["lr"]: run for run in of(store, tmp_path)}
    assert {lr: run.state for lr, run in runs.items()} == {0.1: "completed", 0.2: "completed", 0.3: "completed"}
    for lr, run in runs.items():
        assert printed(notebooks.executed(store, run.id)).startswith(f"{lr} ")
        assert store.read_spec(run.experiment).notebook == str(tmp_path / "a.ipynb")
    listed = done(command("--store", str(store.root), "ls", "--notebooks", "lr=0.3", folder=tmp_path)).stdout
    assert [line.split()[:3] for line in listed.splitlines()[1:]] == [
        ["a.ipynb", "lr=0.3", "completed"],
        ["a.ipynb", "lr=0.3", "failed"],
    ]
    write(tmp_path / "a.ipynb", TRACE, read + "\n# changed", parameters="lr = 0.5")
    table = tmp_path / "runs.csv"
    table.write_text("lr\n0.1\n")
    changed = json.loads(replayed("a.ipynb", "--table", "runs.csv", "--json").stdout)
    assert [(one["before"], one["state"]) for one in changed["runs"]] == [(False, "completed")]


def test_an_interrupted_command_leaves_its_batch_and_the_next_one_waits_for_it(store, replayed, tmp_path):
    wait = "import os, time\nwhile not os.path.exists('gate'): time.sleep(0.05)"
    write(tmp_path / "a.ipynb", TRACE, wait, parameters="lr = 0.5")
    words = ("--store", str(store.root), "replay", "a.ipynb", "--grid", "lr=1,2")
    process = command(*words, folder=tmp_path)
    until(lambda: (tmp_path / "trace.txt").exists() and len(of(store, tmp_path)) == 2)
    assert {run.state for run in of(store, tmp_path)} == {"running"}
    process.send_signal(signal.SIGINT)
    assert done(process).returncode == 130
    second = command(*words, folder=tmp_path)
    (tmp_path / "gate").touch()
    assert done(second).stdout.splitlines()[-1] == "2 of 2 notebooks completed."
    assert sorted((tmp_path / "trace.txt").read_text().split()) == ["1", "2"]


def test_train_cells_of_a_batch_wait_for_their_results_and_hold_no_slot(store, replayed, tmp_path):
    """Three notebooks that train, on two slots: none waits for a slot that another notebook holds."""
    show = "import workbench as wb\nprint(wb.last().state, wb.last().best.value > 0)"
    write(tmp_path / "a.ipynb", "%load_ext workbench", TRAIN, show, parameters="seed = 0", language=None)
    said = replayed("a.ipynb", "--grid", "seed=1,2,3", "--parallel", "3")
    assert "3 notebooks to execute, their train cells ask for slots." in said.stdout
    runs = of(store, tmp_path)
    assert [printed(notebooks.executed(store, run.id)).splitlines()[-1] for run in runs] == ["completed True"] * 3
    trained = {store.read_spec(one).seed: run.parameters["seed"] for run in runs for one in run.trained}
    assert trained == {1: 1, 2: 2, 3: 3}


def test_its_kernel_listens_at_files_that_only_this_user_can_open(store, replayed, tmp_path):
    look = """import os
from ipykernel.connect import get_connection_info
told = get_connection_info(unpack=True)
place = os.path.dirname(told["ip"])
print(told["transport"], oct(os.stat(place).st_mode & 0o777), place)"""
    write(tmp_path / "a.ipynb", look)
    replayed("a.ipynb")
    (run,) = of(store, tmp_path)
    *told, place = printed(notebooks.executed(store, run.id)).split()
    assert told == ["ipc", "0o700"]
    assert not Path(place).exists(), "they are removed at the end"


def test_one_that_is_killed_is_interrupted_and_is_executed_again(store, replayed, tmp_path):
    write(tmp_path / "a.ipynb", TRACE, "import os, signal\nif lr > 1: os.kill(os.getppid(), signal.SIGKILL)",
          parameters="lr = 0.5")  # fmt: skip
    killed = replayed("a.ipynb", "-p", "lr", "2", code=1)
    assert "lr=2: interrupted" in killed.stdout
    assert [run.state for run in of(store, tmp_path)] == ["interrupted"]
    replayed("a.ipynb", "-p", "lr", "2", code=1)
    assert (tmp_path / "trace.txt").read_text().split() == ["2", "2"]


def test_a_kernel_that_dies_is_said_in_one_line(store, replayed, tmp_path):
    write(tmp_path / "a.ipynb", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    found = replayed("a.ipynb", code=1)
    assert "as it is: failed: DeadKernelError: Kernel died (" in found.stdout
    assert "The kernel died while it executed a cell" in found.stderr
    assert "Traceback" not in found.stderr


def test_stopping_a_batch_ends_its_kernels(store, tmp_path):
    wait = "import os, time\nopen(f'{lr}.pid', 'w').write(str(os.getpid()))\nwhile True: time.sleep(0.05)"
    write(tmp_path / "a.ipynb", wait, parameters="lr = 0.5")
    process = command("--store", str(store.root), "replay", "a.ipynb", "--grid", "lr=1,2", folder=tmp_path)
    kernels = [tmp_path / "1.pid", tmp_path / "2.pid"]
    until(lambda: all(file.exists() and file.read_text() for file in kernels))
    [batch] = {run.experiment for run in of(store, tmp_path)}
    wb.open(batch, store=store).stop()
    found = done(process)
    assert found.returncode == 1, found
    assert "lr=1: not executed: a@" in found.stdout
    until(lambda: not alive([int(file.read_text()) for file in kernels]))
    until(lambda: {run.state for run in of(store, tmp_path)} == {"interrupted"})


def test_one_that_is_stopped_has_its_own_reason_beside_one_that_failed(store, tmp_path):
    # The second notebook trains until it is stopped.
    cell = "import time\nif lr == 1: raise ValueError('bad')\nopen('begun', 'w').close()\nwhile True: time.sleep(0.05)"
    write(tmp_path / "a.ipynb", cell, parameters="lr = 0.5")
    process = command("--store", str(store.root), "replay", "a.ipynb", "--grid", "lr=1,2", folder=tmp_path)
    until((tmp_path / "begun").exists)
    until(lambda: "failed" in {run.state for run in of(store, tmp_path)})
    [batch] = {run.experiment for run in of(store, tmp_path)}
    wb.open(batch, store=store)["t0001"].stop()
    found = done(process)
    assert found.returncode == 1, found
    assert "lr=1: failed in code cell 2: ValueError: bad" in found.stdout
    [line] = [line for line in found.stdout.splitlines() if line.startswith("lr=2: ")]
    assert line.startswith("lr=2: not executed: a@")
    assert "/t0001 was stopped (" in line


def test_papermill_finds_the_engine_by_its_entry_point_and_its_notebooks_are_kept(store, replayed, tmp_path):
    info = tmp_path / "site" / "workbench_engine-0.dist-info"
    info.mkdir(parents=True)
    project = Path(__file__).parents[2] / "pyproject.toml"
    import tomllib

    [(name, place)] = tomllib.loads(project.read_text())["project"]["entry-points"]["papermill.engine"].items()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: workbench-engine\nVersion: 0\n")
    (info / "entry_points.txt").write_text(f"[papermill.engine]\n{name} = {place}\n")
    write(tmp_path / "in.ipynb", TRACE, "print(lr)",
          parameters="lr = 0.5\ntoken = ''")  # fmt: skip
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    words = ("--engine", "workbench", "in.ipynb", "out.ipynb", "-p", "lr", "0.01", "-p", "token", "hunter2-hunter2")
    found = done(command(*words, module="papermill", folder=tmp_path, PYTHONPATH=path, WORKBENCH_HOME=str(store.root)))
    assert found.returncode == 0, found
    assert printed(tmp_path / "out.ipynb") == "0.01\n"
    [run] = of(store, tmp_path)
    assert (run.state, run.asked, run.output) == ("completed", "papermill", str(tmp_path / "out.ipynb"))
    assert run.parameters == {"lr": 0.01, "token": "***"}
    kept = notebooks.folder_of(store, run.id)
    assert printed(kept / "notebook.ipynb") == "0.01\n"
    assert "hunter2" in (tmp_path / "out.ipynb").read_text()  # its owner asked for that file
    assert not [file for file in kept.iterdir() if "hunter2" in file.read_text()]
    said = replayed("in.ipynb", "-p", "lr", "0.01", "-p", "token", "hunter2-hunter2")
    assert "before: completed" in said.stdout
    assert (tmp_path / "trace.txt").read_text().split() == ["0.01"]


@pytest.mark.parametrize("values", [("hunter2-hunter2",), ("hunter2-hunter2", "hunter2-hunter3")])
def test_what_is_said_of_a_notebook_that_failed_holds_no_secret(store, replayed, tmp_path, values):
    fails = "API_KEY: str = 'hunter2-source'\nprint('password=hunter2SECRET1')\nraise ValueError(f'401 for {token}, x')"
    write(tmp_path / "a.ipynb", fails, parameters="token = ''")
    found = replayed("a.ipynb", "--grid", f"token={','.join(values)}", code=1)
    assert "ValueError: 401 for ***, x" in found.stdout
    assert "hunter2" not in found.stdout + found.stderr
    runs = of(store, tmp_path)
    assert [run.error for run in runs] == ["ValueError: 401 for ***, x"] * len(values)
    kept = [file.read_text() for run in runs for file in notebooks.folder_of(store, run.id).iterdir()]
    begun = [store.experiment(run.experiment) for run in runs if run.experiment]
    logs = [packed.read(one.trial(number).log) for one in begun for number in trials_of(one)]
    kept += [log.decode() for log in logs if log is not None]
    assert len(kept) > len(values)
    assert [text for text in kept if "hunter2" in text] == []


def test_options_of_trials_and_of_notebooks_are_told_apart(store, replayed, tmp_path):
    write(tmp_path / "a.ipynb", "1")
    assert "--tolerance applies to a trial" in replayed("a.ipynb", "--tolerance", "0.1", code=2).stderr
    assert "--grid needs a notebook" in replayed("digits@1/t0000", "--grid", "lr=1", code=2).stderr
    assert "there is no notebook b.ipynb" in replayed("b.ipynb", code=3).stderr


# ---------------------------------------------------------------------------------------------------------------------
# Killed


#: Says when it begins and ends; the second one under way waits for a file.
MARKS = """import os, time
def mark(word):
    with open('trace.txt', 'a') as file: print(lr, word, os.getpid(), file=file)
mark('begin')
while lr > 1 and not os.path.exists('gate'): time.sleep(0.02)
mark('end')"""


@pytest.fixture
def lonely(tmp_path):
    """A store whose engine this test may kill; a command starts the next one."""
    found = Store(tmp_path / "store")
    yield found
    done(command("--store", str(found.root), "engine", "stop", folder=tmp_path))


def marks(folder: Path) -> list[list[str]]:
    path = folder / "trace.txt"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def begun(folder: Path, lr: str) -> list[int]:
    """The process IDs of the kernels that started to execute the notebook with this parameter."""
    return [int(pid) for one, word, pid in marks(folder) if (one, word) == (lr, "begin")]


def test_a_batch_whose_command_and_engine_are_killed_executes_each_notebook_once(lonely, tmp_path):
    write(tmp_path / "a.ipynb", MARKS, parameters="lr = 0.5")
    words = ("--store", str(lonely.root), "replay", "a.ipynb", "--grid", "lr=1,2,3")
    first = command(*words, folder=tmp_path)
    until(lambda: any(run.state == "completed" for run in notebooks.runs(lonely)) and begun(tmp_path, "2"))
    info = read_engine(lonely)
    assert info is not None
    kernels = {pid for *_, pid in marks(tmp_path)}
    first.kill()
    os.kill(info.pid, signal.SIGKILL)
    done(first)
    second = command(*words, folder=tmp_path)
    until(lambda: any(pid not in kernels for *_, pid in marks(tmp_path)), what="the next one begins")
    (tmp_path / "gate").touch()
    said = done(second)
    assert said.stdout.splitlines()[-1] == "3 of 3 notebooks completed.", said
    assert "lr=1: before: completed" in said.stdout
    assert len(begun(tmp_path, "1")) == 1
    completed = [run.parameters["lr"] for run in notebooks.runs(lonely) if run.state == "completed"]
    assert sorted(completed) == [1, 2, 3]  # each once
    assert [word for one, word, _ in marks(tmp_path)].count("end") == 3
    assert len(lonely.experiment_ids()) == 1  # the batch continued; it did not start again
    assert "3 executed before" in done(command(*words, folder=tmp_path)).stdout


def test_train_cells_of_a_killed_batch_are_executed_once_and_train_nothing_twice(lonely, tmp_path):
    write(tmp_path / "a.ipynb", "%load_ext workbench", TRAIN, MARKS.replace("lr", "seed"), parameters="seed = 0",
          language=None)  # fmt: skip
    words = ("--store", str(lonely.root), "replay", "a.ipynb", "--grid", "seed=1,2")
    first = command(*words, folder=tmp_path)
    until(lambda: any(run.state == "completed" for run in notebooks.runs(lonely)) and begun(tmp_path, "2"))
    info = read_engine(lonely)
    assert info is not None
    first.kill()
    os.kill(info.pid, signal.SIGKILL)
    done(first)
    second = command(*words, folder=tmp_path)
    until(lambda: len(begun(tmp_path, "2")) == 2, what="it is executed once more")
    assert not alive(begun(tmp_path, "2")[:1])  # not beside the first one
    (tmp_path / "gate").touch()
    assert done(second).stdout.splitlines()[-1] == "2 of 2 notebooks completed."
    assert (len(begun(tmp_path, "1")), len(begun(tmp_path, "2"))) == (1, 2)
    assert len(lonely.experiment_ids()) == 2  # the train cell reattached


def test_an_execution_whose_end_the_engine_did_not_hear_is_not_repeated(store, tmp_path):
    """What the runner does when the engine was killed between the notebook's end and the trial's."""
    from workbench.replay.executing import execute, packed
    from workbench.replay.notebook import SourceNotebook

    source = SourceNotebook(write(tmp_path / "a.ipynb", TRACE, "if lr > 1: 1 / 0", parameters="lr = 0.5"))
    tasks = [dataclasses.asdict(task) for task in source.tasks([{"lr": 1}, {"lr": 2}])]
    sha = packed(store, source.path, source.text, tasks)
    spec = spec_of("for step in trial.steps(): pass", tmp_path)
    store.write_spec(spec)
    seconds = execute(str(store.root), sha, "lr=1", spec.id, 0)
    assert execute(str(store.root), sha, "lr=1", spec.id, 0) == seconds
    for _ in range(2):
        with pytest.raises(NotebookFailed, match="ZeroDivisionError"):
            execute(str(store.root), sha, "lr=2", spec.id, 1)
    assert (tmp_path / "trace.txt").read_text().split() == ["1", "2"]
    again = packed(store, source.path, source.text, tasks, again=True)
    later = dataclasses.replace(spec, id=new_id(), created=datetime.now(UTC).isoformat(timespec="milliseconds"))
    store.write_spec(later)
    execute(str(store.root), again, "lr=1", later.id, 0)
    assert (tmp_path / "trace.txt").read_text().split() == ["1", "2", "1"]


def test_two_commands_at_once_execute_a_notebook_once(store, tmp_path):
    write(tmp_path / "a.ipynb", MARKS, parameters="lr = 0.5")
    words = ("--store", str(store.root), "replay", "a.ipynb", "-p", "lr", "2")
    first = command(*words, folder=tmp_path)
    until(lambda: begun(tmp_path, "2"))
    second = command(*words, folder=tmp_path)
    third = command(*words, "--again", folder=tmp_path)
    (tmp_path / "gate").touch()
    assert done(first).returncode == 0
    assert done(second).returncode == 0
    assert done(third).returncode == 0
    assert len(begun(tmp_path, "2")) == 2  # once, and once again
    assert not {run.key for run in of(store, tmp_path)} & {*os.listdir(store.notebooks / "locks")}
