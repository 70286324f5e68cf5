"""Which variables, packages, modules and hosts code uses is noted by name, however it asks; what it copies is said."""

import json
import subprocess
import sys

import pytest

#: Noting changes a process for good: each example has one of its own.
PROGRAM = """
import json, os, sys
from workbench.snapshot.surroundings.used import used
noting = used()
{code}
found = noting.told("/copies/")
print(json.dumps({{"variables": found["variables"], "copied": "copied" in found, "packages": found["packages"],
                  "modules": sorted(found["modules"]), "hosts": found.get("hosts", [])}}))
"""


def told(code, folder, **env):
    """What is told of a process that runs ``code`` in ``folder``."""
    variables = {"PATH": "/usr/bin", "A": "1", "B": "2", "OMP_NUM_THREADS": "1", "SSH_TTY": "x", **env}
    words = [sys.executable, "-c", PROGRAM.format(code=code)]
    done = subprocess.run(words, env=variables, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


ASKS = {
    'os.environ["A"]': ["A"],
    'os.environ.get("A", "x")': ["A"],
    'os.getenv("NOT_SET")': ["NOT_SET"],
    '"NOT_SET" in os.environ': ["NOT_SET"],
    'os.environ.setdefault("NOT_SET", "1")': ["NOT_SET"],
    'os.environ.pop("A")': ["A"],
    'os.path.expandvars("$A/$B")': ["A", "B"],
    'os.environ["A"] = "3"': [],
    'os.environ["NEW"] = "3"; os.environ["NEW"]': [],
    "del os.environ['A']": [],
    'os.environ["OMP_NUM_THREADS"]; os.environ["SSH_TTY"]; os.environ["HOME"] = "/"': [],
    "len(os.environ)": [],
}


@pytest.mark.parametrize("code", ASKS)
def test_a_variable_is_noted_however_it_is_asked_for(code, tmp_path):
    found = told(code, tmp_path)
    assert (found["variables"], found["copied"]) == (ASKS[code], False)


def test_what_a_module_imports_after_a_look_is_noted(tmp_path):
    (tmp_path / "outer.py").write_text("import __main__\n__main__.noting.told('/copies/')\nimport inner\n")
    (tmp_path / "inner.py").write_text("")
    assert told("sys.path.insert(0, os.getcwd()); import outer", tmp_path)["modules"] == ["inner", "outer"]


COPIES = ["dict(os.environ)", "os.environ.copy()", "list(os.environ.items())", "{**os.environ}", "list(os.environ)"]


@pytest.mark.parametrize("code", COPIES)
def test_a_copy_of_all_variables_is_said_and_names_none(code, tmp_path):
    found = told(code, tmp_path)
    assert (found["variables"], found["copied"]) == ([], True)


def test_what_is_asked_for_after_a_copy_is_noted_all_the_same(tmp_path):
    code = "def copy():\n    return dict(os.environ)\n\ncopy()\nos.environ['A']"
    assert told(code, tmp_path)["variables"] == ["A"]


def test_a_library_that_copies_all_variables_is_not_said(tmp_path):
    found = told("import multiprocessing.util, subprocess, logging.config; import tqdm", tmp_path)
    assert not found["copied"]
    assert "B" not in found["variables"]


def test_packages_and_project_modules_are_told_apart_and_the_standard_library_is_neither(tmp_path):
    (tmp_path / "mine.py").write_text("def late():\n    import later\n")
    (tmp_path / "later.py").write_text("")
    code = "import sys, sqlite3, yaml\nsys.path.insert(0, '')\nimport mine\nmine.late()"
    found = told(code, tmp_path)
    assert "yaml" in found["packages"]
    assert not {"sqlite3", "json", "mine", "workbench"} & set(found["packages"])
    assert found["modules"] == ["later", "mine"]


def test_a_module_is_told_though_it_comes_after_a_report_or_in_the_place_of_another(tmp_path):
    (tmp_path / "one.py").write_text("")
    (tmp_path / "other.py").write_text("")
    code = """
sys.path.insert(0, '')
import one
before = noting.told("/copies/")
del sys.modules["one"]
import other
assert [*before["modules"]] == ["one"]
assert noting.told("/copies/")["modules"] != before["modules"]
"""
    assert told(code, tmp_path)["modules"] == ["one", "other"]


def test_hosts_that_are_asked_for_are_named_and_this_machine_is_not(tmp_path):
    code = """
import socket
for name in ("localhost", socket.gethostname(), "data.invalid"):
    try:
        socket.getaddrinfo(name, 80)
    except OSError:
        pass
"""
    assert told(code, tmp_path)["hosts"] == ["data.invalid"]
