"""``%%train`` in a kernel, without training: what it refuses, plans, explains and completes."""

import asyncio
import re
import time

import pytest
import shells
from IPython.core.completer import provisionalcompleter

from workbench.errors import BadCell, BadMetric, BadName, BadOption, BadSpace
from workbench.experiment.notebook import name_of
from workbench.lab.magic import _prepared, _run, awaited
from workbench.live.show import face
from workbench.store import Store

CELL = """%%train {line}
lr = loguniform(1e-4, 1.0)
hidden = choice(32, 64)
for epoch in trial.steps():
    trial.report(val_acc=1 - lr)
"""


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


def run(shell, cell):
    return shell.run_cell(cell, store_history=True)


def test_a_plan_starts_nothing(shell, nowhere, capsys):
    assert run(shell, CELL.format(line="digits --goal max val_acc --steps 1-9 --plan")).success
    assert "17 trials, 5 promotions, 69 steps (78 without checkpoints)" in capsys.readouterr().out
    assert not (nowhere / ".workbench").exists()


def test_a_plan_of_more_than_a_thousand_trials_warns(shell, nowhere, capsys):
    run(shell, CELL.format(line="digits --goal max val_acc --steps 1-9 --scheduler all --trials 1001 --plan"))
    assert "1,001 trials: more than 1,000" in capsys.readouterr().out


SCRIPT = """%%train --script train.py --goal max {goal} --steps 1-9 {line}
--lr loguniform(1e-4,
    1.0)  # over two lines
--hidden choice(32, 64) --epochs 20
"""
TRAINS = "from workbench import trial\nfor epoch in trial.steps():\n    trial.report(val_acc=1)\n"


def test_a_script_is_planned_from_a_cell(shell, nowhere, capsys):
    (nowhere / "train.py").write_text(TRAINS)
    assert run(shell, SCRIPT.format(goal="val_acc", line="--plan")).success
    assert "17 trials" in capsys.readouterr().out
    experiment, options, _ = _prepared(
        shell, *SCRIPT.format(goal="val_acc", line="").removeprefix("%%train ").split("\n", 1)
    )
    program = experiment.spec.program
    assert (experiment.label, program.kind, program.filename) == ("train@1", "script", str(nowhere / "train.py"))
    assert [(one.text, one.name) for one in program.arguments] == [
        ("--lr", "lr"), ("--hidden", "hidden"), ("--epochs", None), ("20", None),
    ]  # fmt: skip
    assert options.words[:2] == ("--lr", "loguniform(1e-4,\n    1.0)")


def test_a_module_is_planned_from_a_cell(shell, nowhere, capsys):
    (nowhere / "project").mkdir()
    (nowhere / "project" / "train.py").write_text(f"from . import near\n{TRAINS}")
    (nowhere / "project" / "near.py").touch()
    cell = SCRIPT.format(goal="val_acc", line="--plan").replace("--script train.py", "--script -m project.train")
    assert run(shell, cell).success
    assert "17 trials" in capsys.readouterr().out
    experiment, _, _ = _prepared(shell, *cell.replace("--plan", "").removeprefix("%%train ").split("\n", 1))
    program = experiment.spec.program
    assert (experiment.label, program.kind, program.module) == ("train@1", "script", "project.train")
    assert program.filename == str(nowhere / "project" / "train.py")


@pytest.mark.parametrize(
    ("source", "goal", "told"),
    [
        (TRAINS, "acc", "this script reports val_acc, but the goal is max acc"),
        (
            TRAINS.replace("for epoch in trial.steps", "for epoch in range"),
            "val_acc",
            "train.py, line 2: this script never",
        ),
        (TRAINS.replace("trial.steps()", "enumerate(trial.steps())"), "val_acc", "train.py, line 2: "),
        ("x = \n", "val_acc", "train.py, line 1: invalid syntax"),
        ("print('val_acc=1')\n", "val_acc", "train.py says no metric"),
    ],
)
def test_a_scripts_errors_name_its_own_lines(shell, nowhere, source, goal, told):
    (nowhere / "train.py").write_text(source)
    with pytest.raises((BadCell, BadMetric)) as raised:
        _prepared(shell, *SCRIPT.format(goal=goal, line="").removeprefix("%%train ").split("\n", 1))
    assert told in str(raised.value)
    assert getattr(raised.value, "line", None) is None  # the cell's own lines are right


@pytest.mark.parametrize(
    ("cell", "kind", "parts"),
    [
        (CELL.format(line="digits --stesp 1-9"), BadOption, ["Did you mean --steps"]),
        (
            CELL.format(line="digits --steps 1-9"),
            BadOption,
            ["--goal is missing", "reports val_acc", "--goal max val_acc"],
        ),
        (CELL.format(line="digits --goal max val_acc"), BadOption, ["--steps is missing", "--steps 1-27"]),
        (CELL.format(line="digits --goal max acc --steps 1-9"), BadMetric, ["val_acc", "max acc"]),
        ("%%train d --goal max a --steps 1-9\nfor e in range(3):\n    x = 1\n", BadCell, ["trial.steps()"]),
        (CELL.format(line="d --goal max val_acc --steps 1-9").replace("1e-4", "0"), BadSpace, ["line 2"]),
        (CELL.format(line="--goal max val_acc --steps 1-9"), BadName, ["no name", "%%train digits"]),
        (CELL.format(line="../etc --goal max val_acc --steps 1-9"), BadName, ["../etc"]),
        (CELL.format(line="d --goal max val_acc --steps $n"), BadOption, ["cannot be expanded", "$name"]),
    ],
)
def test_bad_input_is_refused_before_anything_starts(shell, nowhere, capsys, cell, kind, parts):
    result = run(shell, cell)
    assert isinstance(result.error_in_exec, kind)
    shown = capsys.readouterr()
    for part in parts:
        assert part in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err
    assert not (nowhere / ".workbench").exists()


def test_an_error_shows_the_line_of_the_cell_that_it_is_about(shell, nowhere, capsys):
    run(shell, CELL.format(line="d --goal max val_acc --steps 1-9").replace("1e-4", "0"))
    shown = capsys.readouterr()
    assert "---->   2 lr = loguniform(0, 1.0)" in shown.out + shown.err


def test_parameters_of_the_notebook_reach_the_line(shell, nowhere, capsys):
    shell.user_ns["steps"] = "1-9"
    shell.user_ns["metric"] = "val_acc"
    run(shell, CELL.format(line="d --goal max $metric --steps {line} --plan").replace("{line}", "{steps}"))
    assert "17 trials" in capsys.readouterr().out


def test_help_says_what_may_be_typed(shell, capsys):
    shell.run_cell("%%train?")
    shown = capsys.readouterr().out
    for part in ("--goal max|min METRIC", "--steps FIRST-LAST", "--again", "trial.report(val_acc=", "#| goal: max"):
        assert part in shown


@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [
        ("%%train digits --sch", 0, "--scheduler"),
        ("%%train digits --goal max a --scheduler hy", 0, "hyperband"),
        ("%%train digits\n#| st", 1, "steps: "),
        ("%%train digits\n#| searcher: so", 1, "sobol"),
    ],
)
def test_tab_completes(shell, text, line, wanted):
    shell.Completer.use_jedi = False
    with provisionalcompleter():
        found = [one.text for one in shell.Completer.completions(text, len(text))]
    assert wanted in found


def test_a_train_cell_is_awaited_and_nothing_else_is_touched():
    assert awaited(["%%train digits --wait\n", "x = 1\n"]) == [
        "await get_ipython().magics_manager.registry['WorkbenchMagics'].awaiting('digits --wait', 'x = 1\\n')\n"
    ]
    assert awaited(["\n", "%%train\n", "x = 1"])[0].endswith("awaiting('', 'x = 1')\n")
    for lines in (["%%train?\n"], ["%%trainer x\n"], ["x = '%%train'\n"], ["%%time\n", "%%train d\n"], []):
        assert awaited(lines) == lines


def test_from_ordinary_code_it_runs_beside_the_loop():
    seen = []

    async def job():
        await asyncio.sleep(0)
        seen.append(1)

    async def main():
        _run(job())

    _run(job())
    asyncio.run(main())
    assert seen == [1, 1]


class _Kernel:
    kernel = object()

    def __init__(self, **content):
        self.content = content

    def get_parent(self):
        return {"content": self.content}


def test_who_looks_is_what_the_frontend_says():
    assert face(_Kernel(allow_stdin=True)) == "live"
    assert face(_Kernel(allow_stdin=False)) == "batch"
    assert face(_Kernel()) == "batch"
    assert face(None) == "log"  # pytest's input is not a terminal


def test_without_a_name_it_is_called_as_the_notebook():
    assert name_of("/home/me/My digits (2).ipynb") == "My digits -2"
    with pytest.raises(BadName, match="has no name"):
        name_of(None)


def test_a_try_trains_two_steps_here_and_keeps_nothing(shell, nowhere, capsys):
    shell.user_ns["offset"] = 2
    result = run(shell, CELL.format(line="d --goal max val_acc --steps 1-9 --try").replace("1 - lr", "offset + epoch"))
    assert result.success
    said = capsys.readouterr().out
    assert "Trying 2 steps here with lr=" in said
    assert "step 1: val_acc 2\nstep 2: val_acc 3\nIt works" in said
    assert "trial" not in shell.user_ns
    assert not list((nowhere / ".workbench" / "experiments").iterdir())


def test_what_a_try_took_is_in_the_next_plan_of_that_name(shell, nowhere, capsys):
    def said(line):
        cell = CELL.format(line=f"{line} --goal max val_acc --steps 1-9").replace("for epoch", "wait(0.3)\nfor epoch")
        assert run(shell, cell).success
        return capsys.readouterr().out

    shell.user_ns["wait"] = time.sleep
    assert "set-up" not in said("tried --plan")
    assert re.search(r"It works \(0\.3\d* s of set-up, .* s a step\)", said("tried --try"))
    plan = said("tried --plan")
    assert re.search(r"--try took 3\d\d ms for a set-up and .* ms for a step: at most about", plan)
    assert "--scheduler asha --mode stop --trials 17 sets each trial up once" in plan
    assert "set-up" not in said("another --plan")


def test_a_try_that_fails_shows_the_lines_of_the_cell(shell, nowhere, capsys):
    result = run(shell, CELL.format(line="d --goal max val_acc --steps 1-9 --try").replace("1 - lr", "1 / (epoch - 1)"))
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    shown = capsys.readouterr()
    assert "----> 5     trial.report(val_acc=1 / (epoch - 1))" in shown.out + shown.err


def test_the_command_line_runs_in_a_cell(shell, nowhere, capsys):
    Store(nowhere / ".workbench").create()
    assert run(shell, "%workbench ls").success
    assert not run(shell, "%workbench show nothing").success
    shown = capsys.readouterr()
    assert "nothing" in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


def test_a_webhook_is_kept_where_the_engine_needs_it_and_nowhere_else(shell, nowhere):
    secret = "".join(reversed("4321-nekot"))  # this very file is copied into the snapshot
    line = f"secretive --goal max val_acc --steps 1-9 --notify https://example.org/{secret}"
    shell.history_manager.input_hist_raw.append(f"%%train {line}")
    experiment, *_ = _prepared(shell, line, CELL.partition("\n")[2])
    spec = experiment.spec
    assert spec.notify["webhook"] == f"https://example.org/{secret}"
    assert secret not in spec.typed + spec.expanded + spec.program.source
    assert "https://example.org/…" in spec.typed
    files = [path for path in (nowhere / ".workbench").rglob("*") if path.is_file()]
    assert [path.name for path in files if secret.encode() in path.read_bytes()] == ["spec.json"]


def test_what_the_notebook_sets_in_a_module_is_named_each_time(shell, nowhere, monkeypatch, capsys):
    (nowhere / "rates_here.py").write_text("rate = 1\n")
    monkeypatch.syspath_prepend(nowhere)  # a kernel has its notebook's folder there
    body = "for epoch in trial.steps():\n    trial.report(score=rates_here.rate)\n"
    for cell in ("import rates_here\nrates_here.rate = 2", "rates_here.rate = 3"):
        assert run(shell, cell).success
        _prepared(shell, "rates --goal max score --steps 1-2", body)
        assert "Note: rates_here.rate was set in this notebook" in capsys.readouterr().out
