"""Each single change is found, named, and put where it belongs; what does not reach the training is told apart."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from compare.versions import CELLS, RESULTS, changed, items, kinds, other
from notebook_world import TRAIN, Notebook, put_results

import workbench as wb
from workbench.cli import main
from workbench.compare import compare
from workbench.compare.history import history
from workbench.errors import NotFound
from workbench.records import Searcher, Spec
from workbench.store import new_id
from workbench.store.series import Series


def test_the_same_again_differs_in_nothing(store, first):
    found = other(store, *CELLS)
    assert found["same"]
    assert kinds(found) == []
    assert found["title"] == "nothing that is recorded differs"
    assert [pair["parts_at"] for pair in found["results"]["pairs"]] == [None, None]


def test_a_trial_is_the_same_as_itself(store, first):
    found = compare(store, "digits@1/t0001", "digits/t0001")
    assert (found["same"], found["title"]) == (True, "identical")


def test_an_array_that_grew_is_data_and_tells_its_rows(store, first):
    found = other(store, *changed(CELLS, cell0=CELLS[0].replace("30.0", "36.0").replace("10,", "12,")))
    assert kinds(found) == ["data"]
    assert found["title"] == "X 10 → 12 rows"
    assert "2 rows more" in items(found, "data")["X"]["note"]


def test_a_file_that_grew_is_data_and_tells_rows_and_bytes(store, first):
    train = TRAIN + "open('samples.csv').read()\n"
    Path("samples.csv").write_text("a,b\n1,2\n")
    put_results(store, Notebook(store, Path()).run(*CELLS).launch(train), RESULTS)
    Path("samples.csv").write_text("a,b\n1,2\n3,4\n")
    spec = Notebook(store, Path()).run(*CELLS).launch(train)
    found = compare(store, "digits@2", spec.label)
    assert kinds(found) == ["data"]
    assert found["title"] == "samples.csv 2 → 3 rows"
    assert items(found, "data")["samples.csv"]["note"] == "1 row more, 4 bytes more"


def test_a_file_of_the_same_size_with_other_content_is_data(store, first):
    train = TRAIN + "open('samples.bin', 'rb').read()\n"
    Path("samples.bin").write_bytes(b"12")
    Notebook(store, Path()).run(*CELLS).launch(train)
    Path("samples.bin").write_bytes(b"21")
    Notebook(store, Path()).run(*CELLS).launch(train)
    found = compare(store, "digits@2", "digits@3")
    assert items(found, "data")["samples.bin"]["note"] == "as large as before, other content"


@pytest.mark.parametrize("named", ["notes.csv", "notes/"])
def test_a_file_that_is_named_and_that_neither_side_read_is_shown_and_is_no_cause(store, first, named):
    train = TRAIN + f"title = {named!r}\n"
    path = Path(named) if named.endswith(".csv") else Path(named, "one.csv")
    path.parent.mkdir(exist_ok=True)
    file = {"size": 8, "digest": "aa", "changed": 1.0}
    for text in ("a,b\n1,2\n", "a,b\n1,2\n3,4\n"):
        path.write_text(text)
        spec = Notebook(store, Path()).run(*CELLS).launch(train)
        put_results(store, spec, RESULTS, seen={"files": {"/d/train.csv": file}})
    found = compare(store, "digits@2", "digits@3")
    assert kinds(found) == ["data"]
    assert (found["same"], found["title"]) == (True, "nothing that is recorded differs")
    assert found["sections"][0]["summary"] == "1 file changed that neither was seen to read"
    assert items(found, "data")[named.rstrip("/")]["note"].endswith("neither was seen to read it")
    # One of them read it, or it is not known what else one of them read.
    for seen in ({"files": {str(path.absolute()): file}}, {"files": {}, "programs": ["sort"]}, None):
        put_results(store, spec, RESULTS, **({} if seen is None else {"seen": seen}))
        found = compare(store, "digits@2", "digits@3")
        assert not found["same"]
        assert named.rstrip("/") in found["title"]


def test_what_trial_data_named_is_data(store, first):
    spec = dataclasses.replace(first, id=new_id(), version=2)
    store.write_spec(spec)
    put_results(store, first, {5: ({}, [0.1])}, data={"/d/x.bin": {"size": 4, "digest": "aa", "changed": 1.0}})
    put_results(store, spec, {5: ({}, [0.1])}, data={"/d/x.bin": {"size": 8, "digest": "bb", "changed": 2.0}})
    found = compare(store, "digits@1/t0005", f"{spec.id}/t0005")
    assert kinds(found) == ["data"]
    assert items(found, "data")["/d/x.bin"]["note"] == "4 bytes more"


def test_a_deleted_or_edited_cell_behind_data_and_values_is_named(store, first):
    """By the texts that were executed: what the cells do in place counts, and what the names are made of."""
    cells = ["rows = 10", "X = np.arange(3.0 * rows).reshape(-1, 3)", "X /= 255", "batch = 2 * rows", CELLS[2]]
    cells.insert(0, "import numpy as np")
    put_results(store, Notebook(store, Path()).run(*cells).launch(), RESULTS)

    def told(*cells: str) -> tuple[dict, dict]:
        spec = Notebook(store, Path()).run(*cells).launch()
        put_results(store, spec, RESULTS)
        found = compare(store, "digits@2", spec.label)
        return found, {**items(found, "data"), **(items(found, "configuration") if "batch" in found["title"] else {})}

    found, notes = told(*(cell for cell in cells if cell != "X /= 255"))
    assert found["title"] == "X changed (the cell X /= 255 was deleted, or not executed)"
    assert notes["X"]["note"] == (
        "as large as before, other content, from the notebook, the cell X /= 255 was deleted, or not executed"
    )
    _, notes = told(*(cell.replace("rows = 10", "rows = 12") for cell in cells))
    assert notes["X"]["note"].endswith("from the notebook, the cell rows = 12 was edited")
    assert notes["batch"]["note"] == "a value of the notebook, the cell rows = 12 was edited"
    _, notes = told(*cells[:3], "X = X * 2", *cells[3:])
    assert notes["X"]["note"].endswith("the cell X = X * 2 is new")
    # Executed before the first one and not after it again, in one kernel.
    found, notes = told(*cells, cells[2])
    assert found["title"] == "X changed (the cell X /= 255 was not executed again)"


def test_the_notebooks_file_tells_a_deleted_cell_from_one_that_was_not_executed(store, first):
    def launched(shown: list[tuple[str, str]], *cells: str) -> Spec:
        listed = [
            {"cell_type": "code", "id": key, "metadata": {}, "outputs": [], "execution_count": None, "source": text}
            for key, text in shown
        ]
        Path("here.ipynb").write_text(json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        spec = Notebook(store, Path()).run(*cells).launch(notebook="here.ipynb")
        put_results(store, spec, RESULTS)
        return spec

    cells = [("one", CELLS[0]), ("two", "X /= 255"), ("three", CELLS[1]), ("four", CELLS[2])]
    texts = [text for _, text in cells]
    launched(cells, *texts)
    left = [text for text in texts if text != "X /= 255"]
    launched(cells, *left)
    launched([cell for cell in cells if cell[0] != "two"], *left)
    assert compare(store, "digits@2", "digits@3")["title"] == "X changed (the cell X /= 255 was not executed)"
    assert compare(store, "digits@2", "digits@4")["title"] == "X changed (the cell X /= 255 was deleted)"


def test_a_cell_of_code_that_went_or_came_is_no_change(store, first):
    train = TRAIN.replace("score(X, lr)", "X.sum()")
    found = other(store, *CELLS[:2], train=train)
    assert found["title"] == "batch removed · 1 cell changed · 1 cell removed"


def test_a_value_of_another_cell_is_configuration(store, first):
    found = other(store, *changed(CELLS, cell1="batch = 64"))
    assert kinds(found) == ["configuration"]
    assert found["title"] == "batch 32 → 64"


def test_a_range_is_configuration_and_no_code(store, first):
    found = other(store, *CELLS, train=TRAIN.replace("1.0)", "0.5)"))
    assert kinds(found) == ["configuration"]
    assert items(found, "configuration")["lr"]["b"] == "loguniform(0.0001, 0.5)"


def test_hyperparameters_of_two_trials_are_configuration(store, first):
    found = compare(store, "digits@1/t0000", "digits@1/t0001")
    assert kinds(found) == ["configuration", "seeds"]
    assert found["title"] == "lr 0.1 → 0.2 · other trial, other seeds"
    assert found["results"]["metrics"] == [{"name": "val_acc", "a": 0.3, "b": 0.4, "parts_at": 2}]
    at_the_first = compare(store, "digits@1/t0000:1", "digits@1/t0001:1")
    assert at_the_first["results"]["metrics"] == [{"name": "val_acc", "a": 0.1, "b": 0.1, "parts_at": None}]


def test_a_flag_passed_by_hand_is_an_argument_and_a_setting(store, first):
    found = other(store, *CELLS, line="--steps 1-27 --wait", steps=(1, 27))
    assert kinds(found) == ["arguments", "settings"]
    assert items(found, "arguments").keys() == {"--steps"}
    assert found["title"] == "steps 1-9 → 1-27"


def test_a_package_of_another_version_is_a_library(store, first, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    for version in ("1.0", "2.0"):
        place = tmp_path / "site-packages"
        for old in place.glob("*.dist-info") if place.exists() else ():
            old.rmdir()
        (place / f"augment-{version}.dist-info").mkdir(parents=True)
        put_results(store, Notebook(store, Path()).run(*CELLS).launch(), RESULTS)
    found = compare(store, "digits@2", "digits@3")
    assert kinds(found) == ["libraries"]
    assert found["title"] == "augment 1.0 → 2.0"
    gone = compare(store, "digits@1", "digits@3")
    assert gone["title"] == "augment 2.0 added"


def test_packages_that_came_or_went_and_were_not_imported_are_last_and_not_in_the_title(store, first):
    """By the names that training imported, if both sides tell them."""

    def launched(imported: list[str] | None, **distributions: str) -> Spec:
        spec = Notebook(store, Path()).run(*CELLS, f"print({str(distributions)!r})").launch()
        put_results(store, spec, RESULTS)
        environment = store.snapshot(spec.snapshot) / "environment.json"
        recorded = json.loads(environment.read_text())
        environment.write_text(json.dumps({**recorded, "distributions": distributions}))
        with Series.open(store.experiment(spec.id).series) as series:
            if imported is not None:
                series.put_meta("used", {"complete": True, "packages": imported})
        return spec

    launched(["numpy", "sklearn"], numpy="1.0", black="1.0")
    two = launched(["numpy", "sklearn"], numpy="1.0", isort="2.0", **{"scikit-learn": "1.5"})
    launched(["numpy"], numpy="1.0", isort="2.0", mypy="3.0", **{"scikit-learn": "1.5"})
    found = compare(store, "digits@2", two.label)
    assert found["title"] == "scikit-learn 1.5 added"
    assert [*items(found, "libraries")] == ["scikit-learn", "black", "isort"]
    assert items(found, "libraries")["isort"]["note"] == "neither side's training imported a package of this name"
    alone = compare(store, "digits@3", "digits@4")
    assert alone["title"] == "1 package came or went that training did not import by name"
    assert not alone["same"]
    launched(None, numpy="1.0", isort="2.0", **{"scikit-learn": "1.5"})
    assert compare(store, "digits@4", "digits@5")["title"] == "mypy 3.0 removed"


def test_what_the_runner_had_counts_more_than_what_the_notebook_had(store, first):
    put_results(store, first, {3: ({}, [0.1])}, environment={"torch": "9.9", "threads": 4, "device": "cpu"})
    put_results(store, first, {4: ({}, [0.1])}, environment={"torch": "9.8", "threads": 2, "device": "cpu"})
    found = compare(store, "digits@1/t0003", "digits@1/t0004")
    assert kinds(found) == ["libraries", "seeds", "hardware"]
    assert items(found, "libraries")["torch"]["a"] == "9.9"
    assert items(found, "hardware")["threads"] == {"name": "threads", "a": 4, "b": 2, "note": ""}


def test_another_seed_is_seeds(store, first):
    found = other(store, *CELLS, seed=7)
    assert kinds(found) == ["seeds"]
    assert found["title"] == "seed 0 → 7"


def test_a_value_that_was_given_was_not_drawn(store, first):
    drew = {0: ({"lr": 0.7}, [0.1, 0.2, 0.3])}
    given = {"scheduler": "all", "trials": 3, "first": {"lr": 0.7}}
    spec = Notebook(store, Path()).run(*CELLS).launch(line="--steps 1-9 --seed 7", seed=7, **given)
    put_results(store, spec, drew)
    found = compare(store, "digits@1/t0000", "digits@2/t0000")
    assert items(found, "configuration")["lr"]["note"] == ""
    assert items(compare(store, "digits@1", "digits@2"), "settings")["searcher"]["b"] == 'random, first {"lr": 0.7}'


def test_a_changed_search_seed_comes_before_the_configuration_that_it_drew(store, first):
    drew = {0: ({"lr": 0.7}, [0.1, 0.2, 0.3])}
    spec = Notebook(store, Path()).run(*CELLS).launch(line="--steps 1-9 --seed 7", seed=7)
    put_results(store, spec, drew)
    found = compare(store, "digits@1/t0000", "digits@2/t0000")
    assert kinds(found) == ["seeds", "configuration", "arguments"]
    assert found["title"] == "seed 0 → 7 · lr 0.1 → 0.7"
    assert items(found, "configuration")["lr"]["note"] == "drawn by the search, which has another seed"
    # A value that a person edited does not come from the seed. The data are listed first, as always.
    cells = changed(CELLS, cell0=CELLS[0].replace("30.0", "36.0").replace("10,", "12,"), cell1="batch = 64")
    spec = Notebook(store, Path()).run(*cells).launch(seed=7)
    put_results(store, spec, RESULTS)
    found = compare(store, "digits@1/t0000", "digits@3/t0000")
    assert kinds(found) == ["data", "configuration", "seeds"]
    assert items(found, "configuration")["batch"]["note"] == "a value of the notebook, the cell batch = 64 was edited"
    put_results(store, spec, drew)
    assert kinds(compare(store, "digits@1/t0000", "digits@3/t0000")) == ["data", "seeds", "configuration"]
    # A grid is gone through in its order, whatever the seed.
    for seed, train in ((0, TRAIN), (7, TRAIN)):
        grid = Notebook(store, Path()).run(*CELLS).launch(
            train.replace("loguniform(1e-4, 1.0)", "choice(0.1, 0.7)"), name="grid", seed=seed,
            searcher=Searcher("grid"), scheduler="all",
        )  # fmt: skip
        put_results(store, grid, {0: ({"lr": 0.1}, [0.3]), 1: ({"lr": 0.7}, [0.4])})
    assert kinds(compare(store, "grid@1/t0000", "grid@2/t0001")) == ["configuration", "seeds"]


def test_a_dropout_layer_is_architecture(store, first):
    def made(tree: list, parameters: int) -> dict:
        module = {"name": "model", "class": "Sequential", "parameters": parameters, "trainable": 1, "tree": tree}
        groups = [{"lr": 0.1, "parameters": parameters}]
        return {"modules": [module], "optimizers": [{"name": "opt", "class": "SGD", "groups": groups}]}

    linear = ["0", "Linear(in_features=64, out_features=10, bias=True)"]
    put_results(store, first, {3: ({}, [0.1])}, architecture=made([linear], 1_200_000))
    put_results(store, first, {4: ({}, [0.1])}, architecture=made([linear, ["1", "Dropout(p=0.5)"]], 1_300_000))
    found = compare(store, "digits@1/t0003", "digits@1/t0004")
    assert kinds(found) == ["architecture", "seeds"]
    assert found["sections"][0]["summary"] == "Dropout added · 1.2 M → 1.3 M parameters"


def test_experiments_are_compared_by_trials_of_equal_configuration(store, first):
    results = {0: ({"lr": 0.2}, [0.1, 0.25, 0.5]), 1: ({"lr": 0.3}, [0.9]), 2: ({"lr": 0.1}, [0.1, 0.2, 0.3])}
    found = other(store, *CELLS, results=results)
    assert [(pair["a"], pair["b"], pair["parts_at"]) for pair in found["results"]["pairs"]] == [(0, 2, None), (1, 0, 3)]
    assert found["results"]["metrics"] == [{"name": "val_acc", "a": 0.4, "b": 0.9, "parts_at": 3}]
    assert found["title"] == "nothing that is recorded differs, but they differ from step 3"


def test_likelier_causes_come_first(store, first):
    cells = changed(CELLS, cell0=CELLS[0].replace("30.0", "36.0").replace("10,", "12,"), cell1="batch = 64")
    train = TRAIN.replace("float(score(X, lr))", "2 * float(score(X, lr))")
    found = other(store, *cells, train=train, line="--steps 1-9 --seed 3", seed=3)
    assert kinds(found) == ["data", "configuration", "arguments", "code", "seeds"]
    assert found["title"] == "X 10 → 12 rows · batch 32 → 64 · 1 cell changed · seed 0 → 3"


def test_a_snapshot_that_is_gone_is_said_and_the_rest_compared(store, first):
    import shutil

    found = other(store, *CELLS, seed=7)
    assert not found["partial"]
    shutil.rmtree(store.snapshot(first.snapshot))
    found = compare(store, "digits@1", "digits@2")
    assert found["partial"] == ["the snapshot of digits@1 was cleaned up"]
    assert "seeds" in kinds(found)


def test_a_secret_among_the_captured_values_is_masked(store, first):
    train = TRAIN + "use(api_key)\n"
    for key in ("sk-1234567890abcdef", "sk-abcdef1234567890"):
        Notebook(store, Path()).run(*CELLS, f"api_key = {key!r}", "def use(key): ...").launch(train)
    found = compare(store, "digits@2", "digits@3")
    assert items(found, "configuration")["api_key"]["a"] == "***"
    assert "sk-" not in json.dumps(found)


def test_what_is_not_there_is_refused_by_name(store, first):
    with pytest.raises(NotFound, match="Did you mean digits"):
        compare(store, "digits", "digitz")


def test_history_tells_what_each_version_changed_and_gained(store, first):
    other(store, *changed(CELLS, cell1="batch = 64"), results={0: ({"lr": 0.1}, [0.5])})
    one, two = history(store, "digits")
    assert (one["changed"], one["gained"]) == (None, None)
    assert two["changed"] == "batch 32 → 64"
    assert two["gained"] == pytest.approx(0.1)


def test_diff_and_history_on_the_command_line(store, first, capsys):
    other(store, *changed(CELLS, cell1="batch = 64"))
    capsys.readouterr()
    assert main(["--store", str(store.root), "diff", "digits@1", "digits@2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("digits@1 → digits@2: batch 32 → 64\n")
    assert main(["--store", str(store.root), "diff", "digits@1", "digits@2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "batch 32 → 64"
    assert main(["--store", str(store.root), "history", "digits"]) == 0
    assert "batch 32 → 64" in capsys.readouterr().out


def test_a_comparison_in_a_notebook_is_escaped(store, first):
    other(store, *changed(CELLS, cell2=CELLS[2] + "  # <b>x</b>\n    # 2", cell1="batch = 64"))
    found = wb.compare("digits@1", "digits@2", store=store)
    assert found.title == found.to_dict()["title"] == "batch 32 → 64"
    assert not found.same
    assert "batch" in repr(found)
    assert "<b>x" not in found._repr_html_()
