import json
import math
import os
import random
import textwrap
import types

import pytest

from workbench import space as wb
from workbench.errors import BadCell, BadInput, BadMetric, BadSpace
from workbench.records import Goal
from workbench.snapshot.reading.cell import picker, read_cell, transform
from workbench.snapshot.reading.hyperparameters import supplied

LOOP = "\nfor epoch in trial.steps():\n    trial.report(val_acc=1.0)\n"


def text(source: str) -> str:
    return textwrap.dedent(source).strip("\n") + "\n"


def notebook(**names: object) -> dict[str, object]:
    return {"__name__": "__main__", "__builtins__": __builtins__, **names}


def read(source: str, **names: object):
    return read_cell(text(source), notebook(**names))


def refused(source: str, **names: object) -> BadInput:
    with pytest.raises(BadInput) as caught:
        read(source, **names)
    return caught.value


def defined(source: str, **names: object) -> dict[str, object]:
    """A notebook's names after a cell with this source has run."""
    space = notebook(**names)
    exec(compile(text(source), "<earlier cell>", "exec"), space)
    return space


def run(source: str, values: dict[str, object], **names: object) -> dict[str, object]:
    """The names of a runner after the cell's set-up has run with ``values``."""
    space = {**supplied(), **notebook(**names), "__wb_pick__": picker(values)}
    exec(transform(text(source), "cell", values), space)
    return space


# ---------------------------------------------------------------------------------------------------------------------
# The space


def test_top_level_assignments_of_distributions_are_the_search_space():
    cell = read(
        text("""
        lr      = loguniform(1e-4, 1.0)
        hidden: int = choice(32, 64, 128, 256)
        dropout = uniform(0.0, 0.5)
        n = randint(1, 3); q = quniform(0, 1, 0.25)
        batch = 32
        """)
        + LOOP
    )
    assert cell.space.names == ("lr", "hidden", "dropout", "n", "q")
    assert [(one.name, one.line) for one in cell.hyperparameters][:3] == [("lr", 1), ("hidden", 2), ("dropout", 3)]
    assert cell.hyperparameters[1].text == "hidden: int = choice(32, 64, 128, 256)"
    assert cell.steps == 7
    assert cell.reports == {"val_acc"}


def test_lines_are_counted_from_the_first_line_given():
    cell = read_cell("lr = uniform(0, 1)" + LOOP, notebook(), first_line=2)
    assert cell.hyperparameters[0].line == 2
    assert cell.steps == 3
    with pytest.raises(BadSpace, match="line 11") as caught:
        read_cell("lr = uniform(1, 1)" + LOOP, notebook(), first_line=11)
    assert caught.value.line == 11


def test_a_condition_compares_an_earlier_hyperparameter():
    cell = read('opt_name = choice("sgd", "adam")\nmomentum = uniform(0, 1, when=opt_name == "sgd")' + LOOP)
    assert cell.space.sample(random.Random(1)).keys() == {"opt_name", "momentum"}
    assert cell.space.parameters["momentum"].when is not None


def test_a_cell_without_distributions_is_a_single_trial():
    assert read("lr = 0.1" + LOOP).space.is_empty


@pytest.mark.parametrize(
    ("source", "names", "bounds"),
    [
        ("lr = loguniform(low, high)", {"low": 0.1, "high": 1}, (0.1, 1)),
        ("low = 1e-3\nlr = loguniform(low, 1)", {"low": 99}, (1e-3, 1)),
        ("import math\nlr = uniform(0, math.pi)", {}, (0, math.pi)),
        ("from math import pi as p\nlr = uniform(0, p)", {}, (0, math.pi)),
        ("draw = uniform\nlr = draw(0, 2)", {}, (0, 2)),
        ("import workbench.space as s\nlr = s.uniform(0, 2)", {}, (0, 2)),
        ("from workbench.space import uniform as u\nlr = u(0, 2)", {}, (0, 2)),
        ("lr = space.uniform(0, 2)", {"space": wb}, (0, 2)),
        ("lr = uniform(*bounds)", {"bounds": (0, 2)}, (0, 2)),
        ("lr = uniform(0, max(x for x in [1, 2]))", {}, (0, 2)),
        ("x = compute()\nlr = uniform(0, max(x for x in [1, 2]))", {"compute": lambda: 3}, (0, 2)),
        ("lr = uniform(  # a comment\n  0,\n  2)", {}, (0, 2)),
    ],
)
def test_the_right_side_is_evaluated_as_the_kernel_would(source, names, bounds):
    distribution = read(source + LOOP, **names).space.parameters["lr"]
    assert (distribution.low, distribution.high) == bounds


def test_a_helper_of_the_notebook_may_make_the_distribution():
    names = defined("def rate(high):\n    return loguniform(1e-5, high)\n", loguniform=wb.loguniform)
    cell = read_cell("lr = rate(0.1)" + LOOP, names)
    assert cell.space.parameters["lr"].high == 0.1


def test_a_helper_that_draws_its_own_random_numbers_is_not_called():
    called = []
    names = defined("def pick(xs):\n    called.append(1)\n    return random.choice(xs)", random=random, called=called)
    assert read_cell("x = pick([1, 2])" + LOOP, names).space.is_empty
    assert not called


def test_choices_may_be_objects_and_are_labelled_by_name():
    class SGD: ...

    class Adam: ...

    cell = read("opt = choice(SGD, Adam)\nact = choice(math.sin, math.cos)" + LOOP, SGD=SGD, Adam=Adam, math=math)
    assert cell.space.to_json()["parameters"][0]["options"][0]["value"] == "SGD"
    assert set(cell.needs) == {"SGD", "Adam", "math"}
    space = run("opt = choice(SGD, Adam)", {"opt": "Adam"}, SGD=SGD, Adam=Adam)
    assert space["opt"] is Adam


def test_choices_may_be_classes_that_the_cell_itself_defines():
    source = "class Small: pass\nclass Large: pass\nnet = choice(Small, Large)\n"
    assert read(source + LOOP).space.sample(random.Random(0))["net"] in ("Small", "Large")
    space = run(source, {"net": "Large"})
    assert space["net"] is space["Large"]
    assert "line 1" in str(refused("class Net: pass\nnet = choice(Net(), 2)" + LOOP))


def test_names_that_only_bounds_use_are_not_sent_along():
    assert set(read("lr = uniform(low, 1)\nprint(high)" + LOOP, low=0, high=1).needs) == {"high"}


@pytest.mark.parametrize(
    ("source", "line", "told"),
    [
        ("lr, wd = loguniform(1e-4, 1), loguniform(1e-5, 1)", 1, ["in a tuple", "`lr = loguniform(1e-4, 1)`"]),
        ("for i in range(3):\n    lr = uniform(0, 1)", 2, ["inside a loop", "lr = uniform(0, 1)"]),
        ("if True:\n    lr = uniform(0, 1)", 2, ["inside an if"]),
        ("lr = 10 ** uniform(-4, 0)", 1, ["inside an expression", "`value = uniform(-4, 0)`"]),
        ("x = 1\nlr = float(uniform(0, 1))", 2, ["inside an expression"]),
        ("def f():\n    return uniform(0, 1)", 2, ["inside a function"]),
        ("def f(lr=uniform(0, 1)):\n    return lr", 1, ["inside a function"]),
        ("f = lambda: uniform(0, 1)", 1, ["inside a function"]),
        ("config = {'lr': uniform(0, 1)}", 1, ["in a dict", "`lr = uniform(0, 1)`"]),
        ("config['lr'] = uniform(0, 1)", 1, ["config['lr']", "`lr = uniform(0, 1)`"]),
        ("args.lr = uniform(0, 1)", 1, ["args.lr", "`lr = uniform(0, 1)`"]),
        ("a = b = uniform(0, 1)", 1, ["several names"]),
        ("lrs = [uniform(0, 1) for _ in range(3)]", 1, ["comprehension"]),
        ("opt = SGD(lr=loguniform(1e-4, 1))", 1, ["`lr = loguniform(1e-4, 1)`"]),
        ("print(lr := uniform(0, 1))", 1, ["inside an expression"]),
        ("class A:\n    lr = uniform(0, 1)", 2, ["inside a class"]),
        ("uniform(0, 1)", 1, ["inside an expression"]),
    ],
)
def test_a_distribution_anywhere_else_is_refused_with_its_line(source, line, told):
    error = refused(source + LOOP, config={}, args=types.SimpleNamespace(), SGD=dict)
    assert error.line == line
    assert f"line {line}" in str(error)
    for words in told:
        assert words in str(error)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("lr = uniform(1, 1)", "equals high"),
        ("lr = uniform(2, 1)", "Swap"),
        ("lr = loguniform(0, 1)", "logarithm"),
        ("lr = choice()", "choice"),
        ("lr = uniform(0)", "high"),
        ("lr = uniform(0, unknown)", "unknown"),
        ("x = 3 * 4\nlr = uniform(0, x)", "itself computes on line 1"),
        ("lr = uniform(0, 1, when=later == 1)\nlater = choice(1, 2)", "later"),
        ("lr = uniform(0, 1)\nwd = uniform(0, lr)", "expected"),
        ("lr = max(0.1, 2)\nlr = uniform(0, 1)", "already on line 1"),
        ("lr = uniform(0, 1)\nlr = uniform(0, 2)", "already on line 1"),
        ("a = choice(1, 2)\nb = uniform(0, 1, when=a == 1 and a == 2)", "truth value"),
    ],
)
def test_a_space_without_meaning_is_refused_with_its_line(source, told):
    error = refused(source + LOOP)
    assert told in str(error)
    assert error.line == len(source.splitlines()) or "later" in told
    assert f"line {error.line}" in str(error)


def test_somebody_elses_choice_is_refused_where_it_would_be_a_hyperparameter():
    error = refused("x = 1\nopt = choice(['a', 'b'])" + LOOP, choice=random.choice)
    assert error.line == 2
    assert "`choice` is" in str(error)
    assert "wb.choice(['a', 'b'])" in str(error)
    assert refused("from random import choice\nopt = choice('ab')" + LOOP).line == 2
    assert refused("def uniform(a, b): return a\nlr = uniform(0, 1)" + LOOP).line == 2
    assert refused("lr = wb.uniform(0, 1)" + LOOP, wb=types.SimpleNamespace(uniform=lambda a, b: a)).line == 1


@pytest.mark.parametrize(
    "source",
    [
        "idx = random.choice([1, 2, 3])",
        "x = np.random.uniform(0, 1)",
        "def augment(x):\n    return choice(x)\nimport random\ny = augment([1])",
        "from random import choice\nfor i in range(3):\n    k = choice([1, 2])",
        "def f(choice):\n    return choice(1)",
        "f = lambda uniform: uniform(1)",
        "layer.uniform(0, 1)",
        "w = layer.weight.uniform(-1, 1)",
    ],
)
def test_other_peoples_attributes_and_locals_are_left_alone(source):
    layer = types.SimpleNamespace(uniform=lambda *a: 0, weight=types.SimpleNamespace(uniform=lambda *a: 0))
    np = types.ModuleType("np")
    names = {"random": random, "np": np, "layer": layer}
    if "augment" in source:
        names["choice"] = random.choice
    assert read(source + LOOP, **names).space.is_empty


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
        "print(__name__, __file__)",
        "def f():\n    global made\n    made = 1\nf()\nprint(made)",
    ):
        read(fine + LOOP)


# ---------------------------------------------------------------------------------------------------------------------
# Text that is no train cell


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
