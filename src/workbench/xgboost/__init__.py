"""``xgboost.train`` as a trial: ``num_boost_round=trial.max_steps, callbacks=[workbench.xgboost.Callback()]``.

Law: a step is a boosting round. It is over when all other callbacks have seen its end. There the booster is saved and
reported, and the leg ends or continues.
"""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

from workbench.frameworks import Loop, attributes_of, calling, need, put_attributes
from workbench.trial.course.around import Around
from workbench.trial.course.beside import Beside, Saved, is_from, numbered, of_users

need("xgboost", "xgboost")

from xgboost.callback import CallbackContainer, TrainingCallback  # noqa: E402 - after the message about the extra

#: What is saved: the booster as XGBoost writes it, and what the callbacks hold.
BOOSTER, BESIDE = "booster.ubj", "beside.pickle"


_LIBRARIES = ("xgboost.", "workbench.")
#: Parameters with which each round draws random numbers, if they are not 1.
_SHARES = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")


class Callback(TrainingCallback):
    """Makes ``xgboost.train`` the training loop of the current trial. Its place among the callbacks does not matter.

    Steps are boosting rounds. It reports the newest value of each metric as ``data-metric`` (``test-logloss``), saves
    the booster where that costs little, resumes by itself, and leaves ``train`` where the leg ends: the code after it
    runs after the trial's last round only. With sampling of rows or columns, and with ``dart``, nothing is saved, and
    each leg boosts again from the first round: XGBoost's saved booster lacks the state of its random numbers.

    ``train`` raises BadInput if ``num_boost_round`` is not ``trial.max_steps``, or if it is the second one of a trial.
    """

    def before_training(self, model: Any) -> Any:
        self._loop = loop = Loop("xgboost")
        self._container, around = calling(CallbackContainer)
        rounds = around["num_boost_round"]
        loop.check_length(rounds, f"train(num_boost_round={rounds})", "num_boost_round=trial.max_steps")
        draws = _draws(dict(around["params"]))
        done, self._stopped, beside = 0, False, None
        if loop.saved is not None:
            beside = pickle.loads((loop.saved / BESIDE).read_bytes())
            done, self._stopped = beside["done"], beside["stopped"]
            model.load_model(loop.saved / BOOSTER)
            model.set_param(around["params"])
        if not draws:  # else nothing is saved
            # Checkpoints of earlier versions have none.
            loop.survey(partial(self._surveyed, model), beside.get("attributes") if beside is not None else None)
        update, over = model.update, self._container.after_iteration
        before = self._container.before_iteration
        self._trains = False

        def start() -> None:
            """The other callbacks have set themselves back for this training; now they get what they had."""
            if self._trains:
                return
            self._trains = True
            if beside is not None:
                self._container.history.update(beside["history"])
                for callback, attributes in zip(self._others(), beside["callbacks"], strict=True):
                    put_attributes(callback, attributes)
            loop.trains(repeats=draws)

        def round_begins(model: Any, epoch: int, *data: Any) -> bool:
            start()
            return done + epoch >= rounds or self._stopped or bool(before(model, done + epoch, *data))

        def round_over(model: Any, epoch: int, *data: Any) -> bool:
            stopped = bool(over(model, done + epoch, *data))
            step = done + epoch + 1

            def write(folder: Path) -> None:
                model.save_model(folder / BOOSTER)
                # Attributes of others are among those that are saved as in a plain loop.
                others = [attributes_of(one) if is_from(one, _LIBRARIES) else {} for one in self._others()]
                beside = {"done": step, "stopped": stopped, "history": self._container.history, "callbacks": others}
                beside["attributes"] = loop.held()
                (folder / BESIDE).write_bytes(pickle.dumps(beside))

            values = {
                f"{data}-{metric}": history[-1]
                for data, metrics in self._container.history.items()
                for metric, history in metrics.items()
            }
            loop.step(step, values, None if draws else write, is_last=stopped or step == rounds)
            return stopped

        # XGBoost counts its rounds from 0 again, and asks no callback after one that ends the training.
        model.update = lambda data, iteration, fobj=None: update(data, done + iteration, fobj)
        self._container.before_iteration, self._container.after_iteration = round_begins, round_over
        return model

    def after_training(self, model: Any) -> Any:
        vars(model).pop("update", None)
        return model

    def _surveyed(self, model: Any, around: Around, saved: Saved | None) -> Beside:
        others = self._container.callbacks
        known = {"model": model, **dict(numbered("callback", others))}
        return Beside(around, known, of_users(others, _LIBRARIES, lambda _: ()), saved)

    def _others(self) -> list[Any]:
        return [one for one in self._container.callbacks if one is not self]


def _draws(params: dict[str, Any]) -> bool:
    """Whether boosting draws random numbers, whose state a saved booster lacks."""
    return params.get("booster") == "dart" or any(float(params.get(name, 1)) != 1 for name in _SHARES)
