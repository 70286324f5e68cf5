"""``lightgbm.train`` as a trial: ``num_boost_round=trial.max_steps, callbacks=[workbench.lightgbm.Callback()]``.

Law: a step is a boosting round. LightGBM cannot continue a booster exactly (its sums are rounded in another order, and
its sampling starts again), so that each leg boosts again from the first round, which gives the same values.
"""

from __future__ import annotations

from typing import Any

from workbench.frameworks import Loop, need, numbers

need("lightgbm", "lightgbm")


class Callback:
    """Makes ``lightgbm.train`` the training loop of the current trial. Give it to ``train`` in ``callbacks=[…]``.

    Steps are boosting rounds. It reports each metric as ``data-metric`` (``valid_0-l2``) and leaves ``train`` where the
    leg ends: the code after it runs after the trial's last round only. Nothing is saved: see the module.

    ``train`` raises BadInput if ``num_boost_round`` is not ``trial.max_steps``, or if it is the second one of a trial.
    """

    #: Before callbacks that end the training by an exception.
    order = -1_000_000

    def __call__(self, env: Any) -> None:
        rounds = env.end_iteration - env.begin_iteration
        if env.iteration == env.begin_iteration:
            self._loop = Loop("lightgbm")
            self._loop.check_length(rounds, f"train(num_boost_round={rounds})", "num_boost_round=trial.max_steps")
            self._loop.trains(repeats=True)
        values = {f"{data}-{metric}": value for data, metric, value, *_ in env.evaluation_result_list or []}
        self._loop.step(env.iteration - env.begin_iteration + 1, numbers(values), None)
