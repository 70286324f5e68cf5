"""The sidebar: what a person sees of a store that no kernel has opened."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store
from workbench.store.catalog import Catalog

SPEC = Spec(
    id="20260101-000000-aaaaaa",
    name="digits",
    version=1,
    created="",
    goal=Goal("val_acc"),
    space={},
    scheduler=Scheduler(last=27),
    searcher=Searcher(),
    program=Program("cell", "for epoch in trial.steps(): ...", "<cell>"),
    training=Training("python", "."),
)


@pytest.fixture
def lab(start_lab, tmp_path):
    lab = start_lab(tmp_path)
    yield lab
    lab.end()


@pytest.fixture
def add(lab):
    """Put an experiment into the store, as an engine would."""
    store = Store.find(cwd=lab.root).create()
    catalog = Catalog(store)
    names = iter("bcdefgh")

    def add(**fields):
        made, created = f"20260101-000000-aaaaa{next(names)}", datetime.now(UTC).isoformat()
        spec = dataclasses.replace(SPEC, id=made, created=created, name=fields.get("name", "digits"))
        store.write_spec(spec)
        entry = {"name": spec.name, "version": 1, "label": spec.label, "created": spec.created, "goal": str(spec.goal)}
        catalog.upsert_experiment(spec.id, {**entry, "state": "completed", "trials": 3, "best": None, **fields})
        catalog.flush()

    return add


def show_panel(page):
    page.get_by_role("tab", name="Workbench experiments").click()
    return page.get_by_role("region", name="Experiments")


def test_the_sidebar_follows_the_store(lab, opened, add):
    panel = show_panel(opened(lab))
    expect(panel).to_contain_text("No experiments yet")
    add(name="digits", best={"trial": 31, "value": 0.97777})
    expect(panel.get_by_role("listitem")).to_have_text(
        re.compile(r"digits@1.*completed.*val_acc 0\.9778 \(t0031\).*now")
    )
    add(name="resnet", state="failed", reason="all trials failed")
    expect(panel.get_by_role("listitem")).to_have_count(2)
    expect(panel.get_by_role("listitem").first).to_contain_text("resnet@1")


def test_what_people_wrote_is_shown_and_never_run(lab, opened, add):
    script = "<img src=x onerror='document.title = \"owned\"'>"
    add(label=script, reason=script, goal=f"max {script}", best={"trial": 0, "value": 1.0})
    page = opened(lab)
    item = show_panel(page).get_by_role("listitem")
    expect(item).to_contain_text(script)
    assert item.locator("img").count() == 0
    assert page.title() != "owned"


def test_a_hidden_sidebar_asks_nothing(lab, opened, add):
    add()
    page = opened(lab)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "workbench/api" in request.url else None)
    panel = show_panel(page)
    expect(panel.get_by_role("listitem")).to_have_count(1)
    with page.expect_request("**/workbench/api/experiments*"):
        pass  # it goes on asking while it is seen
    page.get_by_role("tab", name="File Browser").click()
    expect(panel).to_be_hidden()
    page.wait_for_timeout(300)  # an answer that was under way
    asked.clear()
    page.wait_for_timeout(2500)  # longer than two of its turns: silence cannot be awaited
    assert asked == []


def test_it_says_so_when_the_server_is_gone(lab, opened, add):
    add()
    page = opened(lab)
    panel = show_panel(page)
    expect(panel.get_by_role("listitem")).to_have_count(1)
    lab.end()
    expect(panel.get_by_role("status")).to_contain_text("does not answer", timeout=10_000)
    expect(panel.get_by_role("listitem")).to_have_count(1)
    page.close()
    page.troubles.clear()  # JupyterLab's own requests failed too
