"""What the engine runs on workers. Law: plain functions, so that Dask's scheduler needs nothing but this package."""

from __future__ import annotations

import os
import platform
from typing import Any

from distributed import get_worker

from workbench.cluster.devices import slot_name
from workbench.cluster.workers.worker import Workplace
from workbench.messages import Ends, Greeting, Order
from workbench.records import PROTOCOL, Training
from workbench.store import Store
from workbench.store.owner.lease import read_engine


async def run_legs(orders: list[Order], topic: str) -> Ends:
    """The Dask task: one leg of one trial, or several very short ones."""
    return await workplace(topic).drive_all(orders)


async def hold_lane(task: str, topic: str) -> Ends:
    """The Dask task of a lane, until it is given up; it has no result. Its legs come directly."""
    return await workplace(topic).hold(task)


async def warm(dask_worker: Any, training: Training, topic: str) -> dict[str, str | None]:
    """Start a training environment's forkserver on this worker ahead of the first leg."""
    plugin: Workplace = dask_worker.plugins[topic]
    return await plugin.warm(training)


async def greet(dask_worker: Any, engine: str, topic: str) -> Greeting | None:
    """An engine comes to a cluster that was there before it: what trains here; None where it is not set up."""
    plugin: Workplace | None = dask_worker.plugins.get(topic)
    return None if plugin is None else plugin.take_over(engine)


async def rest(dask_worker: Any, topic: str) -> None:
    """The engine of ``topic`` leaves a cluster that is not its own: what was kept ready for it on this worker ends."""
    plugin: Workplace | None = dask_worker.plugins.get(topic)
    if plugin is not None:
        plugin.rest()


def workplace(topic: str) -> Workplace:
    """This worker's plugin for the engine of ``topic``."""
    plugin: Workplace = get_worker().plugins[topic]
    return plugin


def sees_store(root: str, nonce: str, topic: str, dask_worker: Any) -> dict[str, Any]:
    """Whether this machine sees the engine's store at the same path, by what the engine wrote there; and who it is."""
    info = read_engine(Store(root))
    plugin: Workplace | None = dask_worker.plugins.get(topic) if dask_worker is not None else None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hides = plugin is not None and plugin.hides != "none"
    return {
        "sees_store": info is not None and info.proof == nonce,
        "host": platform.node(),
        "pid": os.getpid(),
        "threads": dask_worker.state.nthreads,
        "visible": "" if hides else visible,
        "gpu": slot_name(visible),
        "lease": plugin.lease if plugin is not None else None,
        "protocol": PROTOCOL,
    }
