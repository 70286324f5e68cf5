"""Programs as people write them: little is changed, they run without Workbench, and killed ones end the same."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs.plain import Plain
from programs.searched import CODE, PROGRAMS, changed, is_cell, path, program, read
from trial.conftest import experiment  # noqa: F401 - a fixture
from trial.world import Experiment, Process, Server, points, said

from workbench.errors import BadCell
from workbench.records import Training
from workbench.snapshot.reading.script import read_script

#: Imported before a runner or a plain run is forked: most of a small program's time is its imports.
PRELOAD = ("torch", "numpy", "sklearn.datasets", "sklearn.metrics", "sklearn.model_selection", "sklearn.preprocessing")
TABLE = Path(__file__).parents[2] / "docs" / "programs.md"


# ---------------------------------------------------------------------------------------------------------------------
# The table in the docs


def rows() -> dict[str, list[str]]:
    """The docs' table: the cells of each program's row."""
    found = {}
    for line in TABLE.read_text().splitlines():
        if row := re.match(r"\| \[`(.+?)`\]\((.+?)\) \|(.*)\|$", line):
            assert (TABLE.parent / row[2]).exists()
            found[row[1]] = [cell.strip() for cell in row[3].split(" | ")]
    return found


def test_the_docs_have_each_program():
    assert sorted(rows()) == sorted(PROGRAMS)
    assert {folder.name for folder in CODE.iterdir()} == {name.partition("/")[0] for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_docs_count_the_changed_lines(name):
    lines, _, resumes = rows()[name]
    assert int(lines) == changed(name)
    assert resumes.split()[0].strip(",:;.") == PROGRAMS[name].resumes


# ---------------------------------------------------------------------------------------------------------------------
# Without Workbench


@pytest.fixture(scope="module")
def plain() -> Iterator[Plain]:
    running = Plain((*PRELOAD, "torch._dynamo"))  # optimizers import it
    yield running
    running.close()


FILES = [
    pytest.param(name, file, id=f"{name}-{file}")
    for name, one in PROGRAMS.items()
    for file in dict.fromkeys(("before.py", one.file))
    if not (file != "before.py" and is_cell(name))
]


@pytest.mark.parametrize(("name", "file"), FILES)
def test_it_runs_without_workbench(plain, tmp_path, name, file):
    words = ["train"] if name == "click_main" else []
    assert plain(path(name).parent / file, words, tmp_path) == 0
    shown = (tmp_path / "shown.txt").read_text()
    assert file == "before.py" or ("step 2: " in shown and "step 3: " not in shown)


# ---------------------------------------------------------------------------------------------------------------------
# Killed and resumed


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Server]]:
    running = [Server(PRELOAD), Server(PRELOAD)]
    yield running
    for server in running:
        server.close()


def files(*folders: Path) -> dict[str, bytes]:
    """All files that the code has written, and take them away."""
    found = {}
    for folder in folders:
        found |= {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
        shutil.rmtree(folder, ignore_errors=True)
    folders[0].mkdir()
    return found


def heard(runner: Process, step: int) -> list[dict[str, Any]]:
    """What it says until it has reported ``step``, or left."""
    told = []
    while (message := runner.connection.receive()) is not None:
        told.append(message)
        if message["op"] == "left" or any(row[1] >= step for row in message.get("rows", ())):
            break
    return told


def killed(runner: Process) -> list[dict[str, Any]]:
    """What it had said before ``kill -9``."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(runner.pid, signal.SIGKILL)
    runner.exited()
    return runner.until("left")


def disturbed(servers: list[Server], cell: Experiment, last: int, seconds: float, **order: Any) -> list[dict[str, Any]]:
    """What a trial says that is trained to a level and then to the end, with a kill on the way to each.

    Each leg is another forkserver's. The first kill comes at a random time, maybe in the set-up; the second soon after
    a random step. last: the last step. seconds: how long the trial takes undisturbed.
    """
    chance = random.Random(f"{cell.spec.goal} {last}")
    level = chance.randint(1, last - 2)
    told: list[dict[str, Any]] = []
    for leg, until in enumerate((level, level, None, None)):
        runner = servers[leg % 2].runner()
        given = cell.order(until, start=0 if leg < 2 else level, levels=(level,), resume=leg > 0, **order)
        runner.connection.send(given)
        if leg == 0:
            time.sleep(chance.uniform(0, seconds))
            told += killed(runner)
        elif leg == 2:
            told += heard(runner, chance.randint(level + 1, last - 1))
            time.sleep(chance.uniform(0, 0.02))
            told += killed(runner)
        else:
            told += runner.until("left")
            assert told[-1]["op"] == "left"
            assert told[-1]["error"] is None, told[-1]["error"]["traceback"]
            runner.kill()
    assert told[-1]["outcome"] == "completed"
    return told


@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_at_random_it_ends_like_an_undisturbed_one(servers, experiment, tmp_path, name):  # noqa: F811
    one, code = PROGRAMS[name], program(read(name))
    folder = tmp_path / "project"
    folder.mkdir()

    def new() -> Experiment:
        training = Training(sys.executable, str(folder))
        return experiment(code.source, steps=one.steps, goal=one.goal, program=code, training=training, save_s=0.004)

    given: dict[str, Any] = {"configuration": dict(one.configuration)}
    cell, runner, began = new(), servers[0].runner(), time.monotonic()
    calm = runner.leg(cell.order(**given))
    assert calm[-1]["outcome"] == "completed", (calm[-1]["error"] or {}).get("traceback")
    seconds = time.monotonic() - began
    runner.kill()
    expected, written = points(calm), files(folder, cell.paths().files)

    cell = new()
    last = max(step for _, step, _ in expected)
    told = disturbed(servers, cell, last, seconds, **given)
    begun = said(told, "begun")
    assert any(message["step"] > 0 for message in begun) == (one.resumes != "again")
    assert {item["name"] for message in begun for item in message["found"].get("inexact", ())} == one.lost
    if one.resumes == "inexact":
        assert points(told) != expected
        return
    # Each step that was trained again, too.
    assert [
        row for message in said(told, "points") for row in message["rows"] if expected[tuple(row[:3])] != row[3]
    ] == []
    assert points(told).keys() == expected.keys()
    again = files(folder, cell.paths().files)
    steady = {file for file in written if not file.startswith(one.appends or "-")}
    assert steady
    assert {file for file in again if not file.startswith(one.appends or "-")} == steady
    assert [file for file in steady if written[file] != again[file]] == []


def test_epochs_inside_a_loop_over_folds_are_refused_with_what_to_write():
    refused = r"stands inside the loop of line 14.*one loop over trial.steps\(\) in a trial"
    with pytest.raises(BadCell, match=refused):
        read_script(CODE / "kfold_epochs" / "refused.py")
