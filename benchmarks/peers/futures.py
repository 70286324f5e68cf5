"""Bare Dask: each leg is a future, ASHA by promotion is written by hand, and ``as_completed`` takes what has ended.

As Dask's documentation has it: https://docs.dask.org/en/stable/futures.html#waiting-on-futures (``as_completed``), and
https://distributed.dask.org/en/stable/resilience.html (a lost task is computed again on another worker).
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers import work
from benchmarks.peers.asha import rule


def _leg(measurement: str, folder: str, trial: int, until: int, state: Any) -> tuple[int, int, float, Any]:
    training = work.begun(measurement, folder, trial)
    if state is not None:
        training.load(state)
    value = 0.0
    while training.step < until:
        value = training.train()
    return trial, until, value, training.state()


def _main() -> None:
    import distributed
    from distributed import Client, LocalCluster, as_completed

    measurement, folder, trials = work.asked()
    with (
        LocalCluster(n_workers=work.WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        search, running, done = rule(measurement, trials), 0, as_completed()
        states: dict[int, Any] = {}

        def fill() -> None:
            nonlocal running
            while running < work.WORKERS and (leg := search.leg()) is not None:
                trial, _, until = leg
                state = states.get(trial)
                done.add(client.submit(_leg, measurement, folder, trial, until, state, pure=False))
                running += 1

        fill()
        for future in done:
            trial, until, value, states[trial] = future.result()
            future.release()
            running -= 1
            search.tell(trial, until, value)
            fill()
        work.line(folder, "searched")
        work.tell(distributed=distributed.__version__)


if __name__ == "__main__":
    _main()
