import json
import math
import os
import types
import warnings

import pytest
from snapshot.cells import LOOP, defined, notebook, read, refused, run, text

from workbench.errors import BadCell, BadMetric, BadSpace
from workbench.records import Goal
from workbench.snapshot.reading.cell import read_cell, transform
from workbench.snapshot.reading.loop import FRAMEWORKS

# ---------------------------------------------------------------------------------------------------------------------
# trial.steps()


@pytest.mark.parametrize(
    ("source", "line", "written"),
    [
        ("for epoch in range(10):\n    opt.step()", 1, ["for epoch in trial.steps():", "--steps 1-10"]),
        (
            "for i in range(3):\n    x.append(i)\nfor e in tqdm(range(9)):\n    loss.backward()",
            3,
            ["for e in trial.steps():"],
        ),
        ("for epoch in range(1, 11):\n    pass", 1, ["for epoch in trial.steps():", "epoch + 1", "--steps 1-10"]),
        ("for x, y in loader:\n    loss.backward()", 1, ["for epoch in trial.steps():\n", "for x, y in loader:"]),
        ("for fold in range(5):\n    for epoch in range(9):\n        opt.step()", 2, ["for epoch in trial.steps():"]),
        (
            "epoch = 0\nwhile epoch < 10:\n    opt.step()\n    epoch += 1",
            2,
            ["for epoch in trial.steps():", "counts epoch"],
        ),
        ("for epoch in trange(n):\n    pass", 1, ["for epoch in trial.steps():"]),
        ("for step, batch in enumerate(loader):\n    opt.step()", 1, ["in trial.steps():", "enumerate(loader)"]),
        ("model.fit(x)", None, ["for epoch in trial.steps():", "trial.report"]),
        ("def go():\n    for epoch in range(5):\n        opt.step()\ngo()", 2, ["for epoch in trial.steps():"]),
    ],
)
def test_a_cell_without_steps_is_shown_its_own_loop_rewritten(source, line, written):
    names = dict.fromkeys(["opt", "x", "tqdm", "loss", "loader", "trange", "n", "model"])
    error = refused("\nlr = uniform(0, 1)\n" + source, **names)
    assert isinstance(error, BadCell)
    assert error.line == (None if line is None else line + 1)
    if line is not None:
        assert source.splitlines()[line - 1].strip() in str(error)
    for words in written:
        assert words in str(error)


def test_the_loop_of_a_helper_from_another_cell_is_shown_rewritten(tmp_path):
    path = tmp_path / "earlier.py"
    path.write_text("def fit(model):\n    for epoch in range(10):\n        model.step()\n")
    space = notebook(model=None)
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(BadCell, match=r"fit\(\)") as caught:
        read_cell("fit(model)\n", space)
    assert "for epoch in range(10):" in str(caught.value)
    assert "for epoch in trial.steps():" in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "for epoch in tqdm(trial.steps(), total=trial.max_steps):\n    pass",
        "steps = trial.steps()\nfor epoch in steps:\n    pass",
        "def train():\n    for epoch in trial.steps():\n        pass\ntrain()",
        "if big:\n    for e in trial.steps():\n        pass\nelse:\n    for e in trial.steps():\n        pass",
        "trainer.fit(callbacks=[Callback(trial)])",
        "trial.report(step=3, val_acc=1)",
        "fit(model)",
        "looper.run()",
    ],
)
def test_other_ways_to_loop_are_welcome(source):
    space = defined(
        """
        def fit(model):
            return inner(model)
        def inner(model):
            for e in trial.steps():
                pass
        class Looper:
            def run(self):
                for e in trial.steps():
                    pass
        looper = Looper()
        """,
        tqdm=None,
        big=True,
        trainer=None,
        Callback=None,
        model=None,
    )
    read_cell(source + "\n", space)


@pytest.mark.parametrize(
    ("source", "line", "told"),
    [
        (
            "for i, e in enumerate(trial.steps()):\n    pass",
            1,
            ["enumerate()", "`for e in trial.steps():`", "use e where i"],
        ),
        ("for e, lr in zip(trial.steps(), lrs):\n    pass", 1, ["zip()", "`for e in trial.steps():`", "lr = lrs[e]"]),
        ("x = 1\nfor e in list(trial.steps()):\n    pass", 2, ["list()", "`for e in trial.steps():`"]),
        ("for e in itertools.islice(trial.steps(), 3):\n    pass", 1, ["islice()"]),
        ("a = [f(e) for e in trial.steps()]", 1, ["comprehension"]),
        ("a = [*trial.steps()]", 1, ["trial.steps()"]),
        ("next(trial.steps())", 1, ["next()"]),
        ("for e in trial.steps():\n    pass\nfor e in trial.steps():\n    pass", 3, ["second time", "line 1"]),
        (
            "for k in range(5):\n    for e in trial.steps():\n        pass",
            2,
            ["inside the loop of line 1", "k = choice"],
        ),
        ("while True:\n    for e in trial.steps():\n        pass", 2, ["inside the loop"]),
    ],
)
def test_wrapped_and_repeated_steps_are_refused_with_their_line(source, line, told):
    error = refused(source, lrs=[], itertools=None, f=None)
    assert error.line == line
    for words in told:
        assert words in str(error)


@pytest.mark.parametrize(
    ("call", "written"),
    [
        ('trial.suggest_float("lr", 1e-4, 1, log=True)', "lr = loguniform(1e-4, 1)"),
        ('trial.suggest_float("lr", 0, 1)', "lr = uniform(0, 1)"),
        ('trial.suggest_float("lr", low=0, high=1)', "lr = uniform(0, 1)"),
        ('trial.suggest_float("lr", 0, 1, step=0.1)', "lr = quniform(0, 1, 0.1)"),
        ('trial.suggest_int("n", 1, 10)', "n = randint(1, 10)"),
        ('trial.suggest_int("n", 16, 64, step=16)', "n = quniform(16, 64, 16)"),
        ('trial.suggest_int("n", 1, 512, log=True)', "n = loguniform(1, 512)  # and int(n)"),
        ('trial.suggest_categorical("opt.name", ["sgd", "adam"])', 'name = choice("sgd", "adam")'),
        ('trial.suggest_categorical("o", OPTIONS)', "o = choice(*OPTIONS)"),
        ('trial.suggest_categorical("o", choices=(1, 2))', "o = choice(1, 2)"),
        ('trial.suggest_loguniform("lr", 1e-4, 1)', "lr = loguniform(1e-4, 1)"),
        ('trial.suggest_discrete_uniform("lr", 0, 1, 0.5)', "lr = quniform(0, 1, 0.5)"),
        ("trial.suggest_uniform(f'lr{i}', 0, 1)", "value = uniform(0, 1)"),
    ],
)
def test_a_suggestion_is_answered_by_the_assignment(call, written):
    error = refused(f"x = 1\nvalue = {call}" + LOOP, OPTIONS=[], i=0)
    assert f"`{written}" in str(error)
    assert error.line == 2


def test_the_name_trial_is_taken():
    assert refused("trial = 3" + LOOP).line == 1
    assert refused("for trial in range(3):\n    pass" + LOOP).line == 1
    read("from workbench import trial" + LOOP)


# ---------------------------------------------------------------------------------------------------------------------
# Reports


@pytest.mark.parametrize(
    ("body", "reports"),
    [
        ("trial.report(val_acc=1)", {"val_acc"}),
        ("trial.report(a=1)\n    trial.report(step=1, b=2)", {"a", "b"}),
        ("trial.report(**metrics)", None),
        ("trial.report(metrics)", None),
        ("log = trial.report", None),
        ("helper(trial)", None),
        ("pass", set()),
    ],
)
def test_the_metrics_reported_are_known_where_the_text_shows_them_all(body, reports):
    cell = read(f"for e in trial.steps():\n    {body}\n", metrics={}, helper=None)
    assert cell.reports == reports


def test_a_goal_that_is_never_reported_is_refused():
    goal = Goal("val_acc", "max")
    with pytest.raises(BadMetric, match="val_accuracy") as caught:
        read("x = 1\nfor e in trial.steps():\n    trial.report(val_accuracy=1, loss=2)\n").check_goal(goal)
    assert caught.value.line == 3
    assert "--goal max val_accuracy" in str(caught.value)
    with pytest.raises(BadMetric, match=r"trial.report\(val_acc=...\)"):
        read("for e in trial.steps():\n    pass\n").check_goal(goal)
    read("for e in trial.steps():\n    trial.report(**m)\n", m={}).check_goal(goal)
    read("for e in trial.steps():\n    trial.report(val_acc=2)\n").check_goal("val_acc")


# ---------------------------------------------------------------------------------------------------------------------
# Names


def test_needs_are_the_names_that_the_notebook_must_give():
    given = {"counter", "x", "helper", "seed", "Base", "SIZE", "rows", "scale", "table", "criterion", "big"}
    cell = read(
        """
        import os
        counter += 1
        x = x / 255
        def net(width):
            return helper(width, seed)
        class Data(Base):
            size = SIZE
            def __getitem__(self, i):
                return rows[i] + offset
        later = [row * scale for row in table]
        print(len(later), unused_string := "s")
        for epoch in trial.steps():
            loss = criterion(epoch)
            trial.report(val_acc=loss)
        offset = 3
        del big
        """,
        **dict.fromkeys(given | {"offset", "epoch", "loss", "row"}),
    )
    assert set(cell.needs) == given
    assert cell.needs["counter"] == 2
    assert cell.needs["rows"] == 9
    assert {"os", "counter", "x", "net", "Data", "later", "epoch", "loss", "offset", "unused_string"} <= cell.assigned
    assert cell.imports == ("os",)


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("if flag:\n    v = 1\nprint(v)", True),
        ("if flag:\n    v = 1\nelse:\n    v = 2\nprint(v)", False),
        ("if flag:\n    v = 1\nelse:\n    raise ValueError\nprint(v)", False),
        ("try:\n    v = 1\nexcept ValueError:\n    v = 2\nprint(v)", False),
        ("try:\n    v = 1\nexcept ValueError:\n    pass\nprint(v)", True),
        ("for v in []:\n    pass\nprint(v)", False),
        ("with flag as v:\n    pass\nprint(v)", False),
        ("match flag:\n    case 1:\n        v = 1\n    case _:\n        v = 2\nprint(v)", False),
        ("match flag:\n    case [v]:\n        pass\nprint(v)", True),
        ("print([v for v in range(3)])", False),
        ("print([v for w in range(3)])", True),
        ("f = lambda v: v", False),
        ("f = lambda: v", True),
        ("def f():\n    return v\nv = 3", False),
        ("def f():\n    global v\n    v += 1\nf()", True),
        ("class A:\n    v = v", True),
        ("class A:\n    v = 1\n    w = v", False),
        ("print(f'{v:>{flag}}')", True),
        ("v: int\nprint(v)", True),
        ("(v := 3)\nprint(v)", False),
        ("print([y := 1 for _ in range(3)], v)", True),
        ("del v", True),
        ("v.x = 3", True),
        ("v[0] = 3", True),
        ("import v.sub", False),
        ("def f(a=v):\n    pass", True),
        ("@v\ndef f():\n    pass", True),
        ("try:\n    pass\nexcept Exception as v:\n    pass", False),
    ],
)
def test_a_name_is_needed_unless_the_cell_gives_it_first(source, needed):
    assert ("v" in read(source + LOOP, v=1, flag=1).needs) == needed


def test_ipythons_own_names_are_neither_sent_nor_accepted():
    modified = types.FunctionType((lambda *_: 0).__code__, {"__name__": "IPython.core.interactiveshell"})
    modified.__module__ = "_io"
    assert not read("f = open('x')\nexit" + LOOP, open=modified, exit=modified).needs
    assert refused("x = 1\ny = Out[3]" + LOOP, Out={}).line == 2
    assert refused("get_ipython().run_line_magic('time', '')" + LOOP).line == 1


def test_a_name_that_exists_nowhere_is_refused_before_anything_starts():
    error = refused("x = 1\nmodel = Modell(x)" + LOOP, Model=1)
    assert error.line == 2
    assert "is Model meant?" in str(error)
    for fine in (
        "try:\n    fast = numba\nexcept NameError:\n    fast = None",
        "exec('a = 1')\nprint(a)",
        "from os.path import *\nprint(join)",
        "def f():\n    return nowhere",
        "print(__name__)",
        "def f():\n    global made\n    made = 1\nf()\nprint(made)",
    ):
        read(fine + LOOP)


def test_a_cell_that_asks_for_its_file_is_told_what_to_write():
    error = refused("import os\nplace = os.path.dirname(__file__)" + LOOP)
    assert error.line == 2
    assert "os.getcwd()" in str(error)
    read("print(__file__)" + LOOP, __file__="a.ipynb")


# ---------------------------------------------------------------------------------------------------------------------
# Text that is not a train cell


@pytest.mark.parametrize(
    ("source", "line", "told"),
    [
        ("x = 1\n%matplotlib inline", 2, "magic"),
        ("!pip install torch", 1, "magic"),
        ("x = 1\n\nfiles = !ls", 3, "magic"),
        ("t = %time 3", 1, "magic"),
        ("%%time\nx = 1", 1, "%%train"),
        ("torch?", 1, "help"),
        ("?torch", 1, "help"),
        ("if True:\n    !ls", 2, "magic"),
        ("x = 1\ny = (", 2, "y = ("),
        ("x = 1\nreturn x", 2, "return"),
        ("await x", 1, "await"),
        ("y = [1 async for z in x]", 1, "await"),
        ("async with x as y:\n    pass", 1, "await"),
        ("x = 1\nyield 3", 2, "yield"),
        ("name = input('who?')", 1, "keyboard"),
        ("def f():\n    return input()", 2, "keyboard"),
        ("import getpass\nk = getpass.getpass()", 2, "keyboard"),
        ("breakpoint()", 1, "--try"),
        ("x = 1\nfrom __future__ import annotations", 2, "__future__"),
        ("x = 1\n\tif x:\n        pass", 2, "indent"),
        ("x = '\x00'", 1, "null"),
    ],
)
def test_text_that_cannot_run_is_refused_with_its_line(source, line, told):
    error = refused(source + LOOP, x=1)
    assert isinstance(error, BadCell)
    assert told in str(error)
    assert error.line == line


@pytest.mark.parametrize(
    "source",
    [
        "for input, target in loader:\n    y = input(target)",
        "async def f():\n    await g()",
        "def gen():\n    yield 1",
        'text = """\n%matplotlib inline\n!ls\n"""',
        "y = 5 \\\n  % 3",
    ],
)
def test_text_that_only_looks_odd_is_read(source):
    read(source + LOOP, loader=[], g=None)


def test_odd_line_ends_do_not_shift_the_lines():
    assert refused("x = 'a\x0cb'\r\ny = 'c\u2028d'\r\nlr = uniform(1, 1)\r\n" + LOOP).line == 3
    error = refused("x = 'a\x0cb'\nfor i in enumerate(trial.steps()):\n    pass")
    assert error.line == 2
    assert "`for i in enumerate(trial.steps()):`" in str(error)


def test_an_empty_cell_is_refused():
    assert "trial.steps()" in str(refused(""))


# ---------------------------------------------------------------------------------------------------------------------
# The code that runs


def test_a_runner_gets_the_values_of_its_trial_on_the_same_lines():
    source = text(
        """
        lr = loguniform(
            1e-4,  # low
            1.0)
        momentum = uniform(0, 1, when=opt == "sgd")
        opt: str = choice("sgd", "adam")
        widths = choice([32, 64], [128])
        import inspect
        where = inspect.currentframe().f_lineno
        """
    )
    space = run(source, {"lr": 0.25, "opt": "adam", "momentum": None, "widths": [128]})
    assert (space["lr"], space["opt"], space["momentum"], space["widths"]) == (0.25, "adam", None, [128])
    assert space["where"] == 8
    assert space["__annotations__"] == {"opt": str}


def test_one_text_serves_many_trials():
    source = "lr = uniform(0, 1)\nbefore = lr\nopt = choice(abs, max, when=lr > 0)\n"
    for lr, opt in ((0.25, "abs"), (0.5, "max"), (0.25, None)):
        found = run(source, {"lr": lr, "opt": opt})
        assert (found["lr"], found["before"], found["opt"]) == (lr, lr, {"abs": abs, "max": max, None: None}[opt])
    assert run("lr = uniform(0, 1)\n", {"lr": 0.5})["lr"] == 0.5
    assert run("lr = uniform(0, 1)\n", {}, uniform=lambda *bounds: bounds)["lr"] == (0, 1), "the text is as it was"


def test_python_warns_of_a_text_each_time_that_it_is_run():
    for _ in range(2):
        with pytest.warns(Warning, match="invalid escape"):
            transform('x = "\\d"\n', "warned of", {})
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(SyntaxError, match="invalid escape"):
                transform('x = "\\d"\n', "refused", {})


def test_a_condition_is_not_evaluated_in_a_runner():
    space = run("a = choice(1, 2)\nb = choice(*names, when=a == 1)", {"a": 1, "b": "y"}, names=["x", "y"])
    assert space["b"] == "y"


def test_nested_options_come_back_with_their_values():
    source = "reg = choice('none', {'l1': uniform(0, 1), 'fn': abs})"
    cell = read(source + LOOP)
    configuration = {"reg": {"l1": 0.5, "fn": "abs"}}
    cell.space.check(configuration)
    assert run(source, configuration)["reg"] == {"l1": 0.5, "fn": abs}
    assert run(source, {"reg": "none"})["reg"] == "none"


def test_values_survive_json_and_the_compiler():
    values = {"a": math.inf, "b": -1e-300, "c": 2**70, "d": "'\"\n", "e": True, "f": None}
    source = "\n".join(f"{name} = choice('x', 'y')" for name in values)
    space = run(source, json.loads(json.dumps(values)))
    assert {name: space[name] for name in values} == values


def test_from_future_is_honoured():
    source = "from __future__ import annotations\ndef f(x: Unknown) -> Nothing: ...\nlr = uniform(0, 1)\n"
    read(source + LOOP)
    assert run(source, {"lr": 0.5})["f"].__annotations__ == {"x": "Unknown", "return": "Nothing"}


def test_this_files_own_future_does_not_leak_into_a_cell():
    assert run("def f(x: int): ...", {})["f"].__annotations__ == {"x": int}


def test_a_configuration_for_another_text_is_refused():
    with pytest.raises(BadSpace, match="wd"):
        transform("lr = uniform(0, 1)\n", "cell", {"lr": 1, "wd": 2})


def test_content_ignores_comments_and_layout_only():
    one = read("lr = uniform(0, 1)\nx = [1, 2]" + LOOP)
    two = read("# a comment\nlr = uniform(0,   1)   # more\n\n\nx = [1,\n  2]" + LOOP)
    three = read("lr = uniform(0, 1)\nx = [1, 3]" + LOOP)
    assert one.content == two.content != three.content


def test_a_long_cell_is_read_quickly():
    source = "\n".join(f"x{i} = [{i}, os.path.join('a', str({i}))]" for i in range(2000)) + LOOP
    assert len(read(source, os=os).bound) > 2000


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import workbench.lightning\nfit(workbench.lightning.Callback())", {}),
        ("from workbench.keras import Callback\nfit(Callback())", {}),
        ("from workbench import xgboost\nfit(xgboost.Callback())", {}),
        ("fit(wb.transformers.Callback())", {}),
        ("fit(ours.Callback())", {"ours": types.ModuleType("workbench.lightgbm")}),
        ("fit(Ours())", {"Ours": type("Callback", (), {"__module__": "workbench.lightning"})}),
    ],
)
def test_a_cell_that_gives_a_framework_our_callback_needs_no_steps(source, names):
    read("lr = uniform(0, 1)\n" + source, fit=None, **names)


def test_a_cell_that_uses_the_framework_alone_is_told_of_our_callback():
    error = refused("lr = uniform(0, 1)\nimport lightning\nfit(lightning.Trainer())", fit=None)
    assert "wb.lightning.Callback()" in str(error)


def test_the_frameworks_that_a_cell_may_use_are_those_of_the_package():
    import workbench

    assert workbench._FRAMEWORKS == FRAMEWORKS
