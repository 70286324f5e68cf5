"""An experiment's page and what can be done with it: a real engine, and what a person sees and presses."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from datetime import UTC, datetime

import nbformat
import psutil
import pytest
from conftest import change_theme, run_cells, show_panel, wait_for_kernel
from playwright.sync_api import expect
from running import end, ended, engine_process, lines, spec_of, start, until

from workbench import asked
from workbench.asking import ask
from workbench.records import Goal, Scheduler
from workbench.space import Space, uniform
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog

#: Training that takes its next step only while the gate is open.
GATED = """
import os, time
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    while epoch and not os.path.exists({gate!r}):
        time.sleep(0.02)
    trial.report(score=x * (epoch + 1))
"""
#: Whether the workspace holds a page with its tab, and how far its journal was read.
KEPT = """async id => {
  const { data } = await window.jupyterapp.serviceManager.workspaces.fetch('default');
  const [page] = Object.keys(data).filter(key => key.startsWith('workbench:') && key.endsWith(id));
  return data['workbench-ext:' + id]?.seen > 0 && data[page]?.data.tab === 'about'
    && JSON.stringify(data['layout-restorer:data']?.main ?? '').includes(id);
}"""
#: What ipywidgets says of every notebook that is opened without a kernel.
WIDGETS = "page: Cannot read properties of null (reading 'kernel')"


@pytest.fixture(scope="module")
def lab(start_lab, tmp_path_factory):
    """A server and a living engine over one folder."""
    root = tmp_path_factory.mktemp("page")
    engine = engine_process(Store.find(cwd=root).create(), idle=600)
    with start_lab(root) as lab:
        yield lab
    end(engine)


@pytest.fixture
def store(lab):
    return Store.find(cwd=lab.root)


@pytest.fixture
def gate(lab):
    """A file that training waits for."""
    path = lab.root / "gate"
    path.unlink(missing_ok=True)
    yield path
    path.touch()


@pytest.fixture
def going(lab, store, gate):
    """Start an experiment that waits before its second step, and wait until it trains."""

    def going(name):
        scheduler = Scheduler(kind="hyperband", first=1, last=3, eta=3)
        spec = dataclasses.replace(
            spec_of(GATED.format(gate=str(gate)), lab.root, name=name, goal=Goal("score"), scheduler=scheduler),
            space=Space({"x": uniform(0.0, 1.0)}).to_json(),
            created=datetime.now(UTC).isoformat(),
        )
        start(store, spec)
        until(lambda: row_in(store, spec.id).get("best"), what=f"{name}'s first value")
        return spec

    return going


def row_in(store, experiment):
    return next((row for row in read_catalog(store) if row["id"] == experiment), {})


def row_of(page, label):
    return page.locator(".wb-Experiment", has=page.get_by_text(label, exact=True))


def choose(page, label, item):
    """From the menu of an experiment's row."""
    row_of(page, label).click(button="right")
    page.get_by_role("menuitem", name=item, exact=True).click()


def dialog(page):
    return page.locator(".jp-Dialog")


def test_it_is_named_tagged_and_noted_and_other_pages_see_it(lab, opened, going, store, browser):
    spec = going("first")
    page = opened(lab)
    show_panel(page)
    choose(page, "first@1", "Rename …")
    dialog(page).get_by_role("textbox").fill("digits")
    page.keyboard.press("Enter")
    expect(row_of(page, "digits@1")).to_be_visible(timeout=15_000)
    other = browser.new_page()
    other.goto(lab.address())
    show_panel(other)
    expect(row_of(other, "digits@1")).to_be_visible()
    choose(page, "digits@1", "Tag …")
    dialog(page).get_by_role("textbox").fill("paper, small")
    page.keyboard.press("Enter")
    expect(row_of(other, "digits@1")).to_contain_text("papersmall", timeout=15_000)
    choose(page, "digits@1", "Note …")
    dialog(page).get_by_role("textbox").fill("<b>half</b> the batch\nand a second line")
    dialog(page).get_by_role("button", name="Save").click()
    expect(row_of(other, "digits@1")).to_contain_text("<b>half</b> the batch", timeout=15_000)
    assert row_in(store, spec.id)["tags"] == ["paper", "small"]
    other.close()


def test_a_name_that_cannot_be_is_refused_in_the_servers_words(lab, opened, going):
    going("wrong")
    page = opened(lab)
    show_panel(page)
    choose(page, "wrong@1", "Rename …")
    dialog(page).get_by_role("textbox").fill("a/b")
    page.keyboard.press("Enter")
    expect(page.get_by_text("'a/b' is not a name")).to_be_visible()
    expect(row_of(page, "wrong@1")).to_be_visible()
    page.close()
    page.troubles[:] = [said for said in page.troubles if "400" not in said]  # the browser tells of every refusal


def test_it_is_paused_resumed_and_stopped(lab, opened, going, store):
    spec = going("steered")
    page = opened(lab)
    show_panel(page)
    choose(page, "steered@1", "Pause")
    expect(row_of(page, "steered@1")).to_contain_text("paused", timeout=20_000)
    choose(page, "steered@1", "Open")
    header = page.locator(".wb-Header")
    expect(header.get_by_role("heading")).to_have_text("steered@1")
    header.get_by_role("button", name="Resume").click()
    expect(header).to_contain_text("running", timeout=20_000)
    choose(page, "steered@1", "Stop …")
    expect(dialog(page)).to_contain_text("Stop steered@1?")
    dialog(page).get_by_role("button", name="Stop").click()
    assert ended(store, spec) == "stopped"
    expect(row_of(page, "steered@1")).to_contain_text("stopped")
    expect(header.get_by_role("button", name="Stop …")).to_have_count(0)
    # A user who looks at its page is not told again.
    expect(page.locator(".wb-Notice", has_text="steered@1 was stopped")).to_have_count(0)
    row_of(page, "steered@1").click(button="right")
    for item in ("Pause", "Resume", "Stop …"):
        expect(page.get_by_role("menuitem", name=item, exact=True)).to_have_class(re.compile("lm-mod-disabled"))


def test_what_ends_out_of_sight_is_told_once_covers_nothing_and_goes_by_itself(lab, opened, going, store):
    specs = [going(name) for name in ("first", "second")]
    page = opened(lab)
    show_panel(page)
    for spec in specs:
        expect(row_of(page, spec.label)).to_contain_text("running", timeout=20_000)
    main = page.locator("#jp-main-content-panel")
    before = main.bounding_box()
    for spec in specs:
        ask(store, asked.Stop(spec.id, None))
    notice = page.locator(".wb-Notice", has_text="2 experiments have ended: ")
    expect(notice).to_be_visible(timeout=60_000)
    expect(page.locator(".wb-Notice", has_text="is complete")).to_have_count(0)
    told, beside, bar = notice.bounding_box(), main.bounding_box(), page.locator("#jp-main-statusbar").bounding_box()
    assert told["height"] >= 20
    assert beside["height"] < before["height"]
    assert beside["y"] + beside["height"] <= told["y"], "it covers what is above"
    assert told["y"] + told["height"] <= bar["y"], "it covers the status bar"
    assert page.locator(".Toastify__toast", has_text="ended").count() == 0
    page.mouse.move(0, 0)
    expect(notice).to_have_count(0, timeout=20_000)
    assert main.bounding_box() == before


def test_a_deletion_says_what_is_lost_and_can_be_taken_back(lab, opened, going, store, gate):
    spec = going("doomed")
    gate.touch()
    ended(store, spec)
    page = opened(lab)
    show_panel(page)
    expect(row_of(page, "doomed@1")).to_contain_text("completed")
    choose(page, "doomed@1", "Delete …")
    expect(dialog(page)).to_contain_text(re.compile(r"\d+ trials? with all curves, logs and checkpoints.* [kM]B\."))
    dialog(page).get_by_role("button", name="Delete").click()
    expect(row_of(page, "doomed@1")).to_contain_text("being deleted")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("doomed@1 stays.")).to_be_visible()
    expect(row_of(page, "doomed@1")).to_contain_text("completed")
    assert not list(store.requests.iterdir())


def test_it_is_replayed_and_pinned_and_the_store_is_cleaned_up(lab, opened, going, store, gate):
    spec = going("finished")
    gate.touch()
    assert ended(store, spec) == "completed"
    page = opened(lab)
    show_panel(page)
    choose(page, "finished@1", "Replay")
    expect(page.get_by_text("finished@1 is being replayed.")).to_be_visible()

    def replayed():
        found = [store.read_spec(row["id"]) for row in read_catalog(store)]
        return next((one for one in found if one.replays and one.replays["experiment"] == spec.id), None)

    again = until(replayed, what="the replay")
    assert ended(store, again) == "completed"
    pin = "args => { window.jupyterapp.commands.execute('workbench:pin', args) }"
    page.evaluate(pin, {"experiment": spec.id, "trial": row_in(store, spec.id)["best"]["trial"]})
    until(lambda: row_in(store, spec.id).get("pins"), what="the pin")

    forgotten = store.blob_path(store.put_blob(b"nobody names it" * 1000))
    os.utime(forgotten, (time.time() - 3 * 86_400,) * 2)
    page.evaluate("() => { window.jupyterapp.commands.execute('workbench:clean-up') }")
    expect(dialog(page)).to_contain_text("will be freed")
    assert forgotten.exists()
    dialog(page).get_by_role("button", name="Clean Up").click()
    expect(page.get_by_text(re.compile("Cleaned up: .* freed"))).to_be_visible()
    assert not forgotten.exists()


def test_a_killed_kernel_changes_nothing_on_the_page(lab, opened, store, gate):
    source = f"%%train orphan --goal max score --steps 1-3\n{GATED.format(gate=str(gate)).strip()}"
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    made.cells = [nbformat.v4.new_code_cell(cell) for cell in ("%load_ext workbench", source)]
    nbformat.write(made, lab.root / "orphan.ipynb")
    page = opened(lab, "orphan.ipynb")
    kernel = "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"
    page.wait_for_function(f"{kernel}?.status === 'idle'", timeout=60_000)
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")
    page.get_by_role("button", name="Open page").click()
    expect(page.locator(".wb-Header")).to_contain_text("running", timeout=30_000)
    until(lambda: any(row["name"] == "orphan" and row.get("best") for row in read_catalog(store)), what="a value")
    children = psutil.Process(lab.process.pid).children(recursive=True)
    for child in [child for child in children if any("ipykernel" in word for word in child.cmdline())]:
        child.kill()
        child.wait(10)
    gate.touch()
    expect(page.locator(".wb-Header")).to_contain_text("completed", timeout=60_000)


def test_a_page_is_restored_and_tells_what_happened_meanwhile(lab, opened, going, store, gate):
    spec = going("watched")
    page = opened(lab)
    show_panel(page)
    row_of(page, "watched@1").click()
    page.get_by_role("tab", name="About").click()
    expect(page.locator(".wb-About")).to_contain_text("Scheduler")
    until(lambda: page.evaluate(KEPT, spec.id), what="keeping the workspace")
    page.goto("about:blank")
    gate.touch()
    ended(store, spec)
    page.goto(lab.address().replace("reset&", ""))
    expect(page.get_by_role("tab", name="About")).to_have_attribute("aria-selected", "true", timeout=30_000)
    expect(page.locator(".wb-Since")).to_have_text(
        re.compile(r"Since your last visit: .*best 0?\.?\d+.* → .*completed \d\d:\d\d")
    )
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator(".wb-Since")).to_have_count(0)


def test_a_server_that_comes_back_is_heard_again(lab, start_lab, tmp_path, opened, going):
    spec = going("patient")
    second = start_lab(lab.root)
    page = opened(second)
    page.evaluate("experiment => { window.jupyterapp.commands.execute('workbench:open', { experiment }) }", "patient@1")
    expect(page.get_by_role("heading", name="patient@1")).to_be_visible()
    second.end()
    expect(page.locator(".wb-Header .wb-Stale")).to_be_visible(timeout=20_000)
    start_lab(lab.root, port=int(second.url.rsplit(":", 1)[1]))
    expect(page.locator(".wb-Header .wb-Stale")).to_have_count(0, timeout=30_000)
    expect(page.get_by_role("heading", name="patient@1")).to_be_visible()
    assert spec.name == "patient"
    page.close()
    page.troubles.clear()  # requests failed while the server was down


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_words_stand_out_in_every_theme(lab, opened, going, theme):
    going("seen")
    page = opened(lab)
    change_theme(page, theme)
    panel = show_panel(page)
    row_of(page, "seen@1").first.click()
    expect(page.locator(".wb-Header")).to_be_visible()
    for words in (
        panel.locator(".wb-State").first,
        panel.locator(".wb-Experiment-age").first,
        page.locator(".wb-Tab").last,
    ):
        assert words.evaluate(CONTRAST) >= 4.5


#: The contrast of an element's words against what is behind them, by WCAG 2.
CONTRAST = """element => {
  const parse = text => { const [r, g, b, a] = text.match(/[\\d.]+/g).map(Number); return { c: [r, g, b], a: a ?? 1 } };
  const light = colour => {
    const [r, g, b] = colour.map(c => (c /= 255, c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let behind = element;
  while (parse(getComputedStyle(behind).backgroundColor).a === 0) behind = behind.parentElement;
  const back = parse(getComputedStyle(behind).backgroundColor).c, words = parse(getComputedStyle(element).color);
  const front = words.c.map((c, i) => words.a * c + (1 - words.a) * back[i]);
  const [a, b] = [front, back].map(light);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


def test_from_a_cell_to_its_page_and_back_and_the_notebook_as_it_was(lab, opened, gate):
    train = f"%%train toy --goal max score --steps 1-3\n{GATED.format(gate=str(gate)).strip()}"
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    made.cells = [nbformat.v4.new_code_cell(cell) for cell in ("%load_ext workbench", "pass", "pass")]
    nbformat.write(made, lab.root / "toy.ipynb")
    page = opened(lab, "toy.ipynb")
    wait_for_kernel(page)
    # Typed and not saved: the snapshot is to hold what the page held.
    page.evaluate(
        "text => window.jupyterapp.shell.currentWidget.content.model.cells.get(1).sharedModel.setSource(text)", train
    )
    with page.expect_response("**/workbench/api/documents*") as kept:
        run_cells(page, 0, 1)
    assert kept.value.ok
    page.get_by_role("button", name="Open page").click()
    # Its engine takes it while the page asks already.
    expect(page.get_by_role("heading", name="toy@1")).to_be_visible(timeout=20_000)
    gate.touch()
    page.get_by_role("button", name="Show Its Cell").click()
    page.wait_for_function("window.jupyterapp.shell.currentWidget.content.activeCellIndex === 1")
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.model.cells.get(1).outputs.toJSON()"
        ".some(({ metadata }) => metadata.workbench?.experiment)"
    )
    page.evaluate("async () => { await window.jupyterapp.commands.execute('workbench:open-from-cell') }")
    expect(page.get_by_role("heading", name="toy@1")).to_be_visible()
    page.evaluate("async () => { await window.jupyterapp.commands.execute('workbench:open-notebook') }")
    expect(page.get_by_role("tab", name="toy@1 (as it was, with unsaved edits)")).to_be_visible()
    expect(page.get_by_text("notebook is read-only")).to_be_visible()
    assert page.evaluate("window.jupyterapp.shell.currentWidget.content.model.cells.get(1).sharedModel.source") == train
    page.close()
    page.troubles[:] = [said for said in page.troubles if said != WIDGETS]


def test_it_is_extended_checked_and_forked(lab, opened, going, store, gate):
    spec = going("more")
    gate.touch()
    assert ended(store, spec) == "completed"
    before = row_in(store, spec.id)["planned"]["trials"]
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    made.cells = [nbformat.v4.new_code_cell("%%train more\nx = 1")]
    nbformat.write(made, lab.root / "f.ipynb")
    page = opened(lab, "f.ipynb")
    show_panel(page)
    choose(page, "more@1", "Extend …")
    dialog(page).get_by_label("More trials").fill("some")
    page.keyboard.press("Enter")
    expect(dialog(page).get_by_role("alert")).to_have_text("some was given; expected a whole number, such as 20.")
    expect(dialog(page).get_by_label("More trials")).to_have_value("some")
    dialog(page).get_by_label("More trials").fill("2")
    page.keyboard.press("Enter")
    until(lambda: row_in(store, spec.id)["planned"]["trials"] > before, what="the extension")
    until(lambda: row_in(store, spec.id)["state"] == "completed", what="its end in the list")
    best = row_in(store, spec.id)["best"]["trial"]  # the others are stopped, and keep no checkpoint
    row_of(page, "more@1").dblclick()
    page.get_by_role("heading", name="more@1").wait_for()
    page.evaluate(
        "async args => { await window.jupyterapp.commands.execute('workbench:open-trial', args) }",
        {"experiment": spec.id, "trial": best},
    )
    page.get_by_role("button", name="Verify …").click()
    dialog(page).get_by_role("textbox").fill("99")
    page.keyboard.press("Enter")
    expect(dialog(page).get_by_role("alert")).to_contain_text("expected a step from 1 to")
    dialog(page).get_by_role("textbox").fill("")
    page.keyboard.press("Enter")
    until(lambda: any(line["why"] == "requested by you" for line in lines(store, spec, "VerifyDue")), what="the check")
    expect(dialog(page)).to_have_count(0)
    page.get_by_role("button", name="Fork in the Notebook").click()
    page.wait_for_function("window.jupyterapp.shell.currentWidget.content.widgets?.length === 2")
    cell = page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.source")
    assert re.fullmatch(rf"%%train more-b --from more@1/t000{best}:\d\nx = 0\.\d+", cell), cell
    page.close()
    page.troubles[:] = [said for said in page.troubles if said != WIDGETS]


def test_the_means_of_seeds_are_seen(lab, opened, store):
    code = "x = uniform(0.0, 1.0)\nfor epoch in trial.steps():\n    trial.report(score=x + trial.number % 2)"
    spec = dataclasses.replace(
        spec_of(code, lab.root, name="seeds", space={"x": uniform(0.0, 1.0)}, trials=3, seeds_each=2),
        scheduler=Scheduler(kind="hyperband", first=1, last=3, eta=3),
        created=datetime.now(UTC).isoformat(),
    )
    start(store, spec)
    assert ended(store, spec) == "completed"
    # The list follows the experiment's own end.
    until(lambda: row_in(store, spec.id).get("state") == "completed", what="its row")
    best = row_in(store, spec.id)["best"]
    assert best["of"]["trials"] == 2
    page = opened(lab)
    show_panel(page)
    row_of(page, "seeds@1").click()
    document = page.locator(".wb-Document")
    mean = f"mean {best['of']['mean']:.4g} ± 0.7071 of 2 trials"
    expect(document.locator(".wb-Header-best")).to_contain_text(mean, timeout=15_000)
    document.get_by_role("tab", name="Table").click()
    expect(document.get_by_role("columnheader", name="mean score")).to_be_visible()
    cells = document.locator(".wb-Table-body").get_by_role("row").first.get_by_role("gridcell")
    expect(cells.nth(5)).to_have_text(f"{best['of']['mean']:.4g}")
