"""Three or more trials compared on one page: curves, results, configurations, and what differs from one of them."""

from __future__ import annotations

import dataclasses
import os

import pytest
from conftest import change_theme, wait_until_restored
from playwright.sync_api import expect
from running import until

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series

SPEC = Spec(
    id="20260101-000000-aaaaaa",
    name="digits",
    version=1,
    created="2026-01-01T00:00:00+00:00",
    goal=Goal("val_acc", "max"),
    space={"schema": 1, "parameters": []},
    scheduler=Scheduler(last=27),
    searcher=Searcher(),
    program=Program("cell", "for epoch in trial.steps(): ...", "<cell>"),
    training=Training("python", "."),
)
OTHER = dataclasses.replace(SPEC, id="20260102-000000-bbbbbb", version=2, created="2026-01-02T00:00:00+00:00", seed=7)

#: Whether the workspace holds a comparison, and where it is.
KEPT = """async () => {
  const { data } = await window.jupyterapp.serviceManager.workspaces.fetch('default');
  return Object.keys(data).some(key => key.startsWith('workbench-compare:'))
    && JSON.stringify(data['layout-restorer:data']?.main ?? '').includes('workbench-compare');
}"""


@pytest.fixture
def lab(start_lab, tmp_path):
    """A server over a folder with two ended experiments: four trials, and one."""
    store = Store.find(cwd=tmp_path).create()
    catalog = Catalog(store)
    for spec, trials in ((SPEC, 4), (OTHER, 1)):
        store.write_spec(spec)
        with Series.open(store.experiment(spec.id).series) as series:
            for number in range(trials):
                height = 0.5 + 0.1 * number + 0.05 * spec.version
                for metric in ("val_acc", "loss"):
                    rows = [(number, metric, step, 0, height * step / 9, 1e9 + step) for step in range(1, 10)]
                    series.add_points(rows)
                series.put_trial(
                    number, configuration={"lr": 0.1 * (number + 1), "optimizer": "sgd"}, state="completed", step=9,
                    value=height, best=height,
                )  # fmt: skip
                series.put_leg(
                    number, 1, slot=f"slot-{number}", began=1e9, left=1e9 + 65, start=0, until=9, outcome="completed"
                )
        catalog.upsert_experiment(spec.id, {
            "name": "digits", "version": spec.version, "label": spec.label, "created": spec.created, "trials": trials,
            "goal": "max val_acc", "state": "completed", "best": {"trial": trials - 1, "value": height},
        })  # fmt: skip
    catalog.flush()
    with start_lab(tmp_path) as lab:
        yield lab


def shoot(page, name):
    """A picture of the page, where a folder for it is named."""
    if folder := os.environ.get("WORKBENCH_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def table_of(page, experiment="digits@1"):
    open_table = "async args => { await window.jupyterapp.commands.execute('workbench:open', args) }"
    page.evaluate(open_table, {"experiment": experiment, "tab": "table"})
    return page.get_by_role("grid", name="Trials")


def box(grid, label):
    return grid.get_by_role("checkbox", name=f"Select {label}")


def test_three_ticked_trials_are_compared_on_one_page_and_one_more_is_added(lab, opened):
    page = opened(lab)
    grid = table_of(page)
    box(grid, "t0000").click()
    compare = page.get_by_role("group", name="Selected trials").get_by_role("button", name="Compare")
    expect(compare).to_be_disabled()
    expect(compare).to_have_attribute("title", "Tick at least two trials to compare them.")
    # The table shows the best first: t0003, t0002, t0001, t0000.
    box(grid, "t0002").click(modifiers=["Shift"])
    for label in ("t0000", "t0001", "t0002"):
        expect(box(grid, label)).to_be_checked()
    expect(box(grid, "t0003")).not_to_be_checked()
    compare.click()
    expect(page.locator(".lm-TabBar-tabLabel", has_text="digits@1/t0000 and 2 others")).to_be_visible()
    many = page.get_by_role("article", name="Comparison of 3 trials")
    table = many.get_by_role("region", name="Results and configuration").get_by_role("table")
    row = lambda name: table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))  # noqa: E731
    expect(row("best val_acc").get_by_role("cell")).to_have_text(["0.55", "0.75 best", "0.65"])
    expect(row("steps").get_by_role("cell")).to_have_text(["9"] * 3)
    expect(row("duration").get_by_role("cell")).to_have_text(["1 min 5 s"] * 3)
    expect(row("slot").get_by_role("cell")).to_have_text(["slot-0", "slot-2", "slot-1"])
    expect(table.locator(".wb-Many-differs th")).to_have_text(["lr (differs)"])
    expect(table.get_by_text("optimizer")).to_have_count(0)
    table.get_by_role("button", name="1 equal hyperparameter").click()
    expect(row("optimizer").get_by_role("cell")).to_have_text(["sgd"] * 3)
    expect(many.locator(".wb-Plot")).to_have_attribute("data-painted", "3")
    # Pointing at a column points at its curve, and the other way round.
    row("steps").get_by_role("cell").nth(2).hover()
    expect(table.locator("thead th.wb-mod-hovered")).to_contain_text("t0001")
    many.locator(".wb-Plot").focus()
    page.keyboard.press("Home")  # the best
    expect(table.locator("thead th.wb-mod-hovered")).to_contain_text("t0002")
    many.get_by_label("Metric").select_option("loss")
    expect(many.locator(".wb-Plot")).to_have_attribute("aria-label", "Curves of loss of 3 trials.")
    differences = many.get_by_role("region", name="Differences of code and environment")
    expect(differences.get_by_role("region", name="digits@1/t0002, digits@1/t0001")).to_contain_text(
        "No known difference besides the configuration."
    )

    many.get_by_role("button", name="Add a Trial …").click()
    page.locator(".jp-Dialog").get_by_role("textbox").fill("digits@2")
    page.keyboard.press("Enter")
    many = page.get_by_role("article", name="Comparison of 4 trials")
    expect(many.get_by_role("columnheader")).to_contain_text(["Trial", "t0000", "t0002", "t0001", "digits@2/t0000"])
    differences = many.get_by_role("region", name="Differences of code and environment")
    expect(differences.get_by_role("region", name="digits@2/t0000")).to_contain_text("Seeds")
    differences.get_by_label("Compared with").select_option("digits@2/t0000")
    expect(differences.get_by_role("region", name="digits@1/t0000, digits@1/t0002, digits@1/t0001")).to_contain_text(
        "Seeds"
    )
    for theme, width in (("Light", 1900), ("Dark", 900)):
        page.set_viewport_size({"width": width, "height": 1100})
        change_theme(page, f"JupyterLab {theme}")
        shoot(page, f"many-{theme}-{width}")
    many.get_by_role("button", name="Compare the others without digits@1/t0001").click()
    expect(page.get_by_role("article", name="Comparison of 3 trials").get_by_role("columnheader")).to_contain_text(
        ["Trial", "t0000", "t0002", "digits@2/t0000"]
    )


def test_a_comparison_of_many_is_restored_and_says_what_it_cannot_read(lab, opened):
    page = opened(lab)
    run = "async refs => { await window.jupyterapp.commands.execute('workbench:compare', { refs }) }"
    page.evaluate(run, ["digits@1/t0000", "digits@1/t0001", "digits@2"])
    expect(page.get_by_role("columnheader", name="digits@2/t0000").first).to_be_visible()
    until(lambda: page.evaluate(KEPT), what="keeping the workspace")
    page.goto("about:blank")
    page.goto(lab.address().replace("reset&", ""))
    wait_until_restored(page)
    expect(page.get_by_role("columnheader", name="digits@2/t0000").first).to_be_visible(timeout=30_000)
    page.evaluate(run, ["digits@1/t0000", "digits@1/t0001", "digits@2", "nothing"])
    many = page.get_by_role("article", name="Comparison of 4 trials")
    expect(many.get_by_role("status")).to_contain_text("'nothing'")
    many.get_by_role("button", name="Without nothing").click()
    expect(page.get_by_role("article", name="Comparison of 3 trials").get_by_role("columnheader")).to_have_count(4)
    page.troubles[:] = [said for said in page.troubles if "404" not in said]  # the browser tells of every refusal
