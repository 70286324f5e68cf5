"""XGBoost and LightGBM with one more callback: killed and promoted, they report what an undisturbed run reports."""

from __future__ import annotations

import pytest
from frameworks.driver import Driver, error_of, run_alone, undisturbed_and_killed

from workbench.trial.api.own import REPEATS

DATA = """
import time
import numpy as np
draw = np.random.default_rng(1)
x = draw.normal(size=(300, 6)); y = x[:, 0] * x[:, 1] + 0.1 * draw.normal(size=300)
"""
XGBOOST = (
    DATA
    + """
import xgboost
import workbench.xgboost
train, test = xgboost.DMatrix(x[:200], y[:200]), xgboost.DMatrix(x[200:], y[200:])
class Slow(xgboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        time.sleep(0.01)
        return False
booster = xgboost.train(
    {"max_depth": 3, "nthread": 1, OPTIONS}, train, num_boost_round=ROUNDS, evals=[(test, "test")], verbose_eval=False,
    callbacks=[CALLBACKSSlow(), workbench.xgboost.Callback()],
)
with open("ended", "a") as file:
    file.write(f"{booster.num_boosted_rounds()} ")
"""
)
LIGHTGBM = (
    DATA
    + """
import lightgbm
import workbench.lightgbm
train, test = lightgbm.Dataset(x[:200], y[:200]), lightgbm.Dataset(x[200:], y[200:])
def slow(env):
    time.sleep(0.01)
booster = lightgbm.train(
    {"num_leaves": 7, "num_threads": 1, "verbose": -1, OPTIONS}, train, num_boost_round=ROUNDS, valid_sets=[test],
    valid_names=["test"], callbacks=[CALLBACKSslow, workbench.lightgbm.Callback()],
)
with open("ended", "a") as file:
    file.write(f"{booster.current_iteration()} ")
"""
)


def cell(text: str, options: str = "", *, rounds: str = "trial.max_steps", callbacks: str = "") -> str:
    return text.replace("OPTIONS", options).replace("ROUNDS", rounds).replace("CALLBACKS", callbacks)


STOPS = {
    XGBOOST: "xgboost.callback.EarlyStopping(4, min_delta=0.08), ",
    LIGHTGBM: "lightgbm.early_stopping(4, min_delta=0.08), ",
}
VARIANTS = {
    "xgboost": cell(XGBOOST),
    "xgboost with sampled rows": cell(XGBOOST, '"subsample": 0.5'),
    "xgboost with sampled columns": cell(XGBOOST, '"colsample_bytree": 0.5'),
    "xgboost that drops trees": cell(XGBOOST, '"booster": "dart", "rate_drop": 0.3'),
    "xgboost that stops early": cell(XGBOOST, callbacks=STOPS[XGBOOST]),
    "lightgbm": cell(LIGHTGBM),
    "lightgbm with sampled rows": cell(LIGHTGBM, '"bagging_fraction": 0.5, "bagging_freq": 1'),
    "lightgbm that stops early": cell(LIGHTGBM, callbacks=STOPS[LIGHTGBM]),
}
GOALS = {"xgboost": "min test-rmse", "lightgbm": "min test-l2"}
LEVELS = (2, 5, 13, 40)


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_and_promoted_it_reports_what_an_undisturbed_run_reports(server, experiment, tmp_path, variant):
    goal = GOALS[variant.split()[0]]
    calm, wild = undisturbed_and_killed(
        server, lambda: experiment(VARIANTS[variant], steps=40, goal=goal), LEVELS, len(variant)
    )
    last = max(step for _, step in calm.values)
    assert (4 < last < 40) if "early" in variant else last == 40
    assert wild.values == calm.values
    assert wild.outcomes[-1] == "completed"
    assert len(set((tmp_path / "ended").read_text().split())) == 1


HELD = """
history, best = [], 0.0
class Counting(xgboost.callback.TrainingCallback):
    def __init__(self, heard):
        self.seen, self.heard = 0, heard
    def after_iteration(self, model, epoch, evals_log):
        global best
        self.seen += 1
        best += 0.5 * self.seen
        self.heard.append(best)
        trial.log(seen=self.seen, best=best, kept=sum(history))
        return False
booster = """


def test_what_is_held_around_xgboost_is_there_after_a_resume(server, experiment):
    text = cell(XGBOOST, callbacks="Counting(history), ").replace("booster = ", HELD)
    calm = Driver(server, experiment(text, steps=13, goal="min test-rmse")).run(13)
    resumed = Driver(server, experiment(text, steps=13, goal="min test-rmse")).run(2, 5, 13)
    assert {name for name, _ in calm.values} == {"test-rmse", "seen", "best", "kept"}
    assert resumed.began == [0, 2, 5]
    assert resumed.values == calm.values
    assert resumed.says == []


@pytest.mark.parametrize(("options", "resumes"), [("", True), ('"subsample": 0.5', False)])
def test_xgboost_resumes_where_its_booster_holds_all(server, experiment, options, resumes):
    driver = Driver(server, experiment(cell(XGBOOST, options), steps=40, goal="min test-rmse")).run(*LEVELS)
    assert driver.began == ([0, 2, 5, 13] if resumes else [0, 0, 0, 0])
    assert set(driver.says) == (set() if resumes else {REPEATS})


def test_xgboost_continues_in_its_process_when_it_is_promoted_at_once(server, experiment):
    calm = Driver(server, experiment(cell(XGBOOST), steps=40, goal="min test-rmse")).run(40)
    quick = Driver(server, experiment(cell(XGBOOST), steps=40, goal="min test-rmse")).run(*LEVELS, in_place=True)
    assert quick.values == calm.values
    assert quick.runners == 1


@pytest.mark.parametrize("text", [XGBOOST, LIGHTGBM])
def test_a_length_that_is_not_the_trials_is_refused(server, experiment, text):
    says = error_of(server, experiment(cell(text, rounds="5"), steps=40))
    assert "train(num_boost_round=5) trains 5 steps, but a trial of this experiment has 40" in says


@pytest.mark.parametrize("text", [XGBOOST, LIGHTGBM])
def test_without_workbench_the_code_boosts_all_its_rounds_and_prints_them(tmp_path, text):
    printed = run_alone(cell(text), tmp_path)
    assert [line.split(":")[0] for line in printed if line.startswith("step ")] == ["step 1", "step 2", "step 3"]
    assert (tmp_path / "ended").read_text() == "3 "


SKLEARN = (
    DATA
    + """
import warnings
from sklearn.linear_model import SGDRegressor
from sklearn.neural_network import MLPRegressor
warnings.simplefilter("ignore")
model = MODEL
for epoch in trial.steps():
    time.sleep(0.01)
    model.FIT(x[:200], y[:200])
    trial.report(score=model.score(x[200:], y[200:]))
"""
)


@pytest.mark.parametrize(
    ("model", "fit"),
    [
        ("SGDRegressor()", "partial_fit"),
        ("MLPRegressor(hidden_layer_sizes=(8,))", "partial_fit"),
        ("MLPRegressor(hidden_layer_sizes=(8,), max_iter=1, warm_start=True)", "fit"),
    ],
)
def test_scikit_learn_resumes_in_a_plain_loop(server, experiment, model, fit):
    text = SKLEARN.replace("MODEL", model).replace("FIT", fit)
    calm, wild = undisturbed_and_killed(server, lambda: experiment(text, steps=12), (2, 5, 12), len(model))
    assert wild.values == calm.values
    assert max(step for _, step in calm.values) == 12
