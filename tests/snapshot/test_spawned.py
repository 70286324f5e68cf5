import ast
import json
import multiprocessing
import subprocess
import sys
import textwrap
import types

import pytest
from snapshot.notebooks import Notebook, main

from workbench.snapshot import spawned
from workbench.snapshot.reading.cell import transform
from workbench.snapshot.spawned import announce, rebuild, wanted

NOTEBOOK = """
import os
offset = 10
def shifted(x):
    return x + offset + width
class Base:
    def __init__(self, n):
        self.n = n
    def __len__(self):
        return self.n
    def __getitem__(self, i):
        return shifted(i)
def collate(items):
    return sum(items)
"""

CELL = """
from __future__ import annotations
from functools import partial
width = choice(100, 1000)
kind = choice(shifted, sorted)
factor = 2
double = partial(times, factor)
expensive = [0] * never_defined_in_a_child()
class Data(Base):
    def __getitem__(self, i):
        return double(super().__getitem__(i))
def work(data):
    return [data[0], type(data).__name__, __name__, kind.__name__]
for epoch in trial.steps():
    result = pool_of(work)
def after():
    return width
"""


def runner(store, tmp_path, method):
    """The text of a runner that trains CELL and starts children by ``method``."""
    notebook = Notebook().run(NOTEBOOK).run("def times(f, x):\n    return f * x")
    captured = notebook.capture(store, "shifted", "Base", "collate", "times")
    return textwrap.dedent(
        f"""
        import sys, types, multiprocessing, json, pickle
        from pathlib import Path
        from workbench.store import Store
        from workbench.snapshot.capture import load
        from workbench.snapshot.reading.cell import picker, supplied, transform
        from workbench.snapshot.spawned import announce

        values = {{"width": 1000, "kind": "shifted"}}
        source = {CELL!r}
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        space = main.__dict__
        load(Store({str(store.root)!r}), {captured.digest!r}, space)
        space.update(supplied())
        space["__wb_pick__"] = picker(values)
        announce(main, Path({str(tmp_path / "told.json")!r}), store={str(store.root)!r}, capture={captured.digest!r},
                 source=source, filename="<the cell>", values=values)

        class Trial:
            def steps(self):
                yield 0
        def pool_of(work):
            with multiprocessing.get_context({method!r}).Pool(1) as pool:
                return pool.map(work, [space["Data"](3)]) + pool.map(space["after"] if "after" in space else len, ["x"])
        space["trial"] = Trial()
        space["never_defined_in_a_child"] = lambda: 1
        space["pool_of"] = pool_of
        exec(transform(source, "<the cell>", values), space)
        print(json.dumps(space["result"]))
        """
    )


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_find_what_the_cell_defines(store, tmp_path, method):
    code = runner(store, tmp_path, method)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    first, _ = json.loads(done.stdout.splitlines()[-1])
    assert first == [2 * (0 + 10 + 1000), "Data", "__main__", "shifted"]


@pytest.mark.slow
def test_loaders_work_under_every_way_to_start_processes(store, tmp_path):
    pytest.importorskip("torch")
    notebook = Notebook().run(
        """
        import torch
        from torch.utils.data import DataLoader, Dataset
        table = torch.arange(50_000.)
        class Rows(Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                return table[i] * scale
        def collate(rows):
            return torch.stack(rows).sum() + shift()
        """
    )
    source = textwrap.dedent(
        """
        scale = choice(2, 3)
        bias = 1.0
        def shift():
            return bias
        class More(Rows):
            def __len__(self):
                return 4
        sums = {}
        for epoch in trial.steps():
            for method in ("fork", "forkserver", "spawn"):
                loader = DataLoader(More(), batch_size=2, num_workers=1, collate_fn=collate,
                                    multiprocessing_context=method)
                sums[method] = [batch.item() for batch in loader]
        """
    )
    captured = notebook.capture(store, "Rows", "DataLoader", "collate", "torch", assigned={"scale", "bias", "shift"})
    code = textwrap.dedent(
        f"""
        import sys, types, json
        from pathlib import Path
        from workbench.store import Store
        from workbench.snapshot.capture import load
        from workbench.snapshot.reading.cell import supplied, transform
        from workbench.snapshot.spawned import announce
        main = types.ModuleType("__main__"); sys.modules["__main__"] = main; space = main.__dict__
        load(Store({str(store.root)!r}), {captured.digest!r}, space)
        space.update(supplied(), trial=types.SimpleNamespace(steps=lambda: [0]))
        announce(main, Path({str(tmp_path / "told.json")!r}), store={str(store.root)!r}, capture={captured.digest!r},
                 source={source!r}, filename="<cell>", values={{"scale": 3}})
        exec(transform({source!r}, "<cell>", {{"scale": 3}}), space)
        print(json.dumps(space["sums"]))
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        method: [4.0, 16.0] for method in ("fork", "forkserver", "spawn")
    }


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("import os\nx = os.getcwd()", "import os"),
        ("import os\nx = os.getcwd()\ndef f():\n    return x", "import os|x = os.getcwd()|def f():\n    return x"),
        ("lr = uniform(0, 1)", "lr = 0.5"),
        ("model = build()\nfor e in trial.steps():\n    pass", ""),
        ("loader = trial.loader(d)\ndef f():\n    return loader", "def f():\n    return loader"),
        ("a = 1\nb = a\ndef f():\n    return b", "a = 1|b = a|def f():\n    return b"),
        ("try:\n    import fast\nexcept ImportError:\n    fast = None", None),
        ("if True:\n    def f(): ...", None),
        ("for x in data:\n    pass\nclass A: ...", "class A:\n    ..."),
        ("for e in trial.steps():\n    pass\nprint('done')\ndef late(): ...", "def late():\n    ..."),
        ("model.train()\ndel model", ""),
    ],
)
def test_a_child_repeats_definitions_and_what_they_rely_on(source, kept):
    tree = ast.parse(source)
    values = {"lr": 0.5} if "lr" in source else {}
    from workbench.snapshot.reading.cell import with_values

    found = [ast.unparse(one) for one in wanted(with_values(tree, values), values)]
    assert "|".join(found) == (ast.unparse(ast.parse(source)) if kept is None else kept)


def test_a_definition_that_fails_is_told_and_the_others_stand(store, tmp_path, capfd):
    module = types.ModuleType("__main__")
    with main(module):
        alias = sys.modules.get("__mp_main__")
        try:
            announce(module, tmp_path / "told.json", store=store.root, source="class A(Nowhere): ...\ndef f(): ...\n")
            namespace: dict[str, object] = {}
            rebuild(namespace, tmp_path / "told.json")
        finally:
            sys.modules["__mp_main__"] = alias
    assert "f" in namespace
    assert "A" not in namespace
    assert "line 1" in capfd.readouterr().err
    assert module.__spec__.name == spawned.__name__


def test_the_announced_module_is_what_multiprocessing_looks_for(store, tmp_path, monkeypatch):
    monkeypatch.setenv(spawned.VARIABLE, "")
    module = types.ModuleType("__main__")
    alias = sys.modules.get("__mp_main__")
    with main(module):
        try:
            announce(module, tmp_path / "told.json", store=store.root)
            prepared = multiprocessing.spawn.get_preparation_data("x")
        finally:
            sys.modules["__mp_main__"] = alias
    assert prepared["init_main_from_name"] == "workbench.snapshot.spawned"
    assert transform("x = 1\n", "c", {}) is not None
