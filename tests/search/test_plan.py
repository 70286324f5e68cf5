"""Plans: the papers' numbers, the defaults, and the table a person reads."""

from __future__ import annotations

import json

import pytest
from search_world import SPACE

from workbench.errors import BadOption
from workbench.records import Scheduler, Searcher
from workbench.search import plan
from workbench.search.cost import SHARE, Times
from workbench.space import Space, choice


@pytest.mark.parametrize(
    ("last", "table", "trials", "steps", "retrained"),
    [
        (9, "algorithm1", 17, 69, 78),
        (27, "algorithm1", 49, 357, 423),
        (81, "algorithm1", 143, 1581, 1902),
        (81, "table1", 128, 1404, 1701),
    ],
)
def test_hyperband_costs_what_the_paper_says(last, table, trials, steps, retrained):
    planned = plan(Scheduler("hyperband", 1, last, 3, table=table))
    assert (planned.trials, planned.steps, planned.steps_retrained) == (trials, steps, retrained)
    assert planned.legs == planned.trials + planned.promotions
    assert planned.exact


@pytest.mark.parametrize(
    ("scheduler", "space", "searcher", "trials", "planned"),
    [
        (Scheduler("asha", 1, 27, 3), SPACE, "random", None, 27),
        (Scheduler("asha", 3, 81, 3, brackets="conservative"), SPACE, "random", None, 27),
        (Scheduler("median", 1, 27), SPACE, "random", None, 20),
        (Scheduler("all", 1, 27), SPACE, "sobol", None, 20),
        (Scheduler("all", 1, 27), SPACE, "random", 7, 7),
        (Scheduler("all", 1, 27), Space({"a": choice(1, 2, 3)}), "grid", None, 3),
        (Scheduler("all", 1, 27), Space({"a": choice(1, 2, 3)}), "grid", 2, 2),
        (Scheduler("all", 1, 27), Space({"a": choice(1, 2, 3)}), "grid", 9, 3),
        (Scheduler("hyperband", 1, 27, 3), Space({"a": choice(1, 2, 3)}), "grid", None, 3),
        (Scheduler("hyperband", 1, 27, 3), Space(), "random", None, 1),
        (Scheduler("hyperband", 1, 27, 3), Space({"k": 3}), "random", None, 1),
        (Scheduler("hyperband", 1, 27, 3), Space(), "random", 3, 3),
        (Scheduler("hyperband", 1, 9, 3), SPACE, "random", 100, 100),
    ],
)
def test_how_many_trials_there_are(scheduler, space, searcher, trials, planned):
    assert plan(scheduler, space=space, searcher=Searcher(searcher), trials=trials).trials == planned


def test_a_single_trial_has_one_leg_to_the_end():
    planned = plan(Scheduler("hyperband", 1, 81, 3), trials=1)
    assert (planned.legs, planned.steps, planned.promotions) == (1, 81, 0)


def test_asha_by_stopping_has_one_leg_for_each_trial():
    planned = plan(Scheduler("asha", 1, 27, 3, mode="stop"))
    assert (planned.trials, planned.legs, planned.steps, planned.exact) == (27, 27, 81, False)


def test_a_plan_reads_as_a_table():
    assert str(plan(Scheduler("hyperband", 1, 9, 3))).splitlines() == [
        "bracket  step 1  step 3  step 9",
        "      2       9       3       1",
        "      1               5       1",
        "      0                       3",
        "17 trials, 5 promotions, 69 steps (78 without checkpoints)",
    ]


def test_a_plan_that_depends_on_arrival_says_about():
    assert "about 13 promotions, about 81 steps" in str(plan(Scheduler("asha", 1, 27, 3)))


def test_above_a_thousand_trials_it_warns():
    planned = plan(Scheduler("hyperband", 1, 729, 3))
    assert planned.trials > 1000
    assert "more than 1,000" in str(planned)
    assert plan(Scheduler("hyperband", 1, 81, 3)).warnings == ()


def test_a_plan_is_plain_data():
    data = json.loads(json.dumps(plan(Scheduler("hyperband", 1, 9, 3)).to_json()))
    assert data["brackets"][0] == {
        "number": 2,
        "rungs": [{"step": 1, "trials": 9}, {"step": 3, "trials": 3}, {"step": 9, "trials": 1}],
    }
    assert (data["trials"], data["steps"], data["exact"]) == (17, 69, True)


def test_an_unknown_scheduler_is_refused():
    with pytest.raises(BadOption, match="expected hyperband, asha, median or all"):
        plan(Scheduler("annealing", 1, 9))


# ---------------------------------------------------------------------------------------------------------------------
# Time


def times(setup_s: float, step_s: float) -> Times:
    return Times(setup_s, step_s, "digits@1 took")


@pytest.mark.parametrize(
    ("scheduler", "setups", "steps"),
    [
        # Each promotion sets its trial up again, but not where trials are trained on until they are stopped.
        (Scheduler("hyperband", 1, 27, 3), 49 + 20, 357),
        (Scheduler("asha", 1, 27, 3), 27 + 13, 81),
        (Scheduler("asha", 1, 27, 3, mode="stop"), 27, 81),
        (Scheduler("median", 1, 27), 20, 540),
        (Scheduler("all", 1, 27), 20, 540),
    ],
)
def test_a_plan_takes_its_set_ups_and_its_steps(scheduler, setups, steps):
    found = plan(scheduler)
    assert (found.legs, found.steps) == (setups, steps)
    cost = found.priced(times(10.0, 2.0)).cost
    assert (cost.setups, cost.setup_s, cost.step_s, cost.seconds) == (setups, setups * 10, steps * 2, cost.seconds)
    assert cost.share == pytest.approx(setups * 10 / (setups * 10 + steps * 2))


def test_a_plan_without_times_says_nothing_of_them():
    found = plan(Scheduler("hyperband", 1, 27, 3))
    assert found.priced(None) is found
    assert found.to_json()["cost"] is None
    assert "set-up" not in str(found)


@pytest.mark.parametrize(
    ("scheduler", "setup_s", "advice"),
    [
        # 69 set-ups and 357 steps of a second: a fifth is reached at 1.293 s.
        (Scheduler("hyperband", 1, 27, 3), 1.29, ""),
        (Scheduler("hyperband", 1, 27, 3), 1.30, "--scheduler asha --mode stop --trials 49 sets each trial up once"),
        (Scheduler("asha", 1, 27, 3), 0.5, ""),
        (Scheduler("asha", 1, 27, 3), 0.51, ". --mode stop --trials 27 sets each trial up once"),
        # Nothing is set up twice.
        (Scheduler("asha", 1, 27, 3, mode="stop"), 1000.0, ""),
        (Scheduler("median", 1, 27), 1000.0, ""),
        (Scheduler("all", 1, 27), 1000.0, ""),
    ],
)
def test_stopping_is_recommended_where_repeated_set_ups_pass_a_fifth(scheduler, setup_s, advice):
    cost = plan(scheduler).priced(times(setup_s, 1.0)).cost
    assert bool(cost.advice) == bool(advice)
    assert (cost.share > SHARE) or not advice
    assert advice in cost.advice


def test_a_plan_in_words_names_the_figures():
    lines = str(plan(Scheduler("hyperband", 1, 27, 3)).priced(times(120.0, 3.0))).splitlines()
    assert lines[-2] == (
        "digits@1 took 2 min for a set-up and 3.0 s for a step: at most about 2 h 36 min of one slot, 2 h 18 min of it "
        "(89%) in 69 set-ups"
    )
    assert lines[-1] == (
        "Set-ups take 89% of the time, because each of the 20 promotions sets its trial up again. --scheduler asha "
        "--mode stop --trials 49 sets each trial up once: about 1 h 44 min, 1 h 38 min of it in 49 set-ups; a trial is "
        "trained on until it is stopped at a rung."
    )
    data = plan(Scheduler("hyperband", 1, 27, 3)).priced(times(120.0, 3.0)).to_json()["cost"]
    assert (data["setups"], data["setup_s"], data["step_s"], data["seconds"]) == (69, 8280.0, 1071.0, 9351.0)
