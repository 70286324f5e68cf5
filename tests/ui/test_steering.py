"""Single trials are paused, stopped and resumed on an experiment's page: a real engine trains them."""

from __future__ import annotations

import os
import re

import pytest
from conftest import change_theme
from playwright.sync_api import expect
from running import end, ended, engine_process, spec_of, start

from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.series import Series

#: Slow until the gate is open.
LOOP = """
import os, time
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    time.sleep(0 if os.path.exists({gate!r}) else 0.1)
    trial.report(score=x * (epoch + 1))
"""


@pytest.fixture
def lab(start_lab, tmp_path):
    engine = engine_process(Store.find(cwd=tmp_path).create(), idle=600)
    with start_lab(tmp_path) as lab:
        yield lab
    end(engine)


def test_a_trial_is_paused_another_is_stopped_and_both_are_resumed(lab, opened):
    store, gate = Store.find(cwd=lab.root), lab.root / "gate"
    scheduler = Scheduler(kind="all", first=1, last=600, eta=3)
    settings = {"space": {"x": uniform(0.0, 1.0)}, "scheduler": scheduler, "trials": 2, "name": "digits"}
    spec = spec_of(LOOP.format(gate=str(gate)), lab.root, probe=False, verify=False, **settings)
    start(store, spec)
    page = opened(lab)
    page.evaluate(
        "async args => { await window.jupyterapp.commands.execute('workbench:open', args) }",
        {"experiment": spec.id, "tab": "table"},
    )
    rows = page.get_by_role("grid").get_by_role("row")
    row = {number: rows.filter(has_text=f"t000{number}") for number in (0, 1)}
    header = page.locator(".wb-Header")
    group = page.get_by_role("group", name="Selected trials")
    expect(row[0]).to_contain_text("running", timeout=30_000)
    row[0].get_by_role("checkbox").click()
    expect(group.get_by_role("button", name="Resume")).to_have_attribute(
        "title", "t0000 was not paused or stopped by a person."
    )
    group.get_by_role("button", name="Pause").click()
    expect(row[0]).to_contain_text("paused", timeout=20_000)
    expect(group.get_by_role("button", name="Pause")).to_be_disabled()
    expect(row[1]).to_contain_text("running", timeout=20_000)
    expect(header).to_contain_text("running")  # the other goes on
    row[1].get_by_role("button", name="Actions for t0001").click()
    page.get_by_role("menuitem", name="Stop This Trial").click()
    expect(row[1]).to_contain_text("stopped", timeout=20_000)
    expect(header).to_contain_text("t0000 is paused, and nothing else is left to train; resume it to continue")
    expect(header.locator(".wb-State")).to_contain_text("paused")
    if folder := os.environ.get("WORKBENCH_PICTURES"):
        for theme, width in (("Light", 1900), ("Dark", 900)):
            page.set_viewport_size({"width": width, "height": 900})
            change_theme(page, f"JupyterLab {theme}")
            page.screenshot(path=f"{folder}/steering-{theme}-{width}.png")
    row[1].get_by_role("button", name="Actions for t0001").click()
    page.get_by_role("menuitem", name="Resume This Trial").click()
    expect(row[1]).to_contain_text("running", timeout=20_000)
    row[0].dblclick()
    trial = page.get_by_role("article", name="t0000")
    trial.get_by_role("button", name="Resume This Trial").click()
    expect(trial.locator(".wb-Trial-head")).to_contain_text(re.compile("running|setting up"), timeout=20_000)
    expect(trial.get_by_role("button", name="Pause This Trial")).to_be_visible()
    gate.touch()
    assert ended(store, spec) == "completed"
    with Series.read(store.experiment(spec.id).series) as series:
        assert [(one["state"], one["step"]) for one in series.trials()] == [("completed", 600)] * 2
