"""What trials log besides numbers: on a trial's page, and side by side."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from conftest import change_theme
from playwright.sync_api import expect

import workbench as wb
from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series
from workbench.trial.media.keeping import Media

SPEC = Spec(
    id="20260101-000000-aaaaaa",
    name="digits",
    version=1,
    created="2026-01-01T00:00:00+00:00",
    goal=Goal("val_acc", "max"),
    space={"schema": 1, "parameters": []},
    scheduler=Scheduler(last=9),
    searcher=Searcher(),
    program=Program("cell", "for epoch in trial.steps(): ...", "<cell>"),
    training=Training("python", "."),
)
#: Pages and drawings that would show it if a browser ran them.
OWNED = "<script>document.title = 'owned'</script>"
DRAWING = (
    f"<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40' onload=\"document.title = 'owned'\">{OWNED}</svg>"
)


def log(media: Media, number: int, folder) -> None:
    rng = np.random.default_rng(number)
    y, x = np.mgrid[0:32, 0:32] / 31
    for step in (1, 3, 9):
        # Its width says which step a picture is of.
        digits = [np.sin((x + y) * (one + 1 + number) * 2)[:, : 20 + step] ** 2 for one in range(6)]
        media.keep(step, "digits", [wb.Image(one, f"read as {place}") for place, one in enumerate(digits)])
        media.keep(step, "weights", wb.Histogram(rng.normal(0, 1 / step, 2000), bins=40))
    if number == 3:
        media.keep(3, "photo", np.dstack([x, y, 1 - x]))
        rows = [{"word": f"word {row}", "loss": row / 7, "right": row % 3 == 0} for row in range(120)]
        media.keep(9, "errors", wb.Table(rows))
        media.keep(9, "tone", wb.Audio(np.sin(np.arange(4000) / 5), 8000, "a tone"))
        media.keep(9, "note", f"as text: {OWNED}")
        (folder / "page.html").write_text(OWNED)
        (folder / "drawing.svg").write_text(DRAWING)
        media.keep(9, "page", folder / "page.html")
        media.keep(9, "drawing", folder / "drawing.svg")


@pytest.fixture(scope="module")
def lab(start_lab, tmp_path_factory):
    """A server over a folder with one ended experiment of five trials. The last, which is the worst, logged nothing."""
    root = tmp_path_factory.mktemp("media")
    store = Store.find(cwd=root).create()
    store.write_spec(SPEC)
    with Series.open(store.experiment(SPEC.id).series) as series:
        for number in range(5):
            value = 0.5 + 0.1 * number if number < 4 else 0.1
            series.add_points([(number, "val_acc", step, 0, value * step / 9, 1e9 + step) for step in range(1, 10)])
            series.put_trial(
                number, configuration={"lr": 0.1 * (number + 1)}, state="completed", step=9, value=value, best=value
            )
            series.put_leg(number, 1, slot="slot", began=1e9, left=1e9 + 65, start=0, until=9, outcome="completed")
            if number < 4:
                log(Media(store.experiment(SPEC.id).trial(number).files), number, root)
    catalog = Catalog(store)
    catalog.upsert_experiment(SPEC.id, {
        "name": "digits", "version": 1, "label": SPEC.label, "created": SPEC.created, "trials": 5,
        "goal": "max val_acc", "state": "completed", "best": {"trial": 3, "value": 0.8},
    })  # fmt: skip
    catalog.flush()
    with start_lab(root) as lab:
        yield lab


def shoot(page, name):
    """Pictures of the page in both themes and two widths, where a folder for them is named."""
    if folder := os.environ.get("WORKBENCH_PICTURES"):
        for theme, width in (("Light", 1900), ("Dark", 900)):
            page.set_viewport_size({"width": width, "height": 1200})
            change_theme(page, f"JupyterLab {theme}")
            page.screenshot(path=f"{folder}/{name}-{theme}-{width}.png")
        page.set_viewport_size({"width": 1400, "height": 900})


def table_of(page):
    open_table = "async () => { await window.jupyterapp.commands.execute('workbench:open', %s) }"
    page.evaluate(open_table % '{ experiment: "digits@1", tab: "table" }')
    return page.get_by_role("grid", name="Trials")


def box(grid, label):
    return grid.get_by_role("checkbox", name=f"Select {label}")


def width_of(image) -> int:
    """The width of a picture as the browser has decoded it."""
    return image.evaluate("async image => { await image.decode(); return image.naturalWidth }")


def test_a_trials_page_shows_its_media_by_name_with_one_slider(lab, opened):
    page = opened(lab)
    open_trial = "async () => { await window.jupyterapp.commands.execute('workbench:open-trial', %s) }"
    page.evaluate(open_trial % '{ experiment: "digits@1", trial: 3 }')
    part = page.get_by_role("region", name="Media and files")
    name = lambda name: part.get_by_role("region", name=name, exact=True)  # noqa: E731
    pictures = name("digits").get_by_role("img")
    expect(pictures).to_have_count(6)
    expect(pictures.first).to_have_attribute("alt", "digits 1, step 9: read as 0")
    assert width_of(pictures.first) == 29

    errors = name("errors")
    rows = errors.get_by_role("row")
    expect(rows).to_have_count(51)
    expect(errors).to_contain_text("50 of 120 rows")
    errors.get_by_role("button", name="loss").click()
    expect(rows.nth(1).get_by_role("cell")).to_have_text(["word 119", "17", "false"])
    expect(errors.get_by_role("columnheader", name="loss")).to_have_attribute("aria-sort", "descending")
    errors.get_by_role("button", name="More Rows").click()
    expect(rows).to_have_count(101)

    tone = name("tone").locator("audio")
    assert tone.evaluate(
        """async sound => {
            if (!sound.duration) await new Promise((on, off) => { sound.onloadedmetadata = on; sound.onerror = off });
            return sound.duration
        }"""
    ) == pytest.approx(0.5, abs=0.01)
    expect(name("tone")).to_contain_text("a tone")
    expect(name("note").locator("pre")).to_have_text(f"as text: {OWNED}")
    expect(name("page").locator("pre")).to_have_text(OWNED)
    assert width_of(name("drawing").get_by_role("img")) == 40
    assert page.title() != "owned"
    histogram = name("weights").get_by_role("img")
    expect(histogram.locator(".wb-Histogram-bar")).to_have_count(40)
    nine = histogram.get_attribute("aria-label")
    assert nine.startswith("weights, step 9: 2000 values from −0.")
    shoot(page, "media-trial")

    # One step back, by key: what was logged at 9 alone is not there yet.
    slider = part.get_by_role("slider", name="Step")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", "3")
    expect(pictures.first).to_have_attribute("alt", "digits 1, step 3: read as 0")
    assert width_of(pictures.first) == 23
    expect(name("errors")).to_contain_text("First logged in step 9.")
    expect(name("photo")).to_contain_text("step 3")
    expect(histogram).not_to_have_attribute("aria-label", nine)
    page.keyboard.press("End")
    expect(name("photo")).to_contain_text("step 3")
    expect(pictures.first).to_have_attribute("alt", "digits 1, step 9: read as 0")

    pictures.nth(2).click()
    whole = page.get_by_role("dialog", name="digits 3, step 9")
    expect(whole.get_by_role("img")).to_be_visible()
    assert whole.get_by_role("img").bounding_box()["width"] >= 480
    page.keyboard.press("Escape")
    expect(whole).to_have_count(0)


def test_media_of_the_best_and_of_the_selected_trials_are_side_by_side(lab, opened):
    page = opened(lab)
    grid = table_of(page)
    expect(box(grid, "t0000")).to_be_visible()
    page.get_by_role("tab", name="Media").click()
    view = page.locator(".wb-MediaView")
    expect(view.get_by_role("status").first).to_have_text("The 4 best trials. Select others in the table.")
    sides = view.locator(".wb-Beside-sides > section")
    expect(sides).to_have_count(4)
    expect(sides.first.get_by_role("img").first).to_have_attribute("alt", "t0003: digits 1, step 9: read as 0")
    shoot(page, "media-beside")
    view.get_by_label("Name").select_option("photo")
    expect(sides.nth(1)).to_contain_text("It has not logged photo.")
    assert width_of(sides.first.get_by_role("img")) == 32
    view.get_by_label("Name").select_option("weights")
    expect(sides.nth(3).get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("t0000: weights, step 9: 2000 values from")
    )

    grid = table_of(page)
    for label in ("t0000", "t0001", "t0004"):
        box(grid, label).click()
    page.get_by_role("tab", name="Media").click()
    expect(view.get_by_role("status").first).to_have_text("3 selected trials.")
    expect(sides).to_have_count(3)
    expect(sides.get_by_role("button", name="t0001", exact=True)).to_be_visible()
    slider = view.get_by_role("slider", name="Step")
    slider.focus()
    page.keyboard.press("Home")
    expect(sides.first.get_by_role("img").first).to_have_attribute("alt", "t0001: digits 1, step 1: read as 0")
    expect(sides.nth(2)).to_contain_text("It has not logged digits.")


def test_compared_trials_show_their_media(lab, opened):
    page = opened(lab)
    run = "async refs => { await window.jupyterapp.commands.execute('workbench:compare', { refs }) }"
    for refs in (["digits@1/t0000", "digits@1/t0001"], ["digits@1/t0000", "digits@1/t0001", "digits@1/t0003"]):
        page.evaluate(run, refs)
        part = page.locator(".wb-Document:visible").get_by_role("region", name="Media", exact=True)
        expect(part.locator(".wb-Beside-sides > section")).to_have_count(len(refs))
        expect(part.get_by_role("img", name="digits@1/t0001: digits 6, step 9: read as 5")).to_be_visible()
    part.get_by_role("button", name="digits@1/t0003", exact=True).click()
    expect(page.get_by_role("heading", name="t0003")).to_be_visible()
