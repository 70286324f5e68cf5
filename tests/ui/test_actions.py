"""Actions in sight: the menu button of a row and of a page, and what is done with several trials at once."""

from __future__ import annotations

import json
import os
import re

import pytest
from conftest import change_theme
from playwright.sync_api import expect

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series

ID = "20260101-000000-aaaaaa"
SPEC = Spec(
    id=ID,
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


@pytest.fixture
def lab(start_lab, tmp_path):
    """A server over a folder with an ended experiment of three trials."""
    store = Store.find(cwd=tmp_path).create()
    store.write_spec(SPEC)
    with Series.open(store.experiment(ID).series) as series:
        for number in range(3):
            series.put_trial(number, configuration={"lr": 0.1 * (number + 1)}, state="completed", step=3, value=0.5)
            series.add_points([(number, "val_acc", 3, 0, 0.5, 1.0)])
    catalog = Catalog(store)
    catalog.upsert_experiment(ID, {
        "name": "digits", "version": 1, "label": "digits@1", "created": "2026-01-01T00:00:00+00:00",
        "goal": "max val_acc", "trials": 3, "state": "completed", "best": {"trial": 0, "value": 0.5},
    })  # fmt: skip
    catalog.flush()
    return start_lab(tmp_path)


def items(page):
    return page.locator(".lm-Menu .lm-Menu-item:not([data-type='separator']) .lm-Menu-itemLabel").all_text_contents()


def answered(page):
    """Requests are answered as an engine would: what is sent is looked at."""
    sent = []

    def answer(route):
        sent.append(json.loads(route.request.post_data))
        route.fulfill(status=200, content_type="application/json", body='{"request": "1", "accepted": true}')

    page.route(re.compile(r"/workbench/api/requests"), answer)
    return sent


def shoot(page, name):
    """A picture of the page, where a folder for it is named. (A change of the theme or of the size closes menus.)"""
    if folder := os.environ.get("WORKBENCH_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")


@pytest.mark.parametrize(("theme", "width"), [("Light", 1900), ("Dark", 900)])
def test_a_row_and_a_page_have_their_actions_in_sight(theme, width, lab, opened):
    page = opened(lab)
    page.set_viewport_size({"width": width, "height": 900})
    change_theme(page, f"JupyterLab {theme}")
    page.get_by_role("tab", name="Workbench experiments").click()
    panel = page.get_by_role("region", name="Experiments")
    panel.get_by_role("button", name="Actions for digits@1").click()
    shown = items(page)
    for word in ("Open", "Extend …", "Replay", "Rename …", "Tag …", "Note …", "Pin", "Copy Name", "Delete …"):
        assert word in shown
    assert "Undo Deletion" not in shown
    expect(page.get_by_role("heading", name="digits@1")).to_have_count(0)  # the click did not open it
    shoot(page, f"row-{theme}-{width}")
    sent = answered(page)
    with page.expect_response("**/workbench/api/requests*"):
        page.get_by_role("menuitem", name="Pin").click()
    panel.locator(".wb-Experiment").click()
    page.get_by_role("toolbar", name="Actions").get_by_role("button", name="More actions").click()
    assert items(page) == shown
    shoot(page, f"header-{theme}-{width}")
    with page.expect_response("**/workbench/api/requests*"):
        page.get_by_role("menuitem", name="Pin").click()
    assert sent == [{"kind": "pin", "experiment": ID}] * 2


def test_selected_trials_are_pinned_together_and_two_are_compared(lab, opened):
    page = opened(lab)
    page.evaluate(
        "() => { window.jupyterapp.commands.execute('workbench:open', { experiment: 'digits', tab: 'table' }) }"
    )
    sent = answered(page)
    rows = page.get_by_role("grid").get_by_role("row")
    rows.filter(has_text="t0000").click()
    group = page.get_by_role("group", name="Selected trials")
    expect(group.get_by_role("button")).to_have_text(["Compare", "Pin 1 trial"])
    rows.filter(has_text="t0002").click(modifiers=["ControlOrMeta"])
    expect(group.get_by_role("button")).to_have_text(["Compare", "Pin 2 trials"])
    shoot(page, "ticked")
    with page.expect_response(lambda response: json.loads(response.request.post_data or "{}").get("trial") == 2):
        group.get_by_role("button", name="Pin 2 trials").click()
    assert sent == [{"kind": "pin", "experiment": ID, "trial": trial} for trial in (0, 2)]
    group.get_by_role("button", name="Compare").click()
    expect(page.locator(".lm-TabBar-tabLabel", has_text="digits@1/t0000 and digits@1/t0002")).to_be_visible()
