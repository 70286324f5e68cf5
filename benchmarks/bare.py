"""The references: the same decisions with pipes only, and with Dask futures only."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import time
from multiprocessing.connection import Connection
from typing import Any

from workbench.facts import CapacityChanged, Finish, Reached, Run
from workbench.records import Spec
from workbench.search import Search


def _train(orders: Connection) -> None:
    while (order := orders.recv()) is not None:
        trial, until, x = order
        orders.send((trial, until, x))


def pipes(one: Spec, processes: int = 2) -> float:
    """Seconds that the search takes when two processes and pipes carry its legs and nothing is trained."""
    context = multiprocessing.get_context("fork")
    ends, workers = [], []
    for _ in range(processes):
        ours, theirs = context.Pipe()
        worker = context.Process(target=_train, args=(theirs,), daemon=True)
        worker.start()
        ends.append(ours)
        workers.append(worker)
    search, idle = Search.of(one), list(ends)
    begun = time.perf_counter()
    instructions = search.handle(CapacityChanged(processes))
    while not search.done:
        for order in instructions:
            if isinstance(order, Run):
                x = search.configuration(order.trial)["x"]
                idle.pop().send((order.trial, order.until, x))
        ready: list[Any] = multiprocessing.connection.wait(ends)
        instructions = []
        for end in ready:
            trial, until, x = end.recv()
            idle.append(end)
            instructions += search.handle(Reached(trial, until, x))
    taken = time.perf_counter() - begun
    for end in ends:
        end.send(None)
    for worker in workers:
        worker.join()
    return taken


def _leg(trial: int, until: int, x: float) -> tuple[int, int, float]:
    return trial, until, x


def dask_futures(one: Spec, workers: int = 2) -> float:
    """Seconds that the same search takes when each leg is a bare Dask future, submitted when a worker is free."""
    from distributed import Client, LocalCluster, as_completed

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.submit(_leg, 0, 0, 0.0, pure=False).result()
        search = Search.of(one)
        begun = time.perf_counter()
        done = as_completed()
        _submit(client, search, search.handle(CapacityChanged(workers)), done)
        for future in done:
            trial, until, x = future.result()
            future.release()
            _submit(client, search, search.handle(Reached(trial, until, x)), done)
            if search.done:
                break
        return time.perf_counter() - begun


def _submit(client: Any, search: Search, instructions: list[Any], done: Any) -> None:
    for order in instructions:
        if isinstance(order, Run):
            x = search.configuration(order.trial)["x"]
            done.add(client.submit(_leg, order.trial, order.until, x, pure=False))
        assert not isinstance(order, Finish) or search.done
