"""Configurations that are trained several times: rungs compare their means, and the best is of the best mean."""

from __future__ import annotations

import math
import sys
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_world import GOAL, GROUPED, World, noise, search

from workbench.errors import BadOption, BadSpace
from workbench.facts import CapacityChanged, Ended, Extended, Fact, Failed, Finish, Left, Reached, Run, Settle, Stop
from workbench.records import Configuration, Goal, Scheduler, Searcher
from workbench.search import Search, plan
from workbench.search.members import Members, members
from workbench.space import Space, choice, given_to, left_open, uniform
from workbench.standing import Spread, Standings, spread

HYPERBAND = Scheduler("hyperband", 1, 9, 3)
FOLDS = Space({"x": uniform(0, 1), "fold": choice("a", "b", "c", repeat=True)})


def values_at(step: int, trials: range) -> list[float]:
    return [noise(trial, step) for trial in trials]


@pytest.mark.parametrize("name", ["hyperband x4", "asha-promote x4"])
def test_those_with_the_best_means_are_promoted_whole(name: str) -> None:
    world = World(search(name), 5, 1).run()
    each = world.search.plan.members
    going = {(run.trial, run.start) for run in world.instructions if isinstance(run, Run) and run.start}
    for number, step in going:
        assert {(trial, step) for trial in each.trials(each.group(number))} <= going
    if name.startswith("hyperband"):
        for ladder in world.search.plan.ladders:
            there = list(ladder.trials)
            for step, count in zip(ladder.levels, ladder.sizes[1:], strict=False):
                there = sorted(there, key=lambda one: (-fmean(values_at(step, each.trials(one))), one))[:count]
                there_now = {each.group(trial) for trial, start in going if start == step}
                assert set(there) == there_now & set(ladder.trials)


@pytest.mark.parametrize("name", GROUPED)
def test_the_best_is_the_best_trial_of_the_best_mean(name: str) -> None:
    found = World(search(name), 3, 2).run().search
    each = found.plan.members
    complete = [
        group
        for group in range(found.plan.configurations)
        if all(number in found.trials and found.trials[number].state == "completed" for number in each.trials(group))
    ]
    best = max(complete, key=lambda group: fmean(values_at(9, each.trials(group))))
    assert found.best is not None
    number, value, _ = found.best
    assert each.group(number) == best
    assert value == max(values_at(9, each.trials(best)))
    told = values_at(9, each.trials(best))
    assert found.standings.spread(number) == (9, Spread(fmean(told), pytest.approx(stdev(told)), 4))


def test_a_lucky_seed_does_not_win() -> None:
    lucky = {0: [0.2, 0.2, 0.9], 1: [0.6, 0.7, 0.6]}
    world = World(
        Search(GOAL, Space({"x": uniform(0, 1)}), Scheduler("all", 1, 1), trials=2, seeds=3),
        value=lambda trial, step: lucky[trial // 3][trial % 3],
    ).run()
    assert world.search.best is not None
    assert world.search.best[:2] == (4, 0.7)
    assert world.instructions[-1].reason.endswith("by t0004 at step 1 (its 3 trials: 0.633333 ± 0.058)")


def test_seeds_that_give_the_same_bits_are_told_beside_the_mean() -> None:
    scheduler = Scheduler("asha", 1, 3, 3)
    world = World(Search(GOAL, Space({"x": uniform(0, 1)}), scheduler, trials=6, seeds=3), value=lambda *_: 0.7).run()
    reasons = [one.reason for one in world.instructions if hasattr(one, "reason")]
    assert any(reason.endswith(" (means; this one of 3 trials, ± 0 (the same bits))") for reason in reasons)
    assert reasons[-1].endswith("(its 3 trials: 0.7 ± 0 (the same bits))")


def test_reasons_say_the_mean_and_the_spread() -> None:
    world = World(search("hyperband x4"), 64).run()
    reasons = [one.reason for one in world.instructions if isinstance(one, Settle) and one.state == "stopped"]
    assert reasons
    assert all(
        " is rank " in one and one.endswith(")") and " (means; this one of 4 trials, ± " in one for one in reasons
    )
    waiting = [one.reason for one in world.instructions if isinstance(one, Settle) and one.state == "paused"]
    assert all("; the mean waits for " in one or "waits for " in one for one in waiting)


def test_members_share_a_configuration_and_have_all_folds() -> None:
    found = Search(GOAL, FOLDS, HYPERBAND, seeds=2)
    assert found.plan.members == Members(2, ({"fold": "a"}, {"fold": "b"}, {"fold": "c"}))
    six = [found.configuration(number) for number in range(6)]
    assert [one["fold"] for one in six] == ["a", "b", "c", "a", "b", "c"]
    assert len({one["x"] for one in six}) == 1
    assert found.configuration(6)["x"] != six[0]["x"]
    assert list(six[0]) == ["x", "fold"]
    # The same configurations as of a search without folds and seeds.
    plain = Search(GOAL, Space({"x": uniform(0, 1)}), HYPERBAND)
    assert [plain.configuration(n)["x"] for n in range(3)] == [found.configuration(6 * n)["x"] for n in range(3)]


@given(st.integers(1, 5), st.integers(0, 500))
def test_members_have_neighbouring_numbers(seeds: int, trial: int) -> None:
    each = members(FOLDS, seeds)
    assert each.count == 3 * seeds
    assert trial in each.trials(each.group(trial))
    assert list(each.first((each.group(trial),))) == list(each.trials(each.group(trial)))


def test_a_trial_that_fails_or_diverges() -> None:
    def value(trial: int, step: int) -> float:
        return math.nan if trial == 0 else 1 - trial / 1000

    failing = World(search("hyperband x4"), 4, value=value, fails=lambda trial, step: trial == 5).run()
    states = failing.search.trials
    # The first configuration has the best numbers but one that is none; the second does without the trial that failed.
    assert [states[number].step for number in range(4)] == [1, 1, 1, 1]
    assert "1 of its 4 trials diverged" in states[1].reason
    assert states[5].state == "failed"
    assert failing.search.best is not None
    assert failing.search.best[:2] == (4, 0.996)
    assert failing.search.standings.spread(4) == (
        9,
        Spread(fmean([0.996, 0.994, 0.993]), pytest.approx(0.00153, rel=0.01), 3),
    )
    assert states[4].state == "completed"


def test_a_trial_that_a_person_stopped_leaves_the_mean_and_the_others_go_on() -> None:
    world = World(search("all x4", trials=1), 1, value=lambda trial, step: float(trial), stops={2: 3}).run()
    assert [world.search.trials[number].state for number in range(4)] == ["completed"] * 3 + ["stopped"]
    assert world.search.standings.spread(0) == (9, Spread(1.0, 1.0, 3))


@pytest.mark.parametrize("last", [Failed(7, "out of memory"), Ended(7, 1, 5.0)])
def test_what_a_configuration_reported_after_it_was_stopped_changes_no_median(last: Fact) -> None:
    """Its other trial was ahead: its values wait until this one has none to add."""
    found = Search(Goal("loss", "min"), Space({"x": uniform(0, 1)}), Scheduler("median", 1, 10), trials=5, seeds=2)
    found.handle(CapacityChanged(2))

    def train(trial: int, value: float) -> None:
        found.handle(*(Reached(trial, step, value) for step in range(1, 10)), Ended(trial, 10, value))

    for trial in range(6):
        train(trial, 1.0 + trial // 2)
    train(6, 5.0)
    found.handle(last)
    train(8, 2.3)
    # At step 1 the four others have 1, 2, 3 and 5. At step 2 only three remain.
    assert found.handle(Reached(9, 1, 2.3)) == []
    (stop,) = found.handle(Reached(9, 2, 2.3))
    assert isinstance(stop, Stop)
    assert stop.reason.startswith("step 2: best loss 2.3 is worse than 2, the median of 3 others' averages up to there")
    assert isinstance(found.handle(Left(9))[-1], Finish)


def test_an_extension_counts_configurations() -> None:
    world = World(search("hyperband x4"), 4).run()
    world.tell(Extended("more", 3, 27))
    assert world.search.plan.configurations == 17 + 3
    assert world.search.plan.trials == 80
    world.tell(CapacityChanged(4))
    while not world.search.done:
        world.turn()
    longest = [view.number for view in world.search.trials.values() if view.step == 27]
    assert longest
    assert len(longest) % 4 == 0


def test_given_configurations_are_trained_with_each_fold() -> None:
    some: tuple[Configuration, ...] = ({"x": 0.25}, {"x": 0.5})
    first = Search(GOAL, FOLDS, HYPERBAND, Searcher(given=some))
    numbers = [number for number in range(first.plan.trials) if first.configuration(number)["x"] in (0.25, 0.5)]
    assert len(numbers) == 6
    assert [first.configuration(number)["fold"] for number in numbers] == list("abcabc")
    begun = World(first, 6).run()
    assert [one.trial for one in begun.instructions if isinstance(one, Run)][:6] == numbers
    only = Search(GOAL, FOLDS, Scheduler("all", 1, 3), Searcher(given=some, only=True))
    assert [only.configuration(n)["x"] for n in range(only.plan.trials)] == [0.25] * 3 + [0.5] * 3
    assert "2 configurations, each with 3 folds: 6 trials" in str(only.plan)


def test_a_grid_does_not_count_folds() -> None:
    space = Space({"a": choice(1, 2), "fold": choice(0, 1, repeat=True), "b": choice(3, 4)})
    found = Search(GOAL, space, Scheduler("all", 1, 1), Searcher("grid"))
    assert found.plan.configurations == 4
    got = [found.configuration(number) for number in range(found.plan.trials)]
    assert [(one["a"], one["fold"], one["b"]) for one in got] == [
        (a, fold, b) for a in (1, 2) for b in (3, 4) for fold in (0, 1)
    ]


def test_one_configuration_with_several_seeds_is_a_search() -> None:
    found = World(Search(GOAL, Space({}), HYPERBAND, seeds=5), 2).run().search
    assert found.plan.trials == 5
    assert {view.state for view in found.trials.values()} == {"completed"}


def test_the_plan_counts_trials() -> None:
    planned = plan(HYPERBAND, space=FOLDS, seeds=2)
    plain = plan(HYPERBAND)
    assert (planned.trials, planned.legs, planned.steps) == (6 * plain.trials, 6 * plain.legs, 6 * plain.steps)
    assert str(planned).splitlines()[-1].startswith("17 configurations, each with 2 seeds and 3 folds: 102 trials, ")
    assert planned.brackets[0].rungs[0].trials == 54
    assert planned.to_json()["members"] == {"seeds": 2, "folds": [{"fold": one} for one in "abc"]}


@pytest.mark.parametrize("seeds", [0, -1, 1001, True, 1.5, "3"])
def test_a_number_of_seeds_that_is_none_is_refused(seeds: object) -> None:
    with pytest.raises(BadOption, match="--seeds"):
        plan(HYPERBAND, seeds=seeds)  # type: ignore[arg-type]


def test_what_cannot_be_repeated_is_refused() -> None:
    with pytest.raises(BadSpace, match="two options or more"):
        choice(1, repeat=True)
    with pytest.raises(BadSpace, match="an option is a distribution"):
        choice(1, uniform(0, 1), repeat=True)
    with pytest.raises(BadSpace, match="stands inside an option"):
        choice(1, choice(1, 2, repeat=True))
    with pytest.raises(BadSpace, match="has repeat=True"):
        given_to(FOLDS, {"x": 0.5, "fold": "a"})
    from workbench.space import Parameter

    with pytest.raises(BadSpace, match="it has a condition"):
        choice(1, 2, when=Parameter("x") == 1, repeat=True)
    with pytest.raises(BadSpace, match="depends on fold, which has repeat=True"):
        Space({"fold": choice(0, 1, repeat=True), "x": uniform(0, 1, when=Parameter("fold") == 1)})


def test_a_repeated_choice_survives_its_record() -> None:
    assert Space.from_json(FOLDS.to_json()) == FOLDS
    assert Space.from_json(FOLDS.to_json()).repeated == {"fold": ("a", "b", "c")}
    assert repr(FOLDS.forms["fold"]) == "choice('a', 'b', 'c', repeat=True)"
    assert "repeat" not in str(Space({"fold": choice(0, 1)}).to_json())
    assert left_open(FOLDS, [{}]) == ("x",)


def test_no_trial_of_a_configuration_has_a_mean_before_all_have_the_level() -> None:
    told = Standings("max", 2)
    told.tell(0, 1, 0.9)
    assert told.best is not None
    assert told.spread(0) is None
    told.tell(2, 1, 0.1)
    told.tell(3, 1, 0.3)
    assert told.best.trial == 3
    told.tell(1, 1, 0.9)
    assert told.best.trial == 0
    told.tell(2, 3, 0.2)
    assert told.first(4) == [0, 1, 2, 3]
    told.tell(3, 3, math.nan)
    assert told.first(4) == [0, 1, 2, 3]
    told.withdraw(3)
    assert told.first(4) == [2, 3, 0, 1]
    assert told.spread(2) == (3, Spread(0.2, 0.0, 1))
    assert math.isnan(spread([1.0, math.inf]).mean)


def test_the_spread_of_very_large_values_is_finite() -> None:
    assert spread([1e200, 3e200]) == Spread(2e200, pytest.approx(math.sqrt(2) * 1e200), 2)
    assert spread([1.5e308, 1.5e308, 1.5e308]) == Spread(1.5e308, 0.0, 3)
    assert spread([1.7e308, -1.7e308]) == Spread(0.0, sys.float_info.max, 2)
    assert spread([1e200, 0.5]) == Spread(5e199, pytest.approx(1e200 / math.sqrt(2)), 2)


@pytest.mark.parametrize("name", GROUPED)
def test_very_large_values_end_no_search(name: str) -> None:
    found = World(search(name), 5, 1, value=lambda trial, step: noise(trial, step) * 1e300).run().search
    usual = World(search(name), 5, 1).run().search
    assert found.best is not None
    assert usual.best is not None
    assert (found.done, found.best.trial) == (True, usual.best.trial)
    assert found.counts == usual.counts
