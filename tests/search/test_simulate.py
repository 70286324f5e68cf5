"""The simulator: what it tells is what the search did, on a virtual clock."""

from __future__ import annotations

import pytest
from search_world import SCHEDULERS, SYNCHRONOUS, noise, search

from workbench.facts import Finish, Run, Stop
from workbench.records import Goal, Scheduler
from workbench.search import Search, simulate
from workbench.space import Space, choice, uniform
from workbench.standing import Best


def curve(configuration, step):
    return configuration["x"] * (1 - 1 / (step + 1))


@pytest.mark.parametrize("name", SYNCHRONOUS)
@pytest.mark.parametrize("slots", [1, 3, 64])
def test_a_synchronous_search_does_what_was_planned(name, slots):
    done = simulate(search(name), curve, slots)
    planned = search(name).plan
    assert (done.trials, done.legs, done.steps, done.promotions) == (
        planned.trials,
        planned.legs,
        planned.steps,
        planned.promotions,
    )


@pytest.mark.parametrize("name", SCHEDULERS)
def test_time_is_what_the_slots_take(name):
    one, many = (simulate(search(name), curve, slots, step_time=2.0) for slots in (1, 8))
    assert one.time == 2.0 * one.steps
    assert many.time < one.time
    assert many.time >= 2.0 * many.steps / 8
    for done in (one, many):
        assert isinstance(done.instructions[-1], Finish)
        assert len(done.points) == done.steps
        assert list(done.points) == sorted(done.points, key=lambda point: (point.time, point.trial))
        assert len({(point.trial, point.step) for point in done.points}) == done.steps
        assert done.points[-1].time == done.time


def test_a_trial_that_is_stopped_trains_no_further():
    done = simulate(search("asha-stop"), curve, 2)
    assert any(isinstance(instruction, Stop) for instruction in done.instructions)
    assert done.steps < 9 * 9


def test_recorded_curves_are_replayed_and_end_where_they_end():
    one = Search(Goal("loss", "min"), Space({"a": choice(1, 2)}), Scheduler("all", 1, 4), trials=3)
    done = simulate(one, {0: [0.9, 0.5, 0.4, 0.3], 1: [0.8, 0.2], 2: []}, slots=1)
    assert done.steps == 6
    assert done.best == Best(1, 0.2)
    assert done.steps_to(0.5) == 2
    assert done.steps_to(0.2) == 6
    assert done.steps_to(0.1) is None
    assert done.time_to(0.2) == 6.0
    assert done.time_to(0.1) is None


def test_a_search_over_recorded_curves_that_are_too_short_still_ends():
    curves = {trial: [noise(trial, step) for step in range(1, 1 + trial % 9)] for trial in range(40)}
    for name in SCHEDULERS:
        done = simulate(search(name), curves, 3)
        assert done.steps == len(done.points)


def test_slower_configurations_take_longer():
    space = Space({"slow": choice(1.0, 3.0), "x": uniform(0, 1)})
    one = Search(Goal("val_acc"), space, Scheduler("all", 1, 4), trials=6)
    done = simulate(one, curve, 1, step_time=lambda configuration: configuration["slow"])
    assert done.time == sum(4 * one.configuration(trial)["slow"] for trial in range(6))


def test_it_is_summed_up_for_people_and_programs():
    done = simulate(search("hyperband"), curve, 2)
    assert str(done).startswith("17 trials, 5 promotions, 69 steps in ")
    assert done.to_json()["steps"] == 69
    assert sum(isinstance(instruction, Run) for instruction in done.instructions) == done.legs == 22


def test_a_search_on_no_slots_is_refused():
    with pytest.raises(ValueError, match="1 or more"):
        simulate(search("all"), curve, 0)
