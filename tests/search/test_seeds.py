"""Seeds differ where they should and never change."""

from __future__ import annotations

from workbench.search.seeds import trial_seed, units


def test_seeds_are_the_same_in_every_release():
    # Users reproduce their experiments with these values: never change them.
    assert trial_seed(0, 7, "torch") == 3047843500
    assert units(0, 7, "space", 2) == [0.8120929248083698, 0.4933948818341739]


def test_seeds_differ_by_experiment_trial_and_purpose():
    seeds = {
        trial_seed(experiment, trial, purpose)
        for experiment in range(3)
        for trial in range(100)
        for purpose in ("python", "numpy", "torch", "loader")
    }
    assert len(seeds) == 1200
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_units_are_numbers_of_the_unit_interval_and_a_prefix_of_longer_ones():
    many = units(1, 2, "space", 1000)
    assert len(many) == len(set(many)) == 1000
    assert all(0 <= unit < 1 for unit in many)
    assert units(1, 2, "space", 3) == many[:3]
    assert 0.45 < sum(many) / 1000 < 0.55
    assert units(1, 2, "space", 0) == []
