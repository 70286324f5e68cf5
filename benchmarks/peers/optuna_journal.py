"""Optuna: two processes share a study in a journal file; its pruner of successive halving stops, and never promotes.

https://optuna.readthedocs.io/en/stable/tutorial/10_key_features/004_distributed.html (several processes, a journal),
https://optuna.readthedocs.io/en/stable/reference/generated/optuna.pruners.SuccessiveHalvingPruner.html.
For recovery, since a journal has no heartbeat, its recipe over SQLite:
https://optuna.readthedocs.io/en/stable/reference/generated/optuna.storages.RetryHeartbeatStaleTrialCallback.html and
the checkpoints of https://github.com/optuna/optuna-examples/blob/main/pytorch/pytorch_checkpoint.py, with a heartbeat
each second, the shortest that it takes (its example has a minute).

A trial's number is the number of its configuration: nothing is sampled, in Optuna's favour.
"""

from __future__ import annotations

import functools
import multiprocessing
from pathlib import Path
from typing import Any

from benchmarks.peers import work


def objective(measurement: str, folder: str, trial: Any) -> float:
    """Train one trial, and stop it where the pruner says so."""
    import optuna

    training, score = work.begun(measurement, folder, trial.number), 0.0
    while training.step < work.R:
        score = training.train()
        trial.report(score, training.step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return score


def _kept(folder: str, trial: Any) -> float:
    """The same with a checkpoint after each step, from which a retried trial goes on."""
    import torch
    from optuna.storages import RetryHeartbeatStaleTrialCallback

    first = RetryHeartbeatStaleTrialCallback.retried_trial_number(trial.study.trials[trial.number])
    number = trial.number if first is None else first
    path = Path(folder, f"checkpoint-{number}.pt")
    training, score = work.begun("recovery", folder, number), 0.0
    if path.exists():
        training.load(torch.load(path))
    while training.step < work.R:
        score = training.train()
        trial.report(score, training.step)
        # The example overwrites the file; a kill in between would lose it.
        torch.save(training.state(), path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
    return score


def _study(measurement: str, folder: str) -> Any:
    import optuna
    from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage: Any
    if measurement == "recovery":
        storage = RDBStorage(
            f"sqlite:///{folder}/study.db",
            heartbeat_interval=1,
            grace_period=2,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
        )
    else:
        storage = JournalStorage(JournalFileBackend(str(Path(folder, "journal.log"))))
    return optuna.create_study(
        study_name="peers",
        direction="maximize",
        storage=storage,
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=work.ETA),
        sampler=optuna.samplers.RandomSampler(seed=0),
        load_if_exists=True,
    )


def _optimize(measurement: str, folder: str, trials: int) -> None:
    from optuna.study import MaxTrialsCallback

    study = _study(measurement, folder)
    if measurement == "recovery":
        study.optimize(functools.partial(_kept, folder), callbacks=[MaxTrialsCallback(trials)])
    else:
        share = functools.partial(objective, measurement, folder)
        study.optimize(share, n_trials=trials)


def _main() -> None:
    measurement, folder, trials = work.asked()
    _study(measurement, folder)
    import optuna

    context = multiprocessing.get_context("fork")
    shares = [trials // 2, trials - trials // 2] if measurement != "recovery" else [trials, trials]
    workers = [context.Process(target=_optimize, args=(measurement, folder, share)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    work.line(folder, "searched")
    work.tell(Optuna=optuna.__version__)


if __name__ == "__main__":
    _main()
