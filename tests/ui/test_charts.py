"""The pictures of an experiment and its table: one page of a real JupyterLab, looked at from one test to the next."""

from __future__ import annotations

import json
import math
import re

import pytest
from conftest import change_theme, clean_page, open_lab
from playwright.sync_api import expect

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.space import Choice, LogUniform, Space, Uniform
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.owner.lease import EngineLease
from workbench.store.series import Series

SPACE = Space(
    {
        "lr": LogUniform(1e-4, 1.0),
        "optimizer": Choice(("sgd", "adam"), ("sgd", "adam")),
        "momentum": Uniform(0.0, 1.0),
    }
)


class Made:
    """An experiment that is written as its engine would."""

    def __init__(self, catalog: Catalog, store: Store, name: str, state: str = "completed") -> None:
        self.id, self.name, self.state = f"20260101-000000-{name:0<6}"[:22], name, state
        spec = Spec(
            id=self.id,
            name=name,
            version=1,
            created="2026-01-01T00:00:00.000+00:00",
            goal=Goal("val_acc"),
            space=SPACE.to_json(),
            scheduler=Scheduler(last=27),
            searcher=Searcher(),
            program=Program("cell", "for epoch in trial.steps(): ...", "<cell>"),
            training=Training("python", "."),
        )
        store.write_spec(spec)
        self.entry = {"name": name, "version": 1, "label": spec.label, "created": spec.created, "goal": "max val_acc"}
        self.catalog = catalog
        self.series = Series.open(store.experiment(self.id).series)

    def trial(self, number: int, steps: int, state: str = "completed") -> None:
        """A trial whose curve has risen for ``steps`` steps; the lower its number the better, and faster."""
        height = 0.95 - number / 2000
        values = [height * (1 - math.exp(-step * 12 / (steps + 9))) for step in range(1, steps + 1)]
        rows = [(number, "val_acc", step, 0, value, 1.7e9 + step) for step, value in enumerate(values, 1)]
        self.series.add_points(rows)
        configuration = {"lr": 10 ** -(4 - 4 * (number % 50) / 50), "optimizer": ("sgd", "adam")[number % 2]}
        if number % 2 == 0:
            configuration["momentum"] = (number % 10) / 10
        self.series.put_trial(
            number,
            configuration=configuration,
            bracket=0,
            state=state,
            reason=f"rank {number + 1}",
            level=steps,
            step=steps,
            value=values[-1],
            best=max(values),
            attempt=1,
            restarts=0,
        )

    def show(self, trials: int) -> None:
        """Let readers see it."""
        self.series.put_meta("state", self.state)
        self.series.flush()
        best = {"trial": 0, "value": 0.95}
        self.catalog.upsert_experiment(self.id, {**self.entry, "state": self.state, "trials": trials, "best": best})
        self.catalog.flush()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("charts")


@pytest.fixture(scope="module")
def make(root):
    """Make an experiment in the store that JupyterLab shows. A store has one catalog, and one writer of it.

    That is the engine, whose place the tests take: else the server would have one train what is said to be running.
    """
    store = Store.find(cwd=root).create()
    lease = EngineLease.acquire(store)
    catalog = Catalog(store)
    yield lambda name, state="completed": Made(catalog, store, name, state)
    lease.release()


@pytest.fixture(scope="module")
def live(make):
    """An experiment that runs: three trials so far."""
    made = make("live", "running")
    for number in range(3):
        made.trial(number, 20, "running")
    made.show(3)
    return made


@pytest.fixture(scope="module")
def digits(make):
    """A hundred trials, each of twenty steps and more."""
    made = make("digits")
    for number in range(100):
        made.trial(number, 20 + number % 7)
    made.show(100)
    return made


@pytest.fixture(scope="module")
def page(browser, start_lab, root, live, digits):
    """One page for all tests here: a JupyterLab takes longer to start than they take to look."""
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    train = {**cell, "source": "%%train digits --goal max val_acc\n..."}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = {"cells": [train], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (root / "work.ipynb").write_text(json.dumps(notebook))
    with start_lab(root) as lab, clean_page(browser) as page:
        open_lab(page, lab, "work.ipynb")
        yield page


def look(page, experiment: str, tab: str):
    """Open a view of an experiment's page."""
    open_it = "async args => { await window.jupyterapp.commands.execute('workbench:open', args) }"
    page.evaluate(open_it, {"experiment": experiment})
    document = page.locator(".wb-Document:visible")
    document.get_by_role("tab", name=tab).click()
    return document


def painted(document, trials: int):
    expect(document.locator(f'.wb-Plot[data-painted="{trials}"]')).to_be_visible(timeout=10_000)
    return document.get_by_role("application")


def drag(page, over, start: tuple[float, float], end: tuple[float, float]) -> None:
    """From one place to another, as shares of what is dragged over."""
    box = over.bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=4)
    page.mouse.up()


def test_curves_grow_while_they_are_looked_at(page, live):
    document = look(page, "live", "Curves")
    plot = painted(document, 3)
    plot.focus()
    page.keyboard.press("Home")
    said = plot.get_by_role("status")
    expect(said).to_contain_text(re.compile(r"t0000, val_acc 0\.9\d+, step 20"))
    for number in (3, 4):
        live.trial(number, 12, "running")
    live.trial(0, 25, "running")
    live.show(5)
    painted(document, 5)
    expect(plot).to_have_attribute("aria-label", re.compile("5 trials.*Best: t0000"))
    # What is said of a trial is as it was when it was pointed out, so it is pointed out again.
    page.wait_for_function(
        """() => { const p = document.querySelector('.wb-Document:not(.lm-mod-hidden) .wb-Plot'); p.focus();
        p.dispatchEvent(new KeyboardEvent('keydown', {key: 'Home', bubbles: true}));
        return p.querySelector('[role=status]').textContent.includes('step 25') }"""
    )


def test_a_zoom_asks_for_what_is_there_point_by_point(page):
    document = look(page, "digits", "Curves")
    painted(document, 100)
    with page.expect_request(lambda request: "/curves?" in request.url and "high=" in request.url) as asked:
        drag(page, document.locator(".wb-Plot-over"), (0.3, 0.5), (0.6, 0.5))
    low, high = (float(re.search(rf"{end}=([\d.]+)", asked.value.url)[1]) for end in ("low", "high"))
    assert 7 < low < 9
    assert 15 < high < 17
    document.get_by_role("button", name="All", exact=True).click()
    expect(document.get_by_role("button", name="All", exact=True)).to_be_disabled()


def test_a_box_over_curves_selects_their_rows(page):
    document = look(page, "digits", "Curves")
    painted(document, 100)
    page.keyboard.down("Shift")
    drag(page, document.locator(".wb-Plot-over"), (0.7, 0.01), (0.75, 0.04))
    page.keyboard.up("Shift")
    count = document.locator(".wb-Count")
    expect(count).to_contain_text(re.compile(r"^\d+ of 100 selected"))
    chosen = int(count.inner_text().split()[0])
    assert 0 < chosen < 100
    document.get_by_role("tab", name="Table").click()
    expect(document.get_by_role("status")).to_contain_text(f"{chosen} selected")
    expect(document.get_by_role("row", name=re.compile("t0000"))).to_have_attribute("aria-selected", "true")


def test_the_table_is_filtered_sorted_and_walked_by_keys(page):
    document = look(page, "digits", "Table")
    table = document.get_by_role("grid", name="Trials")
    search = document.get_by_role("searchbox", name="Filter")
    search.fill("lr < 0.001 and optimizer = adam")
    expect(document.get_by_role("status")).to_contain_text("12 of 100 trials")
    search.fill("lr < fast")
    expect(document.get_by_role("status")).to_contain_text("“fast” is not a number")
    search.fill("optimizer = adam")
    document.get_by_label("filter columns").check()
    table.get_by_label("Filter of lr").fill("0.01..0.1")
    expect(table).to_have_attribute("aria-rowcount", "15")
    table.get_by_role("button", name="lr").click()
    expect(table.get_by_role("columnheader", name="lr")).to_have_attribute("aria-sort", "ascending")
    first = table.locator(".wb-Table-body").get_by_role("row").first
    expect(first).to_contain_text("t0025")
    table.focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowDown")
    expect(document.get_by_role("status")).to_contain_text("2 selected")
    page.keyboard.press("End")
    page.keyboard.press(" ")
    expect(document.get_by_role("status")).to_contain_text("3 selected")
    active = table.get_attribute("aria-activedescendant")
    expect(page.locator(f'[id="{active}"]')).to_have_attribute("aria-rowindex", "15")
    page.keyboard.press("Shift+F10")
    expect(page.get_by_role("menuitem", name="Copy Configuration")).to_be_visible()
    page.keyboard.press("Escape")
    search.fill("")
    document.get_by_label("filter columns").uncheck()


def test_what_is_selected_becomes_a_data_frame_below_the_train_cell(page):
    document = look(page, "digits", "Table")
    document.get_by_role("button", name="Insert 3 trials as DataFrame").click()
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(1)
    expect(cell.locator(".jp-OutputArea-output table tbody tr")).to_have_count(3, timeout=30_000)
    expect(cell.locator(".jp-OutputArea-output table")).to_contain_text("adam")
    expect(cell.locator(".jp-InputArea-editor")).to_contain_text('wb.open("digits@1").trials.loc')


def test_a_brush_on_an_axis_selects_everywhere(page):
    document = look(page, "digits", "Parallel")
    axis = document.get_by_role("slider", name="Brush of momentum")
    expect(axis).to_be_visible()
    drag(page, axis, (0.5, 0.05), (0.5, 0.35))
    # momentum is 0.8 for every tenth trial, and inactive for half of them
    expect(document.get_by_role("status").first).to_have_text("10 of 100 selected")
    document.get_by_role("tab", name="Scatter").click()
    expect(document.locator(".wb-Count")).to_contain_text("10 of 100 selected")
    painted(document, 100)
    document.get_by_role("tab", name="Parallel").click()
    document.get_by_role("slider", name="Brush of lr").focus()
    page.keyboard.press("Shift+ArrowDown")
    expect(document.get_by_role("slider", name="Brush of lr")).to_have_attribute(
        "aria-valuetext", re.compile("1e−4 to")
    )
    document.get_by_role("button", name="Clear").click()
    expect(document.get_by_role("status").first).to_contain_text("Drag along an axis")


def test_pictures_follow_the_theme(page):
    document = look(page, "digits", "Curves")
    painted(document, 100)
    bright = """canvas => { const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let [sum, count] = [0, 0];
        for (let k = 0; k < data.length; k += 4) { if (data[k + 3] > 200) { sum += data[k]; count += 1; } }
        return sum / count; }"""
    axes = document.locator(".wb-Plot-axes")
    light = axes.evaluate(bright)
    labels = "canvas => canvas.toDataURL()"
    before = axes.evaluate(labels)
    change_theme(page, "JupyterLab Dark")
    page.wait_for_function(
        "before => document.querySelector('.wb-Document:not(.lm-mod-hidden) .wb-Plot-axes').toDataURL() !== before",
        arg=before,
    )
    assert axes.evaluate(bright) < light
    change_theme(page, "JupyterLab Light")


def test_a_thousand_trials_of_a_thousand_points(page, make):
    made = make("many")
    for number in range(1000):
        made.trial(number, 1000)
    made.show(1000)
    document = look(page, "many", "Curves")
    plot = painted(document, 1000)
    expect(document.locator(".wb-Count")).to_have_text("1000 curves")
    document.locator(".wb-Plot-over").hover()
    expect(plot.get_by_role("status")).to_contain_text(re.compile(r"^t\d{4}, val_acc"))
    document.get_by_role("tab", name="Table").click()
    expect(document.get_by_role("grid")).to_have_attribute("aria-rowcount", "1001")
    assert document.get_by_role("row").count() < 80
