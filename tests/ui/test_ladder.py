"""The search as JupyterLab shows it: a real engine trains, and one page looks on from one test to the next."""

from __future__ import annotations

import base64
import dataclasses
import re
import sys
import threading
from pathlib import Path

import pytest
from conftest import clean_page, open_lab
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parents[1]))

from running import end, ended, engine_process, lines, spec_of, start, until

from workbench.records import Scheduler
from workbench.space import uniform
from workbench.store import Store

#: One red pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SCRIPT = "<img src=x onerror=\"document.title='owned'\">"
#: In the first bracket it waits after the first step until a file says that it may go on.
LOOP = f"""
x = uniform(0.0, 1.0)
import os, time
from pathlib import Path
for epoch in trial.steps():
    while epoch >= 1 and trial.number < 9 and not os.path.exists("go"):
        time.sleep(0.01)
    print(f"\\033[32mepoch {{epoch}}\\033[0m {SCRIPT.replace(chr(34), chr(92) + chr(34))}")
    trial.log(pixel=Path("pixel.png"))
    trial.report(score=x + epoch / 100, loss=1 - x)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("ladder")
    (root / "pixel.png").write_bytes(PNG)
    return root


@pytest.fixture(scope="module")
def specs(root):
    """Two versions of one search: with the second, trials get better faster."""
    scheduler = Scheduler(kind="hyperband", first=1, last=9, eta=3)
    space = {"x": uniform(0.0, 1.0)}
    first = spec_of(LOOP, root, space=space, scheduler=scheduler, name="search", probe=False)
    second = spec_of(
        LOOP.replace("epoch / 100", "epoch / 50"), root, space=space, scheduler=scheduler, name="search", probe=False
    )
    return first, dataclasses.replace(second, version=2)


@pytest.fixture(scope="module")
def store(root, specs):
    """The store with a search that trains: of its first bracket's nine trials six are stopped, and three held."""
    store = Store.find(cwd=root).create()
    start(store, specs[0])
    process = engine_process(store, workers=2)
    yield store
    end(process)


@pytest.fixture(scope="module")
def page(browser, start_lab, root, store, specs):
    lab_of: list = []
    # Both take seconds to start.
    starting = threading.Thread(target=lambda: lab_of.append(start_lab(root)))
    starting.start()
    until(lambda: sum(trial < 9 for trial in settled(store, specs[0], "stopped")) == 6, what="the first rung")
    starting.join()
    with lab_of[0] as lab, clean_page(browser) as page:
        open_lab(page, lab)
        yield page


def settled(store, spec, state: str) -> list[int]:
    return [line["trial"] for line in lines(store, spec, "Settle") if line["state"] == state]


def run(page, command: str, **args):
    page.evaluate("async ([id, args]) => { await window.jupyterapp.commands.execute(id, args) }", [command, args])
    return page.locator(".wb-Document:visible")


def look(page, tab: str, experiment: str = "search@1"):
    document = run(page, "workbench:open", experiment=experiment)
    document.get_by_role("tab", name=tab).click()
    return document


def inked(picture) -> int:
    """How many pixels of a picture are painted."""
    return picture.evaluate(
        """node => [...node.querySelectorAll('canvas')].reduce((sum, canvas) => {
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
            return sum + data.filter((value, at) => at % 4 === 3 && value > 0).length
        }, 0)"""
    )


@pytest.fixture
def ladder(page):
    return look(page, "Rungs").get_by_role("application")


def test_the_ladder_is_drawn_while_trials_train(ladder):
    expect(ladder).to_have_attribute("aria-label", re.compile(r"3 brackets, [123] training, \d+ stopped"))
    until(lambda: inked(ladder) > 2000, 10, "the ladder, painted in the next frame")


def test_a_card_says_why_by_key_and_by_pointer(page, ladder):
    ladder.focus()
    page.keyboard.press("ArrowDown")
    said = page.locator(".wb-Ladder").get_by_role("status")
    expect(said).to_contain_text(re.compile(r"went on at step 1.*rank 1 of 9.*3 go on; the cut is 0\.\d+.*x 0\.\d+"))
    page.keyboard.press("End")
    expect(said).to_contain_text(re.compile(r"t\d{4} stopped at step 1.*is rank 9 of 9"))
    page.keyboard.press("Escape")
    box = ladder.bounding_box()
    page.mouse.move(box["x"] + 47, box["y"] + 64 + 11 + 3 * 23)  # the fourth of the first column
    expect(page.locator(".wb-Card")).to_contain_text(re.compile(r"stopped at step 1.*is rank 4 of 9, 3 go on"))


def test_a_click_selects_the_trial_in_the_table_too(page, ladder):
    box = ladder.bounding_box()
    page.mouse.click(box["x"] + 47, box["y"] + 64 + 11)
    page.mouse.move(box["x"] + 700, box["y"] + 400)
    picked = look(page, "Table").get_by_role("row", selected=True)
    expect(picked).to_have_count(1)
    expect(picked).to_contain_text(re.compile(r"t\d{4}"))


def test_what_happens_is_shown_as_it_happens(page, root, ladder, store, specs):
    (root / "go").touch()
    expect(ladder).to_have_attribute("aria-label", re.compile("0 training"), timeout=30_000)
    assert ended(store, specs[0]) == "completed"
    expect(ladder).to_have_attribute("aria-label", re.compile(r"5 completed, .*best score"))


def test_the_timeline_has_each_leg_in_its_slot(page, store, specs):
    picture = look(page, "Timeline").get_by_role("application")
    legs = len(lines(store, specs[0], "LegStarted"))
    expect(picture).to_have_attribute("aria-label", re.compile(rf"{legs} legs in 2 slots"))
    until(lambda: inked(picture) > 5000, 10, "the timeline, painted in the next frame")
    picture.focus()
    page.keyboard.press("ArrowRight")
    said = page.locator(".wb-Timeline").get_by_role("status")
    expect(said).to_contain_text(re.compile(r"t\d{4} (reached step|completed).*attempt 1 from step 0"))
    page.keyboard.press("Enter")
    expect(page.locator(".wb-Trial:visible")).to_be_visible()


def test_a_trials_page_shows_its_metrics_log_files_and_checkpoints(page, store, specs):
    number = settled(store, specs[0], "completed")[-1]
    shown = run(page, "workbench:open-trial", experiment="search@1", trial=number)
    expect(shown.get_by_role("heading", name=f"t{number:04}")).to_be_visible()
    expect(shown.get_by_role("img", name=re.compile("^score from step 1 to 9"))).to_be_visible()
    log = shown.get_by_role("log")
    expect(log).to_contain_text("epoch 8")
    expect(log).to_contain_text(SCRIPT)
    assert "\x1b" not in log.inner_text()
    assert page.title() != "owned"
    expect(shown.get_by_role("img", name="pixel, step 9")).to_be_visible()
    shown.get_by_role("slider").fill("0")
    image = shown.get_by_role("img", name="pixel, step 1")
    expect(image).to_be_visible()
    assert image.evaluate("async image => { await image.decode(); return image.naturalWidth }") == 1
    checkpoints = shown.get_by_role("region", name="Checkpoints")
    expect(checkpoints).to_contain_text("step 9")
    shown.get_by_role("button", name="Previous trial").click()
    expect(shown.get_by_role("heading", name=f"t{number - 1:04}")).to_be_visible()


def test_two_versions_are_compared_by_what_changed(page, store, specs):
    start(store, specs[1])
    assert ended(store, specs[1]) == "completed"
    shown = run(page, "workbench:compare", a="search@1", b="search@2")
    expect(shown.get_by_role("article")).to_contain_text("search@1 ↔ search@2")
    code = shown.get_by_role("region", name="Code")
    expect(code.get_by_role("row", name=re.compile("epoch . 100.*[+].*epoch . 50"))).to_be_visible()
    results = shown.get_by_role("region", name="Results")
    expect(results).to_contain_text("17 pairs of equal configuration")
    expect(results).to_contain_text("they differ from step 2")
    expect(results.get_by_role("img", name=re.compile("^score of both sides"))).to_be_visible()
