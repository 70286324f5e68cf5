"""Hidden state is named in one line at ``%%train``, and where all is well there is no line."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import Kernel
from running import until

import workbench as wb
from workbench.experiment.executed import Log, Run
from workbench.lab.hidden import DELETED, EDITED, ORDER, Shown, hidden, words
from workbench.store import Store, documents

TRAIN = "%%train"


def found(runs: list[tuple[str, str]], cells: dict[str, str], *names: str, saved: float = 1e9, **failed: bool) -> dict:
    """What is hidden when ``runs`` (cell and text) were executed one a second and ``cells`` are there now."""
    log = Log()
    for number, (cell, source) in enumerate(runs, 1):
        log.add(Run(number, float(number), cell, source, not failed.get(f"r{number}")))
    used = {name: log.binders[name][-1] for name in names if log.binders.get(name)}
    return hidden(log, used, Shown({**cells}, saved), "t")


CALM = [("a", "import numpy as np"), ("b", "n = 3"), ("c", "X = np.ones(n)")]
NOW = {**dict(CALM), "t": TRAIN, "z": "after = 1"}


@pytest.mark.parametrize(
    "runs",
    [
        CALM,
        [*CALM, *CALM],  # all once more
        [*CALM, ("a", "import numpy as np")],  # an import again
        [*CALM, ("b", "n = 3")],  # the same again
        [*CALM, ("b", "n = 4"), ("b", "n = 3"), ("c", "X = np.ones(n)")],  # tried, and taken back
        [("z", "after = 1"), *CALM],
        [("b", "n = 2"), *CALM],  # edited and executed since
        [*CALM, ("t", TRAIN), ("z", "after = 1")],
    ],
)
def test_in_the_calm_case_nothing_is_said(runs):
    assert found(runs, NOW, "np", "n", "X") == {}


@pytest.mark.parametrize(
    ("runs", "cells", "names"),
    [
        (CALM, {"a": NOW["a"], "c": NOW["c"], "t": TRAIN}, {"n": DELETED}),
        (CALM, {**NOW, "b": "n = 4"}, {"n": EDITED}),
        ([*CALM, ("z", "n = 5")], {**NOW, "z": "n = 5"}, {"n": ORDER}),  # defined below the train cell
        ([*CALM, ("b", "n = 4")], {**NOW, "b": "n = 4"}, {"X": ORDER}),  # X was made of another n
        ([*CALM, ("d", "X = X + 1"), CALM[2]], {**dict(CALM), "d": "X = X + 1", "t": TRAIN}, {"X": ORDER}),
    ],
)
def test_what_the_notebook_would_not_make_again_is_named(runs, cells, names):
    assert found(runs, cells, "np", "n", "X") == names


def test_remarks_and_further_imports_are_no_edits_that_matter():
    assert (
        found(CALM, {**NOW, "b": "# how many\nn = 3  # three", "a": "import os\nimport numpy as np"}, "np", "n") == {}
    )


def test_what_is_not_known_is_not_said():
    gone = {"a": NOW["a"], "t": TRAIN}
    assert found(CALM, gone, "n", saved=1.5) == {}  # saved before the cell was executed
    assert found([("b", "n = 3"), ("b", "n = 4\n1 / 0")], NOW, "n", r2=True) == {}  # it failed somewhere
    assert found([(None, "n = 3")], gone, "n") == {}


def test_the_line_is_one_and_names_each():
    assert words({}) is None
    assert words({"X": EDITED, "net": DELETED, "n": EDITED}) == (
        "hidden state: net (its cell was deleted), X, n (edited since). A new kernel may make others of this notebook"
    )


# ---------------------------------------------------------------------------------------------------------------------
# In a kernel

CELL = """%%train {name} --goal max val_acc --steps 1-1
for epoch in trial.steps():
    trial.report(val_acc=n + X[0])
"""


def notebook(path: Path, cells: dict[str, str]) -> bytes:
    """Save a notebook of these cells."""
    made: list[dict[str, Any]] = [
        {"cell_type": "code", "id": key, "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for key, source in cells.items()
    ]
    content = json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    path.write_bytes(content)
    os.utime(path, (time.time() + 1, time.time() + 1))  # a clock of files may be coarse
    return content


def execute(kernel: Kernel, cell_id: str, source: str) -> str:
    """Execute a cell as a frontend does, which says its id; what it printed."""
    client = kernel.client
    content = {"code": source, "silent": False, "store_history": True, "allow_stdin": True, "user_expressions": {}}
    message = client.session.msg("execute_request", {**content, "stop_on_error": True}, metadata={"cellId": cell_id})
    client.shell_channel.send(message)
    printed = []
    while True:
        heard = client.get_iopub_msg(timeout=60)
        if heard["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        assert heard["msg_type"] != "error", heard["content"]
        printed.append(heard["content"].get("text", ""))
        if heard["content"].get("execution_state") == "idle":
            return "".join(printed)


def test_a_kernel_names_hidden_state_by_the_file_and_by_what_the_page_shows(tmp_path: Path) -> None:
    path = tmp_path / "here.ipynb"
    cells = {"one": "n = 1", "two": "X = [n]", "train": CELL.format(name="calm")}
    kernel = Kernel(tmp_path)
    store = Store(tmp_path / ".workbench").create()
    try:
        kernel.run(f"__vsc_ipynb_file__ = {str(path)!r}")
        for key in ("one", "two"):
            execute(kernel, key, cells[key])
        notebook(path, cells)
        assert "hidden" not in execute(kernel, "train", cells["train"])
        notebook(path, {**cells, "one": "n = 2"})
        told = execute(kernel, "train", CELL.format(name="edited"))
        assert "Note: hidden state: n (edited since). A new kernel" in told
        # What the page shows counts before what it saved.
        source = CELL.format(name="deleted")
        shown = notebook(tmp_path / "other.ipynb", {"two": cells["two"], "train": source})
        documents.keep(store, path, "train", hashlib.sha256(source.encode()).hexdigest(), True, shown)
        assert "Note: hidden state: n (its cell was deleted)." in execute(kernel, "train", source)
        until(lambda: wb.open("deleted", store=store).is_ended, what="the end")
    finally:
        kernel.end()
    snapshot = wb.open("calm", store=store).spec.snapshot
    recorded = json.loads((store.snapshot(snapshot) / "cells.json").read_text())["cells"]
    assert [cell["cell_id"] for cell in recorded][-3:] == ["one", "two", "train"]
