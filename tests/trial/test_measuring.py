"""What a leg's processes use is measured seldom: the more a look costs, the longer until the next one."""

import os
import signal
import subprocess
import sys

import pytest

from workbench.trial.process import measuring
from workbench.trial.process.measuring import LOOK_S, MOST_OF_TIME, Measuring, peak_memory
from workbench.trial.process.processes import descendants


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a test says so."""

    class Clock:
        now = 100.0

    monkeypatch.setattr(measuring.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.mark.parametrize("cost", [0.0, 0.4])
def test_looks_take_at_most_a_thousandth_of_the_time(clock, monkeypatch, cost):
    looks = []

    def dear():
        looks.append(clock.now)
        clock.now += cost
        return 1000

    monkeypatch.setattr(measuring, "peak_memory", dear)
    leg = Measuring(lambda found: None, lambda: 1, at_once=False)
    leg.begin()
    began = clock.now
    for _ in range(20_000):
        clock.now += 0.1
        leg.stepped()
    assert len(looks) >= (clock.now - began) / (LOOK_S + 0.2) if not cost else len(looks) >= 4
    assert sum(cost for _ in looks[:-1]) <= MOST_OF_TIME * (looks[-1] - began)


@pytest.mark.parametrize("at_once", [True, False])
def test_the_first_step_is_measured_at_once_only_if_slots_are_divided_by_it(at_once):
    told = []
    leg = Measuring(told.append, lambda: 1, at_once=at_once)
    leg.begin()
    leg.stepped()
    assert [found.step for found in told] == [1] * at_once


def test_a_process_without_others_below_it_is_not_walked_page_by_page():
    # The walk of `smaps_rollup` takes milliseconds for each gigabyte, and allocations of the process wait for it.
    code = (
        "import sys, workbench.trial.process.measuring as m\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "assert m.peak_memory() > 1e6\n"
        "assert not any('smaps' in name for name in opened), opened\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_of_processes_below_counts():
    code = "memory = bytearray(b'x' * 200_000_000); print('ready', flush=True); input()"
    alone = peak_memory()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        own = measuring._bytes(f"/proc/{os.getpid()}/smaps_rollup", b"Pss:")
        assert peak_memory() >= max(alone, own + 190_000_000)
        other.communicate(b"\n")


def test_some_processes_are_left_out_with_those_below_them():
    with subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE) as other:
        below = int(other.stdout.readline())
        try:
            assert {other.pid, below} <= {*descendants(os.getpid())}
            assert not {other.pid, below} & {*descendants(os.getpid(), but={other.pid})}
        finally:
            os.kill(below, signal.SIGKILL)


def test_children_are_found_whatever_started_them():
    code = (
        "import ctypes, os, platform, subprocess, sys, threading, time\n"
        "from workbench.trial.process.processes import descendants\n"
        "here = os.getpid()\n"
        "assert descendants(here) == []\n"
        "started = []\n"
        "start = lambda: started.append(subprocess.Popen(['sleep', '1000']))\n"
        "thread = threading.Thread(target=start)\n"
        "thread.start()\n"
        "thread.join()\n"
        "assert descendants(here) == [started[0].pid]\n"
        "started[0].kill()\n"
        "os.waitid(os.P_PID, started[0].pid, os.WEXITED | os.WNOWAIT)\n"
        "assert descendants(here) == [started[0].pid]  # until it is waited for\n"
        "started[0].wait()\n"
        "assert descendants(here) == []\n"
        "if platform.machine() == 'x86_64':  # clone(2), by its number there, for a child whose end gives no signal\n"
        "    quiet = ctypes.CDLL(None).syscall(56, 0, 0, 0, 0, 0)\n"
        "    if not quiet:\n"
        "        time.sleep(1000)  # until it is killed below\n"
        "    assert descendants(here) == [quiet]\n"
        "    os.kill(quiet, 9)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_only_computes_is_busy_also_while_another_program_has_its_core():
    core = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    computes = (
        f"import os, time; os.sched_setaffinity(0, {{{core}}})\n"
        "from workbench.trial.process.measuring import Measuring\n"
        "leg = Measuring(lambda found: print(found.busy, time.process_time() - began), lambda: 1, at_once=True)\n"
        "leg.begin()\n"
        "began, until = time.process_time(), time.monotonic() + 2.0\n"
        "while time.monotonic() < until: pass\n"
        "leg.stepped()\n"
    )
    with subprocess.Popen([sys.executable, "-c", spin]) as other:
        try:
            done = subprocess.run([sys.executable, "-c", computes], check=True, capture_output=True, text=True)
        finally:
            other.kill()
    busy, computed = map(float, done.stdout.split())
    assert computed < 1.8, "the other program had a part of the two seconds"
    assert busy > 0.9
