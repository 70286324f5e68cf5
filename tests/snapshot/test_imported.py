"""A module that another thread is importing is complete when it is read. Each case runs in a process of its own."""

import ast
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

from workbench.snapshot.imported import Newest
from workbench.snapshot.settings import settings

#: Another thread is in the middle of importing {module}, and goes on once the main thread waits for it (or ends).
BEGINNING = """
import importlib, sys, threading, time
from workbench.snapshot.imported import imported
from workbench.snapshot.settings import settings
from workbench.snapshot.surroundings import environment
from workbench.snapshot.surroundings.around import Around

for name in [name for name in sys.modules if name.partition(".")[0] == "{module}"]:
    del sys.modules[name]
begun, go_on = threading.Event(), threading.Event()

class Holding:
    def find_spec(self, name, path=None, target=None):
        if name != "{part}":
            return
        if threading.current_thread() is other:
            begun.set()
            go_on.wait(60)
        if {fails}:
            raise ImportError("no such part")

def is_waiting():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None:
        if "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back

def release():
    while not is_waiting() and not done.wait(0.01):
        pass
    go_on.set()

def import_it():
    try:
        importlib.import_module("{module}")
    except ImportError:
        pass

done = threading.Event()
other = threading.Thread(target=import_it)
sys.meta_path.insert(0, Holding())
other.start()
assert begun.wait(60)
assert "{module}" in sys.modules
threading.Thread(target=release).start()
try:
    {code}
finally:
    done.set()
"""


def printed(script: str) -> str:
    made = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=100)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def during(module: str, part: str, code: str, *, fails: bool = False) -> str:
    """What ``code`` prints while another thread is importing ``module`` and has come to ``part``."""
    return printed(textwrap.dedent(BEGINNING.format(module=module, part=part, code=code, fails=fails)))


@pytest.mark.parametrize(
    ("module", "part", "code"),
    [
        ("multiprocessing", "multiprocessing.context", "print(list(settings.here()))"),
        ("multiprocessing", "multiprocessing.context", "print(list(Around.here().settings))"),
        ("decimal", "_decimal", "print(list(settings.here()))"),
    ],
)
def test_settings_are_read_from_a_whole_module(module: str, part: str, code: str) -> None:
    assert set(ast.literal_eval(during(module, part, code))) <= {settings.FILTERS}


@pytest.mark.parametrize("code", ["print(list(settings.here()))", "print(list(Around.here().settings))"])
def test_settings_are_read_from_a_whole_torch(code: str) -> None:
    assert ast.literal_eval(during("torch", "torch.version", code)) == [settings.FILTERS]


def test_libraries_are_described_whole() -> None:
    assert "'default_dtype': 'torch.float32'" in during("torch", "torch.version", "print(environment.libraries())")
    assert "'torch_interop'" in during("torch", "torch.version", "print(environment.threads())")


def test_an_import_that_fails_elsewhere_is_no_import_here() -> None:
    code = "print(imported('multiprocessing'))"
    assert during("multiprocessing", "multiprocessing.context", code, fails=True) == "None"


def test_modules_that_come_later_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # Here and below: what a test puts among this process's modules leaves with it.
    then, new = Newest(), {"first": types.ModuleType("first"), "second": types.ModuleType("second")}
    assert then.later() == {}
    for name, module in new.items():
        monkeypatch.setitem(sys.modules, name, module)
    found = then.later()
    assert found is not None
    assert list(found.items()) == list(new.items())
    assert Newest().later() == {}


def test_without_some_modules_it_is_not_known_what_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    then, known = Newest(), sys.modules["json"]
    monkeypatch.delitem(sys.modules, "json")
    assert then.later() is None
    monkeypatch.setitem(sys.modules, "json", known)
    assert then.later() is None


WITHIN = """
import pathlib, sys
from workbench.snapshot.imported import Newest
sys.path.insert(0, {folder!r})
pathlib.Path({folder!r}, "outer.py").write_text("import __main__\\nthen = __main__.Newest()\\nimport inner")
pathlib.Path({folder!r}, "inner.py").write_text("")
import outer
print(outer.then.later(), [*Newest().later()])
import importlib
after = Newest()
importlib.reload(outer)
print(after.later())
"""


def test_what_an_unfinished_import_has_imported_is_not_missed(tmp_path: Path) -> None:
    """Python moves the module to the end when its import is done, behind what it has imported meanwhile."""
    assert printed(WITHIN.format(folder=str(tmp_path))).splitlines() == ["None []", "{}"]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_without_the_newest_it_is_not_known_what_comes_later(
    monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    monkeypatch.setitem(sys.modules, "first", types)
    then = Newest()
    if is_replaced:
        monkeypatch.setitem(sys.modules, "first", pytest)
    else:
        monkeypatch.delitem(sys.modules, "first")
    assert then.later() is None


def test_nothing_is_imported_for_being_asked_for() -> None:
    code = "print(imported('wave'), 'wave' in sys.modules)"
    assert printed(f"import sys; from workbench.snapshot.imported import imported; {code}") == "None False"
