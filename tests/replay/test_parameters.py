"""Parameters of notebooks as people type them; notebooks that do not take them are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from replay.notebooks import write

from workbench.errors import BadInput, BadOption, NotFound
from workbench.replay.notebook import SourceNotebook
from workbench.replay.parameters import rows, value
from workbench.store import Store


@pytest.mark.parametrize(
    ("text", "read"),
    [("3", 3), ("0.01", 0.01), ("1e-3", 1e-3), ("True", True), ("None", None), ("adam", "adam"), ("true", "true")],
)
def test_a_value_is_read_as_papermill_reads_it(text, read):
    from papermill.cli import _resolve_type

    assert value(text) == read
    assert (value(text), type(value(text))) == (_resolve_type(text), type(_resolve_type(text)))


def test_a_grid_is_every_combination_and_single_values_go_with_all():
    found = rows([("seed", "7")], ["lr=0.1,1", "name=a,b"])
    assert found == [{"seed": 7, "lr": lr, "name": name} for lr in (0.1, 1) for name in ("a", "b")]
    assert rows() == [{}]


def test_a_table_has_a_row_for_each_notebook_and_an_empty_field_is_the_default(tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text("\ufefflr,name\n0.1,'a b'\n\n,\"c,d\"\n", encoding="utf-8")
    assert rows([("seed", "1")], (), table) == [{"seed": 1, "lr": 0.1, "name": "'a b'"}, {"seed": 1, "name": "c,d"}]
    table = tmp_path / "runs.jsonl"
    table.write_text('{"lr": 0.1, "layers": [3, 4]}\n{}\n')
    assert rows((), (), table) == [{"lr": 0.1, "layers": [3, 4]}, {}]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "lr,epochs\n0.1,2\n0.2\n", "line 3: 1 fields were given, expected 2"),
        ("a.csv", "lr,learning rate\n", "line 1: 'learning rate' cannot name a parameter"),
        ("a.csv", "lr,lr\n", "line 1: 'lr' cannot name"),
        ("a.csv", 'lr\n"0.1\n', "line 2: unexpected end of data"),
        ("a.csv", "lr\n", "has no row of parameters"),
        ("a.csv", b"lr\n\n\xff\xfe\n", "line 3: it is not valid UTF-8"),
        ("a.jsonl", '{"lr": 1}\n{"lr": \n', "line 2: it is not valid JSON"),
        ("a.jsonl", "[1]\n", "line 1: expected an object"),
        ("a.txt", "lr\n1\n", "expected a table that ends in .csv or .jsonl"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, name, text, said):
    table = tmp_path / name
    table.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadOption, match=said):
        rows((), (), table)


@pytest.mark.parametrize(
    ("single", "grid", "said"),
    [
        ([("lr", "1"), ("lr", "2")], [], "-p lr was given twice"),
        ([("lr", "1")], ["lr=1,2"], "lr was given with -p and with --grid"),
        ([], ["lr=1", "lr=2"], "--grid lr was given twice"),
        ([], ["lr"], "expected NAME=VALUE,VALUE"),
        ([], ["lr=1,,2"], "expected NAME=VALUE,VALUE"),
        ([], [f"{name}={','.join('0' * 101)}" for name in "abc"], "makes 1,030,301 notebooks"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(single, grid, said):
    with pytest.raises(BadOption, match=said):
        rows(single, grid)


def test_a_parameter_that_the_notebook_does_not_take_is_refused(tmp_path):
    source = SourceNotebook(write(tmp_path / "a.ipynb", "x = 1", parameters="lr: float = 0.1\nepochs = 3"))
    assert source.check(["lr", "epochs"]) == []
    with pytest.raises(BadOption, match=r"has no parameter momentum; .* assigns lr \(0.1\), epochs \(3\)"):
        source.check(["momentum"])
    with pytest.raises(BadOption, match="expected a name of Python"):
        source.check(["learning rate"])


def test_a_notebook_without_the_tag_is_said_and_refused_where_a_value_would_be_lost(tmp_path):
    source = SourceNotebook(write(tmp_path / "a.ipynb", "import math", "lr = 0.1\n%matplotlib inline"))
    assert "no cell tagged 'parameters'" in source.check(["epochs"])[0]
    assert source.check([]) == []
    with pytest.raises(
        BadOption, match=r"code cell 2 assigns lr: the value that you gave would be overwritten. Tag that cell"
    ):
        source.check(["lr"])


def test_what_is_no_notebook_or_lacks_its_kernel_is_refused(tmp_path):
    with pytest.raises(NotFound, match="there is no notebook"):
        SourceNotebook(tmp_path / "a.ipynb")
    (tmp_path / "b.ipynb").write_text("{}")
    (tmp_path / "c.ipynb").write_text("no JSON")
    for name in ("b.ipynb", "c.ipynb"):
        with pytest.raises(BadInput, match="is not a notebook of Jupyter"):
            SourceNotebook(tmp_path / name)
    with pytest.raises(NotFound, match=r"needs the kernel julia-1\.9, which is not installed"):
        SourceNotebook(write(tmp_path / "d.ipynb", "1", kernel="julia-1.9")).check([])


def test_the_key_is_of_cells_folder_and_parameters(tmp_path):
    first = SourceNotebook(write(tmp_path / "a.ipynb", "1", parameters="lr = 1"))
    assert first.key({"lr": 2}) == SourceNotebook(first.path).key({"lr": 2})
    other = [SourceNotebook(write(tmp_path / "b.ipynb", "2", parameters="lr = 1"))]
    (tmp_path / "c").mkdir()
    other.append(SourceNotebook(write(tmp_path / "c" / "a.ipynb", "1", parameters="lr = 1")))
    keys = {first.key({"lr": 2}), first.key({"lr": 2.5}), first.key({}), *(one.key({"lr": 2}) for one in other)}
    assert len(keys) == 5


def test_equal_rows_are_one_notebook_and_secrets_are_no_words(tmp_path):
    source = SourceNotebook(write(tmp_path / "a.ipynb", "1", parameters="lr = 1\napi_key = ''"))
    tasks = source.tasks([{"lr": 1}, {"lr": 1}, {"api_key": "one-secret"}, {"api_key": "another-secret"}])
    assert [task.label for task in tasks] == ["lr=1", "api_key=***", "api_key=*** (3)"]


@pytest.mark.parametrize(
    ("text", "trains"),
    [
        ("%%train digits --goal max acc --steps 1-3\nlr = 1", True),
        ("\n%%train", True),
        ("exp = wb.Experiment('a', train, goal=goal)", True),
        ("# wb.Experiment('a')", False),
        ("print('%%trainer')", False),
    ],
)
def test_a_notebook_with_train_cells_is_known_by_them(tmp_path, text, trains):
    assert SourceNotebook(write(tmp_path / "a.ipynb", text)).trains is trains


def test_nothing_is_written_where_something_is_refused(tmp_path):
    from workbench.experiment.batch import Batch

    store = Store(tmp_path / "store")
    path = Path(write(tmp_path / "a.ipynb", "1", parameters="lr = 1"))
    with pytest.raises(BadOption):
        Batch(store, path, [{"lr": 1}, {"momentum": 2}])
    assert not store.root.exists()
