"""Assignments of distributions are the search space; a distribution anywhere else is refused with its line."""

import math
import random
import types

import pytest
from snapshot.cells import LOOP, defined, notebook, read, refused, run, text

from workbench import space as wb
from workbench.errors import BadSpace
from workbench.snapshot.reading.cell import read_cell


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
