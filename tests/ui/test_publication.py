"""The page of a published experiment, opened as a file: all of its charts are drawn, and nothing is fetched."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from running import end, ended, engine_process, spec_of, start

from workbench.records import Goal, Scheduler
from workbench.share.publish import publish
from workbench.space import Condition, choice, loguniform, uniform
from workbench.store import Store

LOOP = """
lr = loguniform(1e-4, 1.0)
activation = choice("relu", "<b>gelu</b>")
slope = uniform(0.0, 1.0)
import math
for epoch in trial.steps():
    value = 1 - 1 / (1 + epoch + math.log10(lr) + 4) + (0.1 if activation == "<b>gelu</b>" else 0.0)
    trial.report(**{"val_acc": value, "train/loss": 1 - value})
"""


@pytest.fixture
def published(tmp_path):
    store = Store(tmp_path / ".workbench").create()
    spec = spec_of(
        LOOP, tmp_path, name="shared", goal=Goal("val_acc"),
        scheduler=Scheduler("hyperband", first=1, last=9, eta=3),
        space={
            "lr": loguniform(1e-4, 1.0),
            "activation": choice("relu", "<b>gelu</b>"),
            "slope": uniform(0.0, 1.0, when=Condition("==", "activation", "relu")),
        },
    )  # fmt: skip
    process = engine_process(store, workers=2)
    try:
        start(store, spec)
        assert ended(store, spec) == "completed"
        publish(store, "shared", str(tmp_path / "page"))
    finally:
        end(process)
    return tmp_path / "page" / "index.html"


def test_all_charts_are_drawn_without_a_server_or_network(published, page):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(published.as_uri())
    titles = ["Curves", "Every metric", "Ladder", "Slices", "Parallel", "Trials", "Training code", "Environment"]
    expect(page.locator("h2")).to_have_text(titles)
    expect(page.locator("nav a")).to_have_text(titles)
    figures = page.locator("[id^=figure-]")
    assert figures.count() == 1 + 2 + 3 + 3 + 1  # two metrics, three brackets, three hyperparameters
    expect(page.locator("[id^=figure-].js-plotly-plot")).to_have_count(figures.count())
    expect(page.locator("[id^=figure-] b")).to_have_count(0)
    expect(page.get_by_text("Share chart")).to_have_count(0)
    expect(page.locator("[data-title^='Share chart']")).to_have_count(0)
    shown = page.evaluate("() => [3, 4, 5].map(k => document.getElementById(`figure-${k}`).data.length)")
    assert shown == [9, 5, 3], "a trial of each bracket is a line of its ladder"
    expect(page.get_by_role("img", name="Parallel")).to_contain_text("not set")
    assert {url for url in asked if not url.startswith(("blob:", "data:"))} == {published.as_uri()}
    page.troubles[:] = [said for said in page.troubles if said != f"outside: {published.as_uri()}"]
