"""Slices, the contour, the history and importance: trials of one level, on one page of a real JupyterLab."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import pytest
from conftest import clean_page, open_lab
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parents[1]))

from compare.test_importance import HALVING, SPACE, known, noise
from levelled import levelled

from workbench.records import Scheduler
from workbench.space import Space, uniform
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.lists.levels import levels
from workbench.store.owner.lease import EngineLease

TRIALS = 150


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """The numbers of trials at each level of ``digits``; beside it are searches without signal, of one trial, of equal
    values, and of values that are not finite."""
    root = tmp_path_factory.mktemp("levels")
    store = Store.find(cwd=root).create()
    lease = EngineLease.acquire(store)  # else the server would start an engine
    catalog = Catalog(store)
    made = levelled(store, SPACE, known, HALVING, trials=TRIALS, name="digits", catalog=catalog)
    for name, value, trials in (
        ("noise", noise, 40),
        ("single", known, 1),
        ("equal", lambda *_: 0.5, 20),
        ("broken", lambda *_: math.nan, 5),
    ):
        levelled(store, SPACE, value, trials=trials, name=name, catalog=catalog)
    levelled(store, Space({"x": uniform(0, 1)}), noise, Scheduler("all", 1, 3), trials=5, name="one", catalog=catalog)
    catalog.close()
    yield root, {one.step: len(one.values) for one in levels(store, made.id)}
    lease.release()


@pytest.fixture(scope="module")
def page(browser, start_lab, counts):
    with start_lab(counts[0]) as lab, clean_page(browser) as page:
        open_lab(page, lab)
        yield page


@pytest.fixture(scope="module")
def at(counts):
    return counts[1]


def look(page, tab: str, experiment: str = "digits"):
    """Open a view of an experiment's page."""
    page.evaluate(
        "async args => { await window.jupyterapp.commands.execute('workbench:open', args) }", {"experiment": experiment}
    )
    document = page.locator(".wb-Document:visible")
    document.get_by_role("tab", name=tab, exact=True).click()
    return document


def painted(document, trials: int):
    expect(document.locator(f'.wb-Plot[data-painted="{trials}"]')).to_be_visible(timeout=15_000)
    return document.get_by_role("application")


def figure(document, name: str):
    return document.get_by_role("figure", name=name, exact=True)


def status(document):
    return document.locator(".wb-Under .wb-Count")


def picture(document) -> str:
    return document.locator(".wb-Plot-data").first.evaluate("canvas => canvas.toDataURL()")


def test_each_hyperparameter_has_a_slice_of_the_highest_level(page, at):
    assert at[1] == TRIALS > at[3] > at[9] > 1
    document = look(page, "Slice")
    expect(document.get_by_role("figure")).to_have_count(4)
    expect(status(document)).to_have_text(f"{at[9]} of {TRIALS} trials have a value at step 9")
    for name in ("lr", "opt", "width"):
        expect(figure(document, name).locator(f'[data-painted="{at[9]}"]')).to_be_visible()
    options = document.get_by_role("combobox", name="Level", exact=True).locator("option").all_inner_texts()
    assert options == ["highest reached", *(f"step {step}: {count} trials" for step, count in at.items())]


def test_a_conditional_hyperparameter_shows_the_trials_that_have_it(page):
    document = look(page, "Slice")
    document.get_by_role("combobox", name="Level", exact=True).select_option("1")
    having = figure(document, "momentum").locator(".wb-Slice-having")
    expect(having).to_have_text(re.compile(rf"^in \d+ of {TRIALS} trials$"))
    some = int(having.inner_text().split()[1])
    assert 20 < some < 80
    expect(figure(document, "momentum").locator(f'[data-painted="{some}"]')).to_be_visible()
    expect(figure(document, "lr").locator(".wb-Slice-having")).to_have_count(0)
    document = look(page, "Table")
    expect(document.get_by_role("row").nth(1)).to_contain_text("t00")
    expect(document.get_by_role("row", name="null")).to_have_count(0)


def test_slices_have_one_axis_of_the_goal_even_where_few_trials_have_the_hyperparameter(page):
    document = look(page, "Slice")
    document.get_by_role("combobox", name="Level", exact=True).select_option("9")
    expect(figure(document, "momentum").locator(".wb-Slice-having")).to_be_visible()
    labels = """canvas => canvas.getContext('2d').getImageData(0, 0, 55, canvas.height - 30).data.join()"""
    axes = [figure(document, name).locator(".wb-Plot-axes").evaluate(labels) for name in ("lr", "momentum")]
    assert axes[0] == axes[1]
    document.get_by_role("combobox", name="Level", exact=True).select_option("")


def test_a_level_that_is_chosen_in_one_view_holds_in_all(page, at):
    document = look(page, "Slice")
    document.get_by_role("combobox", name="Level", exact=True).select_option("3")
    for tab in ("History", "Contour"):
        document.get_by_role("tab", name=tab, exact=True).click()
        expect(document.get_by_role("combobox", name="Level", exact=True)).to_have_value("3")
        painted(document, at[3])
    document.get_by_role("combobox", name="Level", exact=True).select_option("")
    painted(document, at[9])


def test_pointing_and_selecting_in_a_slice_holds_in_all_views(page, at):
    document = look(page, "Slice")
    plot = figure(document, "lr").get_by_role("application")
    plot.focus()
    page.keyboard.press("Home")
    expect(document.locator(".wb-Charts-hovered strong")).to_have_text(re.compile(r"^t\d{4}$"))
    best = document.locator(".wb-Charts-hovered strong").inner_text()
    expect(plot.get_by_role("status")).to_contain_text(f"{best}, val_acc at step 9 ")
    for name in ("lr", "width"):
        expect(figure(document, name).locator(".wb-Chart-value")).to_have_text(re.compile(" → "))
    page.keyboard.press("Space")
    expect(status(document)).to_contain_text(f"1 of {TRIALS} selected")
    for tab in ("Contour", "History"):
        document.get_by_role("tab", name=tab, exact=True).click()
        expect(status(document)).to_contain_text(f"1 of {TRIALS} selected")
        painted(document, at[9])
    document.get_by_role("button", name="clear").click()
    expect(status(document)).to_contain_text(f"{at[9]} of {TRIALS} trials")


def test_the_contour_paints_a_field_of_two_chosen_hyperparameters(page, at):
    document = look(page, "Contour")
    document.get_by_role("combobox", name="Level", exact=True).select_option("1")
    painted(document, TRIALS)
    colours = """canvas => { const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.filter((value, at) => at % 4 === 3 && value > 0).length / (canvas.width * canvas.height); }"""
    assert document.locator(".wb-Plot-data").evaluate(colours) > 0.5, "the trials cover the space, so the field does"
    expect(document.get_by_role("combobox", name="Across", exact=True)).to_have_value("p:lr")
    assert "p:lr" not in document.get_by_role("combobox", name="Up", exact=True).locator("option").evaluate_all(
        "all => all.map(one => one.value)"
    )
    before = picture(document)
    document.get_by_role("combobox", name="Up", exact=True).select_option("p:opt")
    page.wait_for_function(
        "before => document.querySelector('.wb-Document:not(.lm-mod-hidden) .wb-Plot-data').toDataURL() !== before",
        arg=before,
    )
    painted(document, TRIALS)
    document.get_by_role("combobox", name="Up", exact=True).select_option("p:momentum")
    expect(status(document)).to_contain_text(re.compile(r"at step 1; \d+ are not shown$"))
    document.get_by_role("combobox", name="Level", exact=True).select_option("")


def test_the_history_tells_the_best_so_far_in_either_order(page, at):
    document = look(page, "History")
    plot = painted(document, at[9])
    expect(plot).to_have_attribute("aria-label", re.compile(rf"^{at[9]} trials: val_acc at step 9, trials by end\."))
    before = picture(document)
    document.get_by_role("combobox", name="Order", exact=True).select_option("started")
    expect(plot).to_have_attribute("aria-label", re.compile("trials by start"))
    document.get_by_role("tab", name="Slice", exact=True).click()
    document.get_by_role("tab", name="History", exact=True).click()
    expect(document.get_by_role("combobox", name="Order", exact=True)).to_have_value("started")
    document.get_by_role("combobox", name="Level", exact=True).select_option("1")
    painted(document, TRIALS)
    assert picture(document) != before
    document.get_by_role("combobox", name="Level", exact=True).select_option("")


def test_the_methods_of_importance_stand_side_by_side(page, at):
    document = look(page, "Importance")
    table = document.get_by_role("table")
    heads = table.get_by_role("columnheader")
    expect(heads).to_have_text(["hyperparameter", "Permutation", "fANOVA", "PED-ANOVA"], timeout=60_000)
    expect(document.locator(".wb-Controls .wb-Count")).to_have_text(
        re.compile(r"^\d+ trials at step \d; R² on held-out trials 0\.\d+$")
    )
    document.get_by_role("combobox", name="Level", exact=True).select_option("1")
    expect(document.locator(".wb-Controls .wb-Count")).to_contain_text(f"{TRIALS} trials at step 1", timeout=60_000)
    expect(table.get_by_role("rowheader").first).to_have_text("lr")
    document.get_by_role("combobox", name="Level", exact=True).select_option("")
    table.get_by_role("button", name="lr").click()
    expect(document.get_by_role("tab", name="Slice", exact=True)).to_have_attribute("aria-selected", "true")


def test_importance_without_signal_is_said_in_words(page):
    document = look(page, "Importance", "noise")
    expect(document.locator(".wb-Note")).to_contain_text("No signal: predictions of val_acc", timeout=60_000)
    expect(document.get_by_role("table")).to_have_count(0)
    expect(document.locator(".wb-Controls .wb-Count")).to_have_text("40 trials at step 9")
    document = look(page, "Importance", "single")
    expect(document.locator(".wb-Note")).to_have_text("1 trial has a value at the level: importance needs 12 or more.")


@pytest.mark.parametrize(("experiment", "trials"), [("single", 1), ("equal", 20)])
@pytest.mark.parametrize("tab", ["Contour", "History"])
def test_one_trial_and_equal_values_are_drawn(page, experiment, trials, tab):
    painted(look(page, tab, experiment), trials)


@pytest.mark.parametrize("tab", ["Slice", "Contour", "History", "Importance"])
def test_where_no_value_is_finite_it_says_so(page, tab):
    document = look(page, tab, "broken")
    expect(document.locator(".wb-Note")).to_have_text("No trial has a finite value at a level of the search yet.")
    expect(document.get_by_role("application")).to_have_count(0)


def test_a_contour_of_one_hyperparameter_says_what_it_needs(page):
    document = look(page, "Contour", "one")
    expect(document.locator(".wb-Note")).to_have_text("A contour needs a search with two hyperparameters or more.")
