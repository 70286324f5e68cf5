"""Given configurations in a search: which trials have them, when they start, and that the others stay as they were."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_world import GOAL, SCHEDULERS, SPACE, SYNCHRONOUS, World, search

from workbench.errors import BadOption
from workbench.facts import CapacityChanged, Extended, Run, StopAsked
from workbench.records import Scheduler, Searcher
from workbench.search import Search, plan
from workbench.search.searchers import grid_size, proposals
from workbench.space import Parameter, Space, choice, randint

quick = settings(max_examples=25 if settings().derandomize else 200)
every = pytest.mark.parametrize("name", SCHEDULERS)
FOUND = ({"x": 0.5, "units": 64}, {"x": 0.25}, {"units": 128})
xs = st.floats(0, 1)
units = st.sampled_from([32, 64, 128])
configurations = st.lists(
    st.one_of(st.fixed_dictionaries({"x": xs}, optional={"units": units}), st.fixed_dictionaries({"units": units})),
    min_size=1,
    max_size=6,
).map(tuple)


def made(name, given=FOUND, kind="random", trials=None, seed=0, only=False):
    return Search(GOAL, SPACE, SCHEDULERS.get(name, name), Searcher(kind, given, only), seed, trials)


@every
@quick
@given(found=configurations, seed=st.integers(0, 99), kind=st.sampled_from(["random", "sobol"]), order=st.randoms())
def test_the_other_trials_are_those_of_the_search_without(name, found, seed, kind, order):
    one = made(name, found, kind, seed=seed)
    plain = Search(GOAL, SPACE, SCHEDULERS[name], Searcher(kind), seed)
    assert one.plan.trials == plain.plan.trials
    given = dict(zip(one.plan.given, found, strict=True))
    assert len(given) == len(found)
    numbers = list(range(one.plan.trials))
    order.shuffle(numbers)  # it does not matter when a configuration is asked
    for number in numbers:
        assert one.configuration(number) == {**plain.configuration(number), **given.get(number, {})}


@every
@quick
@given(found=configurations, seed=st.integers(0, 10_000), slots=st.sampled_from([1, 2, 7]))
def test_they_start_before_all_others_and_the_search_finishes(name, found, seed, slots):
    world = World(made(name, found, trials=17), slots, seed, losses=0.2, unsettled=0.05).run()
    begun = [one.trial for one in world.instructions if isinstance(one, Run) and one.start == 0]
    assert list(dict.fromkeys(begun))[: len(found)] == list(world.search.plan.given)


@pytest.mark.parametrize("name", SYNCHRONOUS)
@quick
@given(found=configurations, seed=st.integers(0, 10_000), slots=st.sampled_from([1, 3, 64]))
def test_the_order_of_arrival_changes_nothing(name, found, seed, slots):
    calm, wild = (World(made(name, found), *way).run() for way in ((1, 0), (slots, seed)))
    assert wild.outcome == calm.outcome


@every
def test_a_journal_that_is_read_again_gives_the_same_orders(name):
    world = World(made(name), 3, 5, losses=0.2).run()
    again = made(name)
    assert [one for fact in world.facts for one in again.handle(fact)] == world.instructions


def test_hyperband_puts_them_where_no_early_rung_can_lose_them():
    one = made("hyperband", FOUND[:2])
    assert one.plan.given == (14, 15)
    assert [one.bracket(number) for number in one.plan.given] == [0, 0]
    assert [one.levels(number) for number in one.plan.given] == [(9,), (9,)]
    # Where the calmest bracket is full, the next one has the others; a later round comes after the whole first one.
    assert made("hyperband", FOUND + FOUND[:2]).plan.given == (14, 15, 16, 9, 10)
    assert made("hyperband", FOUND * 6, trials=40).plan.given[16:] == (8, 31)


def test_asha_puts_them_into_its_calmest_bracket_and_starts_them_whatever_its_share():
    one = made("asha-promote-conservative", FOUND[:1])
    number = one.plan.given[0]
    assert one.bracket(number) == 0
    assert [order.trial for order in one.handle(CapacityChanged(1))] == [number]


@pytest.mark.parametrize("name", ["asha-promote", "asha-stop", "median", "all"])
def test_with_one_bracket_they_are_the_first_trials(name):
    assert made(name).plan.given == (0, 1, 2)


def test_one_that_is_stopped_before_it_starts_holds_up_nothing():
    for name in SCHEDULERS:
        one = made(name)
        one.handle(StopAsked(one.plan.given[0], "enough"))
        orders = one.handle(CapacityChanged(2))
        assert [order.trial for order in orders if isinstance(order, Run)] == list(one.plan.given[1:])


def test_while_only_one_may_run_the_first_of_them_is_that_one():
    """The engine starts one leg of those that are ordered, until it has reported."""
    for name in SCHEDULERS:
        one = made(name, FOUND + FOUND[:2])
        ordered = [order.trial for order in one.handle(CapacityChanged(8))]
        assert sorted(ordered, key=one.order)[:5] == ordered[:5] == list(one.plan.given)
        assert len({one.order(number) for number in range(one.plan.trials)}) == one.plan.trials


@every
def test_a_list_is_trained_exactly_and_in_its_order(name):
    found = tuple({"x": at / 10, "units": 32} for at in range(10))
    one = made(name, found, only=True)
    assert (one.plan.trials, one.plan.given) == (10, tuple(range(10)))
    assert [one.configuration(number) for number in range(10)] == list(found)
    World(one).run()
    with pytest.raises(BadOption, match="consists of 10 given configurations"):
        one.extension(Extended("more", 5))
    assert one.extension(Extended("longer", 0, 81)).scheduler.last == 81


@every
@pytest.mark.parametrize("only", [True, False])
def test_where_all_are_given_trials_are_ordered_as_ever(name, only):
    found = tuple({"x": at / 20} for at in range(17))
    one, plain = made(name, found, trials=17, only=only), search(name, trials=17)
    assert World(one, 3, 5, losses=0.2).run().instructions == World(plain, 3, 5, losses=0.2).run().instructions


def test_one_given_configuration_runs_to_its_end():
    one = made("hyperband", FOUND[:1], only=True)
    assert one.plan.scheduler.kind == "all"
    assert str(one.plan).splitlines()[-1] == "all configurations are given"


def test_further_trials_are_the_searchers_own():
    one, plain = made("hyperband"), search("hyperband")
    for each in (one, plain):
        each.handle(CapacityChanged(1), Extended("more", 9))
    assert one.plan.given == (14, 15, 16)
    assert one.plan.trials == 26
    assert [one.configuration(n) for n in range(17, 26)] == [plain.configuration(n) for n in range(17, 26)]


def test_equal_ones_are_two_trials():
    one = made("all", FOUND[:1] * 2)
    assert one.configuration(0) == one.configuration(1)


def test_more_than_there_are_trials_are_refused():
    with pytest.raises(BadOption, match=r"18 configurations are given, but the search has 17.*--trials 18"):
        made("hyperband", FOUND * 6)
    with pytest.raises(BadOption, match="3 configurations are given, but the search has 2"):
        made("all", trials=2)


def test_the_plan_says_which_trials_have_them():
    assert str(made("hyperband").plan).splitlines()[-1] == (
        "3 configurations are given and start first (t0014, t0015, t0016), in bracket 0; "
        "the searcher proposes x, units where not given"
    )
    assert str(made("all", FOUND[:1]).plan).splitlines()[-1] == "1 configuration is given and starts first (t0000)"
    assert made("hyperband").plan.to_json()["given"] == (14, 15, 16)


# -- a grid

GRID = Space({"a": randint(1, 3), "b": choice("x", "y"), "c": choice(0.5, 0.7, when=Parameter("b") == "x")})
points = st.lists(
    st.fixed_dictionaries({}, optional={"a": st.integers(1, 3), "b": st.sampled_from(["x", "y"])}).filter(bool),
    max_size=4,
    unique_by=repr,
)


@quick
@given(points, st.permutations(range(9)))
def test_a_grid_still_has_every_point_once(found, order):
    searcher = Searcher("grid", tuple(found))
    try:
        planned = plan(Scheduler("all", 1, 9), space=GRID, searcher=searcher)
    except BadOption as error:
        assert "given before" in str(error)  # noqa: PT017 - not every list can be taken
        return
    assert planned.trials == grid_size(GRID) == 9
    one = proposals(searcher, GRID, 0, planned.given)
    made = {number: one.configuration(number) for number in order}
    assert len({tuple(point.values()) for point in made.values()}) == 9
    assert all(made[number].items() >= values.items() for number, values in zip(planned.given, found, strict=True))
    rest = [made[number] for number in range(9) if number not in planned.given]
    assert rest == [point for point in GRID.grid() if point in rest]


def test_a_point_of_a_grid_is_given_once():
    whole = {"a": 1, "b": "y"}
    with pytest.raises(BadOption, match=r"configuration 2 of those given \(a=1, b='y'\) was given before"):
        plan(Scheduler("all", 1, 9), space=GRID, searcher=Searcher("grid", (whole, whole)))


def test_a_list_may_be_completed_by_the_grid():
    searcher = Searcher("grid", ({"a": 2}, {"a": 2}), only=True)
    assert plan(Scheduler("all", 1, 9), space=GRID, searcher=searcher).trials == 2
    one = proposals(searcher, GRID, 0)
    assert [one.configuration(n)["c"] for n in (0, 1)] == [0.5, 0.7]
