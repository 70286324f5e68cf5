"""What a pickle would make otherwise is the same after a resume: optimizers of the loop, orders of containers, …"""

import pytest
from trial.loops_odd import ALL
from trial.test_resume import same
from trial.world import points, said

BOOSTER = """
import lightgbm as lgb, numpy as np
A = np.random.RandomState(0).randn(200, 4); y = (A[:, 0] > 0).astype(int)
d = lgb.Dataset(A, y, params={"verbose": -1})
bst = lgb.Booster({"objective": "binary", "verbose": -1, "num_threads": 1}, d)
for step in trial.steps():
    bst.update(); trial.report(score=float(bst.predict(A).sum()))
"""

BY_HAND = """
import numpy as np, xgboost
draw = np.random.default_rng(1)
A = draw.normal(size=(100, 6)); y = A[:, 0] * A[:, 1]
train = xgboost.DMatrix(A, y)
options = {"nthread": 1, OPTIONS}
bst = xgboost.Booster(options, [train])
for step in trial.steps():
    bst.update(train, step)
    trial.report(score=float(bst.predict(train).sum()))
"""
FROM_THE_LAST = BY_HAND.replace("bst.update(train, step)", "bst = xgboost.train(options, train, 2, xgb_model=bst)")
IN_THE_LOOP = BY_HAND.replace("bst = xgboost.Booster(options, [train])", "bst = None").replace(
    "    bst.update", "    bst = bst or xgboost.Booster(options, [train])\n    bst.update"
)
#: Whether a booster that draws is named, and how: those that are not named are exact.
BOOSTERS = {
    "all rows": (BY_HAND, '"max_depth": 3', ""),
    "all rows, by approx": (BY_HAND, '"tree_method": "approx"', ""),
    "trees are dropped": (BY_HAND, '"booster": "dart", "rate_drop": 0.5', ""),
    "rows": (BY_HAND, '"subsample": 0.5', "xgb_model=booster"),
    "rows, made in the loop": (IN_THE_LOOP, '"subsample": 0.5', "xgb_model=booster"),
    "features": (BY_HAND, '"colsample_bynode": 0.5', "xgb_model=booster"),
    "features of a line": (
        BY_HAND, '"booster": "gblinear", "updater": "coord_descent", "feature_selector": "random"', "xgb_model=booster"
    ),
    "rows, each step from the last": (FROM_THE_LAST, '"subsample": 0.5', ""),
    "features, each step from the last": (FROM_THE_LAST, '"colsample_bytree": 0.5', ""),
    "rows by approx, each step from the last": (FROM_THE_LAST, '"tree_method": "approx", "subsample": 0.5', "hist"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_resumed_equals_undisturbed(server, experiment, name):
    same(server, experiment, ALL[name])


def test_a_booster_of_lightgbm_that_trains_by_itself_is_named_and_does_not_crash(server, experiment):
    cell = experiment(BOOSTER, steps=3)
    for start in (0, 1):
        runner = server.runner()
        told = runner.leg(cell.order(start + 1, start=start))
        runner.kill()
        assert told[-1]["op"] == "left", runner.output()
        assert told[-1]["error"] is None
    [named] = said(told, "begun")[0]["found"]["inexact"]
    assert named["name"] == "bst"
    assert "lgb.train(..., init_model=...)" in named["reason"]


@pytest.mark.parametrize("name", BOOSTERS)
def test_a_booster_of_xgboost_that_draws_is_named_or_trains_exactly(server, experiment, name):
    text, options, advice = BOOSTERS[name]
    cell = experiment(text.replace("OPTIONS", options), steps=4)
    whole = points(server.runner().leg(cell.order(4)))
    cell = experiment(text.replace("OPTIONS", options), steps=4)
    found, named = {}, {}
    for start, until in ((0, 1), (1, 3), (3, 4)):
        told = server.runner().leg(cell.order(until, start=start))
        assert told[-1]["op"] == "left"
        assert told[-1]["error"] is None
        found |= points(told)
        named |= {one["name"]: one["reason"] for one in said(told, "begun")[0]["found"].get("inexact", ())}
    assert found.keys() == whole.keys()
    assert (found == whole) == (not advice)
    assert named.keys() == ({"bst"} if advice else set())
    assert advice in named.get("bst", "")
