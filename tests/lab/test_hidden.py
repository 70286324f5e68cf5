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
from workbench.lab.hidden import CHANGED, DELETED, EDITED, MADE_OF, ORDER, TWICE, Shown, hidden, words
from workbench.snapshot.reading.facts import facts_of
from workbench.store import Store
from workbench.store.lists import documents

TRAIN = "%%train"


def found(
    runs: list[tuple[str, str]], cells: dict[str, str] | None, *names: str, saved: float = 1e9, **failed: bool
) -> dict:
    """What is hidden when ``runs`` (cell and text) were executed one a second and ``cells`` are there now."""
    log = Log()
    for number, (cell, source) in enumerate(runs, 1):
        log.add(Run(number, float(number), cell, source, not failed.get(f"r{number}")))
    used = {name: log.binders[name][-1] for name in names if log.binders.get(name)}
    return hidden(log, used, None if cells is None else Shown({**cells}, saved), "t")


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


COUNT = [("a", "n = 3"), ("b", "n = n + 1"), ("c", "X = [n]")]


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([*COUNT[:2], COUNT[1]], {"n": TWICE}),
        ([*COUNT[:2], COUNT[1], COUNT[2]], {"n": TWICE}),  # X was made of it: n is the one to look at
        ([*COUNT, COUNT[1]], {"n": TWICE}),  # X was made before
        ([COUNT[0], ("b", "n = n + 2"), ("b", "n = n + 1")], {"n": TWICE}),  # edited between
        ([("a", "n = [1]"), ("b", "n.append(2)"), ("b", "n.append(2)")], {"n": TWICE}),
        ([("a", "n = 8"), ("b", "n /= 2"), ("x", "print(n)"), ("b", "n /= 2")], {"n": TWICE}),
        ([("a", "n = [1, 2]"), ("b", "n[0] += 1"), ("b", "n[0] += 1")], {"n": TWICE}),
        ([("a", "n = [1, 2]"), ("b", "n[0] = n[0] * 2"), ("b", "n[0] = n[0] * 2")], {"n": TWICE}),
        ([("a", "n = [1, 2]"), ("b", "n = n[1:]"), ("b", "n = n[1:]")], {"n": TWICE}),
        ([("a", "n = f()"), ("b", "n = normalized(n)"), ("b", "n = normalized(n)")], {"n": TWICE}),
        ([("a", "n, k = 1, 2"), ("b", "n, k = k, n + k"), ("b", "n, k = k, n + k")], {"n": TWICE}),
        ([("a", "rng = np.random.default_rng(0)"), ("b", "X = rng.normal(size=3)"), ("b", "X = rng.normal(size=3)")],
         {"X": TWICE}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_saved", [True, False])
def test_a_cell_that_goes_on_from_its_own_result_counts_once(runs, names, is_saved):
    """The second execution is known even if the notebook was not saved."""
    cells = dict(runs) if is_saved else None
    assert found(runs, cells, "n", "X") == names


def test_what_a_name_is_made_of_counts_for_it_where_the_train_cell_does_not_use_that():
    runs = [*COUNT[:2], COUNT[1], COUNT[2]]
    assert found(runs, dict(runs), "X") == {"X": TWICE}


@pytest.mark.parametrize(
    "runs",
    [
        COUNT,
        [*COUNT, *COUNT],  # all once more
        [*COUNT[:2], *COUNT],
        [COUNT[1], *COUNT],  # n is defined again between the two runs of b
        [("a", "n = 3"), ("b", "n = n + 1"), ("b", "n = n + 1"), ("a", "n = 3"), ("b", "n = n + 1")],
        [("a", "n = [3]"), ("b", "m = n + [1]"), ("b", "m = n + [1]"), ("c", "X = [m]")],
        [("a", "n = X = f()"), *[("b", "n = n.astype(float)")] * 2],
        [("a", "n = X = f()"), *[("b", "n = n[:100]")] * 2],
        [("a", "n = X = f()"), *[("b", "n = n[n.y > 0]")] * 2],
        [("a", "n = X = f()"), *[("b", "n = np.asarray(n).reshape(-1, 3)")] * 2],
        [("a", "n = X = f()"), *[("b", "n['a'] = n['b'] / 2")] * 2],
        [("a", "n = X = f()"), *[("b", "n.sort(); n.eval(); n[0] = 5")] * 2],
        [("a", "n = X = f()"), *[("b", "print(n.mean()); n.head()")] * 2],
        [("a", "n = X = f()"), *[("b", "k = 0\nk += 1\nfor i in n: k += i")] * 2],
        [("a", "n = X = f()"), *[("b", "n = n or 5")] * 2],
    ],
)
def test_what_comes_out_the_same_each_time_is_no_hidden_state(runs):
    assert found(runs, dict(runs), "n", "X") == {}


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([("a", "X = f()"), ("gone", "X /= 255")], {"X": DELETED}),  # the last that gives it
        ([("a", "X = f()"), ("gone", "X[0] = 5")], {"X": CHANGED}),
        ([("a", "X = f()"), ("gone", "X.append(5)")], {"X": CHANGED}),
        ([("a", "X = f()"), ("gone", "X.drop(columns='a', inplace=True)")], {"X": CHANGED}),
        ([("a", "X = f()"), ("gone", "del X[3]")], {"X": CHANGED}),
        ([("a", "X = f()"), ("b", "def half(x, y=1): x /= 2"), ("gone", "half(X)")], {"X": CHANGED}),
        ([("a", "X = net()"), ("gone", "X.load_state_dict(old)")], {"X": CHANGED}),
        ([("gone", "k = 3"), ("a", "X = [k]")], {"X": MADE_OF}),
        ([("gone", "import numpy as np"), ("a", "X = np.ones(3)")], {"X": MADE_OF}),
        ([("b", "k = [3]"), ("gone", "k.append(4)"), ("a", "X = [k]")], {"X": MADE_OF}),
        ([("gone", "def f(): return 3"), ("a", "X = f()")], {"X": MADE_OF}),
    ],
)
def test_a_deleted_cell_that_changed_something_is_named(runs, names):
    cells = {cell: source for cell, source in runs if cell != "gone"}
    assert found(runs, {**cells, "t": TRAIN}, "X") == names


@pytest.mark.parametrize(
    "gone",
    [
        "X.head()",
        "print(X)",
        "X.plot()",
        "X(3)",
        "look(X)",
        "k = X.mean()",
        "other = 3",
        "f(X)",
        "X = g()",
        "import os",
        "X[0]",
    ],
)
def test_a_deleted_cell_that_only_looked_on_is_not(gone):
    runs = [
        ("a", "X = f()"),
        ("b", "def look(x): return x.mean()"),
        ("gone", gone),
        *([("a", "X = f()")] if gone == "X = g()" else []),
    ]
    assert found(runs, {"a": "X = f()", "b": runs[1][1], "t": TRAIN}, "X") == {}
    # Cut and pasted it stands there still, and so does what another cell imports as well.
    runs = [("gone", "import numpy as np"), ("moved", "k = 3"), ("a", "X = k * np.ones(3)")]
    assert found(runs, {"new": "k = 3", "a": runs[2][1], "b": "import numpy as np", "t": TRAIN}, "X", "k") == {}


def test_a_long_history_costs_little():
    runs = [(f"c{number}", f"v{number} = v{max(number - 1, 0)} + 1\nfig.show()") for number in range(1000)]
    runs += [("n", "n = n + 1")] * 2
    cells = {cell: source for cell, source in runs if not cell.endswith("00")}  # some were deleted
    for run in runs:
        facts_of(run[1])  # found out when the cell had ended
    begun = time.perf_counter()
    assert found(runs, cells, "n", "v9") == {"n": TWICE}
    assert time.perf_counter() - begun < 2  # 0.1 s where nothing else runs


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
        "hidden state: net (its cell was deleted), X, n (edited since). A new kernel may give other results"
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
        for _ in range(2):
            execute(kernel, "more", "n = n + 1")
        notebook(path, {"one": cells["one"], "two": cells["two"], "more": "n = n + 1", "train": cells["train"]})
        told = execute(kernel, "train", CELL.format(name="twice"))
        assert "n (a cell that builds on its own result was executed more than once)" in told
        until(lambda: wb.open("twice", store=store).is_ended, what="the end")
    finally:
        kernel.end()
    snapshot = wb.open("calm", store=store).spec.snapshot
    recorded = json.loads((store.snapshot(snapshot) / "cells.json").read_text())["cells"]
    assert [cell["cell_id"] for cell in recorded][-3:] == ["one", "two", "train"]
