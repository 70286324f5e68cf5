import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from snapshot.notebooks import Notebook, loaded

CELLS = '''
import numpy as np, functools, dataclasses, enum, random, collections, re, pathlib
words = {"b", "a", "c", "dd"}
nested = {frozenset({("a", "b"), ("c", "d")}), frozenset({("a", "b"), ("e", "f")}), ("x", 1), None}
table = {"x": [1, 2.5, None, True], "y": ("t", b"b"), 3: {"nested": {1, 2, 3}}}
array = np.arange(100_000.0)
rows = array[::3]
rng = random.Random(5)
numbers = np.random.default_rng(7)
pattern = re.compile("a+")
counts = collections.Counter("hello")
class Color(enum.Enum):
    RED = "r"
@dataclasses.dataclass
class Config:
    """What it is."""
    width: int = 3
    colors: set = dataclasses.field(default_factory=lambda: {Color.RED, "x", "y", "z"})
def helper(x, *, k=3):
    """Some words."""
    if x in {"a", "b", "c", 7}:
        return inner(x) + table["x"][0]
    return [i for i in range(k)]
def inner(x):
    return shift + len(x)
shift = 2
def outer(n):
    def closed(x):
        return n + x
    return closed
closed = outer(4)
@functools.lru_cache
def cached(x):
    return helper(x)
partial = functools.partial(helper, k=5)
objects = [Config(), Config(width=4)]
objects.append(objects)
class Base:
    def __call__(self):
        return super().__repr__()
class Derived(Base):
    limit = 5
thing = Derived()
'''
NAMES = ["words", "nested", "table", "array", "rows", "rng", "numbers", "pattern", "counts"]
NAMES += ["Color", "Config", "helper", "closed", "cached", "partial", "objects", "thing"]


def kernel(tmp_path, source, seed, name):
    """The fingerprint that a kernel of its own gives, with its own hash seed."""
    code = textwrap.dedent(
        f"""
        import sys, json
        from workbench.store import Store
        from workbench.snapshot.capture import capture
        main = sys.modules["__main__"].__dict__
        exec(compile(open({str(tmp_path / name)!r}).read(), "<ipykernel {seed}>", "exec"), main)
        store = Store({str(tmp_path / "store")!r}); store.create()
        c = capture({NAMES!r}, main, store)
        print(json.dumps([c.fingerprint, c.names]))
        """
    )
    (tmp_path / name).write_text(source)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": str(seed)}
    )
    return json.loads(done.stdout)


def test_two_kernels_agree_on_the_same_content(tmp_path):
    first = kernel(tmp_path, CELLS, 1, "a.py")
    moved = "# a comment\n\n\n" + CELLS.replace("    return shift", "    # why\n\n    return shift")
    moved = moved.replace("Some words.", "Other words.")
    second = kernel(tmp_path, moved, 2, "b.py")
    assert {name for name in first[1] if first[1][name] != second[1].get(name)} == set()
    assert first[0] == second[0]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("return shift + len(x)", "return shift - len(x)", {"inner"}),
        ("shift = 2", "shift = 3", {"shift"}),
        ("[1, 2.5, None, True]", "[1, 2.5, None, 1]", {"table"}),
        ("[1, 2.5, None, True]", "[1.0, 2.5, None, True]", {"table"}),
        ("np.arange(100_000.0)", "np.arange(100_000.0) + 1", {"array", "rows"}),
        ("np.arange(100_000.0)", "np.arange(100_000.0, dtype='f4')", {"array", "rows"}),
        ("array[::3]", "array[::3].reshape(2, -1)", {"rows"}),
        ("random.Random(5)", "random.Random(6)", {"rng"}),
        ("k=3", "k=4", {"helper", "partial"}),
        ("outer(4)", "outer(5)", {"closed"}),
        ("limit = 5", "limit = 6", {"thing"}),
        ("super().__repr__()", "super().__str__()", {"thing"}),
        ('RED = "r"', 'RED = "q"', {"Color", "objects"}),
        ("width: int = 3", "width: int = 5", {"Config", "objects"}),
        ("objects.append(objects)", "objects.append([])", {"objects"}),
        ('"hello"', '"hallo"', {"counts"}),
        ('"a+"', '"b+"', {"pattern"}),
        ('{"b", "a", "c", "dd"}', '{"b", "a", "c"}', {"words"}),
        ("functools.lru_cache\n", "functools.lru_cache(maxsize=3)\n", {"cached"}),
    ],
)
def test_a_change_is_seen_where_it_is_and_nowhere_else(store, before, after, changed):
    assert before in CELLS
    one = Notebook().run(CELLS).capture(store, *NAMES).names
    other = Notebook().run(CELLS.replace(before, after)).capture(store, *NAMES).names
    differing = {name for name in one if one[name] != other[name]}
    # An object that holds a function changes with the function's code. One that calls it by name does not: the name has
    # a digest of its own.
    assert differing == changed


def test_modules_count_with_their_versions(store, monkeypatch):
    notebook = Notebook().run("import numpy as np\ndef f():\n    return np.pi")
    one = notebook.capture(store, "f")
    assert one.modules == {"numpy": np.__version__}
    from workbench.snapshot import fingerprint

    fingerprint.version_of.cache_clear()
    monkeypatch.setattr(np, "__version__", f"{np.__version__}+cu130")
    assert notebook.capture(store, "f").modules == one.modules, "a module that is not imported yet has no suffix"
    fingerprint.version_of.cache_clear()
    monkeypatch.setattr(fingerprint, "version_of_distribution", lambda name: "99.0")
    other = notebook.capture(store, "f")
    fingerprint.version_of.cache_clear()
    assert other.modules == {"numpy": "99.0"}
    assert one.fingerprint != other.fingerprint
    assert one.names == other.names


def test_the_same_tensors_give_the_same_fingerprint(store):
    torch = pytest.importorskip("torch")

    def notebook():
        return Notebook().run(
            "import torch\ntorch.manual_seed(0)\nnet = torch.nn.Linear(300, 300)\nt = torch.arange(9.)\nv = t[2:]\n"
            "opt = torch.optim.Adam(net.parameters())"
        )

    one, other = (notebook().capture(store, "net", "t", "v", "opt") for _ in range(2))
    assert one.fingerprint == other.fingerprint
    changed = notebook()
    with torch.no_grad():
        changed.names["net"].bias[3] += 1
    assert changed.capture(store, "net", "t", "v", "opt").fingerprint != one.fingerprint


#: Parts of a bigger array ``X``, all of them behind row 450.
VIEWS = {
    "numpy": [
        *("X[450:]", "X[450:][::-1]", "X[450:, ::2]", "X[450:].T", "np.broadcast_to(X[450], (7, 4))"),
        *("X[450, 0:1].reshape(())", "X[450:450]", "X[450:].view(np.matrix)", "np.ma.array(X[450:])"),
        *("X.astype(object)[450:]", "X.view('f4,f4,f4,f4')[450:]", "X.view('f4,f4,f4,f4')['f1'][450:]"),
        *("pd.DataFrame(X)[450:]", "pd.DataFrame(X)[2][450:]", "pd.Series(X[:, 0].astype(str))[450:]"),
    ],
    "torch": [
        *("X[450:]", "X[450:, 1:3]", "X[450::2]", "X[450:].T", "X[450:].mT[1:]", "X[450, 0]", "X[450:450]"),
        *("X[450].expand(9, 4)", "X[450:].unfold(0, 3, 1)", "X[450:].to_sparse()", "torch.complex(X, X)[450:].conj()"),
        *("torch.nn.Parameter(X[450:])", "torch.utils.data.TensorDataset(X[450:])", "X[450:].as_subclass(Picture)"),
        *("X[450:].numpy()", "[X[450:], {'y': X[460:]}]"),
    ],
}


@pytest.mark.parametrize(("library", "view"), [(library, view) for library, views in VIEWS.items() for view in views])
def test_a_view_is_digested_by_what_it_shows(store, library, view):
    """A change in row 99 of the whole is none in a part that begins at row 450; one in row 450 is."""
    if library == "torch":
        pytest.importorskip("torch")
    source = f"""
import numpy as np, pandas as pd
{"import torch" if library == "torch" else ""}
X = np.arange(2000, dtype="f4").reshape(500, 4)
X[row] += 1
{"X = torch.from_numpy(X)" if library == "torch" else ""}
{"class Picture(torch.Tensor): ..." if library == "torch" else ""}
val_y = {view}
"""
    one, other, here = (Notebook(row=row).run(source).capture(store, "X", "val_y").names for row in (98, 99, 450))
    assert one["X"] != other["X"]
    assert one["val_y"] == other["val_y"]
    assert (one["val_y"] == here["val_y"]) == ("450:450" in view)


def test_a_view_of_some_fields_counts_without_the_others(store):
    source = "import numpy as np\nX = np.zeros(9, 'f4,f4,f4')\nX['f1'][3] = n\n"
    source += "sides, turned, held = X[['f0', 'f2']], X[['f2', 'f0']], X[['f1']]"
    one, other = (Notebook(n=n).run(source).capture(store, "X", "sides", "turned", "held").names for n in (1, 2))
    assert {name for name in one if one[name] != other[name]} == {"X", "held"}


def test_a_view_and_its_copy_are_the_same_content_and_its_memory_is_not_copied(store):
    torch = pytest.importorskip("torch")
    from workbench.snapshot.fingerprint import Fingerprint, compact

    X = torch.arange(2000.0).reshape(500, 4)
    for view in (X[450:], X[:, 1:3], X.T[1:], X[::2], torch.zeros(1).expand(10**12)[:9]):
        copy = view.clone() if view.stride() != (0,) else torch.zeros(1).expand(9)
        assert Fingerprint({}).of(view) == Fingerprint({}).of(copy)
    assert Fingerprint({}).of(X.T) != Fingerprint({}).of(X.T.contiguous())  # another order may round otherwise
    part, is_copy = compact(X[450:])
    assert (part.data_ptr(), is_copy) == (X[450:].data_ptr(), False)
    # Copies are gone soon, and other memory comes to stand where they were.
    digests = Fingerprint({})
    found = [digests.of(torch.full((500, 4), float(n))[:, 1:3]) for n in range(50)]
    assert len({*found}) == 50


def test_views_stay_views_of_one_array_in_the_trial(store):
    torch = pytest.importorskip("torch")
    names = {"X": torch.zeros(500, 4), "A": np.zeros((500, 4))}
    notebook = Notebook(**names, x=names["X"][450:], columns=names["X"][:, 1:3], a=names["A"][450:])
    runner = loaded(store, notebook.capture(store, *notebook.names))
    runner["X"][450:] += 1
    runner["A"][450:] += 1
    assert (runner["x"].sum(), runner["columns"].sum(), runner["a"].sum()) == (200, 100, 200)


def test_sets_of_objects_that_know_each_other_end(store):
    source = (
        "class Node:\n    def __init__(self, n):\n        self.n = n; self.near = set()\n"
        "a, b, c = Node(1), Node(2), Node(3)\na.near |= {b, c}; b.near |= {a}; c.near |= {a, b}"
    )
    source += "\nclique = [Node(n) for n in range(40)]\nfor n in clique:\n    n.near |= set(clique)"
    one, other = (Notebook().run(source).capture(store, "a", "clique").fingerprint for _ in range(2))
    assert one == other


def test_large_plain_lists_are_quick(store):
    import time

    notebook = Notebook(
        tokens=[list(range(i, i + 50)) for i in range(20_000)], vocabulary={f"word{i}": i for i in range(100_000)}
    )
    begun = time.perf_counter()
    notebook.capture(store, "tokens", "vocabulary")
    assert time.perf_counter() - begun < 20  # 0.2 s where nothing else runs
