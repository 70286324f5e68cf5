"""What a pickle would make otherwise is the same after a resume: optimizers of the loop, orders of containers, …"""

import pytest
from trial.loops_odd import ALL
from trial.test_resume import same
from trial.world import said

BOOSTER = """
import lightgbm as lgb, numpy as np
A = np.random.RandomState(0).randn(200, 4); y = (A[:, 0] > 0).astype(int)
d = lgb.Dataset(A, y, params={"verbose": -1})
bst = lgb.Booster({"objective": "binary", "verbose": -1, "num_threads": 1}, d)
for step in trial.steps():
    bst.update(); trial.report(score=float(bst.predict(A).sum()))
"""


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
