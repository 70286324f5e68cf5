"""Workers of one machine share a forkserver: it is started once, ends with its last worker, and each worker alone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.test_forkservers import alive, forget_earlier, known, until_alive
from packages import installed

from workbench.cluster.workers.forking import forkserver, forkservers
from workbench.cluster.workers.forking.forkservers import Forkservers
from workbench.messages import Join
from workbench.store.owner import runtime
from workbench.trial.process.meeting import SCOPE, Meeting, group_of, say_ready

WAITS = "import threading; threading.Thread(target=threading.Event().wait).start()"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    forget_earlier()
    yield
    for process in [*forkserver._left]:  # the event loop that would reap it is closed
        process.wait(20)
        forkserver._left.discard(process)


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


def test_one_that_is_ready_is_met_before_a_newer_one_that_imports(tmp_path):
    here = Meeting(str(tmp_path), "environment")
    listeners = [here.meet(after=number).listener for number in range(2)]
    say_ready(listeners[0])
    assert (here.newest(), here.newest(is_ready=True)) == (2, 1)
    for after, ready, expected in ((0, 0, 1), (1, 0, 2), (0, 1, 2)):
        say_ready(listeners[ready])
        joined = here.meet(after)
        assert joined.number == expected
        joined.connection.close()
    for listener in listeners:
        listener.close()


ASK = """
import sys
from workbench.trial.process.meeting import SCOPE, Meeting, group_of
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


@pytest.mark.parametrize(
    ("group", "is_scope"),
    [
        ("0::/user.slice/user-1000.slice/session-3.scope\n", False),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/workbench-engine-12.scope\n", True),
        ("1:name=systemd:/user.slice/workbench-forkserver-7.scope\n0::/\n", True),
        ("0::/user.slice/workbench-engine-12.scope/below\n", False),
        ("0::/system.slice/slurmstepd.scope/job_7\n", False),
    ],
)
def test_scopes_that_were_asked_for_are_as_good_as_one(group, is_scope):
    assert (group_of(group) == SCOPE) == is_scope


def test_a_worker_that_reads_nothing_holds_up_no_other_and_loses_nothing(tmp_path):
    """A frozen process: hundreds of messages wait for it, more than a socket holds."""

    async def scene() -> None:
        (first, second), training = both(tmp_path), known(tmp_path)
        await asyncio.gather(first.ready(training), second.ready(training))
        _, runner = await first.runner(training, "one", ())
        channel = (await first.ready(training)).channel
        asyncio.get_running_loop().remove_reader(channel._sock)
        for _ in range(3000):
            channel.send(Join())
            await asyncio.sleep(0)
        _, other = await asyncio.wait_for(second.runner(training, "two", ()), 20)
        async with asyncio.timeout(20):
            while other.pid is None:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.01)
        asyncio.get_running_loop().add_reader(channel._sock, channel._readable)
        runner.kill()
        await asyncio.wait_for(runner.exited.wait(), 30)
        first.close()
        second.close()

    asyncio.run(scene())


def test_one_that_is_frozen_is_not_waited_for_by_others(tmp_path, monkeypatch):
    async def scene() -> None:
        (first, second), training = both(tmp_path), known(tmp_path)
        frozen = await first.ready(training)
        assert frozen._process is not None
        frozen._process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(forkserver, "READY_S", 8.0)  # enough for one that starts now
        server = await second.ready(training)
        assert server.number > frozen.number
        frozen._process.kill()
        first.close()
        second.close()

    asyncio.run(scene())


def test_the_sockets_of_those_that_ended_are_removed(tmp_path, monkeypatch):
    place = Path(tempfile.mkdtemp(prefix="wb-"))  # tests have longer paths than the name of a socket can have
    monkeypatch.setattr(runtime, "place", lambda: place)

    async def scene() -> None:
        first, training = Forkservers(str(tmp_path)), known(tmp_path)
        await first.ready(training)
        first.close()
        await asyncio.wait_for(until_alive(0), 20)
        assert list((place / "forkservers").glob("*.sock")) == []
        killed = await first.ready(training)
        assert killed._process is not None
        killed._process.kill()
        await asyncio.wait_for(until_alive(0), 20)
        killed._process.wait(20)  # a process that ends loses its command line before its sockets
        (left,) = (place / "forkservers").glob("*.sock")
        os.utime(left, (0, 0))
        met = Meeting("another", "environment").meet()
        assert met.listener is not None
        met.listener.close()
        assert not left.exists()
        first.close()

    asyncio.run(scene())
    shutil.rmtree(place)
