"""Files that libraries open without Python's ``open`` are seen, programs are named, and imports read no data."""

import py_compile
from pathlib import Path

import pytest
from trial.world import said

from workbench.snapshot.surroundings.programs import files_named, started
from workbench.snapshot.surroundings.readers import NOT_SEEN, READERS, paths_in

#: How a file of each kind is made, and read: each line alone in a leg.
MAKES = """
import os, sqlite3, sys
import numpy as np, pandas as pd, torch
os.chdir(sys.argv[1])
frame = pd.DataFrame({"a": [1.0, 2.0]})
frame.to_csv("a.csv", index=False)
frame.to_json("a.jsonl", lines=True, orient="records")
import h5py, lmdb, pyarrow as pa, pyarrow.feather, pyarrow.orc, pyarrow.parquet
from safetensors.torch import save_file
frame.to_parquet("a.parquet")
os.mkdir("parts")
frame.to_parquet("parts/one.parquet")
frame.to_feather("a.feather")
frame.to_orc("a.orc")
table = pa.table({"a": [1.0]})
with pa.OSFile("a.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
    writer.write_table(table)
with h5py.File("a.h5", "w") as file:
    file["x"] = [1.0]
save_file({"x": torch.ones(2)}, "a.safetensors")
with lmdb.open("a.lmdb") as made, made.begin(write=True) as change:
    change.put(b"x", b"1")
with lmdb.open("single.lmdb", subdir=False) as made:
    pass
np.arange(4.0).tofile("a.bin")
torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), "a.pt")
torch.save({"x": 1}, "a.pth")
connection = sqlite3.connect("a.db")
connection.execute("create table t (a)")
connection.commit()
connection.close()
connection = sqlite3.connect("logged.db")
connection.execute("pragma journal_mode=wal")
connection.execute("create table t (a)")
connection.commit()
os._exit(0)  # the log stays
"""
READS = [
    ("import pandas as pd; pd.read_parquet('a.parquet')", "a.parquet"),
    ("import pyarrow.parquet as pq; pq.read_table('a.parquet')", "a.parquet"),
    ("import pyarrow.parquet as pq; pq.ParquetFile('a.parquet').read()", "a.parquet"),
    ("from pyarrow.parquet import read_table; read_table(source='a.parquet')", "a.parquet"),
    ("import pyarrow.dataset as ds; ds.dataset(['a.parquet']).to_table()", "a.parquet"),
    ("import pyarrow.dataset as ds; ds.dataset('parts').to_table()", "one.parquet"),
    ("import pandas as pd; pd.read_feather('a.feather')", "a.feather"),
    ("import pyarrow.feather as fe; fe.read_table('a.feather')", "a.feather"),
    ("import pyarrow.csv as pc; pc.read_csv('a.csv')", "a.csv"),
    ("import pandas as pd; pd.read_csv('a.csv')", "a.csv"),
    ("import pyarrow.json as pj; pj.read_json('a.jsonl')", "a.jsonl"),
    ("import pyarrow.orc as orc; orc.ORCFile('a.orc').read()", "a.orc"),
    ("import pyarrow as pa; pa.ipc.open_file(pa.memory_map('a.arrow')).read_all()", "a.arrow"),
    ("import pyarrow as pa; pa.OSFile('a.arrow').read()", "a.arrow"),
    ("import pyarrow as pa; pa.ipc.open_file('a.arrow').read_all()", "a.arrow"),
    ("import h5py; h5py.File('a.h5', 'r').close()", "a.h5"),
    ("from safetensors.torch import load_file; load_file('a.safetensors')", "a.safetensors"),
    ("from safetensors.numpy import load_file; load_file('a.safetensors')", "a.safetensors"),
    (
        "from safetensors import safe_open\nwith safe_open('a.safetensors', 'pt') as f: f.get_tensor('x')",
        "a.safetensors",
    ),
    ("import lmdb; lmdb.open('a.lmdb', readonly=True).close()", "data.mdb"),
    ("import lmdb; lmdb.open('single.lmdb', readonly=True, subdir=False).close()", "single.lmdb"),
    ("import torch; torch.from_file('a.bin', size=4, dtype=torch.float64).sum()", "a.bin"),
    ("import torch; torch.UntypedStorage.from_file('a.bin', False, 32)", "a.bin"),
    ("import torch; torch.jit.load('a.pt')", "a.pt"),
    ("import torch; torch.load('a.pth')", "a.pth"),
    ("import numpy as np; np.memmap('a.bin').sum()", "a.bin"),
    ("import numpy as np; np.fromfile('a.bin')", "a.bin"),
    ("import sqlite3; sqlite3.connect('a.db').close()", "a.db"),
    ("import sqlite3; sqlite3.connect('file:a.db?mode=ro', uri=True).close()", "a.db"),
    ("import os, sqlite3; sqlite3.connect(f'file://{os.getcwd()}/a.db', uri=True).close()", "a.db"),
    ("import pandas as pd, sqlite3; pd.read_sql('select * from t', sqlite3.connect('a.db'))", "a.db"),
]
ENDS = """
for epoch in trial.steps():
    trial.report(score=1.0)
"""


def told_by(told: list) -> dict:
    [left] = said(told, "left")
    assert left["error"] is None, left["error"]["traceback"]
    [begun] = said(told, "begun")
    return left.get("seen") or begun["seen"]


def names(seen: dict) -> list[str]:
    return [Path(path).name for path in seen["paths"]]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("files")
    subprocess.run([sys.executable, "-c", MAKES, str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def cell(server, experiment, files):
    """What a leg tells whose set-up is some code, in the folder of the files."""
    runner = server.runner()

    def run(source: str, ends: str = ENDS, steps: int = 1) -> dict:
        return told_by(
            runner.leg(experiment(f"import os\nos.chdir({str(files)!r})\n{source}\n{ends}", steps=steps).order())
        )

    return run


def test_what_other_readers_open_and_close_is_seen(cell):
    missed = {source: found for source, name in READS if (found := names(cell(source))) != [name]}
    assert missed == {}


def test_a_database_with_a_log_is_seen_with_it(cell):
    assert names(cell("import sqlite3; sqlite3.connect('logged.db').execute('select * from t').fetchall()")) == [
        "logged.db",
        "logged.db-wal",
    ]
    assert names(cell("import sqlite3; sqlite3.connect(':memory:'); sqlite3.connect('')")) == []


def test_what_training_makes_is_no_data_whatever_makes_it(cell):
    made = """
import h5py, lmdb, pyarrow as pa, sqlite3, tempfile
place = tempfile.mkdtemp(dir=os.getcwd())
h5py.File(f"{place}/new.h5", "w").close()
pa.OSFile(f"{place}/new.arrow", "wb").close()
connection = sqlite3.connect(f"{place}/new.db")
connection.execute("create table t (a)")
connection.commit()
held = connection
"""
    assert names(cell(made)) == []


def test_text_without_a_file_is_no_data(cell):
    tries = "import ast\nfor read in (ast.literal_eval, exec):\n    try: read('1 2')\n    except SyntaxError: pass"
    assert names(cell(tries)) == []


def test_a_file_named_py_is_data_where_training_opens_it_and_code_where_it_is_imported(cell, files):
    (files / "table.py").write_text("ROWS = [1, 2]\n")
    (files / "module.py").write_text("import missing_here\n")
    imports = "import sys, traceback, linecache\nsys.path.insert(0, os.getcwd())\n"
    broken = (
        "try:\n    import module\nexcept ImportError:\n    traceback.format_exc()\nlinecache.getlines('module.py')\n"
    )
    assert names(cell(imports + broken)) == []
    assert names(cell("exec(open('table.py').read())")) == ["table.py"]
    assert names(cell("from pathlib import Path\nexec(Path('table.py').read_text())")) == ["table.py"]


BY_PATH = {
    "its spec": """
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("conf", "conf.py")
spec.loader.exec_module(module_from_spec(spec))
""",
    "its loader": """
from importlib.machinery import SourceFileLoader
SourceFileLoader("conf", "conf.py").load_module()
""",
    "runpy": "import runpy\nrunpy.run_path('conf.py')",
    "runpy, as a module": "import runpy, sys\nsys.path.insert(0, os.getcwd())\nrunpy.run_module('conf')",
}


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("way", BY_PATH)
@pytest.mark.filterwarnings("ignore:the load_module")
def test_a_file_of_code_that_is_loaded_by_its_path_is_data(way, is_compiled, cell, files):
    (files / "conf.py").write_text("import json\nRATE = 1\n")
    if is_compiled:
        py_compile.compile(str(files / "conf.py"))
    assert names(cell(BY_PATH[way])) == ["conf.py"]


def test_a_script_that_a_spawned_process_imports_again_is_code(cell, files):
    (files / "conf.py").write_text("RATE = 1\n")
    imports = "from multiprocessing import spawn\nspawn._fixup_main_from_path(os.path.abspath('conf.py'))"
    assert names(cell(imports)) == []


def test_the_files_that_a_subprocess_is_told_of_are_named_and_so_is_the_program(cell, files):
    seen = cell("import subprocess\nsubprocess.run(['sort', 'a.csv'], check=True, capture_output=True)")
    assert names(seen) == ["a.csv"]
    assert [Path(path).name for path in seen["named"]] == ["a.csv"]
    assert seen["programs"] == ["sort"]
    seen = cell("import os\nos.system('cat < a.csv > /dev/null; head -c 1 a.bin | wc -c > /dev/null')")
    assert sorted(names(seen)) == ["a.bin", "a.csv"]
    assert seen["programs"] == ["cat", "head", "wc"]
    seen = cell("import subprocess\nsubprocess.run(['sort', 'a.csv'], capture_output=True)\nopen('a.csv').read()")
    assert "named" not in seen  # training has read it itself


def test_what_a_living_subprocess_holds_open_is_seen(cell):
    waits = "import sys\nfile = open('a.bin')\nprint(1, flush=True)\nsys.stdin.read()"
    seen = cell(
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {waits!r}], stdin=-1, stdout=-1)\nchild.stdout.readline()",
        ENDS + "child.communicate()\n",
    )
    assert names(seen) == ["a.bin"]


def test_what_is_open_at_the_end_of_a_step_is_seen(server, experiment, files, monkeypatch):
    source = f"""
import ctypes, os, time
from workbench.trial.process import leg
leg.LOOK_COST = 1.0  # on a busy machine, a look that took long would put off the next one
os.chdir({str(files)!r})
libc = ctypes.CDLL(None)
for epoch in trial.steps():
    if epoch == 1:
        time.sleep(1.1)  # it is looked again at most once a second
        held = libc.open(b"a.orc", 0)
    if epoch == 2:
        libc.close(held)
        libc.close(libc.open(b"a.csv", 0))  # opened and closed between two looks
    trial.report(score=1.0)
"""
    assert names(told_by(server.runner().leg(experiment(source, steps=4).order()))) == ["a.orc"]


WORKERS = """
import h5py, torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 2
    def __getitem__(self, at):
        import h5py
        with h5py.File("a.h5", "r") as file:
            return float(file["x"][0])
loader = DataLoader(Rows(), 1, num_workers=1, multiprocessing_context={context!r})
"""


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_what_loaders_workers_read_by_other_readers_is_seen(cell, context):
    ends = "for epoch in trial.steps():\n    trial.report(score=sum(batch.sum().item() for batch in loader))\n"
    assert names(cell(WORKERS.format(context=context), ends)) == ["a.h5"]


def test_wrappers_change_no_behaviour(cell):
    cell(
        """
import inspect, io, pickle
import h5py, pyarrow as pa, pyarrow.parquet as pq
from safetensors import safe_open
assert pickle.loads(pickle.dumps(pa.memory_map)) is pa.memory_map
assert inspect.signature(pq.read_table).parameters["source"]
assert isinstance(pa.OSFile("a.csv"), pa.NativeFile) and pa.OSFile.__module__ == "pyarrow.lib"
reads = (lambda: pq.read_table("none.parquet"), lambda: h5py.File("none.h5", "r"), lambda: safe_open("none", "pt"))
for broken in reads:
    try:
        broken()
    except OSError:
        continue
    raise AssertionError
try:
    pq.read_table()
except TypeError as error:
    assert "source" in str(error)
assert pq.read_table(io.BytesIO(open("a.parquet", "rb").read())).num_rows == 2
"""
    )


def test_packages_that_read_unseen_are_named(cell, files):
    (files / "duckdb.py").write_text("")
    seen = cell("import sys\nsys.path.insert(0, os.getcwd())\nimport duckdb")
    assert seen["not_seen"] == ["duckdb"]
    assert not {name.partition(".")[0] for name in READERS} & set(NOT_SEEN)


def test_words_of_a_command_line_are_told_from_programs(tmp_path):
    assert started("cat < in.csv > out.csv && X=1 ./tool --data=in.csv") == (
        ["cat", "tool"],
        ["in.csv", "--data=in.csv"],
    )
    assert started(["/bin/sh", "-c", "sort 'a b.csv' | uniq"]) == (["sort", "uniq"], ["a b.csv"])
    assert started(["dd", "if=in.csv", "of=out"]) == (["dd"], ["if=in.csv", "of=out"])
    assert started("echo 'open") == (["echo"], ["'open"])
    (tmp_path / "in.csv").write_text("1")
    assert files_named(["--data=in.csv", "in.csv", "@in.csv", "none", ""], str(tmp_path)) == [str(tmp_path / "in.csv")]


def test_arguments_of_readers_are_told_apart(tmp_path):
    for name in ("a.csv", "b.csv", "_metadata", ".hidden"):
        (tmp_path / name).write_text("1")
    everything = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    assert list(paths_in(tmp_path)) == everything
    assert sorted(paths_in(f"{tmp_path}/*.csv")) == everything
    assert list(paths_in([everything[0], Path(everything[1])])) == everything
    assert list(paths_in(f"file://{everything[0]}")) == everything[:1]
    assert [*paths_in("s3://bucket/a.csv"), *paths_in(b"\x89HDF\0"), *paths_in(3), *paths_in("a,b\n1,2\n")] == []
