"""Plans: the papers' numbers, the defaults, and the table a person reads."""

from __future__ import annotations

import json

import pytest
from search_world import SPACE

from workbench.errors import BadOption
from workbench.records import Scheduler, Searcher
from workbench.search import plan
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
