"""Every metric, duration, size and slot: as columns, on axes, and as they are kept, in a real JupyterLab."""

from __future__ import annotations

import os
import re

import pytest
from cli.stored import Written
from conftest import change_theme, clean_page, open_lab, wait_until_restored
from playwright.sync_api import expect

from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.owner.lease import EngineLease
from workbench.store.series import Series

NAME = "a-long-name-of-an-experiment-on-digits"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """An experiment of three trials with losses beside its goal; its name is longer than there is room."""
    store = Store.find(cwd=tmp_path_factory.mktemp("metrics")).create()
    lease = EngineLease.acquire(store)  # else the server would start an engine
    written = Written(store, Catalog(store))
    spec = written.experiment(NAME, 12)
    with Series.open(store.experiment(spec.id).series) as series:
        for trial in range(2):
            for name, low in (("val/loss", 0.25), ("val/f1", 0.5), ("train/loss", 0.125)):
                rows = [(trial, name, step, 0, low + trial + (step - 2) ** 2, 1e9 + step) for step in (1, 2, 3)]
                series.add_points(rows)
            series.put_leg(trial, 1, slot=f"cpu{trial}", began=1e9, left=1e9 + 75 * (trial + 1), outcome="completed")
        series.put_trial(0, value=0.999952)
        series.put_trial(1, value=1.0)
    written.checkpoint(spec, 1, 3, b"x" * 300_000)
    yield written
    lease.release()


@pytest.fixture(scope="module")
def page(browser, start_lab, written):
    with start_lab(written.store.root.parent) as lab, clean_page(browser) as page:
        open_lab(page, lab)
        yield page


def look(page, tab: str, experiment: str = NAME):
    """Open a view of an experiment's page."""
    open_it = "async args => { await window.jupyterapp.commands.execute('workbench:open', args) }"
    page.evaluate(open_it, {"experiment": experiment})
    document = page.locator(".wb-Document:visible")
    document.get_by_role("tab", name=tab, exact=True).click()
    return document


def kept(page, choice: str):
    """Wait until JupyterLab has written a choice that is made meanwhile, which it does some time after."""
    return page.expect_response(
        lambda response: (
            "/api/workspaces" in response.url
            and response.request.method == "PUT"
            and choice in (response.request.post_data or "")
        )
    )


def column(document, name: str) -> list[str]:
    """The texts of a column of the table, t0000's first."""
    heads = document.locator(".wb-Table-head [role=columnheader]").all_inner_texts()
    at = next(k for k, text in enumerate(heads) if text.split("\n")[0].strip() == name)
    rows = sorted(document.locator(".wb-Table-body [role=row]").all(), key=lambda row: row.inner_text())
    return [row.locator("[role=gridcell]").nth(at).inner_text().strip() for row in rows]


def test_numbers_are_aligned_and_none_looks_whole_that_is_not(page):
    document = look(page, "Table")
    expect(document.locator(".wb-Table-body [role=row]")).to_have_count(3)
    assert column(document, "val_acc") == ["0.99995", "1.00000", ""]
    assert column(document, "step") == ["3", "3", "3"]
    assert column(document, "lr") == ["0.1000", "0.0500", "0.0333"]


def test_a_shortened_name_keeps_its_version(page):
    look(page, "Table")
    tab = page.locator(".lm-TabBar-tab.lm-mod-current .lm-TabBar-tabLabel", has_text="@12")
    expect(tab.first).to_have_text(re.compile(r"^a-long-name-.*…@12$"))
    page.get_by_role("tab", name="Workbench experiments").click()
    label = page.locator(".wb-Experiment-name")
    expect(label.locator("span")).to_have_count(2)
    name, version = label.locator("span").all()
    assert name.evaluate("span => span.scrollWidth > span.clientWidth"), "the name is longer than its room"
    expect(version).to_have_text("@12")
    row, end = page.locator(".wb-Experiment-line").first.bounding_box(), version.bounding_box()
    assert end["x"] + end["width"] <= row["x"] + row["width"]


def test_a_filter_of_a_measure_that_no_view_has_asked_for_yet_finds_its_trials(page):
    document = look(page, "Table")
    for words in ("val/loss.low < 1", "VAL/LOSS.LOW < 1", "cpu1"):
        document.get_by_role("searchbox", name="Filter").fill(words)
        expect(document.get_by_role("status").first).to_contain_text("1 of 3 trials")
    document.get_by_role("searchbox", name="Filter").fill("")


def test_every_metric_duration_size_and_slot_is_a_column_and_stays_one(page):
    document = look(page, "Table")
    document.get_by_role("button", name="Columns").click()
    for name in ("lowest val/loss", "val/loss at best val_acc", "train/loss", "time in slots", "checkpoints", "slot"):
        document.get_by_label(name, exact=True).check()
    page.keyboard.press("Escape")
    expect(document.get_by_role("row", name=re.compile("t0001"))).to_contain_text("2 min 30 s")
    assert column(document, "lowest val/loss") == ["0.25", "1.25", ""]
    assert column(document, "val/loss at best val_acc") == ["1.25", "2.25", ""]
    assert column(document, "train/loss") == ["1.125", "2.125", ""]
    assert column(document, "slot") == ["cpu0", "cpu1", "cpu0"]
    assert column(document, "checkpoints")[1].endswith("kB")
    document.get_by_role("searchbox", name="Filter").fill("val/loss.low < 1")
    expect(document.get_by_role("status")).to_contain_text("1 of 3 trials")
    document.get_by_role("searchbox", name="Filter").fill("")
    with kept(page, '{"id":"val/loss.low"'):
        document.get_by_role("button", name="lowest val/loss").click()
    expect(document.get_by_role("columnheader", name="lowest val/loss")).to_have_attribute("aria-sort", "ascending")
    page.goto(page.url.split("?")[0])
    wait_until_restored(page)
    document = look(page, "Table")
    expect(document.get_by_role("row", name=re.compile("t0001"))).to_contain_text("2 min 30 s", timeout=20_000)
    assert column(document, "lowest val/loss") == ["0.25", "1.25", ""]
    expect(document.locator(".wb-Table-body [role=row]").first).to_contain_text("t0000")  # as it is sorted


def test_every_measure_is_an_axis_of_the_scatter_plot(page):
    document = look(page, "Scatter")
    across, up = document.locator(".wb-Controls select").all()[:2]
    across.select_option("m:slot")
    up.select_option("m:val/loss.low")
    expect(document.locator(".wb-Count")).to_have_text("2 of 3 trials have both values")
    plot = document.get_by_role("application")
    plot.focus()
    page.keyboard.press("Home")
    expect(plot.get_by_role("status")).to_contain_text("t0001, slot cpu1, lowest val/loss 1.25")
    groups = across.locator("optgroup").evaluate_all("groups => groups.map(group => group.label)")
    assert {"Hyperparameters", "val/loss", "train/loss", "Time, storage and place"} <= set(groups)


def test_every_measure_is_an_axis_beside_the_hyperparameters(page):
    document = look(page, "Parallel")
    expect(document.get_by_role("slider")).to_have_count(4)
    document.get_by_role("button", name="Axes").click()
    document.get_by_label("lowest val/loss", exact=True).check()
    document.get_by_label("step of best val_acc", exact=True).check()
    page.keyboard.press("Escape")
    brush = document.get_by_role("slider", name="Brush of lowest val/loss")
    expect(brush).to_be_visible()
    brush.focus()
    for _ in range(11):
        page.keyboard.press("Shift+ArrowDown")
    expect(document.get_by_role("status").first).to_have_text("1 of 3 selected")
    document.get_by_role("button", name="Clear").click()


def test_each_metric_has_a_chart_and_all_are_pointed_at_together(page):
    document = look(page, "Charts")
    expect(document.locator('.wb-Chart .wb-Plot[data-painted="2"]')).to_have_count(4)
    for group, names in (("val", ["val_acc", "val/loss", "val/f1"]), ("train", ["train/loss"])):
        charts = document.get_by_role("region", name=group, exact=True).get_by_role("figure")
        assert [chart.get_attribute("aria-label") for chart in charts.all()] == names
    values = document.locator(".wb-Chart-value")
    expect(values.first).to_have_text("0.975 t0001 at step 3")
    chart = document.get_by_role("figure", name="val/loss").locator(".wb-Plot-over")
    box = chart.bounding_box()
    # t0000 goes from 1.25 down to 0.25 and up again, below t0001
    page.mouse.move(box["x"] + box["width"] * 0.48, box["y"] + box["height"] * 0.9, steps=3)
    expect(values).to_have_text([re.compile(r"^[\d.]+ t0000 at step 2$")] * 4)
    expect(document.get_by_role("figure", name="train/loss")).to_contain_text("0.125 t0000 at step 2")
    expect(document.locator(".wb-Charts-hovered")).to_contain_text("t0000 lr 0.1 · hidden 64")
    page.mouse.move(box["x"] + box["width"] * 0.48, box["y"] - 60, steps=3)
    expect(values.first).to_have_text("0.975 t0001 at step 3")


def test_charts_have_the_curves_colours_and_keep_their_choices(page):
    document = look(page, "Charts")
    document.get_by_label("Colour").select_option("p:lr")
    with kept(page, '"charts.folded":["train"]'):
        document.get_by_label("Smoothing").fill("0.5")
        document.get_by_role("button", name=re.compile("^train")).click()
    expect(document.get_by_role("figure")).to_have_count(3)
    page.goto(page.url.split("?")[0])
    wait_until_restored(page)
    document = look(page, "Charts")
    expect(document.get_by_role("figure")).to_have_count(3)
    expect(document.get_by_label("Smoothing")).to_have_value("0.5")
    document.get_by_role("button", name=re.compile("^train")).click()
    expect(document.get_by_role("figure")).to_have_count(4)
    document.get_by_role("tab", name="Curves").click()
    expect(document.get_by_label("Colour")).to_have_value("p:lr")
    expect(document.get_by_label("Smoothing")).to_have_value("0")


def test_charts_grow_while_a_trial_trains(page, written):
    spec = written.experiment("live", state="running")
    document = look(page, "Charts", "live")
    values = document.locator(".wb-Chart-value")
    expect(values).to_have_text(["0.975 t0001 at step 3"])
    with Series.open(written.store.experiment(spec.id).series) as series:
        series.add_points([(1, "val_acc", 4, 0, 0.96, 1e9), (1, "val/loss", 4, 0, 0.5, 1e9)])
        series.put_trial(1, step=4, value=0.96)
    expect(values.first).to_have_text("0.96 t0001 at step 4", timeout=15_000)


def test_a_trials_page_asks_only_for_the_curves_that_are_on_the_screen(page, written):
    spec = written.experiment("many", state="running")
    names = [f"metric{at:02}" for at in range(90)]
    series = written.store.experiment(spec.id).series
    with Series.open(series) as opened:
        opened.add_points([(1, name, step, 0, float(step), 1e9 + step) for name in names for step in (1, 2, 3)])
        opened.add_points([(0, "of another trial", 1, 0, 1.0, 1e9)])
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/curves?metric=metric" in request.url else None)
    document = look(page, "Table", "many")
    document.get_by_role("grid", name="Trials").press("Home")
    document.get_by_role("grid", name="Trials").press("Enter")
    part = page.get_by_role("article", name="t0001").get_by_role("region", name="Metrics")
    expect(part.get_by_role("figure", name="metric00")).to_contain_text("3 step 3")
    expect(part.get_by_role("figure")).to_have_text([re.compile("^val_acc"), *(re.compile(f"^{one}") for one in names)])
    assert len(asked) < 45
    last = part.get_by_role("figure", name="metric89")
    expect(last).to_have_text("metric89")
    last.scroll_into_view_if_needed()
    expect(last).to_contain_text("3 step 3")
    with Series.open(series) as opened:
        opened.add_points([(1, "metric89", 4, 0, 0.5, 1e9 + 4)])
        opened.put_trial(1, step=4)
    expect(last).to_contain_text("0.5 step 4", timeout=15_000)


def test_what_trials_used_is_drawn_in_the_charts_and_on_a_trials_page(page, written):
    spec = written.experiment("used", state="running")
    document = look(page, "Charts", "used")
    expect(document.get_by_role("figure", name="val_acc")).to_be_visible()
    expect(document.get_by_role("region", name="system")).to_have_count(0)
    with Series.open(written.store.experiment(spec.id).series) as series:
        for trial in range(2):
            # Ten seconds, a pause, ten seconds.
            spans = [(1e9 + start, 1e9 + start + 5) for start in (0, 5, 100, 105)]
            for since, until in spans:
                series.add_samples(trial, [("cpu", since, until, 0.5 + trial), ("memory", since, until, 3e9)])
                series.add_samples(trial, [("waits", since, until, 0.25)])
    group = document.get_by_role("region", name="system")
    expect(group).to_contain_text("3 measures", timeout=15_000)
    for name in ("processor (cores)", "memory (GB)", "waits for data (%)"):
        expect(group.get_by_role("figure", name=name)).to_be_visible()
    # The best trial's last value, as long as nothing is pointed at.
    expect(group.get_by_role("figure", name="processor (cores)")).to_contain_text("1.5 t0001 after")
    expect(group.get_by_role("figure", name="waits")).to_contain_text("25 t0001 after 110 s")
    group.get_by_role("button", name="system").click()
    expect(group.get_by_role("figure")).to_have_count(0)
    group.get_by_role("button", name="system").click()

    document.get_by_role("tab", name="Curves", exact=True).click()
    # A measure is not a metric to choose.
    expect(document.get_by_label("Metric").first.locator("option")).to_have_text(["val_acc"])
    document.get_by_role("tab", name="Table", exact=True).click()
    document.get_by_role("grid", name="Trials").press("Home")
    document.get_by_role("grid", name="Trials").press("Enter")
    part = page.get_by_role("article", name="t0001").get_by_role("region", name="System")
    picture = part.get_by_role("img", name="memory (GB) from second 0 to 110, between 3 and 3")
    expect(picture).to_be_visible()
    line = picture.locator(".wb-Small-line").get_attribute("d")
    assert line.count("M") == 2, "a pause is a gap"
    if folder := os.environ.get("WORKBENCH_PICTURES"):
        for theme, width in (("Light", 1900), ("Dark", 900)):
            page.set_viewport_size({"width": width, "height": 900})
            change_theme(page, f"JupyterLab {theme}")
            part.scroll_into_view_if_needed()
            page.screenshot(path=f"{folder}/system-trial-{theme}-{width}.png")
            document = look(page, "Charts", "used")
            document.get_by_role("region", name="system").scroll_into_view_if_needed()
            page.screenshot(path=f"{folder}/system-charts-{theme}-{width}.png")
            document.get_by_role("tab", name="Table", exact=True).click()
            document.get_by_role("grid", name="Trials").press("Home")
            document.get_by_role("grid", name="Trials").press("Enter")
            expect(picture).to_be_visible()
