"""Changes of code are found, with the lines, and told apart from values and from what gives the training nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from compare.versions import CELLS, RESULTS, changed, items, kinds, other
from notebook_world import TRAIN, Notebook, put_results

from workbench.compare import compare


def test_a_line_of_the_train_cell_is_code(store, first):
    found = other(store, *CELLS, train=TRAIN.replace("float(score(X, lr))", "2 * float(score(X, lr))"))
    assert kinds(found) == ["code"]
    assert found["title"] == "1 cell changed"
    cells = {cell["id"]: cell for cell in found["sections"][0]["cells"]}
    assert cells["the-train-cell"]["state"] == "changed"
    assert ["+", "    trial.report(val_acc=2 * float(score(X, lr)))"] in cells["the-train-cell"]["diff"]
    assert [cell["state"] for name, cell in cells.items() if name != "the-train-cell"] == ["same"] * 4


def test_a_comment_in_the_train_cell_is_no_difference(store, first):
    assert other(store, *CELLS, train=TRAIN + "# only words\n")["same"]


def test_a_function_of_another_cell_is_code(store, first):
    found = other(store, *changed(CELLS, cell2=CELLS[2].replace("lr *", "2 * lr *")))
    assert kinds(found) == ["code"]
    assert "cell of score" in items(found, "code")


FACTORY = (
    "def factory(n):\n    return lambda x: n * x",
    "n = 5",
    "X = [float(i) for i in range(n)]\nf = factory(n)",
    "print('only looked at')",
)
MAPPED = TRAIN.replace("float(score(X, lr))", "sum(map(f, X))")


def test_a_function_that_holds_a_changed_value_is_code_beside_the_value(store, first):
    """The value has no name in the training: it is in the closure of one name, and made another one."""
    put_results(store, Notebook(store, Path()).run(*FACTORY).launch(MAPPED), RESULTS)
    cells = changed(FACTORY, cell1="n = 6", cell3="print('looked at twice')")
    put_results(store, Notebook(store, Path()).run(*cells).launch(MAPPED), RESULTS)
    found = compare(store, "digits@2", "digits@3")
    assert kinds(found) == ["configuration", "code"]
    assert items(found, "code")["f"] == {
        "name": "f", "a": "as before", "b": "changed",
        "note": "it, or what it uses, is different, the cell n = 6 was edited",
    }  # fmt: skip
    assert found["title"].endswith(" · f changed")
    assert items(found, "code")["other cells"]["note"] == "1 cell changed that do not affect training"


def test_a_function_of_a_file_that_was_run_is_code_beside_its_values(store, first):
    def launched(rows: int, factor: int) -> None:
        book = Notebook(store, Path())
        text = f"X = [0.5] * {rows}\ndef f(x):\n    return {factor} * x"
        Path("helpers.py").write_text(text)
        exec(compile(text, str(Path("helpers.py").absolute()), "exec"), book.names)
        book.cells.append({"source": "%run helpers.py"})
        put_results(store, book.launch(MAPPED), RESULTS)

    launched(4, 2)
    launched(5, 3)
    found = compare(store, "digits@2", "digits@3")
    assert kinds(found) == ["configuration", "code"]
    assert items(found, "code")["f"]["note"] == "it, or what it uses, is different"


def test_a_function_that_only_follows_from_what_is_listed_is_no_code_of_its_own(store, first):
    """Its fingerprint covers all that it looks up; here a value, by way of another function, and a default."""
    cells = ("batch = 32", "size = 1", "def inner(x):\n    return batch * x", "def f(x):\n    return inner(x)")
    train = MAPPED.replace("X)", "[1.0])")
    put_results(store, Notebook(store, Path()).run(*cells).launch(train), RESULTS)
    put_results(store, Notebook(store, Path()).run("batch = 64", *cells[1:]).launch(train), RESULTS)
    assert kinds(compare(store, "digits@2", "digits@3")) == ["configuration"]
    default = cells[3].replace("x)", "x, k=size)", 1)
    for one in (1, 2):
        book = Notebook(store, Path()).run(f"batch = {one}", f"size = {one}", cells[2], default)
        put_results(store, book.launch(train), RESULTS)
    found = compare(store, "digits@4", "digits@5")
    assert kinds(found) == ["configuration", "code"]
    assert [*items(found, "code")] == ["f"]


def test_a_cell_that_changes_data_by_a_call_affects_training(store, first):
    cells = ("def scale(rows, by):\n    rows[:] = [by * one for one in rows]", "X = [1.0, 2.0]", "scale(X, 2)")
    train = TRAIN.replace("float(score(X, lr))", "sum(X)")
    put_results(store, Notebook(store, Path()).run(*cells).launch(train), RESULTS)
    put_results(store, Notebook(store, Path()).run(*cells[:2], "scale(X, 3)").launch(train), RESULTS)
    found = compare(store, "digits@2", "digits@3")
    assert "the cell scale(X, 3) was edited" in json.dumps(found)
    assert "do not affect training" not in json.dumps(found)


def test_a_cell_that_gives_the_training_nothing_is_shown_and_is_no_cause(store, first):
    found = other(store, *changed(CELLS, cell3="print('looked at twice')"), "spare = 1")
    assert kinds(found) == ["code"]
    assert found["same"]
    assert found["sections"][0]["summary"] == "2 cells changed that do not affect training"
    assert [cell["state"] for cell in found["sections"][0]["cells"]] == [*["same"] * 3, "changed", "added", "same"]


def test_a_cell_that_moved_is_told_as_moved(store, first):
    found = other(store, CELLS[3], *CELLS[:3])
    assert found["same"]
    assert found["sections"][0]["summary"] == "1 cell moved"
    assert [cell["state"] for cell in found["sections"][0]["cells"]] == ["moved", *["same"] * 4]


def test_a_module_of_the_project_is_code_with_its_lines(store, first, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "scoring_for_compare.py"
    cells = [*CELLS, "import scoring_for_compare"]
    train = TRAIN.replace("score(X, lr)", "scoring_for_compare.score(X)")
    module.write_text("def score(X):\n    return X.sum()\n")
    Notebook(store, tmp_path).run(*cells).launch(train)
    module.write_text("def score(X):\n    return 2 * X.sum()\n")
    monkeypatch.delitem(sys.modules, "scoring_for_compare")
    Notebook(store, tmp_path).run(*cells).launch(train)
    found = compare(store, "digits@2", "digits@3")
    assert kinds(found) == ["code"]
    assert found["title"] == "scoring_for_compare changed"
    module_cell = found["sections"][0]["cells"][-1]
    assert ["+", "    return 2 * X.sum()"] in module_cell["diff"]


@pytest.mark.timeout(60)
def test_modules_of_a_snapshot_that_lead_elsewhere_are_not_read(store, first, tmp_path):
    (tmp_path / "mine.py").write_text("password = 'of the person who looks'\n")
    launched = [Notebook(store, tmp_path).run(*CELLS, f"print({number})").launch() for number in range(2)]
    for number, one in enumerate(launched):
        snapshot = store.snapshot(one.snapshot)
        frozen = json.loads((snapshot / "snapshot.json").read_text())
        names = (f"{tmp_path}/mine", "linked.mine", "pipe")
        frozen["modules"] = [{"name": name, "path": "", "digest": str(number)} for name in names]
        tops = [name.partition(".")[0] for name in names]
        frozen["project"], frozen["capture"] = (
            dict.fromkeys(tops, ""),
            {"names": {}, "modules": dict.fromkeys(tops, "")},
        )
        (snapshot / "snapshot.json").write_text(json.dumps(frozen))
        (snapshot / "code").mkdir(exist_ok=True)
        (snapshot / "code" / "linked").symlink_to(tmp_path)
        os.mkfifo(snapshot / "code" / "pipe.py")
    found = compare(store, "digits@2", "digits@3")
    assert {cell["id"] for cell in found["sections"][0]["cells"]} >= {"linked.mine", "pipe"}
    assert "of the person" not in json.dumps(found)
