"""Runners end with their worker or forkserver, and a runner that dies ends neither of them."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import textwrap

import pytest
from trial.world import SOURCES, Server, said
from unforkable import unforkable

LOOP = """
import subprocess, sys
children = [subprocess.Popen(["sleep", "1000"], start_new_session=new) for new in (False, True)]
for epoch in trial.steps():
    trial.report(score=1.0)
    trial.log(first=children[0].pid, second=children[1].pid)
    if epoch == 1:
        import time
        time.sleep(1000)
"""


def gone(pid, within=10):
    """True once the process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], within)[0])
    finally:
        os.close(descriptor)


def pids_of(runner, order):
    """Start a leg that never ends; its process and the two that it has started."""
    runner.connection.send(order)
    rows = []
    while len(rows) < 2:
        rows += [row for m in said([runner.connection.receive()], "points") for row in m["rows"] if row[0] != "score"]
    return [runner.pid, *(int(row[3]) for row in rows[:2])]


def test_a_kill_reaches_all_that_the_runner_has_started(server, experiment):
    runner = server.runner()
    pids = pids_of(runner, experiment(LOOP).order())
    assert runner.kill() | {"op": "exited"} == {
        "op": "exited",
        "id": runner.number,
        "pid": runner.pid,
        "status": None,
        "signal": int(signal.SIGKILL),
        "why": "",
    }
    assert all(gone(pid) for pid in pids)


def test_the_end_of_a_runner_ends_what_it_left_in_its_group(server, experiment):
    runner = server.runner()
    pids = pids_of(runner, experiment(LOOP).order())
    os.kill(pids[0], signal.SIGKILL)
    assert runner.exited()["signal"] == signal.SIGKILL
    assert gone(pids[1])
    # One that went into a session of its own goes with the last runner, or with the forkserver.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pids[2], signal.SIGKILL)


@pytest.mark.parametrize(
    ("code", "status", "number"),
    [
        ("import ctypes; ctypes.string_at(0)", None, signal.SIGSEGV),
        ("import os; os.abort()", None, signal.SIGABRT),
        ("import os; os._exit(3)", 3, None),
    ],
)
def test_a_runner_that_crashes_is_reported_and_the_forkserver_lives(server, experiment, code, status, number):
    runner = server.runner()
    told = runner.leg(experiment(f"for epoch in trial.steps():\n    trial.report(score=1)\n    {code}").order())
    assert said(told, "left") == []
    exited = runner.exited()
    assert (exited["status"], exited["signal"]) == (status, number)
    if number == signal.SIGSEGV:
        assert "Fatal Python error: Segmentation fault" in runner.output()
    assert server.runner().pid


def test_a_runner_ends_by_order_or_with_its_worker(server):
    runner = server.runner()
    runner.connection.send({"op": "exit"})
    assert runner.exited()["status"] == 0
    runner = server.runner()
    runner.connection.close()
    assert gone(runner.pid)


def test_no_orphan_outlives_a_killed_worker(tmp_path, experiment):
    order = experiment(LOOP).order()
    script = f"""
        import json, sys, time
        sys.path[:0] = [{SOURCES!r}, {os.path.dirname(os.path.dirname(__file__))!r}]
        from trial.world import Server
        from trial.test_forkserver import pids_of
        server = Server(preload=())
        pids = pids_of(server.runner(), json.loads(sys.argv[1]))
        print(json.dumps([server.process.pid, *pids]), flush=True)
        time.sleep(1000)
    """
    worker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), json.dumps(order)], stdout=subprocess.PIPE, text=True
    )
    with worker:
        pids = json.loads(worker.stdout.readline())
        worker.kill()
        worker.wait()
        assert all(gone(pid) for pid in pids)


def test_runners_die_with_the_forkserver(experiment):
    server = Server(preload=())
    runner = server.runner()
    runner.connection.send(experiment(LOOP).order())
    runner.until("begun")
    server.process.kill()
    assert gone(runner.pid)
    server.close()


def test_a_runner_that_cannot_be_started_is_told_and_the_others_train_on(experiment):
    server = Server(preload=())
    runner = server.runner()
    with unforkable(server.process.pid):
        ours, theirs = os.pipe()
        server.control.send({"op": "fork", "id": 99}, [ours, theirs])
        for end in (ours, theirs):
            os.close(end)
        told = server.expect("exited", 99)
    assert told["why"].startswith("[Errno 11]")
    assert said(runner.leg(experiment("for epoch in trial.steps():\n    trial.report(score=1)\n").order()), "left")
    assert server.runner().pid
    server.close()


def test_what_is_imported_ahead_is_there_and_what_fails_is_told():
    server = Server(preload=("decimal", "no_such_module"))
    assert server.ready["versions"]["python"] == sys.version.split()[0]
    assert list(server.ready["failed"]) == ["no_such_module"]
    assert server.ready["threads"] == 1
    server.close()


def test_what_checkpoints_need_is_learned_from_no_leg(experiment):
    """Two workers whose legs need different things learn differently, and have a forkserver each."""
    server, legs = Server(), experiment("for epoch in trial.steps():\n    trial.report(score=epoch)\n")
    try:
        told = [*server.runner().leg(legs.order(1)), *server.runner().leg(legs.order(2, start=1))]
    finally:
        server.close()
    learned = {name for one in told for name in ((one.get("seen") or {}).get("loaded") or ())}
    assert not {name for name in learned if name.startswith("encodings.")}
