"""The floor: two processes, two pipes and ASHA by promotion. Nothing is stored, and nothing survives a fault.

A trial's state goes through the pipes after each leg, as bytes, since either process may train its next one.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import pickle
import platform
from multiprocessing.connection import Connection

from benchmarks.peers import work
from benchmarks.peers.asha import rule


def _train(orders: Connection, measurement: str, folder: str) -> None:
    while (order := orders.recv()) is not None:
        trial, until, state = order
        training = work.begun(measurement, folder, trial)
        if state is not None:
            training.load(pickle.loads(state))
        value = 0.0
        while training.step < until:
            value = training.train()
        orders.send((trial, until, value, pickle.dumps(training.state())))


def _main() -> None:
    measurement, folder, trials = work.asked()
    context = multiprocessing.get_context("fork")
    ends, workers = [], []
    for _ in range(work.WORKERS):
        ours, theirs = context.Pipe()
        worker = context.Process(target=_train, args=(theirs, measurement, folder), daemon=True)
        worker.start()
        ends.append(ours)
        workers.append(worker)
    search, idle = rule(measurement, trials), list(ends)
    states: dict[int, bytes] = {}
    while True:
        while idle and (leg := search.leg()) is not None:
            trial, _, until = leg
            idle.pop().send((trial, until, states.get(trial)))
        if len(idle) == len(ends):
            break
        for end in multiprocessing.connection.wait(set(ends) - set(idle)):
            assert isinstance(end, Connection)
            trial, until, value, states[trial] = end.recv()
            search.tell(trial, until, value)
            idle.append(end)
    work.line(folder, "searched")
    work.tell(Python=platform.python_version())
    for end in ends:
        end.send(None)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    _main()
