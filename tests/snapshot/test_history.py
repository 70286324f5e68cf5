"""Which executed cells make a name: what is needed is there, and what cannot matter is not."""

import pytest

from workbench.snapshot.reading.facts import facts_of
from workbench.snapshot.reading.history import History

NET = "class Net(nn.Module):\n    pass"
IMPORTS = "import numpy as np\nimport random\nimport torch\nfrom torch import nn\nimport matplotlib.pyplot as plt"


@pytest.mark.parametrize(
    ("cells", "name", "needed"),
    [
        (["x = 1", "y = 2", "z = x"], "z", [0, 2]),
        (["x = 1", "x = 2"], "x", [1]),
        (["n = 1", "n += 1", "m = n", "n += 1"], "n", [0, 1, 3]),
        (["x = 1", "if x:\n    y = 1", "y = y if 0 else 2"], "y", [0, 1, 2]),
        (["d = {}", "d['a'] = 1", "len(d)", "print(d)", "d.update(b=2)"], "d", [0, 1, 4]),
        (["n = 1", "def f(): return n", "n = 2", "x = f()", "n = 3"], "x", [1, 2, 3]),
        (["n = 1", "def f(): return n", "n = 2"], "f", [1, 2]),
        (["class A:\n    k = 1", "A.k = 2", "b = A()"], "b", [0, 1, 2]),
        (["def clip(a, b):\n    a[b] = 1", "x = [1]", "y = [2]", "clip(x, 0)", "clip(y, 0)"], "x", [0, 1, 3]),
        (["x = [1]", "x.sort()", "x.clear()", "x = 5"], "x", [3]),
        (["x = 1", "del x", "x = 2"], "x", [2]),
        (["from os.path import *", "y = 1", "z = join('a')"], "z", [0, 2]),
        (["x = 1", "exec('x = 2')", "y = 3"], "x", [0, 1]),
        (["x = 1", "1 +", "y = x"], "y", [0, 2]),
        (["%time x = 1", "%%time\ny = x", "!pip install a", "%matplotlib inline", "z = y"], "z", [0, 1, 4]),
        (["%cd /tmp", "import os", "os.environ['A'] = '1'", "x = 1"], "x", [0, 1, 2, 3]),
        (["%%writefile mine.py\na = 1", "%%writefile other.py\na = 1", "import mine", "x = mine.a"], "x", [0, 2, 3]),
        (["x = 1\nopen('x.txt', 'w').write('1')", "open('x.txt').read()", "y = open('x.txt').read()"], "y", [0, 2]),
        (["f = lambda: n", "n = 1", "m = 2"], "f", [0, 1]),
        (["xs = [1]", "ys = xs", "ys.append(2)", "zs = [3]", "zs.append(1)"], "xs", [0, 1, 2]),
    ],
)
def test_a_name_is_made_by_the_cells_that_it_needs_and_no_others(cells, name, needed):
    assert History(cells).needed([name], len(cells)) == needed


@pytest.mark.parametrize(
    ("cells", "name", "needed"),
    [
        (["X = np.zeros(3)", "fig, ax = plt.subplots()\nax.plot(X)\nplt.show()", "X.mean()"], "X", [0, 1]),
        (["X = np.zeros(3)", "np.random.shuffle(X)", "np.save('a.npy', X)"], "X", [0, 1, 2]),
        # An optimizer holds its model.
        (
            [
                "net = nn.Linear(1, 1)\nopt = torch.optim.SGD(net.parameters(), lr=1)",
                "opt.step()",
                "other = nn.Linear(1, 1)",
            ],
            "net",
            [0, 1, 2],
        ),
        (
            ["X = torch.zeros(3)", "crit = nn.MSELoss()", "other = nn.Linear(3, 1)\ncrit(other(X), X).backward()"],
            "X",
            [0, 1],
        ),
        (["A = np.ones((3, 3))", "np.fill_diagonal(A, 0)", "np.add.at(A, 0, 1)", "np.trace(A)"], "A", [0, 1, 2, 3]),
        # A module moves in place, a tensor does not.
        (["net = nn.Linear(1, 1)", "net.to(torch.float64)", "y = net.float()", "net.cpu()"], "net", [0, 1, 2, 4]),
        (["X = torch.zeros(3)", "y = X.to(torch.float64)", "z = X.float() + 1"], "X", [0, 1]),
        (
            [
                "net = nn.Linear(1, 1)",
                "[p.requires_grad_(False) for p in net.parameters()]",
                "_ = [nn.init.zeros_(p) for p in net.parameters()]",
                "sizes = [p.numel() for p in net.parameters()]",
                "p = torch.zeros(3)\np.add_(1)",
            ],
            "net",
            [0, 1, 2, 3],
        ),
        (["a = [torch.ones(1)]", "b = [torch.ones(1)]", "_ = [q.copy_(p) for p, q in zip(a, b)]"], "b", [0, 1, 2, 3]),
        # Draws depend on the last seed and on all draws since.
        (
            ["np.random.seed(1)", "np.random.rand()", "b = random.random()", "c = np.random.rand()"],
            "c",
            [0, 1, 2, 4],
        ),
        (
            [
                "torch.manual_seed(1)",
                "class Net(nn.Module):\n    pass",
                "other = Net()",
                "torch.manual_seed(2)",
                "w = torch.randn(3)",
            ],
            "w",
            [0, 1, 4, 5],
        ),
        (
            ["torch.manual_seed(1)", NET, "other = Net()", "w = torch.randn(3)"],
            "w",
            [0, 1, 2, 3, 4],
        ),
    ],
)
def test_libraries_are_known_to_show_to_draw_and_to_change(cells, name, needed):
    cells = [IMPORTS, *cells]
    assert [one for one in History(cells).needed([name], len(cells)) if one] == [one for one in needed if one]


def test_a_cell_that_failed_may_have_come_anywhere():
    assert History(["x = 1", "x = 2\n1 / 0"], failed=[1]).needed(["x"], 2) == [0, 1]


def test_a_name_of_long_ago_is_found_among_a_thousand_cells():
    cells = [f"a{n} = {n}\nprint(a{n})" for n in range(1000)]
    assert History([*cells, "x = a7"]).needed(["x"], 1001) == [7, 1000]


def test_what_is_no_python_tells_nothing():
    assert facts_of("%%html\n<b>").may_bind == frozenset()
    assert facts_of("$$$").may_bind == frozenset()
    assert facts_of("%%train a --goal max b\nx = 1").trains
