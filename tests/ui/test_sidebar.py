"""The sidebar: what a person sees of a store that no kernel has opened, and how it is filtered and picked."""

from __future__ import annotations

import dataclasses
import os
import re
from datetime import UTC, datetime

import pytest
from conftest import show_panel
from playwright.sync_api import expect
from running import until

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store
from workbench.store.lists.catalog import Catalog

SPEC = Spec(
    id="20260101-000000-aaaaaa",
    name="digits",
    version=1,
    created="",
    goal=Goal("val_acc"),
    space={"schema": 1, "parameters": []},
    scheduler=Scheduler(last=27),
    searcher=Searcher(),
    program=Program("cell", "for epoch in trial.steps(): ...", "<cell>"),
    training=Training("python", "."),
)

#: Whether the workspace holds the sidebar's choices.
KEPT = """async () => {
  const { data } = await window.jupyterapp.serviceManager.workspaces.fetch('default');
  const kept = data['workbench-ext:sidebar'];
  return kept?.sort === 'state' && kept.folded?.cluster === true;
}"""


@pytest.fixture
def fill():
    """Experiments for the store beside a server, put there as an engine would."""

    def fill(lab):
        store = Store.find(cwd=lab.root).create()
        catalog = Catalog(store)
        names = iter("bcdefghijk")

        def add(**fields):
            made, created = f"20260101-000000-aaaaa{next(names)}", datetime.now(UTC).isoformat()
            spec = dataclasses.replace(SPEC, id=made, created=created, name=fields.get("name", "digits"))
            store.write_spec(spec)
            entry = {"name": spec.name, "version": 1, "label": spec.label, "created": created, "goal": str(spec.goal)}
            catalog.upsert_experiment(spec.id, {**entry, "state": "completed", "trials": 3, "best": None, **fields})
            catalog.flush()

        return add

    return fill


@pytest.fixture
def add(lab, fill):
    return fill(lab)


def shoot(page, name):
    """A picture of the page, where a folder for it is named."""
    if folder := os.environ.get("WORKBENCH_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")


def rows_of(panel, **which):
    return panel.get_by_role("listbox", name="Experiments").get_by_role("option", **which)


def expect_picked(panel, names):
    """Wait until these experiments are picked, from above: a key's effect is drawn after it."""
    expect(rows_of(panel, selected=True).locator(".wb-Experiment-name")).to_have_text(names)


def test_the_sidebar_follows_the_store(lab, opened, add):
    panel = show_panel(opened(lab))
    expect(panel).to_contain_text("No experiments yet")
    add(name="digits", best={"trial": 31, "value": 0.97777})
    expect(rows_of(panel)).to_have_text(re.compile(r"digits@1.*completed.*val_acc 0\.9778 \(t0031\).*now"))
    add(name="resnet", state="failed", reason="all trials failed")
    expect(rows_of(panel)).to_have_count(2)
    expect(rows_of(panel).first).to_contain_text("resnet@1")


def test_what_people_wrote_is_shown_and_never_run(lab, opened, add):
    script = "<img src=x onerror='document.title = \"owned\"'>"
    add(label=script, reason=script, goal=f"max {script}", best={"trial": 0, "value": 1.0})
    page = opened(lab)
    item = rows_of(show_panel(page))
    expect(item).to_contain_text(script)
    assert item.locator("img").count() == 0
    assert page.title() != "owned"


def test_a_row_or_a_page_that_cannot_be_drawn_leaves_what_is_around_it(lab, opened, add):
    add(name="digits")
    page = opened(lab)
    is_damaged = True

    def answer(route):
        """The server's answer, with an object in place of a text."""
        told = route.fetch()
        words = told.text().replace('"damaged"', '{"text": "a"}' if is_damaged else '"mended"')
        route.fulfill(status=told.status, headers={"Content-Type": "application/json"}, body=words)

    page.route(re.compile(r"/workbench/api/experiments"), answer)
    add(name="resnet", note="damaged")
    panel = show_panel(page)
    expect(rows_of(panel)).to_have_count(2)
    broken = rows_of(panel).first
    expect(broken).to_contain_text("resnet@1 cannot be shown.")
    expect(rows_of(panel).last).to_contain_text(re.compile("digits@1.*completed"))
    expect(panel.get_by_role("region", name="Cluster")).to_be_visible()
    broken.press("Enter")
    document = page.locator(".wb-Document:visible")
    expect(document.get_by_text("The header cannot be shown")).to_be_visible()
    expect(document.get_by_role("tab", name="Curves", exact=True)).to_be_visible()
    shoot(page, "broken")
    is_damaged = False
    add(name="resnet", note="damaged", tags=["news"])  # the list changes
    expect(rows_of(panel).last).to_contain_text("digits@1")
    expect(panel.get_by_text("mended").first).to_be_visible()
    expect(panel.get_by_text("cannot be shown")).to_have_count(0)
    document.get_by_role("button", name="Try Again").click()
    expect(document.get_by_text("The header cannot be shown")).to_have_count(0, timeout=10_000)
    page.unroute_all(behavior="ignoreErrors")
    page.troubles.clear()  # React writes what could not be drawn to the console


def test_a_hidden_sidebar_asks_nothing(lab, opened, add):
    add()
    page = opened(lab)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "workbench/api" in request.url else None)
    panel = show_panel(page)
    expect(rows_of(panel)).to_have_count(1)
    with page.expect_request("**/workbench/api/experiments*"):
        pass  # it goes on asking while it is seen
    page.get_by_role("tab", name="File Browser").click()
    expect(panel).to_be_hidden()
    page.wait_for_timeout(300)  # an answer that was under way
    asked.clear()
    page.wait_for_timeout(2500)  # longer than two of its turns: silence cannot be awaited
    assert asked == []


def test_it_says_so_when_the_server_is_gone(start_lab, tmp_path, opened, fill):
    lab = start_lab(tmp_path)
    fill(lab)()
    page = opened(lab)
    panel = show_panel(page)
    expect(rows_of(panel)).to_have_count(1)
    lab.end()
    expect(panel.get_by_role("status")).to_contain_text("does not answer", timeout=10_000)
    expect(rows_of(panel)).to_have_count(1)
    page.close()
    page.troubles.clear()  # JupyterLab's own requests failed too


def test_experiments_are_found_by_text_state_and_tag(lab, opened, add):
    add(name="digits", tags=["paper"], note="smaller batches")
    add(name="resnet", state="failed", reason="all trials failed")
    add(name="digits-wide", tags=["paper"], state="stopped")
    panel = show_panel(opened(lab))
    rows, names = rows_of(panel), panel.locator(".wb-Experiment-name")
    expect(rows).to_have_count(3)
    text = panel.get_by_role("searchbox", name="Filter experiments by text")
    text.fill("BATCH dig")
    expect(names).to_have_text(["digits@1"])
    text.fill("")
    panel.get_by_label("Filter experiments by state").select_option("failed")
    expect(names).to_have_text(["resnet@1"])
    panel.get_by_label("Filter experiments by state").select_option("")
    panel.get_by_label("Filter experiments by tag").select_option("paper")
    expect(names).to_have_text(["digits-wide@1", "digits@1"])
    text.fill("no such thing")
    expect(panel.get_by_role("status")).to_contain_text("No experiment matches the filter")


def test_the_keyboard_picks_and_opens(lab, opened, add):
    for name in ("one", "two", "three"):
        add(name=name)
    page = opened(lab)
    panel = show_panel(page)
    rows = rows_of(panel)
    expect(rows).to_have_count(3)
    panel.get_by_label("Filter experiments by state").focus()
    page.keyboard.press("Tab")
    expect(rows.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    expect_picked(panel, ["two@1"])
    page.keyboard.press("Shift+ArrowDown")
    expect(rows.nth(2)).to_be_focused()
    expect_picked(panel, ["two@1", "one@1"])
    expect(panel.get_by_role("toolbar", name="Picked experiments")).to_contain_text("2 picked")
    page.keyboard.press("Space")
    expect_picked(panel, ["two@1"])
    page.keyboard.press("Escape")
    expect_picked(panel, [])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="one@1")).to_be_visible()
    rows.first.click(modifiers=["ControlOrMeta"])
    rows.nth(1).click(modifiers=["Shift"])
    expect_picked(panel, ["three@1", "two@1"])


def test_versions_are_below_one_name_and_rows_are_sorted(lab, opened, add):
    add(name="digits", version=1, label="digits@1", best={"trial": 1, "value": 0.9})
    add(name="words", state="failed")
    add(name="digits", version=2, label="digits@2", best={"trial": 1, "value": 0.7})
    add(name="digits", version=3, label="digits@3", best={"trial": 1, "value": 0.8})
    page = opened(lab)
    panel = show_panel(page)
    names = panel.locator(".wb-Experiment-name")
    expect(names).to_have_text(["digits@3", "words@1"])
    versions = panel.get_by_role("button", name="Other versions of digits")
    expect(versions).to_have_text("2 other versions")
    versions.click()
    expect(names).to_have_text(["digits@3", "digits@2", "digits@1", "words@1"])
    expect(page.get_by_role("heading", name="digits@3")).to_have_count(0)  # unfolding opens no page
    shoot(page, "sidebar-versions")
    panel.get_by_label("Sort experiments").select_option("best")
    expect(names).to_have_text(["digits@1", "digits@3", "digits@2", "words@1"])
    panel.get_by_label("Sort experiments").select_option("state")
    expect(names.first).to_have_text("words@1")
    versions.click()
    expect(names).to_have_text(["words@1", "digits@3"])
    # What is searched for is not folded away.
    panel.get_by_role("searchbox", name="Filter experiments by text").fill("digits@1")
    expect(names).to_have_text(["digits@1"])
    panel.get_by_role("searchbox", name="Filter experiments by text").fill("")
    # The selection follows the shown page, also to a version that is folded.
    open_page = "async experiment => { await window.jupyterapp.commands.execute('workbench:open', { experiment }) }"
    page.evaluate(open_page, "digits@1")
    expect_picked(panel, ["digits@1"])
    expect(names).to_have_text(["words@1", "digits@3", "digits@1"])
    page.evaluate(open_page, "words@1")
    expect_picked(panel, ["words@1"])
    expect(names).to_have_text(["words@1", "digits@3"])
    page.locator(".lm-TabBar-tabLabel", has_text="digits@1").click()
    expect_picked(panel, ["digits@1"])
    # The order, and which parts are folded, are kept.
    panel.get_by_role("button", name=re.compile("^Cluster")).click()
    until(lambda: page.evaluate(KEPT), what="keeping the workspace")
    page.goto("about:blank")
    page.goto(lab.address().replace("reset&", ""))
    expect(panel.get_by_label("Sort experiments")).to_have_value("state", timeout=30_000)
    expect(panel.get_by_role("button", name=re.compile("^Cluster"))).to_have_attribute("aria-expanded", "false")


def test_versions_are_shown_and_hidden_by_the_keyboard(lab, opened, add):
    for version in (1, 2, 3):
        add(name="digits", version=version, label=f"digits@{version}")
    add(name="words")
    page = opened(lab)
    panel = show_panel(page)
    names = panel.locator(".wb-Experiment-name")
    expect(names).to_have_text(["words@1", "digits@3"])
    rows_of(panel).first.focus()
    page.keyboard.press("ArrowRight")  # it has no other version
    expect(names).to_have_text(["words@1", "digits@3"])
    page.keyboard.press("ArrowDown")
    expect_picked(panel, ["digits@3"])
    page.keyboard.press("ArrowRight")
    expect(names).to_have_text(["words@1", "digits@3", "digits@2", "digits@1"])
    page.keyboard.press("End")
    expect_picked(panel, ["digits@1"])
    page.keyboard.press("ArrowLeft")
    expect_picked(panel, ["digits@3"])
    expect(names).to_have_text(["words@1", "digits@3"])
    expect(rows_of(panel, selected=True)).to_be_focused()
