"""What repeats say of a difference, and how the trials that are compared were chosen: the same words on every face."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from pathlib import Path

import pytest
from notebook_world import Notebook, put_results

import workbench as wb
from workbench.cli import main
from workbench.compare import compare
from workbench.compare.history import history
from workbench.compare.repeats import repeats_of
from workbench.compare.student import quantile, two_sided, welch
from workbench.compare.words import lines
from workbench.records import Goal, Spec
from workbench.replay import repeat
from workbench.replay.why import Hybrids
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series

CELLS = ("def score(X, lr): return 0", "X = 1")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    return Store(tmp_path / "store")


def trained(store: Store, *values: float, **settings) -> Spec:
    """A version of ``digits`` whose trials ended with these values, each after three steps."""
    spec = Notebook(store, Path()).run(*CELLS).launch(**settings)
    put_results(store, spec, {number: ({"lr": 0.1}, [0.0, 0.1, value]) for number, value in enumerate(values)})
    return spec


def repeated(store: Store, ref: str, *values: float) -> Spec:
    """Repeats of a trial, with seeds that were not trained before, that ended with these values."""
    before = len(repeats_of(store, store_id(store, ref), int(ref[-4:])))
    spec = repeat(store, ref, before + len(values)).spec
    put_results(store, spec, {number: ({"lr": 0.1}, [0.0, 0.1, value]) for number, value in enumerate(values)})
    with Series.open(store.experiment(spec.id).series) as series:
        series.put_meta("state", "completed")
    return spec


def store_id(store: Store, ref: str) -> str:
    from workbench.store.lists.catalog import resolve

    return resolve(store, ref).experiment


def noise(store: Store, a: str, b: str) -> dict | None:
    return compare(store, a, b)["results"]["within_noise"]


# ---------------------------------------------------------------------------------------------------------------------
# Student's t


def test_the_distribution_is_the_one_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    for t, degrees in itertools.product(
        [0, 0.01, 0.3, 1, 2, 2.5, 4, 12, 50, 1e3], [1, 1.5, 2, 3.7, 10, 29.3, 100, 1e4]
    ):
        assert two_sided(t, degrees) == pytest.approx(2 * stats.t.sf(t, degrees), abs=1e-9)
    for degrees in (1, 2, 3, 10, 30, 100, 999):
        assert quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), abs=1e-6)
    chance = random.Random(0)
    for n, m, wide in itertools.product([2, 3, 8], [2, 5, 20], [0.1, 1, 10]):
        one = [chance.gauss(0, 1) for _ in range(n)]
        other = [chance.gauss(0.5, wide) for _ in range(m)]
        expected = stats.ttest_ind(one, other, equal_var=False).pvalue
        assert welch(one, other) == pytest.approx(expected, abs=1e-9)


def test_samples_that_do_not_scatter_are_the_same_or_not():
    assert welch([0.5, 0.5], [0.5, 0.5, 0.5]) == 1
    assert welch([0.5, 0.5], [0.4, 0.4]) == 0
    assert 0 < welch([0.5, 0.5], [0.4, 0.5]) < 1
    assert two_sided(math.inf, 3) == 0


# ---------------------------------------------------------------------------------------------------------------------
# Two trials


def test_means_are_compared_where_both_were_repeated(store):
    """The single values, 0.9 and 0.5, were lucky and unlucky: both configurations are about as good."""
    trained(store, 0.9, 0.1)
    trained(store, 0.5, 0.1)
    repeated(store, "digits@1/t0000", 0.70, 0.74, 0.78)
    repeated(store, "digits@2/t0000", 0.71, 0.73, 0.77, 0.75)
    found = noise(store, "digits@1/t0000", "digits@2/t0000")
    assert (found["verdict"], found["how"]) == (True, "means")
    assert found["p"] == pytest.approx(1.0, abs=0.1)
    assert found["why"].startswith(
        "3 repeats of digits@1/t0000 scatter by 0.04 around 0.74; "
        "4 repeats of digits@2/t0000 scatter by 0.02582 around 0.74; the means differ by "
    )
    assert "(Welch's t-test: p = " in found["why"]
    # Of two searches it is their best trials whose means are compared.
    assert noise(store, "digits@1", "digits@2")["why"] == found["why"]


def test_means_that_are_further_apart_than_noise(store):
    trained(store, 0.5)
    trained(store, 0.5)
    repeated(store, "digits@1/t0000", 0.50, 0.52, 0.51)
    repeated(store, "digits@2/t0000", 0.60, 0.62, 0.61)
    found = noise(store, "digits@1/t0000", "digits@2/t0000")
    assert not found["verdict"]
    assert found["p"] < 0.001


@pytest.mark.parametrize(("value", "verdict"), [(0.80, True), (0.95, False)])
def test_one_side_alone_says_what_a_single_value_can(store, value, verdict):
    trained(store, 0.9)
    trained(store, value)
    repeated(store, "digits@1/t0000", 0.70, 0.74, 0.78)
    for pair in (("digits@1/t0000", "digits@2/t0000"), ("digits@2/t0000", "digits@1/t0000")):
        found = noise(store, *pair)
        assert (found["verdict"], found["how"]) == (verdict, "single")
        assert "digits@2/t0000 was not repeated: its one value lies" in found["why"]
        assert "scatter alike lie within 0.1987" in found["why"]  # 4.303 · 0.04 · √(1 + 1/3)


def test_one_seed_is_no_scatter_and_a_diverged_one_is_said(store):
    trained(store, 0.9)
    trained(store, 0.5)
    repeated(store, "digits@1/t0000", 0.7)
    assert noise(store, "digits@1/t0000", "digits@2/t0000") is None
    repeated(store, "digits@1/t0000", 0.8, math.nan)
    assert (
        "2 repeats of digits@1/t0000 scatter by 0.07071 around 0.75 (1 more diverged)"
        in (noise(store, "digits@1/t0000", "digits@2/t0000")["why"])
    )


def test_repeats_that_gave_the_same_bits_are_no_measure_of_noise(store, capsys):
    """Training code that sets its own seed trains the same each time; a count may rightly be the same."""
    trained(store, 0.9)
    trained(store, 0.5)
    repeated(store, "digits@1/t0000", 0.7, 0.7, 0.7)
    advice = "if the seed should matter, the training code sets its own: use trial.seed there"
    same = f"all 3 repeats of digits@1/t0000 gave the same bits, 0.7; {advice}"
    for pair in (("digits@1/t0000", "digits@2/t0000"), ("digits@2/t0000", "digits@1/t0000")):
        assert noise(store, *pair) == {"verdict": None, "how": "same", "p": None, "why": same}
    assert main(["--store", str(store.root), "diff", "digits@1/t0000", "digits@2/t0000"]) == 0
    assert f"noise is not known: {same}" in capsys.readouterr().out
    assert main(["--store", str(store.root), "repeat", "digits@1/t0000", "--seeds", "3"]) == 0
    words = f"val_acc 0.7: all 3 seeds gave the same bits, so there is no interval; {advice}."
    assert words in capsys.readouterr().out
    assert wb.repeat("digits@1/t0000", 3, store=store).interval is None
    # The other side's repeats do scatter: there is still nothing to compare them with.
    repeated(store, "digits@2/t0000", 0.5, 0.6)
    found = noise(store, "digits@1/t0000", "digits@2/t0000")
    assert (found["verdict"], found["how"]) == (None, "same")
    assert "; 2 repeats of digits@2/t0000 scatter by 0.07071 around 0.55; " in found["why"]


def test_several_results_of_one_seed_are_one_sample(store):
    """Of a store in which the same seeds were trained three times."""
    trained(store, 0.9)
    trained(store, 0.5)
    spec = repeated(store, "digits@1/t0000", 0.70, 0.80)
    for number in range(2):
        twin = dataclasses.replace(spec, id=f"{spec.id}-{number}", version=9 + number)
        store.write_spec(twin)
        put_results(store, twin, {0: ({"lr": 0.1}, [0.0, 0.1, 0.70]), 1: ({"lr": 0.1}, [0.0, 0.1, 0.80])})
    assert "2 repeats of digits@1/t0000" in noise(store, "digits@1/t0000", "digits@2/t0000")["why"]
    assert wb.repeat("digits@1/t0000", 2, store=store).to_dict()["n"] == 2


def test_repeats_count_at_the_step_that_was_named_and_not_for_another_goal(store):
    trained(store, 0.9)
    other = trained(store, 0.5)
    repeated(store, "digits@1/t0000", 0.70, 0.80)
    at_two = noise(store, "digits@1/t0000:2", "digits@2/t0000:2")
    assert "all 2 repeats of digits@1/t0000 gave the same bits, 0.1; " in at_two["why"]
    assert at_two["verdict"] is None
    store.write_spec(dataclasses.replace(other, id=f"{other.id}-x", version=3, goal=Goal("loss", "min")))
    put_results(store, store.read_spec(f"{other.id}-x"), {0: ({"lr": 0.1}, [0.0, 0.1, 0.5])})
    assert noise(store, "digits@1/t0000", f"{other.id}-x/t0000") is None


# ---------------------------------------------------------------------------------------------------------------------
# How they were chosen


def test_the_best_of_many_says_so_wherever_two_bests_are_compared(store, capsys):
    trained(store, 0.3, 0.4)
    trained(store, *(0.1 + number / 100 for number in range(81)))
    luck = "the best of several trials is ahead partly by luck"
    many = f"digits@2/t0080 is the best of 81 trials: {luck}"
    words = f"digits@1/t0001 is the best of 2 trials and {many}"
    for pair in (("digits@1", "digits@2"), ("digits@1/t0001", "digits@2/t0080"), ("digits@1", "digits@2/t0080")):
        assert compare(store, *pair)["results"]["selection"] == words
    assert compare(store, "digits@1/t0000", "digits@2/t0080")["results"]["selection"] == many
    assert compare(store, "digits@1/t0000", "digits@2/t0003")["results"]["selection"] is None
    assert compare(store, "digits@1/t0000", "digits@1/t0001")["results"]["selection"] is None
    assert main(["--store", str(store.root), "diff", "digits@1", "digits@2"]) == 0
    said = capsys.readouterr().out
    assert "val_acc  0.4 (best of 2) → 0.9 (best of 81)" in said
    assert words in said
    assert words in repr(wb.compare("digits@1", "digits@2", store=store))
    assert main(["--store", str(store.root), "history", "digits"]) == 0
    said = capsys.readouterr().out
    assert "val_acc 0.4 (t0001, best of 2)" in said
    assert "val_acc 0.9 (t0080, best of 81)" in said


def test_why_of_two_bests_says_so_too(store):
    for values in ((0.3, 0.4), (0.9, 0.2, 0.1)):
        spec = trained(store, *values)
        with Series.open(store.experiment(spec.id).series) as series:
            series.put_meta("best", {"trial": values.index(max(values)), "value": max(values)})
    [note] = Hybrids(store, "digits@1", "digits@2").notes
    assert note.startswith(
        "digits@1/t0001 is the best of 2 trials and digits@2/t0000 is the best of 3 trials: the best"
    )
    assert Hybrids(store, "digits@1/t0000", "digits@2/t0001").notes == ()


def test_a_single_trial_was_not_chosen(store):
    trained(store, 0.3)
    trained(store, 0.4)
    assert compare(store, "digits@1", "digits@2")["results"]["selection"] is None


def test_gain_and_best_are_of_one_trial(store, capsys):
    """A trial that was stopped early, at a step where all are better, is not the best: the header names another."""
    one, two = trained(store, 0.95, 0.5), trained(store, 0.90, 0.6)
    for spec, value in ((one, 0.5), (two, 0.6)):
        with Series.open(store.experiment(spec.id).series) as series:
            series.put_meta("best", {"trial": 1, "value": value})
    first, second = history(store, "digits")
    assert [entry["best"] for entry in (first, second)] == [
        {"trial": 1, "value": 0.5, "of": 2},
        {"trial": 1, "value": 0.6, "of": 2},
    ]
    assert second["gained"] == pytest.approx(0.1)
    [metric] = compare(store, "digits@1", "digits@2")["results"]["metrics"]
    assert (metric["a"], metric["b"]) == (0.5, 0.6)
    assert main(["--store", str(store.root), "history", "digits"]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert "val_acc 0.6 (t0001, best of 2)" in line
    assert "+0.1" in line


def seeded(store: Store, *values: float, value: float, mean: float, deviation: float) -> Spec:
    """A version of ``digits`` whose configurations were trained with two seeds each; t0000 is its best trial."""
    spec = trained(store, *values, seeds_each=2)
    best = {"trial": 0, "value": value, "of": {"mean": mean, "deviation": deviation, "trials": 2}}
    with Series.open(store.experiment(spec.id).series) as series:
        series.put_meta("best", best)
    catalog = Catalog(store)
    catalog.upsert_experiment(spec.id, {"best": best})
    catalog.close()
    return spec


def test_configurations_with_several_seeds_are_compared_by_their_means(store, capsys):
    """The luckiest seed is worse in the second version; its configuration is better."""
    seeded(store, 0.9, 0.1, 0.3, 0.3, value=0.9, mean=0.5, deviation=0.5657)
    seeded(store, 0.6, 0.6, 0.2, 0.2, value=0.6, mean=0.6, deviation=0.0)
    first, second = history(store, "digits")
    assert first["best"] == {
        "trial": 0, "value": 0.9, "of": 2, "spread": {"mean": 0.5, "deviation": 0.5657, "trials": 2}
    }  # fmt: skip
    assert second["gained"] == pytest.approx(0.1)
    results = compare(store, "digits@1", "digits@2")["results"]
    assert [(metric["a"], metric["b"]) for metric in results["metrics"]] == [(0.5, 0.6)]
    assert results["selection"].startswith("digits@1/t0000 is of the best of 2 configurations and digits@2/t0000 is of")

    def said(*words: str) -> str:
        assert main(["--store", str(store.root), *words]) == 0
        return capsys.readouterr().out

    many = "best of 2 configurations"
    told = said("history", "digits")
    assert f"val_acc 0.9, mean 0.5 ± 0.57 of 2 trials (t0000, {many})" in told
    assert "+0.1" in told
    told = said("diff", "digits@1", "digits@2")
    same = f"mean 0.6 ± 0 (the same bits) of 2 trials ({many})"
    assert f"val_acc  mean 0.5 ± 0.57 of 2 trials ({many}) → {same}" in told
    assert "val_acc 0.9, mean 0.5 ± 0.57 of 2 trials (t0000)" in said("ls")
    assert "val_acc 0.9, mean 0.5 ± 0.57 of 2 trials (t0000)" in said("show", "digits@1")


def test_one_side_with_a_mean_and_a_trial_that_was_named_are_compared_by_their_own_values(store):
    seeded(store, 0.9, 0.1, 0.3, 0.3, value=0.9, mean=0.5, deviation=0.5657)
    trained(store, 0.8, 0.7)
    seeded(store, 0.6, 0.6, 0.2, 0.2, value=0.6, mean=0.6, deviation=0.0)
    found = compare(store, "digits@1", "digits@2")
    [metric] = found["results"]["metrics"]
    assert (metric["a"], metric["b"]) == (0.9, 0.8)
    words = [text.strip() for _, text in lines(found)]
    both = "val_acc  0.9, mean 0.5 ± 0.57 of 2 trials (best of 2 configurations) → 0.8 (best of 2)"
    assert any(line.startswith(both) for line in words)
    [metric] = compare(store, "digits@1/t0000", "digits@3/t0000")["results"]["metrics"]
    assert (metric["a"], metric["b"]) == (0.9, 0.6)
    [metric] = compare(store, "digits@1", "digits@3/t0000")["results"]["metrics"]
    assert (metric["a"], metric["b"]) == (0.9, 0.6)
    assert [entry["gained"] for entry in history(store, "digits")] == [
        None, pytest.approx(-0.1), pytest.approx(-0.2)
    ]  # fmt: skip


def test_a_trial_that_was_named_is_compared_and_not_the_best_of_its_search(store):
    trained(store, 0.3, 0.4)
    trained(store, 0.9, 0.2)
    [metric] = compare(store, "digits@1", "digits@2/t0001")["results"]["metrics"]
    assert (metric["a"], metric["b"]) == (0.4, 0.2)
