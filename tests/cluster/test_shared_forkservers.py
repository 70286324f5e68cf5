"""Workers of one machine share a forkserver: it is started once, ends with its last worker, and each worker alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster.test_forkservers import alive, installed, known, until_alive

from workbench.cluster.workers.forking import forkservers
from workbench.cluster.workers.forking.forkservers import Forkservers
from workbench.store.owner import runtime
from workbench.trial.process.meeting import Meeting

WAITS = "import threading; threading.Thread(target=threading.Event().wait).start()"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def both(tmp_path: Path) -> tuple[Forkservers, Forkservers]:
    return Forkservers(str(tmp_path)), Forkservers(str(tmp_path))


def path_with(tmp_path: Path, **modules: str) -> str:
    return os.pathsep.join((*sys.path, installed(tmp_path, **modules)))


def test_one_is_started_for_all_and_ends_with_the_last_that_uses_it(tmp_path):
    async def scene() -> None:
        (first, second), training = both(tmp_path), known(tmp_path)
        one, other = await asyncio.gather(first.ready(training), second.ready(training))
        assert alive() == 1
        assert {one.was_found, other.was_found} == {False, True}
        (_, mine), (_, yours) = [await found.runner(training, "one", ()) for found in (first, second)]
        # The one that started it goes, with its runner; the other's trains on.
        starter, stays = (mine, yours) if other.was_found else (yours, mine)
        (first if other.was_found else second).close()
        await asyncio.wait_for(starter.exited.wait(), 20)
        assert not stays.exited.is_set()
        assert alive() == 1
        left = second if other.was_found else first
        _, third = await left.runner(training, "one", ())
        assert not third.exited.is_set()
        left.close()
        await asyncio.wait_for(asyncio.gather(stays.exited.wait(), third.exited.wait()), 20)
        await asyncio.wait_for(until_alive(0), 20)

    asyncio.run(scene())


def test_one_that_was_killed_is_started_again_by_one_and_used_by_both(tmp_path):
    async def scene() -> None:
        (first, second), training = both(tmp_path), known(tmp_path)
        one, other = await asyncio.gather(first.ready(training), second.ready(training))
        runners = [(await found.runner(training, "one", ()))[1] for found in (first, second)]
        started = other if one.was_found else one
        assert started._process is not None
        os.kill(started._process.pid, signal.SIGKILL)
        await asyncio.wait_for(asyncio.gather(*(runner.exited.wait() for runner in runners)), 20)
        new = await asyncio.gather(first.ready(training), second.ready(training))
        assert all(server.is_alive for server in new)
        assert alive() == 1
        first.close()
        second.close()

    asyncio.run(scene())


def test_what_was_installed_since_is_imported_by_a_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.cluster.workers.forking.imported.SETTLE_S", 0.0)
    site = tmp_path / "site-packages"
    path = path_with(tmp_path, fine="value = 1")
    training = known(tmp_path, preload=("fine",), path=(str(site),), PYTHONPATH=path)

    async def scene() -> None:
        first, second = both(tmp_path)
        old = await first.ready(training)
        (site / "fine.py").write_text("value = 'longer'")
        new = await second.ready(training)
        assert not new.was_found
        assert new.number > old.number
        third = Forkservers(str(tmp_path))
        newest = await third.ready(training)
        assert newest.was_found
        assert newest.number == new.number
        for one in (first, second, third):
            one.close()

    asyncio.run(scene())


def test_a_variable_that_an_import_looked_up_has_forkservers_apart(tmp_path):
    path = path_with(tmp_path, asking="import os\nsize = os.environ.get('SIZE')")

    async def scene() -> None:
        first, second = both(tmp_path)
        one = await first.ready(known(tmp_path, preload=("asking",), PYTHONPATH=path, SIZE="1", MINE="a"))
        same = await second.ready(known(tmp_path, preload=("asking",), PYTHONPATH=path, SIZE="1", MINE="b"))
        other = await second.ready(known(tmp_path, preload=("asking",), PYTHONPATH=path, SIZE="2"))
        assert same.number == one.number
        assert other.number != one.number
        assert alive() == 2
        first.close()
        second.close()

    asyncio.run(scene())


def test_what_one_has_learned_is_imported_once_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr(forkservers, "LEISURE_S", 0.0)
    training = known(tmp_path, PYTHONPATH=path_with(tmp_path, fine="", other=""))

    async def scene() -> None:
        first, second = both(tmp_path)
        await asyncio.gather(first.ready(training), second.ready(training))
        first.learn(training, ["fine"])
        second.learn(training, ["fine"])
        async with asyncio.timeout(30):
            servers = []
            while len({server.number for server in servers}) != 1 or servers[0].learned != ("fine",):
                first.tidy()
                second.tidy()
                await asyncio.sleep(0.05)
                servers = [await found.ready(training) for found in (first, second)]
        first.tidy()
        second.tidy()
        await asyncio.wait_for(until_alive(1), 20)
        first.close()
        second.close()

    asyncio.run(scene())


def test_a_package_that_cannot_be_imported_ahead_is_left_out_for_all(tmp_path):
    training = known(tmp_path, PYTHONPATH=path_with(tmp_path, fine="", busy=WAITS))

    async def scene() -> None:
        for one in both(tmp_path):
            one.learn(training, ["busy", "fine"])
            one.close()
        first, second = both(tmp_path)
        servers = await asyncio.gather(first.ready(training), second.ready(training))
        assert {server.learned for server in servers} == {("fine",)}
        assert alive() == 1
        first.close()
        second.close()

    asyncio.run(scene())


def test_other_stores_limits_and_folders_that_cannot_be_trusted_share_nothing(tmp_path, monkeypatch):
    here = Meeting(str(tmp_path), "environment")
    met = here.meet()
    assert met.listener is not None
    joined = here.meet()
    assert joined.connection is not None
    assert joined.number == met.number
    for other in (here.meet(after=joined.number), Meeting(str(tmp_path / "other"), "environment").meet()):
        assert other.listener is not None
        other.listener.close()
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))\n{ASK}"
    for source, found in ((ASK, "True"), (limited, "False")):
        ran = subprocess.run([sys.executable, "-c", source, str(tmp_path)], capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == found
    met.listener.close()
    joined.connection.close()
    again = here.meet()
    assert again.listener is not None  # nothing listens there any more
    again.listener.close()
    monkeypatch.setattr(runtime, "place", lambda: tmp_path / "open")
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    alone = here.meet()
    assert (alone.connection, alone.listener) == (None, None)


ASK = """
import sys
from workbench.trial.process.meeting import Meeting
print(Meeting(sys.argv[1], "environment").meet().connection is not None)
"""


def test_a_long_name_of_the_runtime_folder_does_no_harm(tmp_path, monkeypatch):
    deep = tmp_path / ("d" * 120)
    deep.mkdir(mode=0o700)
    monkeypatch.setattr(runtime, "place", lambda: deep)
    here = Meeting(str(tmp_path), "environment")
    met = here.meet()
    found = here.meet().connection
    assert met.listener is not None
    assert found is not None
    met.listener.close()
    found.close()
