"""A store's own cluster in a process of its own, which :mod:`workbench.cluster.local` starts.

Law: it survives its engine by the grace time and no longer. A connected client is an engine. When the last one is gone,
the cluster waits for the next engine. If none comes, or none could find it, it ends, and so does all that it has
started: workers by their pipe, forkservers by their socket, runners by the kernel's signal.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any

import dask
from distributed import LocalCluster, Scheduler, Security
from distributed.diagnostics.plugin import SchedulerPlugin

from workbench.cluster.clocks import wake_all, watch
from workbench.cluster.here import dashboard_of, local_cluster, new_security
from workbench.cluster.settings import SETTINGS, encode_at_once
from workbench.cluster.workers.worker import INTERVAL_S
from workbench.errors import StoreError
from workbench.records import PROTOCOL
from workbench.store import Store
from workbench.store.owner import own_cluster
from workbench.store.owner.lease import boot_id
from workbench.store.owner.own_cluster import OwnCluster

log = logging.getLogger("workbench.cluster")

#: Seconds that workers have to end normally.
CLOSE_S = 10.0
#: Seconds within which the engine that started it must connect.
START_S = 60.0
#: Seconds between two checks, while no engine is connected, whether one could still find this cluster.
LOOK_S = 0.5


class Presence(SchedulerPlugin):
    """Whether an engine is connected. ``gone`` is called when the last one has left, ``there`` when one has
    connected."""

    name = "workbench-presence"

    def __init__(self, gone: Any, there: Any) -> None:
        self._gone, self._there = gone, there
        self._clients: set[str] = set()

    def add_client(self, scheduler: Scheduler, client: str) -> None:
        """Called by Dask."""
        self._clients.add(client)
        self._there()

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Called by Dask, within milliseconds of the engine's death."""
        self._clients.discard(client)
        if not self._clients:
            self._gone()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Called by Dask: messages to the worker are not held back to be batched."""
        with contextlib.suppress(KeyError):
            scheduler.stream_comms[worker].interval = INTERVAL_S


class LocalProcess:
    """The cluster, its record, and the remaining time."""

    def __init__(self, store: Store, workers: int | None, grace_s: float, engine: int, *, dashboard: bool) -> None:
        """engine: the process that started this one. dashboard: whether Dask's own pages are served."""
        self._store, self._workers, self._grace_s, self._engine = store, workers, grace_s, engine
        self._wants_pages = dashboard
        self._end = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None
        self._record: OwnCluster | None = None

    async def run(self, ending: Sequence[signal.Signals]) -> None:
        """Serve until one of these signals comes, or until the grace time is over."""
        for number in ending:
            asyncio.get_running_loop().add_signal_handler(number, self._end.set)
        dask.config.set(SETTINGS)
        encode_at_once()
        security = new_security()
        cluster = await local_cluster(self._workers, security, dashboard=self._wants_pages)
        if os.getppid() != self._engine:
            os._exit(0)  # the engine was killed meanwhile, and the next one starts a cluster of its own
        cluster.scheduler.add_plugin(Presence(self._lost, self._found))
        for worker in cluster.scheduler.stream_comms:
            cluster.scheduler.stream_comms[worker].interval = INTERVAL_S
        clocks = asyncio.get_running_loop().create_task(watch(partial(wake_all, cluster.scheduler)))
        self._record = self._written(cluster, security)
        _tell(self._record)
        self._lost(START_S)  # until the engine that started it connects
        await self._end.wait()
        clocks.cancel()
        with contextlib.suppress(Exception):  # what is not closed normally ends with this process
            await asyncio.wait_for(cluster.close(), CLOSE_S)
        own_cluster.remove(self._record)

    def _written(self, cluster: Any, security: Security) -> OwnCluster:
        record = OwnCluster(
            store=str(self._store.root),
            pid=os.getpid(),
            ticks=own_cluster.ticks_of(os.getpid()) or 0,
            boot_id=boot_id(),
            protocol=PROTOCOL,
            version=version("workbench"),
            wanted=self._workers,
            slots=cluster.workbench_slots,
            has_devices=type(cluster) is not LocalCluster,
            address=cluster.scheduler_address,
            security={name: value for name, value in _fields(security).items() if isinstance(value, str | bool)},
            grace_s=self._grace_s,
            dashboard=dashboard_of(cluster),
        )
        _write(record)
        return record

    def _lost(self, at_least_s: float = 0.0) -> None:
        """No engine is connected: wait for the next one."""
        assert self._record is not None
        if self._end.is_set() or self._waiting is not None:
            return
        self._note(datetime.now(UTC).isoformat(timespec="milliseconds"))
        self._waiting = asyncio.get_running_loop().create_task(self._wait(max(self._grace_s, at_least_s)))

    def _found(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
            self._note("")

    def _note(self, lost: str) -> None:
        assert self._record is not None
        self._record = dataclasses.replace(self._record, lost=lost)
        if own_cluster.is_written(self._record):  # a cluster that was started since keeps its record
            _write(self._record)

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until:
            await asyncio.sleep(min(LOOK_S, max(0.0, until - loop.time())))
            if not self._store.engine_lock.exists() or not own_cluster.is_written(self._record_now()):
                log.warning("the cluster of %s ends: no engine could find it", self._store.root)
                break
        else:
            log.warning("the cluster of %s ends: no engine came within %g s", self._store.root, seconds)
        own_cluster.remove(self._record_now())
        # End at once: training code has checkpoints, and a worker that is asked to close may take its time.
        os._exit(0)

    def _record_now(self) -> OwnCluster:
        assert self._record is not None
        return self._record


def _fields(security: Security) -> dict[str, Any]:
    return {name: getattr(security, name) for name in security.__slots__ if name.startswith(("tls_", "require_"))}


def _write(record: OwnCluster) -> None:
    try:
        own_cluster.write(record)
    except (StoreError, OSError) as error:
        log.warning("no later engine will find this cluster, and it ends with its engine: %s", error)


def _tell(record: OwnCluster) -> None:
    """Tell the engine that started this process where its cluster is; no other line is printed."""
    with contextlib.suppress(OSError):  # the engine is gone already
        sys.stdout.write(json.dumps(dataclasses.asdict(record)) + "\n")
        sys.stdout.flush()
    os.dup2(2, 1)


def serve(options: argparse.Namespace, ending: Sequence[signal.Signals]) -> None:
    """Run the cluster of one store until it is no longer needed. ending: signals that end it normally."""
    for name in ("distributed", "distributed.scheduler"):  # they log an engine's absence as critical
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    local = LocalProcess(
        Store(options.store), options.workers, options.grace, options.engine, dashboard=options.dashboard
    )
    asyncio.run(local.run(ending))
