"""Dask's settings in an engine and in a cluster of its own. Law: values only; nothing here reaches a cluster."""

from __future__ import annotations

from typing import Any

from distributed.comm import utils

#: What Dask must not do for us: retry, steal, spill, kill workers for memory (training is not in them).
SETTINGS: dict[str, Any] = {
    "distributed.scheduler.allowed-failures": 1_000_000,
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.daemon": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.worker-ttl": "60s",
    # Dask's self-monitoring costs a tenth of a core per process, and Workbench does not use it.
    "distributed.admin.tick.interval": "60s",
    "distributed.admin.tick.cycle": "60s",
    "distributed.admin.tick.limit": "1h",
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.low-level-log-length": 100,
    # What the client asks is never looked at: workers say themselves what they have.
    "distributed.client.scheduler-info-interval": "1h",
    "distributed.scheduler.active-memory-manager.start": False,
    # Of its pages, where there are any, a person sees the dashboard alone.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


def encode_at_once() -> None:
    """Have Dask encode each message of this process on the event loop.

    It measures each one to find out whether to use a thread, which takes longer than encoding one of Workbench's. There
    is a setting (``distributed.comm.offload``), but it is read when Dask is imported, and workers import Dask first.
    """
    utils.OFFLOAD_THRESHOLD = False
