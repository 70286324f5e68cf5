"""``--first`` and ``--configurations`` from a cell or a function to a spec, before anything trains."""

from __future__ import annotations

import dataclasses
import json

import pytest
import shells
from notebook_world import Notebook

import workbench as wb
from workbench.errors import BadOption
from workbench.experiment.versions import changes
from workbench.launch import fingerprint
from workbench.records import Goal, Searcher, Spec
from workbench.search import Search
from workbench.search.plan import given_of
from workbench.settled import settled
from workbench.snapshot.reading.cell import read_cell
from workbench.store import Store

CELL = """%%train {line}
lr = loguniform(1e-4, 1.0)
hidden = choice(32, 64)
for epoch in trial.steps():
    trial.report(val_acc=1 - lr)
"""
TRAIN = CELL.partition("\n")[2]


@pytest.fixture(scope="module")
def shell():
    with shells.shell() as found:
        yield found


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORKBENCH_HOME", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    return tmp_path


@pytest.fixture
def notebook(tmp_path):
    return Notebook(Store(tmp_path / "store"), tmp_path)


def train(trial, lr=wb.loguniform(1e-4, 1), hidden=wb.choice(32, 64), batch=8):  # noqa: B008 - as users write it
    for _epoch in trial.steps():
        trial.report(val_acc=lr)


def made(tmp_path, **fields):
    given = {"goal": wb.maximize("val_acc"), "scheduler": wb.Hyperband(max_steps=9), "store": tmp_path / "s", **fields}
    return wb.Experiment("quick", train, **given)


def run(shell, line):
    shell.run_cell(CELL.format(line=f"digits --goal max val_acc --steps 1-9 {line}"), store_history=True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            """--first '{"lr": 0.1}' --plan""",
            "starts first (t0014), in bracket 0; the searcher proposes hidden where not",
        ),
        ("--first $known --plan", "2 configurations are given and start first (t0014, t0015), in bracket 0\n"),
        ("--first {known[0]} --plan", "1 configuration is given and starts first (t0014), in bracket 0\n"),
        ("--configurations known.csv --plan", "all configurations are given\n"),
        ("--configurations known.csv --plan", "2 trials"),
    ],
)
def test_a_plan_says_how_many_are_given(shell, nowhere, capsys, line, says):
    shell.user_ns["known"] = [{"lr": 0.1, "hidden": 32}, {"lr": 0.2, "hidden": 64}]
    (nowhere / "known.csv").write_text("lr,hidden\n0.1,32\n0.2,64\n")
    run(shell, line)
    assert says in capsys.readouterr().out
    assert not (nowhere / ".workbench").exists()


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("""--first '{"lr": 2}'""", ["--first: lr is 2; expected a value of loguniform(0.0001, 1.0)"]),
        ("""--first '{"hiden": 32}'""", ["hiden is not a hyperparameter", "Did you mean hidden?"]),
        ("""--first '{"lr": 0.1}' --configurations '{"lr": 0.1}'""", ["--first and --configurations were given"]),
        ("""--configurations '{"lr": 0.1}' --trials 3""", ["--trials 3 was given with --configurations", "gives 1"]),
        ("--configurations '[]'", ["--configurations is empty"]),
        ("""--first '[{"lr": 0.1}, {"lr": 0.2}]' --trials 1""", ["2 configurations are given", "has 1", "--trials 2"]),
        ("--first none.csv", ["there is no table none.csv"]),
    ],
)
def test_bad_ones_are_refused_before_anything_starts(shell, nowhere, capsys, line, parts):
    run(shell, line)
    out = capsys.readouterr().out
    for part in parts:
        assert part in out
    assert not (nowhere / ".workbench").exists()


def test_a_try_trains_the_trial_that_starts_first(shell, nowhere, capsys):
    run(shell, """--first '{"lr": 0.125, "hidden": 64}' --try""")
    assert "Trying 2 steps here with lr=0.125  hidden=64." in capsys.readouterr().out


def test_the_spec_holds_them_and_the_search_that_it_describes_has_them(notebook):
    spec = notebook.launch(TRAIN, first=[{"lr": 1, "hidden": 64}, {"hidden": 32}])
    assert spec.searcher == Searcher(given=({"lr": 1.0, "hidden": 64}, {"hidden": 32}))
    read = notebook.store.read_spec(spec.id)
    assert read == spec
    search = Search.of(read)
    assert search.configuration(14) == {"lr": 1.0, "hidden": 64}
    assert search.configuration(15)["hidden"] == 32
    assert [given_of(read, number) for number in (0, 14, 15)] == [{}, *spec.searcher.given]


def test_a_spec_from_before_has_none(notebook):
    spec = notebook.launch(TRAIN)
    data = json.loads(json.dumps(spec.to_json()))
    assert Spec.from_json(data) == spec
    data["searcher"] = {"kind": "random"}
    assert Spec.from_json(data) == spec


def test_they_are_content_however_they_are_written(notebook, tmp_path):
    (tmp_path / "a.csv").write_text("lr,hidden\n0.1,32\n")
    ways = [
        {"lr": 0.1, "hidden": 32},
        [{"hidden": 32.0, "lr": 0.1}],
        str(tmp_path / "a.csv"),
        '{"lr": 0.1, "hidden": 32}',
    ]
    contents = {notebook.launch(TRAIN, first=first).content for first in ways}
    assert len(contents) == 1
    others = [{}, {"first": {"lr": 0.2, "hidden": 32}}, {"first": ways[0] | {"lr": 1}}, {"configurations": ways[0]}]
    contents |= {notebook.launch(TRAIN, **given).content for given in others}
    assert len(contents) == 5


def test_content_without_them_is_what_it_was():
    """The digest is the one that was computed before configurations could be given."""
    cell = read_cell("# %%train\nlr = uniform(0, 1)\nfor epoch in trial.steps():\n    trial.report(acc=lr)\n", {})
    settings = settled(cell, goal=Goal("acc"), steps=(1, 9), scheduler=None, searcher=Searcher("sobol"), trials=5)
    digest = "f8d9d9daac15be47dcd00e468c5368dbf14eb41c0f34af34f656f0a90d2ac245"
    assert fingerprint(cell, settings, "", {}) == digest
    given = dataclasses.replace(settings, searcher=Searcher("sobol", ({"lr": 0.5},)))
    assert fingerprint(cell, given, "", {}) != digest


def test_what_changed_names_them(notebook):
    plain, one, other = (
        notebook.launch(TRAIN, **given) for given in ({}, {"first": {"lr": 0.1}}, {"first": {"lr": 0.2}})
    )
    assert changes(notebook.store, plain, one) == ['changed since @1: searcher random → random, first {"lr": 0.1}']
    assert changes(notebook.store, one, other) == [
        'changed since @2: searcher random, first {"lr": 0.1} → random, first {"lr": 0.2}'
    ]
    long = [{"lr": 0.001 * number} for number in range(1, 12)]
    several = [notebook.launch(TRAIN, configurations=[*long, {"lr": last}]) for last in (0.1, 0.2)]
    (line,) = changes(notebook.store, *several)
    assert line.startswith("changed since @4: searcher random, only 12 configurations (")
    assert line.count("only 12 configurations") == 2


def test_the_function_form_takes_them(tmp_path):
    exp = made(tmp_path, first={"lr": 1, "hidden": 64, "batch": 8})
    assert exp.plan().given == (14,)
    simulation = exp.simulate(lambda configuration, step: configuration["lr"], slots=1)
    assert simulation.points[0].trial == 14
    assert simulation.best[:2] == (14, 1.0)
    exact = made(tmp_path, configurations=[{"lr": 0.1, "hidden": 64}, {"lr": 0.2, "hidden": 64}], seed=3)
    assert (exact.plan().trials, exact.plan().given) == (2, (0, 1))
    with pytest.raises(BadOption, match=r"^first=: batch is 16, but the constant 8 here"):
        made(tmp_path, first={"lr": 1, "batch": 16})
    with pytest.raises(BadOption, match=r"^trials= 5 was given with configurations="):
        made(tmp_path, configurations=[{"lr": 0.1}], trials=5)


def test_a_space_of_one_configuration_has_one_trial(tmp_path):
    def fixed(trial, opt=wb.choice("sgd")):  # noqa: B008
        for _epoch in trial.steps():
            trial.report(val_acc=1.0)

    made = {"goal": wb.maximize("val_acc"), "scheduler": wb.All(max_steps=9), "store": tmp_path / "s"}
    assert wb.Experiment("one", fixed, first={"opt": "sgd"}, **made).plan().trials == 1
    assert wb.Experiment("one", fixed, configurations=[{"opt": "sgd"}] * 3, **made).plan().trials == 3
