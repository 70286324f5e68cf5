"""The page of the machine's slots, over real engines: who holds what, who waits and why, and draining a slot."""

from __future__ import annotations

import os
import re

import pytest
from conftest import change_theme
from playwright.sync_api import expect
from running import engine, few_cores, spec_of, start

from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store
from workbench.store.owner.slots import drained

#: A trial of many short steps: it can save and make room at any of them.
LONG = """
x = uniform(0.0, 1.0)
import time
for epoch in trial.steps():
    time.sleep(0.05)
    trial.report(score=x)
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A runtime folder of its own, and two cores: the names of their slots."""
    place = tmp_path / "machine"
    place.mkdir()
    with few_cores(place, monkeypatch, 2) as names:
        if len(names) < 2:
            pytest.skip("two cores are needed: a trial is to move from one to the other")
        yield names


def search(root, name, trials, **fields):
    """A search of its own store, which trains until it is ended."""
    spec = spec_of(LONG, root, name=name, space={"x": uniform(0.0, 1.0)}, trials=trials, verify=False,
                   scheduler=Scheduler(kind="all", first=9000, last=9000), **fields)  # fmt: skip
    return Store(root / name / ".workbench"), spec


def shoot(page, name):
    """Pictures of the page in both themes at two widths, where a folder for them is named."""
    if folder := os.environ.get("WORKBENCH_PICTURES"):
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            change_theme(page, theme)
            for width in (900, 1900):
                page.set_viewport_size({"width": width, "height": 900})
                page.wait_for_timeout(500)
                page.screenshot(path=f"{folder}/{name}-{theme.split()[1].lower()}-{width}.png")
        page.set_viewport_size({"width": 1400, "height": 900})


def test_who_holds_what_and_who_waits_and_a_slot_is_drained(start_lab, tmp_path, machine, opened):
    root = tmp_path / "work"
    a, bert = search(root, "nlp", 2, priority=1)  # it never gives way to the other
    b, whisper = search(root, "audio", 1)
    root.mkdir()
    with engine(a, workers=2), engine(b, workers=2):
        start(a, bert)
        lab = start_lab(root, WORKBENCH_WORKERS="2")
        page = opened(lab)
        page.get_by_role("tab", name="Workbench experiments").click()
        panel = page.get_by_role("region", name="Experiments")
        page.evaluate("() => { window.jupyterapp.commands.execute('workbench:queue') }")
        queue = page.locator(".wb-Queue")
        held = queue.get_by_role("table", name="Slots of this machine").get_by_role("row")
        first, second = held.nth(1), held.nth(2)
        expect(first).to_contain_text(re.compile(rf"{machine[0]}nlp@1/t000\d.*/nlp"), timeout=60_000)
        expect(second).to_contain_text(re.compile(rf"{machine[1]}nlp@1/t000\d.*/nlp"))
        expect(first).to_contain_text(re.compile(r"\d+ %.*\d MB"))
        expect(queue).to_contain_text("2 of 2 slots held")
        expect(queue).to_contain_text("No search waits for a slot.")

        start(b, whisper)
        waiting = queue.get_by_role("list", name="Waiting, in the order in which they get a slot").get_by_role(
            "listitem"
        )
        expect(waiting).to_have_count(1, timeout=60_000)
        expect(waiting).to_contain_text(re.compile(r"audio@1.*waits for a slot: 2 of 2 are held by .*/nlp \(nlp@1\)"))
        shoot(page, "queue")

        # The same words where the experiment itself is shown.
        waiting.get_by_role("button", name="audio@1").click()
        reason = page.locator(".wb-Header-reason:visible")
        expect(reason).to_contain_text(re.compile(r"waits for a slot: 2 of 2 are held by .*/nlp.*\(nlp@1\)"))
        group = panel.get_by_role("button", name=re.compile("audio"))
        if group.count() and group.first.get_attribute("aria-expanded") == "false":
            group.first.click()
        expect(panel.locator(".wb-Experiment-reason")).to_contain_text("waits for a slot: 2 of 2 are held by")
        shoot(page, "waits")
        reason.get_by_role("button", name="See the queue").click()
        expect(queue).to_be_visible()

        # Its trial saves and leaves; no trial gets the slot.
        queue.get_by_role("button", name=f"Drain {machine[0]}").click()
        expect(first).to_have_text(re.compile(rf"{machine[0]}drained–––Use again"), timeout=60_000)
        assert drained() == {machine[0]}
        expect(second).to_contain_text("nlp@1/")
        expect(waiting.filter(has_text="audio@1")).to_contain_text(f"{machine[0]} is drained")
        shoot(page, "drained")
        queue.get_by_role("button", name=f"Use {machine[0]} again").click()
        expect(first).to_contain_text("nlp@1/", timeout=60_000)
        assert drained() == frozenset()

        # A page that is not on the screen asks nothing.
        asked = []
        page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/queue") else None)
        with page.expect_request("**/workbench/api/queue*"):
            pass
        page.evaluate("() => { window.jupyterapp.commands.execute('workbench:open', { experiment: 'audio@1' }) }")
        expect(queue).to_be_hidden()
        page.wait_for_timeout(500)  # an answer that was under way
        asked.clear()
        page.wait_for_timeout(4500)  # longer than two of its turns: silence cannot be awaited
        assert asked == []
        lab.end()
        page.close()
        page.troubles.clear()  # the server is gone
