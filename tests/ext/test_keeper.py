"""What the server does without being asked: events for open pages, engines that are replaced, and staying awake."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time

import pytest
import running
from cli.stored import Answering
from running import PLAIN, end, engine_pid, engine_process, lines, spec_of, start

from workbench.records import Goal, Scheduler
from workbench.space import uniform
from workbench.store import Store, requests
from workbench.store.owner.lease import read_engine
from workbench.store.series import Series
from workbench_ext.server.watching import tended as looks
from workbench_ext.server.watching.changes import Changes
from workbench_ext.server.watching.keeper import SCHEMA_ID


@pytest.fixture
def jp_server_config(request):
    """The server tends engines where the test is marked so by its parameter."""
    tend = getattr(request, "param", False)
    shared = {"jpserver_extensions": {"workbench_ext": True}, "shutdown_no_activity_timeout": 1}
    return {"ServerApp": shared, "Workbench": {"tend": tend}}


tending = pytest.mark.parametrize("jp_server_config", [True], indirect=True)


def tended(app) -> looks.Tended | None:
    """What the server knows of the store of its root folder, once it has looked at it."""
    settings = app.web_app.settings
    return settings["workbench"].tended.get(settings["workbench_stores"].default.id)


def is_looked_at(app) -> bool:
    """Whether changes are told from now on: the first look only learns how the store is."""
    return (found := tended(app)) is not None and found.changes.root is not None


async def until(condition):
    """Wait until ``condition`` is true, while the server goes on."""
    async with asyncio.timeout(30):
        while not (value := condition()):  # noqa: ASYNC110 - other processes set no event of this loop
            await asyncio.sleep(0.01)
        return value


# ---------------------------------------------------------------------------------------------------------------------
# Changes


def test_only_what_changed_is_told(written):
    first, second = written.experiment(state="running"), written.experiment("other")
    changes = Changes()
    assert changes.look(written.store, True) is None, "the first look learns how it is"
    assert changes.look(written.store, True) is None
    written.set(first, seconds_left=3.0)
    changed = changes.look(written.store, True)
    assert (changed.experiments, changed.catalog) == ((first.id,), False)
    written.catalog.upsert_experiment(second.id, {"note": "new"})
    written.catalog.close()
    changed = changes.look(written.store, True)
    assert (changed.experiments, changed.catalog) == ((second.id,), True)
    requests.put(written.store, {"kind": "ping"})
    assert changes.look(written.store, True).catalog
    assert changes.look(written.store, False).catalog, "the engine is gone"
    assert changes.look(written.store, False) is None


def test_a_store_that_is_made_later_is_told(tmp_path):
    later, changes = Store(tmp_path / "later"), Changes()
    assert changes.look(later, False) is None
    later.create()
    assert changes.look(later, False).catalog


async def test_an_open_page_is_told_what_changed(jp_fetch, written, jp_serverapp):
    spec = written.experiment(state="running")
    events = []

    async def listener(logger, schema_id, data):
        events.append(data)

    jp_serverapp.event_logger.add_listener(schema_id=SCHEMA_ID, listener=listener)
    await asyncio.sleep(0.3)
    written.set(spec, seconds_left=3.0)
    await asyncio.sleep(0.5)
    assert events == [], "nobody is told while no page is open"
    await jp_fetch("workbench", "api", "health")
    await until(lambda: is_looked_at(jp_serverapp))
    begun = time.monotonic()
    for step in range(20):
        written.set(spec, seconds_left=float(step))
        await asyncio.sleep(0.02)
    await until(lambda: events)
    turns = (time.monotonic() - begun) / looks.TURN_S
    key = jp_serverapp.web_app.settings["workbench_stores"].default.id
    assert events[0] == {"store": key, "experiments": [spec.id], "catalog": False}
    assert len(events) <= turns + 2, "however much changes, it is said five times a second while no engine works"


def test_files_are_looked_at_often_only_where_something_runs_and_is_shown(written, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(looks.time, "monotonic", lambda: clock[0])
    store = looks.Tended(written.store, False, logging.getLogger())
    monkeypatch.setattr(store, "_look_at_engine", lambda: True)

    def looks_in_a_second(attended: bool, busy: bool) -> int:
        store.is_busy, count = busy, 0
        for _ in range(50):
            clock[0] += 0.02
            if store.is_due(attended):
                store.look(attended)
                count += 1
        return count

    looks_in_a_second(True, False)
    assert looks_in_a_second(True, True) >= 45
    assert looks_in_a_second(True, False) <= 6
    assert looks_in_a_second(False, True) <= 3, "only to see to the engine"


async def test_the_bus_carries_it_to_the_browser(jp_ws_fetch, jp_fetch, written, jp_serverapp):
    spec = written.experiment(state="running")
    socket = await jp_ws_fetch("api", "events", "subscribe")
    await jp_fetch("workbench", "api", "health")
    await until(lambda: is_looked_at(jp_serverapp))
    written.set(spec, seconds_left=3.0)
    while True:
        event = json.loads(await asyncio.wait_for(socket.read_message(), 20))
        if event.get("schema_id") == SCHEMA_ID:
            break
    assert event["experiments"] == [spec.id]
    socket.close()


# ---------------------------------------------------------------------------------------------------------------------
# Culling


async def test_a_server_in_which_experiments_run_is_not_culled(jp_serverapp, written, monkeypatch):
    monkeypatch.setattr(looks, "TEND_S", 0.1)
    stopped = []
    monkeypatch.setattr(jp_serverapp, "stop", lambda **_: stopped.append(True))
    spec = written.experiment(state="running")
    times = jp_serverapp.web_app.settings["last_activity_times"]
    with Answering(written.store):
        before = await until(lambda: times.get("workbench"))
        await until(lambda: times["workbench"] > before)
        await asyncio.sleep(1.1)  # longer than it may be idle, which is counted in whole seconds of wall time
        jp_serverapp.shutdown_no_activity()
        assert stopped == []
        written.catalog.upsert_experiment(spec.id, {"state": "completed"})
        written.catalog.close()
        await asyncio.sleep(1.5)
    jp_serverapp.shutdown_no_activity()
    assert stopped == [True], "and one in which nothing runs is"


# ---------------------------------------------------------------------------------------------------------------------
# Engines


@pytest.fixture
def long(store, tmp_path, monkeypatch):
    """An experiment that runs until it is stopped, written with the request to start it."""
    monkeypatch.setenv("WORKBENCH_WORKERS", "1")
    monkeypatch.setenv("WORKBENCH_IDLE", "1")
    scheduler = Scheduler("all", 1, 1_000_000)
    source = PLAIN.replace("    total =", "    __import__('time').sleep(0.01)\n    total =")
    space = {"x": uniform(0.0, 1.0)}
    spec = spec_of(source, tmp_path, space=space, scheduler=scheduler, goal=Goal("score"), trials=1)
    yield spec
    if engine_pid(store):
        requests.put(store, {"kind": "end"})
        running.until(lambda: not engine_pid(store))


def reported(store, spec):
    """How many steps were reported so far."""
    if not store.experiment(spec.id).series.exists():
        return 0
    with Series.read(store.experiment(spec.id).series) as series:
        return len(series.points(names=["score"]))


@tending
async def test_a_killed_engine_is_replaced_and_its_experiment_goes_on(jp_serverapp, store, long):
    process = engine_process(store, workers=1, idle=600)
    try:
        start(store, long)
        await until(lambda: reported(store, long))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        await until(lambda: engine_pid(store) not in (None, process.pid))
        steps = reported(store, long)
        await until(lambda: reported(store, long) > steps)
        assert len(lines(store, long, "LegStarted")) == 1  # its trial went on meanwhile
    finally:
        end(process)


@tending
async def test_one_that_was_ended_in_good_order_stays_away(jp_serverapp, written, monkeypatch):
    """An engine that was ended is replaced only when an experiment is resumed, or when the server starts again."""
    monkeypatch.setattr(looks, "SELDOM_S", 0.1)
    await until(lambda: (found := tended(jp_serverapp)) and not found.is_first)
    written.experiment(state="running")
    await asyncio.sleep(1.0)  # some looks later
    assert read_engine(written.store) is None
    assert not written.store.engine_log.exists(), "no engine was even started"


@tending
async def test_what_is_under_way_goes_on_with_the_next_server(store, long, jp_configurable_serverapp):
    process = engine_process(store, workers=1, idle=600)
    start(store, long)
    await until(lambda: lines(store, long, "LegStarted"))
    end(process)
    assert read_engine(store) is None
    jp_configurable_serverapp()
    await until(lambda: len(lines(store, long, "LegStarted")) == 2)
