import gc
import io
import itertools
import logging
import os
import pickle
import queue
import resource
import socket
import sqlite3
import sys
import tempfile
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from snapshot.notebooks import Notebook, loaded, main

from workbench.errors import BadCapture, NotFound, VersionsDiffer
from workbench.snapshot import loading
from workbench.snapshot.capture import blobs_of, capture, contents, load

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


# ---------------------------------------------------------------------------------------------------------------------
# Large data


def blobs(store):
    return sorted(path.stat().st_size for path in store.blobs.iterdir())


def test_large_arrays_are_kept_once_by_content(store):
    array = np.arange(100_000.0)
    notebook = Notebook(a=array, b=array.copy(), small=np.arange(10))
    notebook.capture(store, "a", "small")
    first = blobs(store)
    assert first[-1] == array.nbytes
    notebook.capture(store, "a", "b", "small")
    assert blobs(store)[-1] == array.nbytes
    assert sum(size >= 1 << 16 for size in blobs(store)) == 1


def test_what_one_runner_writes_no_other_sees(store):
    notebook = Notebook(a=np.zeros(100_000), t=torch.zeros(100_000))
    captured = notebook.capture(store, "a", "t")
    one, other = loaded(store, captured), loaded(store, captured)
    one["a"][:] = 1
    one["t"].fill_(1)
    assert other["a"].sum() == other["t"].sum() == notebook.names["a"].sum() == 0
    assert loaded(store, captured)["a"].sum() == 0


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(60_000.0).reshape(200, 300)),
        np.arange(60_000.0).reshape(200, 300)[:, ::2],
        np.arange(60_000.0)[::-1],
        np.arange(60_000.0).reshape(200, 300).T,
        np.arange(60_000).astype("datetime64[s]"),
        np.zeros(20_000, dtype=[("x", "f8"), ("y", "i4")]),
        np.array(["a", None, {"b": 1}] * 10, dtype=object),
        np.array(["text"] * 30_000),
        np.zeros((0, 5)),
        np.float32(3),
        np.zeros(()),
        np.ma.masked_array(np.arange(20_000.0), np.arange(20_000) % 2),
        np.arange(20_000.0).astype(">f4"),
    ],
    ids=lambda array: f"{type(array).__name__}-{array.dtype}-{array.shape}"[:40],
)
def test_arrays_of_every_kind_come_back(store, array):
    runner = loaded(store, Notebook(a=array).capture(store, "a"))
    assert type(runner["a"]) is type(array)
    np.testing.assert_array_equal(runner["a"], array)
    assert runner["a"].dtype == array.dtype


def test_read_only_arrays_stay_read_only_and_others_are_writable(store):
    fixed = np.zeros(100_000)
    fixed.flags.writeable = False
    runner = loaded(store, Notebook(fixed=fixed, free=np.ones(100_000)).capture(store, "fixed", "free"))
    assert not runner["fixed"].flags.writeable
    assert runner["free"].flags.writeable


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(60_000).to(torch.bfloat16),
        torch.arange(60_000.0).reshape(200, 300)[:, ::2],
        torch.arange(60_000.0).reshape(200, 300).T,
        torch.zeros(0),
        torch.tensor(3.0),
        torch.zeros(3, requires_grad=True),
        torch.eye(100).to_sparse(),
        torch.zeros(5, dtype=torch.bool),
        torch.zeros(20_000, dtype=torch.complex64).conj(),
        torch.nn.Parameter(torch.ones(30_000)),
        torch.zeros(3, device="meta"),
        torch.zeros(1).expand(50_000),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}-{tensor.layout}",
)
def test_tensors_of_every_kind_come_back(store, tensor):
    found = loaded(store, Notebook(t=tensor).capture(store, "t"))["t"]
    assert type(found) is type(tensor)
    assert (found.dtype, found.shape, found.requires_grad) == (tensor.dtype, tensor.shape, tensor.requires_grad)
    assert found.stride() == tensor.stride() if tensor.layout == torch.strided else True
    if tensor.device.type != "meta":
        assert torch.equal(found.to_dense(), tensor.to_dense())


def test_pandas_travels_with_its_columns_aside(store):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": np.arange(50_000.0), "y": np.arange(50_000), "s": ["text"] * 50_000})
    notebook = Notebook(table=table, column=table["x"])
    captured = notebook.capture(store, "table", "column")
    runner = loaded(store, captured)
    pd.testing.assert_frame_equal(runner["table"], table)
    runner["table"].loc[0, "x"] = 7.0
    assert len(loading._manifest(store, captured.digest)["regions"]) >= 2


def test_a_model_of_hundreds_of_arrays_holds_no_file_open(store):
    notebook = Notebook(weights=[np.full(20_000, float(i)) for i in range(150)])
    captured = notebook.capture(store, "weights")
    before = len(os.listdir("/proc/self/fd"))
    runner = loaded(store, captured)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert runner["weights"][149][5] == 149
    maps = Path("/proc/self/maps").read_text().count(str(store.blobs))
    assert maps >= 150
    del runner
    gc.collect()
    assert Path("/proc/self/maps").read_text().count(str(store.blobs)) < maps


def test_a_mapped_file_is_captured_by_content_or_when_huge_by_its_place(store, tmp_path, monkeypatch):
    mapped = np.memmap(tmp_path / "train.bin", np.uint16, "w+", shape=(50_000,))
    mapped[:] = np.arange(50_000)
    notebook = Notebook(mapped=mapped, part=mapped[5:50])
    runner = loaded(store, notebook.capture(store, "mapped", "part"))
    assert type(runner["mapped"]) is np.ndarray
    assert runner["part"][0] == 5
    monkeypatch.setattr("workbench.snapshot.pickling.HUGE", 1000)
    captured = notebook.capture(store, "mapped")
    assert captured.size < 10_000
    runner = loaded(store, captured)
    runner["mapped"][0] = 9
    assert (mapped[0], runner["mapped"][0], runner["mapped"][7]) == (0, 9, 7)
    # Parts of one are told apart by what they show: each of them says the offset of the whole.
    halves = Notebook(one=mapped[:20_000], other=mapped[20_000:40_000]).capture(store, "one", "other").names
    assert halves["one"] != halves["other"]


def test_memory_is_mapped_and_not_read(store):
    notebook = Notebook(a=np.ones(20_000_000))
    captured = notebook.capture(store, "a")
    del notebook
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded(store, captured)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_storages_on_other_devices_go_through_the_cpu_and_back(store):
    from workbench.snapshot import rebuilding
    from workbench.snapshot.pickling import Pickler

    class Elsewhere:
        device = torch.device("cuda:1")

        def data_ptr(self):
            return 1234

        def nbytes(self):
            return 200_000

        def cpu(self):
            return torch.arange(50_000.0).untyped_storage()

    pickler = Pickler(io.BytesIO(), {})
    make, (buffer, device) = pickler._storage(Elsewhere())
    assert (make, device) == (rebuilding.make_storage, "cuda:1")
    assert pickler.notes == {"cuda:1": 200_000}
    assert bytes(buffer)[:8] == np.arange(2.0, dtype="f4").tobytes()
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match=r"no cuda device.*tensor.cpu\(\)"):
            make(bytearray(4), device)


# ---------------------------------------------------------------------------------------------------------------------
# What cannot travel


def opened():
    return open(tempfile.mkstemp()[1])


class DaskClient:
    def __reduce__(self):
        raise TypeError("cannot pickle a client")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (threading.Lock, ["lock", "in the train cell"]),
        (threading.RLock, ["RLock", "in the train cell"]),
        (threading.Event, ["Event", "in the train cell"]),
        (queue.Queue, ["Queue", "in the train cell"]),
        (opened, ["open file", "Open it in the train cell"]),
        (lambda: open(tempfile.mkstemp()[1], "wb"), ["open file"]),
        (lambda: (i for i in range(3)), ["generator", "list(...)"]),
        (socket.socket, ["socket", "Connect in the train cell"]),
        (lambda: sqlite3.connect(":memory:"), ["Connection", "Connect in the train cell"]),
        (DaskClient, ["DaskClient", "Connect in the train cell"]),
        (sys._getframe, ["frame"]),
        (threading.local, ["local"]),
    ],
)
@pytest.mark.parametrize("where", ["itself", "inside", "through a helper"])
def test_what_cannot_be_pickled_is_named_with_its_line(store, make, told, where):
    thing = make()
    notebook = Notebook(thing=thing).run(
        """
        class Holder:
            def __init__(self, x):
                self.parts = {"a": [x]}
        held = Holder(thing)
        def inner():
            return thing
        def helper():
            return inner()
        """
    )
    name, path = {"itself": ("thing", "`thing`"), "inside": ("held", "held.parts['a'][0]")}.get(
        where, ("helper", "the cell uses `helper`, which uses `inner`, which uses `thing` (line 6: `return thing`)")
    )
    with pytest.raises(BadCapture) as caught, main(notebook.module):
        capture({"print": 1, name: 7}, notebook.names, store)
    assert caught.value.line == 7
    assert "line 7" in str(caught.value)
    assert path in str(caught.value)
    for words in told:
        assert words in str(caught.value)
    if hasattr(thing, "close"):
        thing.close()


def test_endless_nesting_is_refused_and_not_a_crash(store):
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(BadCapture, match="nested"):
        Notebook(nested=nested).capture(store, "nested")
    while nested:
        nested = nested.pop()


# ---------------------------------------------------------------------------------------------------------------------
# The store's side


def test_a_cell_that_needs_nothing_captures_nothing(store):
    captured = Notebook().capture(store, "print", "len")
    assert captured.digest is None
    assert captured.names == {}


def test_distributions_and_trial_are_supplied_and_not_sent(store):
    notebook = Notebook(trial=threading.Lock()).run(
        "from workbench.space import choice, uniform\nimport workbench as wb\n"
        "def helper():\n    trial.report(a=1)\n    return choice"
    )
    captured = notebook.capture(store, "helper", "choice", "trial", "wb")
    assert set(captured.names) == {"helper", "trial", "wb"} - {"trial"} or "trial" not in captured.names
    assert "choice" not in captured.names


def test_contents_and_blobs_are_known_without_loading(store):
    captured = Notebook(a=np.zeros(100_000), n=3).capture(store, "a", "n")
    assert contents(store, captured.digest)["names"] == captured.names
    assert captured.digest in blobs_of(store, captured.digest)
    assert {path.name for path in store.blobs.iterdir()} == set(blobs_of(store, captured.digest))


def test_another_pythons_capture_is_refused(store, monkeypatch):
    captured = Notebook(n=3).capture(store, "n")
    monkeypatch.setattr(loading, "python_of_captures", lambda: "3.99")
    with pytest.raises(VersionsDiffer, match=r"3\.99"):
        loaded(store, captured)


def test_a_missing_blob_is_told(store):
    captured = Notebook(n=3).capture(store, "n")
    (store.blobs / captured.digest).unlink()
    with pytest.raises(NotFound):
        loaded(store, captured)


def test_a_function_of_the_notebook_lives_in_the_runners_namespace_even_from_a_copy_of_it(store):
    notebook = Notebook().run(
        "scale = 2\ndef inner():\n    return scale\ndef train(trial, lr=0.1):\n    return inner()"
    )
    copied = {**notebook.names}
    captured = capture({"train": 1}, copied, store)
    runner = loaded(store, captured)
    assert runner["train"].__globals__ is runner
    runner["scale"] = 9
    assert runner["train"](None) == 9


def test_a_function_inside_a_function_travels_as_a_value(store):
    def outer(n):
        def train(trial):
            return n

        return train

    captured = capture({"train": 1}, vars(sys.modules[__name__]), store, values={"train": outer(4)})
    assert loaded(store, captured)["train"](None) == 4


def test_torch_is_not_imported_for_a_notebook_without_it(store, tmp_path):
    import subprocess

    code = (
        "import sys, numpy as np\nfrom workbench.store import Store\n"
        "from workbench.snapshot.capture import capture, load\nfrom workbench.snapshot import take\n"
        f"s = Store({str(store.root)!r})\nns = {{'a': np.zeros(100_000), 'b': [1]}}\n"
        "c = capture(['a', 'b'], ns, s)\nload(s, c.digest, {})\ntake(s, capture=c)\n"
        "print([m for m in ('torch', 'pandas', 'distributed', 'IPython') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
