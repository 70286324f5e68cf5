"""Actions in sight: the menu button of a row and of a page, and what is done with several trials at once."""

from __future__ import annotations

import dataclasses
import json
import os
import re

import pytest
from conftest import change_theme, show_panel
from playwright.sync_api import expect
from running import until

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

#: The buttons for ticked trials.
BULK = ["Compare", "Stop", "Pause", "Resume", "Pin", "Delete …", "Export CSV"]


@pytest.fixture
def lab(lab):
    """A server over a folder with an ended experiment of three trials."""
    store = Store.find(cwd=lab.root).create()
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
    return lab


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


#: Resolves when an element has been in the same place for ten frames.
STILL = """(element) => new Promise((done) => {
  let place = "", frames = 0
  const look = () => {
    const now = JSON.stringify(element.getBoundingClientRect())
    frames = now === place ? frames + 1 : 0
    place = now
    frames < 10 ? requestAnimationFrame(look) : done()
  }
  look()
})"""


def table_of(page):
    page.evaluate(
        "() => { window.jupyterapp.commands.execute('workbench:open', { experiment: 'digits', tab: 'table' }) }"
    )
    return page.get_by_role("grid").get_by_role("row")


def test_selected_trials_are_pinned_together_and_two_are_compared(lab, opened):
    page = opened(lab)
    rows = table_of(page)
    sent = answered(page)
    rows.filter(has_text="t0000").click()
    group = page.get_by_role("group", name="Selected trials")
    expect(group.get_by_role("button")).to_have_text(BULK)
    expect(group.get_by_role("button", name="Compare")).to_be_disabled()
    rows.filter(has_text="t0002").click(modifiers=["ControlOrMeta"])
    expect(group.get_by_role("button", name="Compare")).to_be_enabled()
    with page.expect_response(lambda response: json.loads(response.request.post_data or "{}").get("trial") == 2):
        group.get_by_role("button", name="Pin").click()
    assert sent == [{"kind": "pin", "experiment": ID, "trial": trial} for trial in (0, 2)]
    for theme, width in (("Light", 1900), ("Dark", 900)):
        page.set_viewport_size({"width": width, "height": 900})
        change_theme(page, f"JupyterLab {theme}")
        shoot(page, f"ticked-{theme}-{width}")
    group.get_by_role("button", name="Compare").click()
    expect(page.locator(".lm-TabBar-tabLabel", has_text="digits@1/t0000 and digits@1/t0002")).to_be_visible()


def test_a_click_on_a_row_moves_no_row_so_that_a_double_click_opens_its_own_trial(lab, opened):
    page = opened(lab)
    rows = table_of(page)
    group = page.get_by_role("group", name="Selected trials")
    for width in (1900, 1400, 1200, 1000, 800):
        page.set_viewport_size({"width": width, "height": 900})
        expect(group).to_have_count(0)
        rows.nth(1).evaluate(STILL)  # JupyterLab lays out its areas some frames after the window's size has changed
        before = rows.nth(1).bounding_box()
        rows.nth(1).click()
        expect(group).to_be_visible()
        assert rows.nth(1).bounding_box() == before, width
        page.keyboard.press("Escape")


def test_what_is_not_possible_for_all_ticked_trials_is_grey_and_says_why(lab, opened):
    page = opened(lab)
    rows = table_of(page)
    for label in ("t0000", "t0002"):
        rows.filter(has_text=label).get_by_role("checkbox").click()
    group = page.get_by_role("group", name="Selected trials")
    stop = group.get_by_role("button", name="Stop")
    expect(stop).to_be_disabled()
    expect(stop).to_have_attribute("title", "t0000, t0002 have ended or are ending already.")
    with page.expect_download() as download:
        group.get_by_role("button", name="Export CSV").click()
    assert download.value.suggested_filename == "digits@1-trials.csv"
    head, *lines = download.value.path().read_text().splitlines()
    assert head.startswith("trial,state,val_acc,step,")
    assert [line.split(",")[:4] for line in lines] == [[label, "completed", "0.5", "3"] for label in ("t0000", "t0002")]
    sent = answered(page)
    group.get_by_role("button", name="Delete …").click()
    expect(page.locator(".jp-Dialog")).to_contain_text("Delete the files of digits@1/t0000, t0002?")
    with page.expect_response(lambda response: json.loads(response.request.post_data or "{}").get("trial") == 2):
        page.locator(".jp-Dialog").get_by_role("button", name="Delete").click()
    assert [(one["kind"], one["trial"]) for one in sent] == [("delete", 0), ("delete", 2)]
    assert all("undo_s" in one for one in sent)  # it can be undone


def test_each_row_of_the_table_has_its_menu_in_sight(lab, opened):
    page = opened(lab)
    rows = table_of(page)
    rows.filter(has_text="t0001").get_by_role("button", name="Actions for t0001").click()
    shown = items(page)
    for word in ("Open Trial", "Stop This Trial", "Pin", "Replay This Trial", "Verify …", "Fork in the Notebook",
                 "Copy Configuration", "Copy digits@1/t0001", "Delete This Trial’s Files …"):  # fmt: skip
        assert word in shown
    expect(page.get_by_role("menuitem", name="Stop This Trial")).to_have_class(re.compile("lm-mod-disabled"))
    shoot(page, "trial-menu")
    page.get_by_role("menuitem", name="Open Trial").click()
    expect(page.get_by_role("article", name="t0001")).to_be_visible()


def test_many_experiments_are_deleted_by_one_question_and_kept_by_one_button(lab, opened):
    store, many = Store.find(cwd=lab.root), 30
    catalog = Catalog(store)
    for number in range(2, many + 1):
        spec = dataclasses.replace(SPEC, id=f"20260101-000000-aaa{number:03d}", name=f"digits{number}")
        store.write_spec(spec)
        catalog.upsert_experiment(spec.id, {
            "name": spec.name, "version": 1, "label": spec.label, "created": spec.created, "goal": "max val_acc",
            "trials": 3, "state": "completed",
        })  # fmt: skip
    catalog.flush()
    page = opened(lab)
    panel = show_panel(page)
    rows = panel.get_by_role("listbox", name="Experiments").get_by_role("option")
    rows.first.focus()
    page.keyboard.press("Control+a")
    expect(panel.get_by_text("30 picked")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/workbench/api/" in request.url else None)
    page.evaluate("() => { window.jupyterapp.commands.execute('workbench:delete') }")
    expect(page.locator(".jp-Dialog")).to_contain_text("Delete 30 experiments?")
    # The disk is looked at once, and not for each.
    assert sum("/api/store?" in url for url in asked) <= 2
    page.locator(".jp-Dialog").get_by_role("button", name="Delete").click()
    until(lambda: len(list(store.requests.glob("*.json"))) == many, what="the requests of all experiments")
    notice = page.locator(".wb-Notice").filter(has=page.get_by_role("button", name="Undo"))
    expect(notice.locator(".wb-Notice-words")).to_have_text(["30 experiments are being deleted."])
    notice.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("30 experiments stay.")).to_be_visible()
    expect(rows.first).to_contain_text("completed")
    assert not list(store.requests.glob("*.json"))
    assert len(store.experiment_ids()) == many


def test_an_action_without_a_server_says_that_the_server_does_not_answer(lab, opened):
    page = opened(lab)
    panel = show_panel(page)
    panel.get_by_role("listbox", name="Experiments").get_by_role("option").click()
    page.context.set_offline(True)
    page.evaluate("() => { window.jupyterapp.commands.execute('workbench:pin') }")
    expect(page.locator(".wb-Notice-words")).to_contain_text("The Jupyter server does not answer")
    page.close()
    page.troubles.clear()  # the browser itself says that it is offline
