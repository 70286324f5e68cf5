"""dask-ml: ``SuccessiveHalvingSearchCV`` (a bracket of its Hyperband) over an estimator with ``partial_fit``.

https://ml.dask.org/modules/generated/dask_ml.model_selection.SuccessiveHalvingSearchCV.html and
https://ml.dask.org/hyper-parameter-search.html#incremental-hyperparameter-optimization. It halves a whole rung at once,
so that a worker waits for the slowest model of it, and it trains the next call of each model ahead, which is counted.
The data that it passes are one chunk; the estimator trains on those of ``work`` instead, so that its models are the
same as the others'.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from benchmarks.peers import work


class Estimator(BaseEstimator):
    """A trial. trial: the number of its configuration."""

    def __init__(self, measurement: str = "trial", folder: str = "", trial: int = 0) -> None:
        self.measurement, self.folder, self.trial = measurement, folder, trial

    def partial_fit(self, x: Any, y: Any, **_: Any) -> Estimator:
        """Train one step."""
        if not hasattr(self, "training_"):
            self.training_ = work.begun(self.measurement, self.folder, self.trial)
        self.score_ = self.training_.train()
        return self

    def fit(self, x: Any, y: Any) -> Estimator:
        """Not called by the search; scikit-learn wants each estimator to have it."""
        return self.partial_fit(x, y)

    def score(self, x: Any, y: Any) -> float:
        """The value of the last step."""
        return float(self.score_)


def _main() -> None:
    import dask.array as da
    import dask_ml
    import distributed
    from dask_ml.model_selection import IncrementalSearchCV, SuccessiveHalvingSearchCV
    from distributed import Client, LocalCluster

    measurement, folder, trials = work.asked()
    with (
        LocalCluster(n_workers=work.WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        estimator, parameters = Estimator(measurement, folder), {"trial": list(range(trials))}
        if measurement == "recovery":
            search = IncrementalSearchCV(
                estimator, parameters, n_initial_parameters="grid", decay_rate=None, max_iter=work.R, scores_per_fit=1
            )
        else:
            search = SuccessiveHalvingSearchCV(
                estimator,
                parameters,
                n_initial_parameters=trials,
                n_initial_iter=1,
                max_iter=work.R,
                aggressiveness=work.ETA,
                random_state=0,
            )
        rows = da.ones((100, 1), chunks=100)
        search.fit(rows, da.ones(100, chunks=100))
        work.line(folder, "searched")
        work.tell(**{"dask-ml": f"{dask_ml.__version__} with distributed {distributed.__version__}"})


if __name__ == "__main__":
    _main()
