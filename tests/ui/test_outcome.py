"""What is not as it should be, seen in a browser: in the sidebar, the page's head, its table and a trial's page."""

from __future__ import annotations

import re

import pytest
from conftest import change_theme
from playwright.sync_api import expect
from running import end, ended, engine_process, spec_of, start, until

from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog
from workbench.store.series import Series

SPACE = {"x": uniform(0.0, 1.0)}
SMALL = Scheduler(kind="hyperband", first=1, last=3, eta=3)
#: Two generators that no checkpoint holds; one trial of five fails.
CELL = """
x = uniform(0.0, 1.0)
def counted():
    n = 0
    while True:
        n += 1
        yield n
it, bar = counted(), counted()
for epoch in trial.steps():
    if trial.number == 4:
        raise ZeroDivisionError("division by zero")
    trial.report(score=x * next(it) + next(bar))
"""


@pytest.fixture(scope="module")
def lab(start_lab, tmp_path_factory):
    """A server and a living engine over one folder."""
    root = tmp_path_factory.mktemp("outcome")
    engine = engine_process(Store.find(cwd=root).create(), idle=600)
    with start_lab(root) as lab:
        yield lab
    end(engine)


def command(page, name, **arguments):
    page.evaluate("async ([name, args]) => { await window.jupyterapp.commands.execute(name, args) }", [name, arguments])


def test_what_went_wrong_is_seen_where_people_look(lab, opened, tmp_path):
    store = Store.find(cwd=lab.root)
    spec = spec_of(CELL, lab.root, name="digits", space=SPACE, scheduler=SMALL)
    start(store, spec)
    ended(store, spec)
    until(lambda: any("differs" in str(row.get("checked")) for row in read_catalog(store)), what="the check")
    with Series.read(store.experiment(spec.id).series) as series:
        lost = next(row["number"] for row in series.trials() if row.get("inexact"))
    failed, inexact = "1 failed (ZeroDivisionError: division by zero", "resumed inexactly: it, bar"

    page = opened(lab)
    page.get_by_role("tab", name="Workbench experiments").click()
    row = page.locator(".wb-Experiment", has=page.get_by_text("digits@1", exact=True))
    expect(row.locator(".wb-Outcome")).to_contain_text(failed)
    expect(row.locator(".wb-Outcome")).to_contain_text(f"{inexact} (1 trial)")

    command(page, "workbench:open", experiment=spec.id)
    head = page.locator(".wb-Header")
    expect(head.locator(".wb-Outcome")).to_contain_text(failed)
    expect(head.locator(".wb-Outcome")).to_contain_text(f"{inexact} (1 trial)")
    expect(head.locator(".wb-Outcome")).to_contain_text("resume checked: differs from step 2: score")

    page.get_by_role("tab", name="Table", exact=True).click()
    table = page.get_by_role("grid", name="Trials")
    marked = table.get_by_role("row", name=re.compile(f"t{lost:04}"))
    expect(marked.get_by_role("img", name=inexact)).to_be_visible()
    expect(marked).to_contain_text(inexact)
    expect(table.locator(".wb-Inexact[role=img]")).to_have_count(1)
    page.screenshot(path=tmp_path / "table.png")

    command(page, "workbench:open-trial", experiment="digits@1", trial=lost)
    trial = page.get_by_role("article", name=f"t{lost:04}")
    expect(trial.locator(".wb-Inexact")).to_contain_text(
        "resumed inexactly: it (an iterator or generator cannot be saved: after a resume it restarts); bar ("
    )
    page.screenshot(path=tmp_path / "trial.png")


def test_a_failed_experiment_opens_on_its_error_with_the_line_to_change(lab, opened, tmp_path):
    store = Store.find(cwd=lab.root)
    spec = spec_of("x = uniform(0.0, 1.0)\nmodel = None\nlayer = model.head\nfor epoch in trial.steps(): ...\n",
                   lab.root, name="broken", space=SPACE, scheduler=SMALL)  # fmt: skip
    start(store, spec)
    assert ended(store, spec) == "failed"

    page = opened(lab)
    command(page, "workbench:open", experiment=spec.id)
    failure = page.get_by_role("region", name="Why it failed")
    expect(failure).to_contain_text("AttributeError: 'NoneType' object has no attribute 'head'")
    expect(failure.locator("mark")).to_have_text(re.compile(r"layer = model\.head"))
    expect(page.locator(".wb-Curves")).to_have_count(0)  # no empty axes
    page.screenshot(path=tmp_path / "failed-light.png")
    change_theme(page, "JupyterLab Dark")
    page.screenshot(path=tmp_path / "failed-dark.png")
    failure.get_by_role("button", name="open t0000").click()
    expect(page.get_by_role("article", name="t0000").locator("mark")).to_have_count(1)
