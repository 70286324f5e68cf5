"""A fork that goes on as another program is as a new process would be, and holds nothing of the one it comes from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: A module that says how its process began.
PROGRAM = """
import atexit, json, os, signal, sys
def main(words):
    atexit.register(print, "left", flush=True)
    if words[0] == "fails":
        raise RuntimeError("on purpose")
    if words[0] == "is interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    if words[0] == "exits":
        sys.exit(7)
    told = {
        "words": words, "argv": sys.argv[1:], "main": sys.modules["__main__"].__name__, "cwd": os.getcwd(),
        "path": sys.path, "variable": os.environ.get("ONE"), "pythonpath": os.environ.get("PYTHONPATH"),
        "session": os.getsid(0) == os.getpid(), "blocked": list(signal.pthread_sigmask(0, ())),
        "descriptors": sorted(int(one) for one in os.listdir("/proc/self/fd")),
        "input": os.readlink("/proc/self/fd/0"),
        "shown": open("/proc/self/cmdline").read().strip("\\0").split("\\0"),
    }
    print(json.dumps(told))
    return 3
"""
#: Forks it, and says how that ended.
FORKS = """
import json, os, signal, sys, threading
sys.path.insert(0, {folder!r})
import program
from workbench.cluster import forked
held = open({held!r}, "w")
def run(*words, **how):
    reading, writing = os.pipe()
    child = forked.run_module("program", *words, stdout=writing, **how)
    os.close(writing)
    with open(reading) as told:
        said = told.read()
    return os.waitpid(child.pid, 0)[1] >> 8, said
{then}
"""


def forks(folder: Path, then: str, *, safe: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    code = FORKS.format(folder=str(folder), held=str(folder / "held"), then=then)
    words = [sys.executable, *(["-P"] if safe else []), "-c", code]
    return subprocess.run(
        words, capture_output=True, text=True, check=True, timeout=60, cwd=folder, env={**os.environ, **env}
    )


def test_it_begins_as_a_new_process_does(tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    then = f"print(*run('--store', 'x', cwd={str(elsewhere)!r}))"
    code, said = forks(tmp_path, then, ONE="1").stdout.split(" ", 1)
    told = json.loads(said.splitlines()[0])
    assert said.split()[-1] == "left", "what is done at its end is done"
    assert code == "3"
    assert told["words"] == told["argv"] == ["--store", "x"]
    assert told["main"] == "program"
    assert told["cwd"] == str(elsewhere)
    assert told["variable"] == "1"
    assert told["session"]
    assert told["descriptors"][:3] == [0, 1, 2]
    assert len(told["descriptors"]) == 4, "and the listing itself"
    assert told["input"] == "/dev/null"
    assert told["blocked"] == []
    assert told["shown"] == [sys.executable, "-P", "-m", "program", "--store", "x"]


@pytest.mark.parametrize("safe", [True, False])
def test_its_import_path_is_that_of_the_variables_it_is_given(tmp_path: Path, safe: bool) -> None:
    (kept := tmp_path / "kept").mkdir()
    (left := tmp_path / "left").mkdir()
    then = f"env = dict(os.environ, PYTHONPATH={str(kept)!r}, ONE='2')\nprint(*run('x', env=env))"
    done = forks(tmp_path, then, safe=safe, PYTHONPATH=f"{left}{os.pathsep}{kept}", ONE="1")
    told = json.loads(done.stdout.split(" ", 1)[1].splitlines()[0])
    assert (told["variable"], told["pythonpath"]) == ("2", str(kept))
    assert str(kept) in told["path"]
    assert str(left) not in told["path"]
    # Where this process began without ``-P``, its current folder is on its path.
    assert ("" in told["path"], str(tmp_path) in told["path"]) == (False, safe)


@pytest.mark.parametrize(("how", "code"), [("fails", 1), ("exits", 7), ("is interrupted", 130)])
def test_how_it_ends_is_told(tmp_path: Path, how: str, code: int) -> None:
    done = forks(tmp_path, f"print(run({how!r})[0])")
    assert done.stdout == f"{code}\n"
    assert ("on purpose" in done.stderr) == (how == "fails")
    assert ("Traceback" in done.stderr) == (how == "fails")


def test_a_process_with_threads_forks_nothing(tmp_path: Path) -> None:
    then = """
print(forked.can_run("program"), forked.can_run("not_imported"))
waits = threading.Event()
threading.Thread(target=waits.wait).start()
print(forked.can_run("program"))
waits.set()
"""
    assert forks(tmp_path, then).stdout.split() == ["True", "False", "False"]


def test_a_child_that_has_ended_is_not_killed_again(tmp_path: Path) -> None:
    """Its number may be another process's by then."""
    then = """
child = forked.Forked(forked.fork(["x"], lambda: 0))
child.wait()
killed = []
os.kill = lambda *call: killed.append(call)  # a number that is free again cannot be had at will
child.kill()
child.poll()
lives = forked.Forked(forked.fork(["x"], signal.pause))
lives.poll()
lives.kill()
print(killed == [(lives.pid, 9)])
signal.pidfd_send_signal(os.pidfd_open(lives.pid), 9)
lives.wait()
"""
    assert forks(tmp_path, then).stdout == "True\n"
