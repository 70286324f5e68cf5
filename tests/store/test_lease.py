import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.errors import EngineRunning, NewerSchema, StoreError
from workbench.records import PROTOCOL
from workbench.store.files.atomic import read_json, write_json
from workbench.store.owner import lease as module
from workbench.store.owner.lease import EngineLease, read_engine

HOLD = """
import sys
from workbench.store import Store
from workbench.store.owner.lease import EngineLease
lease = EngineLease.acquire(Store(sys.argv[1]), address="tls://127.0.0.1:1")
print("held", flush=True)
sys.stdin.read()
"""
# It forks without exec, as multiprocessing does, and its child outlives it.
FORK = """
import os, sys
from workbench.store import Store
from workbench.store.owner.lease import EngineLease
lease = EngineLease.acquire(Store(sys.argv[1]))
if os.fork() == 0:
    assert not lease.held
    print("child", os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
os.waitpid(-1, 0)
"""
TRY = """
import sys
from workbench.errors import EngineRunning
from workbench.store import Store
from workbench.store.owner.lease import EngineLease
try:
    EngineLease.acquire(Store(sys.argv[1]))
except EngineRunning as error:
    print(error)
"""


@pytest.fixture
def start(store):
    started = []

    def start(code):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(store.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_second_engine_hears_who_runs_and_what_to_do(store, start):
    holder = start(HOLD)
    assert holder.stdout.readline() == "held\n"
    info = read_engine(store)
    assert (info.pid, info.alive, info.state, info.address) == (holder.pid, True, "running", "tls://127.0.0.1:1")
    told, _ = start(TRY).communicate()
    for part in (str(holder.pid), info.host, str(store.root), "workbench engine stop", "--store"):
        assert part in told
    with pytest.raises(EngineRunning):
        EngineLease.acquire(store)


def test_a_lease_whose_process_died_is_free_at_once(store, start):
    holder = start(HOLD)
    holder.stdout.readline()
    holder.kill()
    holder.wait()
    info = read_engine(store)
    assert info.pid == holder.pid
    assert not info.alive
    with EngineLease.acquire(store) as lease:
        assert lease.info.pid == os.getpid()
        assert read_engine(store).alive


def test_a_child_forked_by_the_engine_does_not_keep_its_lease(store, start):
    engine = start(FORK)
    _, child = engine.stdout.readline().split()
    with pytest.raises(EngineRunning):
        EngineLease.acquire(store)
    os.kill(engine.pid, signal.SIGKILL)
    engine.wait()
    os.kill(int(child), 0)  # it lives
    EngineLease.acquire(store).release()


def test_the_descriptor_is_closed_in_programs_the_engine_starts(store):
    with EngineLease.acquire(store) as lease:
        assert not os.get_inheritable(lease._descriptor)
        sleeper = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        EngineLease.acquire(store).release()
    finally:
        sleeper.kill()
        sleeper.wait()


def test_leaving_takes_the_name_away_and_twice_is_no_error(store):
    lease = EngineLease.acquire(store)
    lease.closing()
    assert read_engine(store).state == "closing"
    lease.running()
    assert read_engine(store).state == "running"
    lease.release()
    lease.release()
    assert not lease.held
    assert read_engine(store) is None
    with pytest.raises(StoreError, match="released"):
        lease.beat()


def test_a_beat_tells_time_and_address(store):
    with EngineLease.acquire(store) as lease:
        before = read_engine(store)
        lease.beat(address="tls://10.0.0.1:8786")
        after = read_engine(store)
        assert after.address == "tls://10.0.0.1:8786"
        assert after.heartbeat >= before.heartbeat
        assert after.started == before.started
        assert 0 <= after.silent_s < 60
        assert read_json(store.engine_json)["protocol"] == PROTOCOL


@pytest.mark.parametrize("does", [EngineLease.beat, EngineLease.closing, EngineLease.running])
def test_an_engine_whose_store_was_removed_leaves_the_record_of_the_next_store_alone(store, does):
    former = EngineLease.acquire(store, address="tls://10.0.0.1:1")
    shutil.rmtree(store.root)
    does(former)
    assert not store.root.exists()
    store.create()
    with EngineLease.acquire(store, address="tls://10.0.0.1:2"):
        written = store.engine_json.read_bytes()
        does(former)
        assert store.engine_json.read_bytes() == written
        former.release()
        assert store.engine_json.read_bytes() == written


def test_who_looks_does_not_keep_an_engine_out(store, monkeypatch):
    """A look holds the lock for a moment; acquiring waits that moment out."""
    monkeypatch.setattr(module, "_PROBE_S", 20.0)  # the thread that lets go may be late
    EngineLease.acquire(store).release()
    looking = os.open(store.engine_lock, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    import threading

    leaving = threading.Timer(0.05, os.close, [looking])
    leaving.start()
    EngineLease.acquire(store).release()
    leaving.join()


def test_a_closing_engine_is_waited_for(store):
    import threading

    lease = EngineLease.acquire(store)
    lease.closing()
    leaving = threading.Timer(0.5, lease.release)
    leaving.start()
    EngineLease.acquire(store, wait_s=10).release()
    leaving.join()


def link_to_a_file(path):
    path.with_name("elsewhere").touch()
    path.symlink_to("elsewhere")


LOG = """
import sys
from workbench.asking import open_log
from workbench.errors import StoreError
from workbench.store import Store
try:
    open_log(Store(sys.argv[1]))
except StoreError as error:
    print(error)
"""
LOOK = """
import sys
from workbench.store import Store
from workbench.store.owner.lease import read_engine
print(read_engine(Store(sys.argv[1])).alive)
"""


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, link_to_a_file])
def test_what_is_no_file_in_place_of_the_lock_is_not_waited_for_and_locks_nothing(store, start, make):
    with EngineLease.acquire(store):
        record = store.engine_json.read_bytes()
    store.engine_json.write_bytes(record)
    store.engine_lock.unlink()
    make(store.engine_lock)
    assert start(LOOK).communicate(timeout=30)[0] == "False\n"
    with pytest.raises(StoreError, match="expected a file"):
        EngineLease.acquire(store)
    with pytest.raises(StoreError, match="expected a file"), module.locked(store):
        pass


def test_a_pipe_in_place_of_the_engines_log_is_not_waited_for(store, start):
    os.mkfifo(store.engine_log)
    told, _ = start(LOG).communicate(timeout=30)
    assert f"{store.engine_log} could not be written" in told


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b'{"pid": "x"}', b'{"schema": 1}'])
def test_a_damaged_file_keeps_no_engine_out(store, garbage):
    store.engine_json.write_bytes(garbage)
    assert read_engine(store) is None
    with EngineLease.acquire(store):
        assert read_engine(store).alive


def test_a_later_workbenchs_store_gets_no_engine(store):
    write_json(store.engine_json, {"schema": 99})
    with pytest.raises(NewerSchema):
        EngineLease.acquire(store)


def other_host(store, heartbeat):
    with EngineLease.acquire(store) as lease:
        data = read_json(store.engine_json)
        lease.closing()
    write_json(store.engine_json, {**data, "boot_id": "another", "host": "far", "heartbeat": heartbeat})


def test_on_a_network_file_system_a_fresh_heartbeat_of_another_host_counts(store, monkeypatch):
    other_host(store, module._now())
    assert not read_engine(store).alive
    monkeypatch.setattr(module, "is_network", lambda _: True)
    assert read_engine(store).alive
    with pytest.raises(EngineRunning, match="on far"):
        EngineLease.acquire(store)
    other_host_old = {**read_json(store.engine_json), "heartbeat": "2020-01-01T00:00:00.000+00:00"}
    write_json(store.engine_json, other_host_old)
    assert read_engine(store).alive  # on a full disk it can only touch its file
    os.utime(store.engine_json, (0, 0))
    assert not read_engine(store).alive
    EngineLease.acquire(store).release()
