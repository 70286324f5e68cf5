"""A worker's forkservers: shared by what they must be started apart for, replaced by what was learned, ended unused."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from packages import installed

from workbench.cluster.workers.forking import forkserver, forkservers, imported
from workbench.cluster.workers.forking.forkserver import Forkserver, ForkserverKilled
from workbench.cluster.workers.forking.forkservers import Forkservers
from workbench.cluster.workers.forking.runners import Runner
from workbench.cluster.workers.forking.trainings import Known, Trainings
from workbench.cluster.workers.log import LogWriter
from workbench.messages import Join, LegOrder, Message, Soon
from workbench.records import Training
from workbench.trial.process.meeting import Meeting, Met
from workbench.trial.process.wire import Connection


def known(folder: Path, *, preload: tuple[str, ...] = (), path: tuple[str, ...] = (), **env: str) -> Known:
    """The training environment of a notebook in ``folder`` with these variables."""
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env}
    training = Training(sys.executable, str(folder), path=path, preload=preload, env=surroundings, is_whole=True)
    return Trainings(has_devices=False, hides="none").of(training)


#: Those that tests before this one began: some are still ending, and those of other folders may live on.
earlier: set[psutil.Process] = set()


def forget_earlier() -> None:
    """A test begins."""
    earlier.clear()
    earlier.update(psutil.Process().children())


def alive() -> int:
    return sum(_is_one(child) for child in psutil.Process().children() if child not in earlier)


def _is_one(process: psutil.Process) -> bool:
    try:
        return "workbench.trial.process.forkserver" in " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False


async def until_alive(count: int) -> None:
    while alive() != count:  # noqa: ASYNC110 - they are processes
        await asyncio.sleep(0.02)


async def one_is_left(found: Forkservers, *runners: Runner) -> None:
    """With the legs of ``runners``, the forkserver that was replaced ends as well."""
    for one in runners:
        one.kill()
        await one.exited.wait()
    found.tidy()
    await asyncio.wait_for(until_alive(1), 20)
    found.close()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    forget_earlier()
    yield
    for process in [*forkserver._left]:  # the event loop that would reap it is closed
        process.wait(20)
        forkserver._left.discard(process)


def test_the_least_recently_used_ends_and_never_one_with_a_leg(tmp_path, monkeypatch):
    async def scene() -> None:
        found = Forkservers()
        busy, runner = await found.runner(known(tmp_path, KMP_ONE="0"), "first", ())
        for number in range(1, 5):
            await found.ready(known(tmp_path, KMP_ONE=str(number)))
        # What is set after the fork, and where a project lies, tells no two apart.
        await found.ready(known(tmp_path / "elsewhere", KMP_ONE="4", MINE="1", path=(str(tmp_path),)))
        assert alive() == 5
        found.tidy()
        await asyncio.wait_for(until_alive(forkservers.MOST), 20)
        assert busy.is_alive
        monkeypatch.setattr(forkservers, "UNUSED_S", 0.0)
        found.tidy()
        await asyncio.wait_for(until_alive(1), 20)
        assert busy.is_alive
        runner.kill()
        await runner.exited.wait()
        found.tidy()
        await asyncio.wait_for(until_alive(0), 20)

    asyncio.run(scene())


def test_a_variable_that_an_import_looked_up_has_forkservers_apart(tmp_path):
    site = installed(tmp_path, asking="import os\nsize = os.environ.get('SIZE')")

    async def scene() -> None:
        found = Forkservers()
        path = os.pathsep.join((*sys.path, site))
        one, same, other = [
            await found.ready(known(tmp_path, preload=("asking",), PYTHONPATH=path, SIZE=size, MINE=size + mine))
            for size, mine in (("1", "a"), ("1", "b"), ("2", "a"))
        ]
        assert one is same
        assert one is not other
        found.close()

    asyncio.run(scene())


def test_what_was_learned_comes_with_another_one_and_is_kept(tmp_path):
    """One that leaves a thread behind is not imported ahead; the others are, here and by the next worker."""
    waits = "import threading; threading.Thread(target=threading.Event().wait).start()"
    path = os.pathsep.join((*sys.path, installed(tmp_path, fine="", busy=waits)))
    training = known(tmp_path, PYTHONPATH=path)

    async def learn() -> None:
        found = Forkservers()
        first, runner = await found.runner(training, "one", ())
        found.learn(training, ["busy", "fine"])
        found.spent(training, first, "one", 0.5 * first.start_s)
        assert (await found.ready(training)) is first  # another set-up is cheaper
        found.spent(training, first, "one", 0.5 * first.start_s)
        second, other = await found.runner(training, "one", ())
        assert second is not first
        assert second.learned == ("fine",)
        assert first.is_alive  # its leg goes on
        found.fork_ahead(first)
        assert [*first._runners.values()] == [runner]  # and forks nothing for others
        found.fork_ahead(second)
        assert len(second._runners) == 2
        await one_is_left(found, runner, other)

    async def begin() -> None:
        found = Forkservers()
        server = await found.ready(training)
        assert server.learned == ("fine",)  # that the other is unfit is not found out again
        assert "fine" not in (await found.ready(known(tmp_path / "elsewhere", PYTHONPATH=path, KMP_ONE="1"))).learned
        found.close()

    asyncio.run(learn())
    asyncio.run(begin())


def test_what_is_learned_holds_up_no_leg_and_is_there_once_nothing_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(forkservers, "LEISURE_S", 0.05)
    training = known(tmp_path, PYTHONPATH=os.pathsep.join((*sys.path, installed(tmp_path, fine=""))))

    async def scene() -> None:
        found = Forkservers()
        first, runner = await found.runner(training, "one", ())
        found.learn(training, ["fine"])
        found.tidy()
        same, other = await found.runner(training, "one", ())
        assert same is first
        runner.dismiss()
        other.dismiss()
        await asyncio.gather(runner.exited.wait(), other.exited.wait())
        async with asyncio.timeout(30):
            while (server := await found.ready(training)) is first:
                await asyncio.sleep(0.1)  # longer than what counts as leisure
                found.tidy()
        assert server.learned == ("fine",)
        found.close()

    asyncio.run(scene())


@pytest.mark.parametrize("change", ["edited", "installed anew", "removed"])
def test_what_changed_on_the_disk_is_imported_anew(tmp_path, monkeypatch, change):
    """A package is edited where it lies, or another version of it comes with its metadata."""
    site = Path(installed(tmp_path, moving="x = 1", torch="y = 1"))
    training = known(tmp_path, preload=("moving",), path=(str(site),))
    # Nothing is being installed here, and each change would be waited for.
    monkeypatch.setattr(imported, "SETTLE_S", 0.2)
    # Files are looked at each time, or never: then the folder alone tells.
    monkeypatch.setattr(imported, "LOOK_S", 0.0 if change == "edited" else 1e9)

    async def scene() -> None:
        found = Forkservers()
        first, runner = await found.runner(training, "one", ())
        assert await found.ready(training) is first
        if change == "edited":
            (site / "moving.py").write_text("x = 22")
        elif change == "installed anew":
            (site / "moving-2.dist-info").mkdir()
        else:
            (site / "torch.py").unlink()
        second, other = await found.runner(training, "one", ())
        assert second is not first
        assert first.is_alive  # its leg goes on
        assert await found.ready(training) is second
        await one_is_left(found, runner, other)

    asyncio.run(scene())


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_worker_that_hears_of_a_train_cell_looks_at_the_files_before_its_leg_comes(tmp_path, monkeypatch, is_edited):
    # Nothing is being installed here, and files are looked at however soon after they were imported.
    monkeypatch.setattr(imported, "SETTLE_S", 0.0)
    monkeypatch.setattr(imported, "LOOK_S", 0.0)
    site = Path(installed(tmp_path, moving="x = 1"))
    training = known(tmp_path, preload=("moving",), path=(str(site),))

    async def scene() -> None:
        found = Forkservers(str(tmp_path / "store"))
        first, runner = await found.runner(training, "one", ())
        if is_edited:
            (site / "moving.py").write_text("x = 22")
        met = Meeting(str(tmp_path / "store"), repr(training.key)).meet()
        assert met.connection is not None
        with met.connection:
            kernel = Connection(met.connection)
            kernel.send(Join())
            kernel.send(Soon())
            async with asyncio.timeout(20):
                while not first._imported._looked:  # noqa: ASYNC110 - a message brings it
                    await asyncio.sleep(0.01)
        monkeypatch.setattr(imported, "LOOK_S", 1e9)  # the leg itself looks at none
        second, other = await found.runner(training, "one", ())
        assert (second is first) is not is_edited
        await one_is_left(found, runner, other)

    asyncio.run(scene())


def test_files_that_an_import_compiles_are_no_change(tmp_path, monkeypatch):
    # Images for containers often set it, and then nothing is compiled here.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    # Files are looked at each time: within a second they would not be.
    monkeypatch.setattr(imported, "LOOK_S", 0.0)
    site = Path(installed(tmp_path, moving="x = 1"))
    training = known(tmp_path, preload=("moving",), path=(str(site),))

    async def scene() -> None:
        found = Forkservers()
        first, runner = await found.runner(training, "one", ())
        assert (site / "__pycache__").is_dir()
        assert await found.ready(training) is first
        runner.dismiss()
        await runner.exited.wait()
        found.close()

    asyncio.run(scene())


def test_a_leg_waits_while_packages_are_being_installed(tmp_path, monkeypatch):
    """What is half there is not imported: a leg that begins then has what is whole."""
    monkeypatch.setattr(imported, "SETTLE_S", 1.0)
    site = Path(installed(tmp_path, half="parts = 0", other=""))
    training = known(tmp_path, preload=("half",), path=(str(site),))

    async def scene() -> None:
        found = Forkservers()
        first = await found.ready(training)
        (site / "other.py").unlink()
        waiting = asyncio.create_task(found.ready(training))
        for part in range(6):
            await asyncio.sleep(0.3)  # it is what an installation does: it takes longer than nothing is written
            (site / f"part{part}.py").touch()
            assert not waiting.done()
        assert await waiting is not first
        found.close()

    asyncio.run(scene())


def test_a_leg_that_comes_to_a_forkserver_that_has_just_died_hears_so(tmp_path):
    """Between the forkserver's word that it is ready and the turn in which it is to fork."""

    async def scene() -> None:
        found = Forkservers()
        server, before = await found.runner(known(tmp_path), "one", ())
        assert server._process is not None
        server._process.kill()
        async with asyncio.timeout(20):
            await before.exited.wait()
            runner = await server.runner("one")
            assert await ended(runner) is None
        assert runner.exited.is_set()
        found.close()

    asyncio.run(scene())


def test_one_that_its_worker_ends_while_it_begins_is_no_fault_of_its_environment(tmp_path):
    """A cluster ends, and with it a forkserver that imports: the search must not fail for that."""

    async def scene() -> None:
        begun = known(tmp_path)
        server = Forkserver(begun, preload=(), learned=(), met=Met(1))
        server.close()
        with pytest.raises(ForkserverKilled, match="was ended, with its worker"):
            await server.ready(begun.training)

    asyncio.run(scene())


@pytest.mark.parametrize("taking", ["listen", "begin"])
def test_who_takes_a_runner_after_its_end_hears_so(tmp_path, taking):
    async def scene() -> None:
        found = Forkservers()
        _, runner = await found.runner(known(tmp_path), "one", ())
        runner.kill()
        async with asyncio.timeout(20):
            await runner.exited.wait()
            assert await ended(runner, taking) is None
        found.close()

    asyncio.run(scene())


async def ended(runner: Runner, taking: str = "begin") -> Message | None:
    """What is heard first of ``runner`` by a leg that takes it now, or by what waits for the next one."""
    heard: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
    if taking == "listen":
        runner.listen(heard.set_result)
    else:
        about = {"store": "", "experiment": "one", "trial": 0, "attempt": 1, "start": 0, "until": 1, "max_steps": 1}
        order = LegOrder(levels=frozenset({1}), configuration={}, known_step=0, resume=False, **about)
        runner.begin(order, LogWriter(Path(os.devnull)), heard.set_result)
    return await heard
