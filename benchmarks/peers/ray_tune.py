"""Ray Tune: its function API, ``ASHAScheduler`` (which stops; it has no promotion), a checkpoint with each report.

https://docs.ray.io/en/latest/tune/api/schedulers.html (ASHA),
https://docs.ray.io/en/latest/tune/tutorials/tune-trial-checkpoints.html (checkpoints of the function API),
https://docs.ray.io/en/latest/tune/tutorials/tune-fault-tolerance.html (``max_failures``), and
https://docs.ray.io/en/latest/tune/api/doc/ray.tune.TuneConfig.html (``reuse_actors``, for trials that are short: each
would start a process otherwise). Where nothing is compared or killed, no checkpoint is made, in Ray's favour.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers import work


def _train(configuration: dict[str, Any]) -> None:
    from ray import tune

    measurement = configuration["measurement"]
    training = work.begun(measurement, configuration["folder"], configuration["trial"])
    if measurement != "recovery":
        for _ in range(work.R):
            tune.report({"score": training.train()})
        return
    import torch

    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            training.load(torch.load(Path(folder, "state.pt")))
    while training.step < work.R:
        score = training.train()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(training.state(), Path(folder, "state.pt"))
            tune.report({"score": score}, checkpoint=tune.Checkpoint.from_directory(folder))


def _main() -> None:
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    measurement, folder, trials = work.asked()
    # Its session's files go where ours go, and are removed with them.
    session = str(Path(folder, "ray"))
    ray.init(num_cpus=work.WORKERS, include_dashboard=False, log_to_driver=False, _temp_dir=session)
    asha = ASHAScheduler(max_t=work.R, grace_period=1, reduction_factor=work.ETA)
    tuner = tune.Tuner(
        _train,
        param_space={"measurement": measurement, "folder": folder, "trial": tune.grid_search(list(range(trials)))},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            scheduler=None if measurement == "recovery" else asha,
            reuse_actors=measurement != "recovery",
        ),
        run_config=tune.RunConfig(
            storage_path=str(Path(folder, "results")), failure_config=tune.FailureConfig(max_failures=-1), verbose=0
        ),
    )
    tuner.fit()
    work.line(folder, "searched")
    work.tell(Ray=ray.__version__)
    ray.shutdown()


if __name__ == "__main__":
    _main()
