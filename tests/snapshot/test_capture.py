import io
import itertools
import logging
import pickle
import sys
import threading
import types

import numpy as np
import pytest
from snapshot.notebooks import Notebook, loaded, main

from workbench.snapshot.capture import capture, load

torch = pytest.importorskip("torch")

# ---------------------------------------------------------------------------------------------------------------------
# Every name of the space, changed through everything that may hold it

# ruff: noqa: ISC004 - sources over two lines read better so
SEEN_BY = {
    "a helper": ("def make():\n    return hidden", "found = make()"),
    "a helper of a helper": ("def inner():\n    return hidden\ndef make():\n    return inner()", "found = make()"),
    "a method": ("class Maker:\n    def make(self):\n        return hidden\nmaker = Maker()", "found = maker.make()"),
    "an inherited method": (
        "class Base:\n    def make(self):\n        return hidden\nclass Maker(Base): pass",
        "found = Maker().make()",
    ),
    "a property": ("class Maker:\n    @property\n    def made(self):\n        return hidden", "found = Maker().made"),
    "a class method": ("class M:\n    @classmethod\n    def make(cls):\n        return hidden", "found = M.make()"),
    "a static method": ("class M:\n    @staticmethod\n    def make():\n        return hidden", "found = M.make()"),
    "a Dataset": (
        "from torch.utils.data import Dataset\nclass Data(Dataset):\n    def __getitem__(self, i):\n"
        "        return hidden\ndata = Data()",
        "found = data[0]",
    ),
    "a module": (
        "import torch.nn as nn\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(2, hidden)",
        "found = Net().layer.out_features",
    ),
    "a closure": (
        "def outer(n):\n    def inner():\n        return hidden + n\n    return inner\nf = outer(0)",
        "found = f()",
    ),
    "a lambda in a dict": ("table = {'f': [lambda: hidden]}", "found = table['f'][0]()"),
    "a partial": (
        "import functools\ndef make(a, b):\n    return hidden\nf = functools.partial(make, 1, b=2)",
        "found = f()",
    ),
    "a bound method": ("class M:\n    def make(self):\n        return hidden\nf = M().make", "found = f()"),
    "a decorator": (
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g():\n        return f()\n    return g\n"
        "@twice\ndef make():\n    return hidden",
        "found = make()",
    ),
    "a decorator's own": (
        "def add(f):\n    def g():\n        return hidden\n    return g\n@add\ndef m(): ...",
        "found = m()",
    ),
    "a decorator of torch": ("import torch\n@torch.no_grad()\ndef make():\n    return hidden", "found = make()"),
    "a cached function": (
        "import functools\n@functools.lru_cache(8)\ndef make():\n    return hidden",
        "found = make()",
    ),
    "a cached property": (
        "import functools\nclass M:\n    @functools.cached_property\n    def made(self):\n        return hidden",
        "found = M().made",
    ),
    "a default argument": ("def inner():\n    return hidden\ndef make(f=inner):\n    return f()", "found = make()"),
    "a generator expression": ("def make():\n    return sum(hidden for _ in range(1))", "found = make()"),
    "a class inside a function": ("def make():\n    class A:\n        x = hidden\n    return A.x", "found = make()"),
    "mutual recursion": (
        "def even(n):\n    return hidden if n == 0 else odd(n - 1)\ndef odd(n):\n    return even(n - 1)",
        "found = even(4)",
    ),
    "an object's list of functions": (
        "class Pipe:\n    def __init__(self, *fs):\n        self.fs = fs\ndef step(x):\n    return x + hidden\n"
        "pipe = Pipe(step)",
        "found = pipe.fs[0](0)",
    ),
    "a __call__": ("class C:\n    def __call__(self):\n        return hidden\nc = C()", "found = c()"),
    "singledispatch": (
        "import functools\n@functools.singledispatch\ndef make(x):\n    return 0\n@make.register\n"
        "def _(x: int):\n    return hidden",
        "found = make(3)",
    ),
    "a dataclass": (
        "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    x: int = 1\n"
        "    y: list = field(default_factory=list)\n    def make(self):\n        return hidden",
        "@dataclass\nclass B(A):\n    z: int = 2\nfound = B().make()",
    ),
    "a metaclass": (
        "class Meta(type):\n    def make(cls):\n        return hidden\nclass A(metaclass=Meta): ...",
        "found = A.make()",
    ),
    "a weak dictionary's value": (
        "import weakref\nclass A:\n    def make(self):\n        return hidden\na = A()\n"
        "table = weakref.WeakValueDictionary(a=a)",
        "found = (a, table['a'])[1].make()",
    ),
}


@pytest.mark.parametrize("how", SEEN_BY)
@pytest.mark.parametrize("before", ["", "hidden = 1"])
def test_a_space_name_changed_is_seen_through(store, how, before):
    defined, used = SEEN_BY[how]
    notebook = Notebook().run(before).run(defined)
    found = notebook.train(store, f"hidden = choice(16, 64)\n{used}", {"hidden": 64})
    assert found["found"] == 64
    assert notebook.names.get("hidden") == (1 if before else None)


def test_what_the_cell_assigns_is_never_carried_along(store):
    notebook = Notebook(lock=threading.Lock()).run("model = lock\ndef use():\n    return model\n")
    runner = notebook.train(store, "model = 3\nfound = use()")
    assert runner["found"] == 3
    assert "lock" not in runner


def test_names_that_are_loaded_before_they_are_assigned_come_from_the_notebook(store):
    notebook = Notebook().run("counter = 3\nx = [255]\ndef read():\n    return counter")
    runner = notebook.train(store, "counter += 1\nx = x[0] / 255\nfound = read()")
    assert (runner["counter"], runner["x"], runner["found"]) == (4, 1.0, 4)
    assert notebook.names["counter"] == 3


def test_a_helper_changes_a_global_of_the_runner_only(store):
    notebook = Notebook().run("best = 0\ndef update(v):\n    global best\n    best = max(best, v)")
    runner = notebook.train(store, "update(5)\nfound = best")
    assert runner["found"] == runner["best"] == 5
    assert notebook.names["best"] == 0


def test_everything_travels_in_one_graph(store):
    notebook = Notebook().run(
        """
        import numpy as np, torch
        shared = {"a": [1]}
        first, second = [shared], (shared, shared["a"])
        def counter():
            n = 0
            def up():
                nonlocal n
                n += 1
                return n
            def get():
                return n
            return up, get
        up, get = counter()
        up()
        big = np.zeros((1000, 100)); rows = big[3:5]; column = big[:, 7]
        tensor = torch.arange(50_000.); grid = tensor.view(100, 500); part = tensor[10:20]
        seen_by_both = torch.from_numpy(big)
        weight = torch.nn.Linear(3, 3); opt = torch.optim.SGD(weight.parameters(), 0.1)
        """
    )
    runner = loaded(store, notebook.capture(store, *(set(notebook.names) - {"__builtins__", "counter"})))
    assert runner["first"][0] is runner["second"][0]
    assert runner["first"][0]["a"] is runner["second"][1]
    assert (runner["get"](), runner["up"](), runner["get"]()) == (1, 2, 2)
    runner["big"][3, 7] = 5
    assert runner["rows"][0, 7] == runner["column"][3] == runner["seen_by_both"][3, 7] == 5
    runner["tensor"][10] = -1
    assert runner["grid"][0, 10] == runner["part"][0] == -1
    assert runner["opt"].param_groups[0]["params"][0] is runner["weight"].weight
    assert notebook.names["big"][3, 7] == 0
    assert notebook.names["tensor"][10] == 10


# ---------------------------------------------------------------------------------------------------------------------
# Classes


def test_classes_live_under_their_name_so_that_plain_pickle_finds_them(store):
    notebook = Notebook().run(
        """
        import enum, typing, dataclasses
        class Outer:
            class Inner:
                x = 1
        class Color(enum.Enum):
            RED = 1
        class Point(typing.NamedTuple):
            x: int = 0
        @dataclasses.dataclass(slots=True)
        class Data:
            y: int = 2
        class Plain:
            def __init__(self):
                self.parts = [Outer.Inner(), Color.RED, Point(3), Data(4)]
        held = [Plain()]
        """
    )
    with main(notebook.module):
        captured = capture(["held"], notebook.names, store)
    runner = types.ModuleType("__main__")
    with main(runner):
        load(store, captured.digest, runner.__dict__)
        again = pickle.loads(pickle.dumps(runner.held))
        assert type(again[0]) is runner.Plain is type(runner.held[0])
        inner, red, point, data = again[0].parts
        assert (type(inner), red, point.x, data.y) == (runner.Outer.Inner, runner.Color.RED, 3, 4)
        assert runner.Color(1) is red
    assert runner.Plain is not notebook.names["Plain"]


KINDS = """
import abc, collections, contextlib, dataclasses, enum, operator, types, typing
T = typing.TypeVar("T")
P = typing.ParamSpec("P")
Id = typing.NewType("Id", int)
class Gen(typing.Generic[T]):
    def __init__(self, x: T): self.x = x
class Sub(Gen[int]): pass
class Proto(typing.Protocol):
    def f(self) -> int: ...
class TD(typing.TypedDict):
    a: int
class Abs(abc.ABC):
    @abc.abstractmethod
    def f(self): ...
class Conc(Abs):
    def f(self): return 1
class Fl(enum.Flag):
    A = 1
    B = 2
class IE(enum.IntEnum):
    X = 3
    def twice(self): return self * 2
class Err(ValueError):
    def __init__(self, a, b=2): super().__init__(a); self.b = b
@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class DC:
    a: int = 3
    b: typing.ClassVar[int] = 4
    c: list = dataclasses.field(default_factory=list, compare=False)
class Slots:
    __slots__ = ("a", "b", "__dict__")
    def __init__(self): self.a = 1
class Meta(type):
    def __new__(m, n, b, d, **k): return super().__new__(m, n, b, d)
    def __init__(c, n, b, d, **k): super().__init__(n, b, d)
class WithMeta(metaclass=Meta, flag=1): pass
class Desc:
    def __set_name__(self, o, n): self.n = n
    def __get__(self, i, o): return self.n
class HasDesc:
    d = Desc()
class InitSub:
    def __init_subclass__(cls, **k): cls.seen = True
class IsSub(InitSub): pass
class Single:
    made = None
    def __new__(cls):
        if cls.made is None: cls.made = super().__new__(cls)
        return cls.made
class Cyc: pass
cyc = Cyc(); cyc.me = cyc; cyc.kind = Cyc
class L(list):
    def __init__(self, *a): super().__init__(*a); self.k = 1
class Dd(dict):
    def __missing__(self, k): return 5
NT = collections.namedtuple("NT", "a b")
dd = collections.defaultdict(lambda: 3); dd["x"]
@contextlib.contextmanager
def cm():
    yield 5
async def co(): return 1
def gen(): yield 1
single = Single()
values = [
    Gen(3), Sub(4), Conc(), Fl.A | Fl.B, IE.X, DC(a=1), Slots(), WithMeta(), HasDesc(), IsSub(), single, cyc, L([1]),
    Dd(), NT(1, 2), dd, types.SimpleNamespace(a=1), Err("x"), range(3), slice(1, 2), 1j, bytearray(b"x"), iter([1, 2]),
    types.MappingProxyType({"a": 1}), operator.attrgetter("x"), {1: 2}.keys(), property(lambda s: 3), Ellipsis,
    NotImplemented, list[int], typing.Optional[int], int | None, Id(3), Proto, TD, T, P, Id,
]
"""


def test_classes_and_objects_of_every_kind_come_back(store):
    notebook = Notebook().run(KINDS)
    captured = notebook.capture(store, "values", "cm", "co", "gen", "Single", "Fl", "DC")
    runner = loaded(store, captured)
    gen, sub, conc, flag, number, data, *_ = found = runner["values"][:33]
    assert (gen.x, sub.x, conc.f(), number.twice(), data) == (3, 4, 1, 6, runner["DC"](a=1))
    assert flag is runner["Fl"](3)
    assert found[10] is runner["Single"]()
    assert found[11].me is found[11]
    assert (found[12].k, found[13]["none"], found[15]["new"]) == (1, 5, 3)
    assert [type(one).__name__ for one in found] == [type(one).__name__ for one in notebook.names["values"][:33]]
    with runner["cm"]() as five:
        assert five == 5
    assert captured.fingerprint == Notebook().run(KINDS).capture(store, *captured.names).fingerprint


def test_functions_that_are_only_reached_are_found_by_plain_pickle_too(store):
    notebook = Notebook().run("def collate(x):\n    return x\nclass L:\n    pass\nl = L(); l.collate = collate")
    captured = notebook.capture(store, "l")
    runner = types.ModuleType("__main__")
    with main(runner):
        load(store, captured.digest, runner.__dict__)
        assert pickle.loads(pickle.dumps(runner.l)).collate is runner.collate


def test_loading_in_the_kernel_leaves_the_kernels_own_classes_alone(store):
    notebook = Notebook().run("width = 1\nclass Net:\n    def size(self):\n        return width\nnet = Net()")
    with main(notebook.module):
        captured = capture(["net"], notebook.names, store)
        fresh = {"width": 8}
        load(store, captured.digest, fresh)
        fresh["width"] = 5
    assert fresh["net"].size() == 5
    assert notebook.names["net"].size() == 1
    assert fresh["Net"] is not notebook.names["Net"]


def test_an_instance_of_an_older_class_of_the_same_name_travels(store):
    notebook = Notebook().run("class A:\n    v = 1\nold = A()\nclass A:\n    v = 2\nnew = A()")
    runner = loaded(store, notebook.capture(store, "old", "new"))
    assert (runner["old"].v, runner["new"].v, runner["A"].v) == (1, 2, 2)


def test_objects_may_use_the_notebooks_functions_while_they_are_loaded(store):
    notebook = Notebook().run(
        """
        import math
        scale = 3
        def scaled(x):
            return math.floor(x * scale)
        class Thing:
            def __init__(self):
                self.x = 2
            def __setstate__(self, state):
                self.x = scaled(state["x"])
        class Holder:
            pass
        holder = Holder(); holder.inside = {"deep": [Thing()]}
        """
    )
    assert loaded(store, notebook.capture(store, "holder"))["holder"].inside["deep"][0].x == 6


def test_a_long_chain_of_helpers_is_no_deep_recursion(store):
    source = "\n".join(f"def f{i}(x):\n    return f{i + 1}(x) + 1" for i in range(600)) + "\ndef f600(x):\n    return x"
    notebook = Notebook().run(source)
    captured = notebook.capture(store, "f0")
    assert len(captured.names) == 601
    assert loaded(store, captured)["f590"](0) == 10


# ---------------------------------------------------------------------------------------------------------------------
# Modules and other people's functions


def test_modules_travel_by_name_and_their_submodules_are_imported(store):
    notebook = Notebook().run("import xml\nimport xml.dom.minidom\nimport concurrent.futures as cf\nimport numpy as np")
    captured = notebook.capture(store, "xml", "cf", "np", attributes={"dom", "minidom"})
    assert (
        captured.modules == {"concurrent": "3.11", "numpy": np.__version__, "xml": "3.11"} or len(captured.modules) == 3
    )
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith("xml.dom")}
    try:
        runner = loaded(store, captured)
        assert runner["xml"].dom.minidom.Document
    finally:
        sys.modules.update(kept)


def test_wrapped_functions_of_modules_keep_their_modules_globals(store):
    notebook = Notebook().run("import torch\n@torch.no_grad()\ndef evaluate():\n    return torch.is_grad_enabled()")
    runner = loaded(store, notebook.capture(store, "evaluate"))
    assert runner["evaluate"]() is False
    assert runner["evaluate"].__globals__ is vars(sys.modules["torch.utils._contextlib"])


def test_code_from_another_namespace_keeps_one_of_its_own(store):
    notebook = Notebook()
    script = {"__name__": "__main__"}
    exec("n = 5\ndef f():\n    global n\n    n += 1\n    return n\ndef g():\n    return n", script)
    notebook.names.update(f=script["f"], g=script["g"], n=100)
    runner = loaded(store, notebook.capture(store, "f", "g", "n"))
    assert (runner["f"](), runner["g"](), runner["n"], script["n"]) == (6, 6, 100, 5)


def test_the_text_of_helpers_travels_for_tracebacks(store):
    import inspect
    import linecache

    notebook = Notebook().run("def f():\n    return 1 / 0  # the culprit")
    captured = notebook.capture(store, "f")
    linecache.cache.pop(notebook.names["f"].__code__.co_filename)
    assert "the culprit" in inspect.getsource(loaded(store, captured)["f"])


def test_loggers_streams_and_oddities_travel(store):
    notebook = Notebook(
        log=logging.getLogger("some.name"),
        out=sys.stdout,
        text=io.StringIO("x"),
        pattern=__import__("re").compile("x"),
        view=memoryview(b"abc"),
        numbers=itertools.count(3),
        add=np.add,
        relu=torch.relu,
        dtype=torch.float32,
        device=torch.device("cpu"),
        generator=torch.Generator().manual_seed(3),
        rng=np.random.default_rng(3),
        path=__import__("pathlib").Path("x"),
        kind=type(None),
        item=__import__("operator").itemgetter(1),
    )
    names = [name for name in notebook.names if not name.startswith("__")]
    runner = loaded(store, notebook.capture(store, *names))
    assert runner["out"] is sys.stdout
    assert runner["log"] is logging.getLogger("some.name")
    assert runner["relu"] is torch.relu
    assert runner["rng"].random() == np.random.default_rng(3).random()
    assert torch.rand(1, generator=runner["generator"]) == torch.rand(1, generator=torch.Generator().manual_seed(3))
