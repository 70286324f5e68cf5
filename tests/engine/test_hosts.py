"""Ranks on several hosts: network namespaces with a Dask worker each, which share the disk and reach each other only by
their own addresses. The machine's name means none of these."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gang_world import gang, losses, pid_of, steps_of
from running import ended, engine, lines, outcome, start, until

from workbench.records import Scheduler
from workbench.store import Store
from workbench.store.keeping.checkpoints import Checkpoints

#: A Dask worker that is started again when it ends, as a service manager does.
WORKER = 'while true; do "$0" -m distributed.cli.dask_worker "$@"; sleep 0.2; done'
#: Seconds within which a cut link ends a gang, since Dask gives up a connection after 30; and within which the gang has
#: gone on and ended once the link is back.
CUT_S, BACK_S = 60.0, 120.0
WHOLE = Scheduler(kind="all", first=40, last=40)


def ip(*words: str, check: bool = True) -> str:
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True).stdout


@dataclass
class Hosts:
    """The scheduler's address, and of each host its namespace and the end of its cable at this side."""

    address: str
    spaces: list[str]
    links: list[str]

    def of(self, pid: int) -> str:
        return ip("netns", "identify", str(pid)).strip()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    """Two hosts beside this one, where the scheduler runs."""
    name, net = f"wb{os.getpid() % 100000}", f"198.18.{os.getpid() % 250}"
    spaces, links = [f"{name}a", f"{name}b"], [f"{name}va", f"{name}vb"]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        try:
            ip("link", "add", name, "type", "bridge")
            ip("addr", "add", f"{net}.1/24", "dev", name)
            ip("link", "set", name, "up")
            for number, (space, link) in enumerate(zip(spaces, links, strict=True), 2):
                ip("netns", "add", space)
                ip("link", "add", link, "type", "veth", "peer", "name", "wbhost", "netns", space)
                ip("link", "set", link, "master", name, "up")
                ip("-n", space, "addr", "add", f"{net}.{number}/24", "dev", "wbhost")
                ip("-n", space, "link", "set", "wbhost", "up")
                ip("-n", space, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces can be made here: {getattr(error, 'stderr', '') or error}")
        found = tmp_path / "scheduler.json"
        with open(tmp_path / "dask.log", "ab") as log:
            more: dict[str, Any] = {"stdout": log, "stderr": log, "start_new_session": True}
            line = ["-m", "distributed.cli.dask_scheduler", "--host", f"{net}.1", "--port", "0", "--no-dashboard"]
            processes.append(subprocess.Popen([sys.executable, *line, "--scheduler-file", str(found)], **more))
            until(lambda: found.exists() and found.read_text().strip(), what="a Dask scheduler")
            address = json.loads(found.read_text())["address"]
            for number, space in enumerate(spaces, 2):
                own = tmp_path / space  # two machines have no runtime folder in common
                own.mkdir(mode=0o700)
                line = [address, "--nthreads", "1", "--host", f"{net}.{number}", "--no-dashboard"]
                line += ["--local-directory", str(own)]
                command = ["ip", "netns", "exec", space, "bash", "-c", WORKER, sys.executable, *line]
                env = {**os.environ, "XDG_RUNTIME_DIR": str(own)}
                processes.append(subprocess.Popen(command, env=env, **more))
        yield Hosts(address, spaces, links)
    finally:
        for process in reversed(processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for space in spaces:
            for pid in ip("netns", "pids", space, check=False).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            ip("netns", "del", space, check=False)
        for link in (*links, name):  # a namespace may outlive its name for a while
            ip("link", "del", link, check=False)


def slow(link: str) -> None:
    """Let a half megabit a second through a link, with a queue of up to 0.4 s."""
    words = ["qdisc", "add", "dev", link, "root", "tbf", "rate", "512kbit", "burst", "8kb", "latency", "400ms"]
    subprocess.run(["tc", *words], check=True)


def test_ranks_on_two_hosts_train_as_on_one_also_over_a_slow_link(tmp_path: Path, hosts: Hosts) -> None:
    store = Store(tmp_path / "store").create()
    whole = Scheduler(kind="all", first=6, last=6)
    one, two = (gang(tmp_path, n, f"of{n}", pause=0.2, scheduler=whole, trials=1, verify=False) for n in (1, 2))
    with engine(store, WORKBENCH_CLUSTER=hosts.address):
        start(store, two)
        until(lambda: len(steps_of(tmp_path)) > 2, what="steps")
        there = {hosts.of(pid) for rank in (0, 1) if (pid := pid_of(tmp_path, rank))}
        assert there == set(hosts.spaces), "one rank on each host"
        slow(hosts.links[1])
        assert ended(store, two) == "completed"
        assert not lines(store, two, "Lost")
        start(store, one)
        assert ended(store, one) == "completed"
    expected, found = losses(store, one), losses(store, two)
    assert found.keys() == expected.keys()
    assert all(math.isclose(value, expected[key], rel_tol=1e-4) for key, value in found.items()), (expected, found)


# Its own limits, of which half a minute is a cut link that TCP notices, come to three minutes.
@pytest.mark.timeout(300)
def test_a_killed_worker_and_a_cut_link_cost_a_gang_on_two_hosts_time_and_no_result(
    tmp_path: Path, hosts: Hosts
) -> None:
    store = Store(tmp_path / "store").create()
    # The time between two steps is long enough that every fault finds the gang at work.
    spec = gang(tmp_path, 2, pause=0.3, dropout=0.2, scheduler=WHOLE, trials=1, verify=False, save_steps=1)
    calm = gang(tmp_path, 2, "calm", pause=0.0, dropout=0.2, scheduler=WHOLE, trials=1, verify=False)
    with engine(store, WORKBENCH_CLUSTER=hosts.address):
        start(store, calm)
        assert ended(store, calm) == "completed"
        (tmp_path / "steps").unlink()
        start(store, spec)
        passing = Checkpoints(store.experiment(spec.id).trial(0).passing)
        until(lambda: max(passing.steps(), default=0) > 1, what="a checkpoint")
        pid = pid_of(tmp_path, 1)
        assert pid is not None
        for one in ip("netns", "pids", hosts.of(pid)).split():
            with contextlib.suppress(OSError):
                if b"dask_worker" not in (line := Path(f"/proc/{one}/cmdline").read_bytes()) and b"spawn_main" in line:
                    os.kill(int(one), signal.SIGKILL)
        until(lambda: len(lines(store, spec, "Lost")) == 1, what="the loss of its worker")
        until(lambda: len(lines(store, spec, "LegStarted")) == 2, what="the second attempt")
        again = lines(store, spec, "LegStarted")[1]["start"]
        until(lambda: max(passing.steps(), default=0) > again + 1, what="a checkpoint of the second attempt")
        ip("link", "set", hosts.links[1], "down")
        cut = time.monotonic()
        until(lambda: len(lines(store, spec, "Lost")) == 2, CUT_S, what="the loss by the link")
        print(f"a cut link was found after {time.monotonic() - cut:.1f} s")
        ip("link", "set", hosts.links[1], "up")
        assert ended(store, spec, BACK_S) == "completed"
    assert outcome(store, spec)["points"] == outcome(store, calm)["points"]
    assert all(line["start"] > 0 for line in lines(store, spec, "LegStarted")[1:]), "it goes on from a checkpoint"
