"""Searchers: what the seed and the trial's number alone decide."""

from __future__ import annotations

import itertools
import sys

import pytest

from workbench.errors import BadOption, BadSpace
from workbench.records import Searcher
from workbench.search import searchers
from workbench.search.searchers import grid_size, proposals
from workbench.space import Parameter, Space, choice, randint, uniform

SPACE = Space({"a": randint(1, 4), "b": choice("x", "y"), "c": choice(0.5, 0.7, when=Parameter("b") == "x")})
KINDS = ["random", "grid", "sobol"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_does_not_depend_on_when_it_is_asked(kind):
    forward, backward = (proposals(Searcher(kind), SPACE, 3) for _ in range(2))
    first = [forward.configuration(trial) for trial in range(12)]
    second = [backward.configuration(trial) for trial in reversed(range(12))]
    assert first == second[::-1]
    for configuration in first:
        SPACE.check(configuration)


@pytest.mark.parametrize("kind", ["random", "sobol"])
def test_another_seed_gives_others(kind):
    def some(seed):
        return [proposals(Searcher(kind), SPACE, seed).configuration(trial) for trial in range(12)]

    assert some(0) == some(0)
    assert some(0) != some(1)


@pytest.mark.parametrize("kind", ["random", "sobol"])
def test_a_space_without_freedom_is_no_trouble(kind):
    assert proposals(Searcher(kind), Space({"k": 3}), 0).configuration(5) == {"k": 3}


def test_a_grid_has_every_combination_once():
    assert grid_size(SPACE) == 12
    points = [proposals(Searcher("grid"), SPACE, 0).configuration(trial) for trial in range(12)]
    assert len({tuple(point.values()) for point in points}) == 12
    assert points[:3] == [
        {"a": 1, "b": "x", "c": 0.5},
        {"a": 1, "b": "x", "c": 0.7},
        {"a": 1, "b": "y", "c": None},
    ]


def test_a_grid_without_end_or_too_large_is_refused(monkeypatch):
    with pytest.raises(BadSpace, match=r"lr = uniform.* has no grid"):
        grid_size(Space({"lr": uniform(0, 1)}))
    monkeypatch.setattr(searchers, "MOST_POINTS", 11)
    with pytest.raises(BadSpace, match="more than 11 points"):
        grid_size(SPACE)


def test_sobol_covers_the_cube_more_evenly_than_chance():
    space = Space({"a": uniform(0, 1), "b": uniform(0, 1)})
    points = [proposals(Searcher("sobol"), space, 0).configuration(trial) for trial in range(256)]
    cells = {(int(p["a"] * 16), int(p["b"] * 16)) for p in points}
    assert len(cells) == 256


@pytest.mark.parametrize("kind", ["random", "sobol"])
@pytest.mark.parametrize("most", [2**32 - 1, 2**53 - 1])
def test_integers_of_a_large_range_are_odd_and_even(kind, most):
    one = proposals(Searcher(kind), Space({"seed": randint(0, most), "a": uniform(0, 1)}), 0)
    drawn = [one.configuration(trial)["seed"] for trial in range(64)]
    assert {n % 8 for n in drawn} == set(range(8))
    assert min(drawn) < most / 8 < 7 * (most / 8) < max(drawn)


def test_sobol_without_scipy_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(BadOption, match=r"pip install 'workbench\[sobol\]'"):
        proposals(Searcher("sobol"), SPACE, 0)


def test_an_unknown_searcher_is_refused():
    with pytest.raises(BadOption, match="expected one of random, grid, sobol"):
        proposals(Searcher("annealing"), SPACE, 0)


def test_random_trials_differ():
    space = Space({"a": uniform(0, 1)})
    one = proposals(Searcher("random"), space, 0)
    values = [one.configuration(trial)["a"] for trial in range(200)]
    assert len(set(values)) == 200
    assert all(any(low <= v < low + 0.1 for v in values) for low in itertools.islice(itertools.count(0, 0.1), 9))
