"""Syne Tune: ``LocalBackend`` (a process for each trial) and ASHA, which stops in this version and promotes none.

https://syne-tune.readthedocs.io/en/latest/getting_started.html (``Tuner``, ``Reporter``, a script with arguments) and
https://syne-tune.readthedocs.io/en/latest/_apidoc/syne_tune.tuner.html (``sleep_time``: by default the tuner looks
each five seconds; here each 0.1, in its favour). A trial whose process is killed has failed, and is not tried again.

The tuner runs this same file as each trial's script.
"""

from __future__ import annotations

import argparse
import sys


def _trial() -> None:
    from syne_tune import Reporter

    from benchmarks.peers import work

    parser = argparse.ArgumentParser()
    for name in ("measurement", "folder"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--trial", type=int)
    given, _ = parser.parse_known_args()
    report = Reporter()
    training = work.begun(given.measurement, given.folder, given.trial)
    for _ in range(work.R):
        score = training.train()
        report(epoch=training.step, score=score)


def _main() -> None:
    import logging
    import os
    from importlib.metadata import version

    from benchmarks.peers import work

    measurement, folder, trials = work.asked()
    os.environ["SYNETUNE_FOLDER"] = folder  # read when the library is imported
    from syne_tune import StoppingCriterion, Tuner
    from syne_tune.backend import LocalBackend
    from syne_tune.config_space import randint
    from syne_tune.optimizer.baselines import ASHA

    logging.getLogger().setLevel(logging.ERROR)
    scheduler = ASHA(
        {"measurement": measurement, "folder": folder, "trial": randint(0, 10**9)},
        metric="score",
        time_attr="epoch",
        max_t=work.R,
        do_minimize=False,
        reduction_factor=work.ETA,
        points_to_evaluate=[{"trial": trial} for trial in range(trials)],
    )
    Tuner(
        trial_backend=LocalBackend(__file__),
        scheduler=scheduler,
        stop_criterion=StoppingCriterion(max_num_trials_finished=trials),
        n_workers=work.WORKERS,
        sleep_time=0.1,
        save_tuner=False,
    ).run()
    work.line(folder, "searched")
    work.tell(**{"Syne Tune": version("syne-tune")})


if __name__ == "__main__":
    if "--trial" in sys.argv:
        _trial()
    else:
        _main()
