"""Connects an engine to its cluster. Law: a store's own cluster that does not answer is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from distributed import Client, Security
from distributed.comm import CommClosedError, connect

from workbench.cluster import devices
from workbench.cluster.clocks import LOOK_S, Drift, wake, wake_all
from workbench.cluster.own import Own
from workbench.cluster.workers.calls import greet
from workbench.cluster.workers.machine import survey_here
from workbench.cluster.workers.worker import Workplace
from workbench.errors import ClusterError, NoAnswer, StoreNotShared, VersionsDiffer
from workbench.messages import Greeting, Plain
from workbench.records import PROTOCOL

log = logging.getLogger("workbench.cluster")

#: Seconds to wait for a cluster at an address; and for the store's own cluster, perhaps on a busy machine, before it
#: counts as hung.
ANSWER_S, OWN_ANSWER_S = 5.0, 20.0
#: Seconds between questions whether the scheduler sends events of a topic: at first, and at most.
_SENDS_S, _SENDS_MOST_S = 0.001, 0.05
#: Looks at our own stream to one at the scheduler's.
_SCHEDULER_LOOKS = 2
#: Tasks of which nothing else holds a reference.
_minding: set[asyncio.Task[None]] = set()


async def connected(own: Own | None, address: str | None) -> Any:
    """A client of the store's own cluster, or of the one at ``address``. Raises NoAnswer."""
    while True:
        where: dict[str, Any] = {"address": address, "timeout": ANSWER_S}
        if own is not None:
            record = await own.ready()
            where = {"address": record.address, "security": Security(**record.security), "timeout": OWN_ANSWER_S}
        try:
            client: Any = await Client(**where, asynchronous=True, name="workbench-engine")
            task = asyncio.get_running_loop().create_task(_mind_clocks(client, is_own=own is not None))
            _minding.add(task)
            task.add_done_callback(_minding.discard)
            return client
        except (OSError, TimeoutError, ValueError) as error:
            if own is not None and own.was_found:
                log.warning("the cluster of this store does not answer (%s): it is replaced", error)
                await own.replace()
                continue
            raise NoAnswer(
                f"no Dask scheduler answers at {where['address']} ({error}). Expected the address that `dask "
                "scheduler` prints, such as tcp://10.0.0.5:8786. Start it, or leave the address out for a cluster on "
                "this machine."
            ) from error


async def _mind_clocks(client: Any, *, is_own: bool) -> None:
    """Wake the streams between ``client`` and its scheduler, when a clock was set, until the client is closed.

    A scheduler of our own looks by itself. Another one is asked to look when this machine's clock was set, and now and
    then while futures are under way: its clock may be another one.
    """
    drift = Drift()
    for look in itertools.count(1):
        await asyncio.sleep(LOOK_S)
        if client.status == "closed":
            return
        if client.scheduler_comm is not None:
            wake(client.scheduler_comm)
        if not is_own and (drift.is_set() or (client.futures and look % _SCHEDULER_LOOKS == 0)):
            with contextlib.suppress(Exception):  # the scheduler is gone, or has no Workbench
                await asyncio.wait_for(client.run_on_scheduler(wake_all), ANSWER_S)


async def closed(client: Any) -> None:
    """Close ``client``, however much of its cluster is gone already."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.close(), ANSWER_S)


async def disconnected(client: Any) -> None:
    """Wait until the scheduler is gone, by a connection over which nothing is said.

    A Dask client connects to a scheduler's successor without a word, where it has no future that this would cancel; but
    the successor knows neither the topics to which it subscribed nor our plugin.
    """
    with contextlib.suppress(OSError):
        line = await connect(client.scheduler.address, **client.connection_args)
        try:
            await line.read()
        finally:
            line.abort()


async def subscribed(client: Any, topic: str, heard: Callable[[Any], object]) -> None:
    """Have ``heard`` called for each event of ``topic``. Returns once the scheduler sends them.

    Dask's client subscribes by its stream and gets answers by other connections. Without this wait, a worker could
    answer before the scheduler knows of the subscription, and what the worker says in between would be lost.
    """
    word, sends = secrets.token_hex(8), asyncio.Event()

    def take(event: Any) -> None:
        if event[1] == word:
            sends.set()
        elif not isinstance(event[1], str):  # else the word of an engine that was killed just now
            heard(event)

    client.subscribe_topic(topic, take)
    rest = _SENDS_S
    while not sends.is_set():
        await client.log_event(topic, word)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(sends.wait(), rest)
        rest = min(2 * rest, _SENDS_MOST_S)


def plugin_of(own: Own | None, plan: devices.Plan, root: str, engine: str, topic: str) -> Workplace:
    """Our plugin for the workers. Those of a cluster of our own have the engine's variables, unless each was made for a
    GPU."""
    record = None if own is None else own.record
    return Workplace(
        topic,
        None if record is None else record.slots,
        has_devices=record is None or record.has_devices,
        hides=devices.hides(plan, own.workers if own is not None else None),
        engine=engine,
        store=None if record is None or not record.grace_s else root,
    )


async def set_up(client: Any, plugin: Workplace, address: str | None, *, skips: bool) -> None:
    """Install our worker plugin on all workers, those to come too. Raises VersionsDiffer; with ``skips`` the log says
    so, since others have it."""
    try:
        await client.register_plugin(plugin)
    except CommClosedError:  # the scheduler is gone
        raise
    except Exception as error:
        differ = VersionsDiffer(
            f"Workbench cannot be set up on the workers of {address}: {error}. Expected the same Workbench version "
            "installed in the environment of every Dask worker."
        )
        if not skips:
            raise differ from error
        log.warning("%s", differ)


async def greeted(client: Any, own: Own | None, engine: str, topic: str) -> dict[str, Greeting | None]:
    """What each worker of the store's own cluster still has from an earlier engine (None: it is not set up); empty for
    other clusters."""
    if own is None:
        return {}
    # A worker that dies now does not answer; its successor is greeted when it appears.
    told: dict[str, Greeting | None] = await client.run(greet, engine=engine, topic=topic, on_error="ignore")
    return told


async def surveyed(client: Any, answers: Mapping[str, Plain]) -> list[Plain]:
    """What one worker of each host says of its machine. answers: by worker, as for :func:`check_worker`."""
    hosts: dict[str, dict[str, Plain]] = {}
    for worker, answer in answers.items():
        hosts.setdefault(answer["host"], {})[worker] = answer
    found = []
    for workers in hosts.values():
        first = next(iter(workers))
        with contextlib.suppress(Exception):  # it is about to leave; its slots go when Dask says so
            told = await asyncio.wait_for(client.run(survey_here, workers, workers=[first]), ANSWER_S)
            found.append(told[first])
    return found


def check_worker(root: str, worker: str, answer: Mapping[str, Any]) -> None:
    """Raises VersionsDiffer or StoreNotShared for a worker that cannot train for the store at ``root``.

    answer: what ``sees_store`` gave there.
    """
    if answer["protocol"] != PROTOCOL:
        raise VersionsDiffer(
            f"worker {worker} has a Workbench of protocol {answer['protocol']}; expected {PROTOCOL}. "
            "Install the same Workbench version on every machine."
        )
    if not answer["sees_store"]:
        raise StoreNotShared(
            f"worker {worker} on {answer['host']} does not see the store {root}. Expected a folder that "
            "every machine sees at the same path. Put the store on a shared file system (--store)."
        )


def usable(root: str, answers: Mapping[str, Plain], *, skips: bool) -> Mapping[str, Plain]:
    """The answers of the workers that can train for the store at ``root``.

    Raises what :func:`check_worker` raises for another one; with ``skips`` only if none can, and the log names others.
    """
    found, refused = {}, None
    for worker, answer in answers.items():
        try:
            check_worker(root, worker, answer)
        except ClusterError as error:
            if not skips:
                raise
            log.warning("worker %s is not used: %s", worker, error)
            refused = error
        else:
            found[worker] = answer
    if refused is not None and not found:
        raise refused
    return found
