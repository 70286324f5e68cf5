"""Optuna over Dask: ``DaskStorage`` on the cluster's scheduler, and batches of trials as futures.

https://optuna-integration.readthedocs.io/en/stable/reference/generated/optuna_integration.DaskStorage.html and the
example that it links: https://github.com/optuna/optuna-examples/blob/main/dask/dask_simple.py (``client.submit`` of
``study.optimize``, ten trials in each batch).
"""

from __future__ import annotations

import functools

from benchmarks.peers import work
from benchmarks.peers.optuna_journal import objective


def _main() -> None:
    import optuna
    from distributed import Client, LocalCluster, wait
    from optuna_integration import DaskStorage

    measurement, folder, trials = work.asked()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with (
        LocalCluster(n_workers=work.WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(optuna.logging.set_verbosity, optuna.logging.ERROR)
        study = optuna.create_study(
            direction="maximize",
            storage=DaskStorage(),
            pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=work.ETA),
            sampler=optuna.samplers.RandomSampler(seed=0),
        )
        share = functools.partial(objective, measurement, folder)
        batches = [min(10, trials - first) for first in range(0, trials, 10)]
        futures = [client.submit(study.optimize, share, n_trials=batch, pure=False) for batch in batches]
        wait(futures)
        for future in futures:
            future.result()
        work.line(folder, "searched")
        work.tell(Optuna=optuna.__version__)


if __name__ == "__main__":
    _main()
