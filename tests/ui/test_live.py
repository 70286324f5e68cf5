"""The live view in a real JupyterLab, over a real engine: what a person sees and presses."""

from __future__ import annotations

import contextlib
import json
import re
import time

import nbformat
import pytest
from conftest import change_theme, start_cell, wait_for_kernel
from playwright.sync_api import expect

from workbench import asked
from workbench.asking import ask
from workbench.errors import WorkbenchError
from workbench.store import Store
from workbench.store.owner.lease import read_engine

SETUP = "%load_ext workbench\nimport workbench as wb\noffset = 0.0"
TRAIN = """%%train toy --goal max val_acc --steps 1-9 --parallel 2
import time
lr = loguniform(1e-3, 1.0)
hidden = choice(32, 64)
w = 0.0
for epoch in trial.steps():
    w += lr * (1 - w)
    time.sleep({sleep})
    trial.report(val_acc=w + offset, loss=1 - w)
"""
OUTPUTS = "i => window.jupyterapp.shell.currentWidget.content.model.cells.get(i).outputs.toJSON()"
#: Counts how often the outputs of the train cell are replaced.
COUNTED = """() => {
  const outputs = window.jupyterapp.shell.currentWidget.content.model.cells.get(1).outputs;
  window.outputsSet = 0;
  outputs.changed.connect((_, change) => { window.outputsSet += change.type === 'set'; });
}"""
TOLD_AGAIN = """() => {
  const view = window.jupyterapp.shell.currentWidget.content.widgets[1].outputArea.widgets[0].node;
  document.dispatchEvent(new CustomEvent('workbench:figure', { detail: { view, bundle: { 'text/plain': 'again' } } }));
}"""
SOURCE = "([i, text]) => window.jupyterapp.shell.currentWidget.content.model.cells.get(i).sharedModel.setSource(text)"

#: A busy page: code that waits for a tenth of a second continues long after it.
SLOW = """
const wait = window.setTimeout;
window.setTimeout = (then, ms, ...given) => wait(then, ms === 100 ? 4000 : ms, ...given);
"""

#: JupyterLab's own words if a kernel is restarted while it is being asked for its debugger's state.
DEBUGGER = "console: Could not restore the debugger state: Canceled future"


@pytest.fixture
def lab(start_lab, tmp_path):
    lab = start_lab(tmp_path, WORKBENCH_WORKERS="2", WORKBENCH_IDLE="60")
    yield lab
    store = Store.find(cwd=lab.root)
    lab.end()
    info = read_engine(store) if store.exists else None
    if info is not None and info.alive:
        with contextlib.suppress(WorkbenchError):
            ask(store, asked.End())


@pytest.fixture
def notebook(lab, opened):
    """Open a notebook of these cells."""

    def notebook(*cells):
        made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
        made.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(made, lab.root / "toy.ipynb")
        page = opened(lab, "toy.ipynb")
        wait_for_kernel(page)
        return page

    return notebook


def run(page, *cells):
    for cell in cells:
        start_cell(page, cell)
        page.wait_for_function(
            "i => window.jupyterapp.shell.currentWidget.content.model.cells.get(i).executionCount !== null", arg=cell
        )


def view(page):
    return page.locator(".workbench-live")


def fact(page, name):
    return view(page).locator(f".wb-fact-{name} .wb-value")


def points(page):
    return (
        view(page)
        .locator(".wb-chart")
        .evaluate("chart => (chart.data ?? []).reduce((sum, trace) => sum + trace.x.filter(x => x !== null).length, 0)")
    )


def figure(page, cell=1):
    """The static figure of a cell, once it stands."""
    page.wait_for_function(
        "i => window.jupyterapp.shell.currentWidget.content.model.cells.get(i).outputs.toJSON()"
        ".some(output => output.data?.['image/png'])",
        arg=cell,
        timeout=60_000,
    )
    return next(one for one in page.evaluate(OUTPUTS, cell) if "image/png" in one.get("data", {}))


def save(page):
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")


def test_curves_grow_and_a_figure_stays(notebook, lab):
    page = notebook(SETUP, TRAIN.format(sleep=0.15))
    run(page, 0, 1)
    expect(view(page).locator(".wb-title")).to_have_text("toy")
    expect(view(page).locator(".wb-version")).to_have_text("@1")
    expect(view(page).locator(".wb-state")).to_contain_text("running", timeout=30_000)
    expect(fact(page, "slots")).to_contain_text("of 2")
    expect(fact(page, "best")).to_contain_text("t00", timeout=30_000)
    page.wait_for_function("() => document.querySelector('.workbench-live .wb-chart')?.data?.length")
    before = points(page)
    page.wait_for_function(
        "n => document.querySelector('.workbench-live .wb-chart').data"
        ".reduce((sum, trace) => sum + trace.x.filter(x => x !== null).length, 0) > n + 5",
        arg=before,
    )
    expect(view(page).get_by_role("columnheader", name="val_acc")).to_have_attribute("aria-sort", "descending")
    bundle = figure(page)["data"]
    assert bundle["text/plain"].startswith("toy@1 completed: 17 trials")
    assert "application/vnd.plotly.v1+json" in bundle
    save(page)
    assert '"image/png"' in (lab.root / "toy.ipynb").read_text()


def test_a_finished_cell_keeps_its_table_while_the_kernel_has_it(notebook, lab, page):
    notebook(SETUP, TRAIN.format(sleep=0.05))
    run(page, 0, 1)
    figure(page)
    kept = page.locator(".jp-WorkbenchFinished")
    expect(kept.locator(".wb-state")).to_have_text("completed")
    expect(view(page)).to_have_count(1)
    expect(kept.get_by_role("button", name="Stop experiment")).to_be_hidden()
    kept.get_by_role("button", name="trial", exact=True).click()
    expect(kept.locator("tr[data-trial]").first).to_contain_text("t0000")
    run(page, 1)  # nothing is trained, and the cell shows the same
    page.wait_for_function(f"i => ({OUTPUTS})(i).length === 2", arg=1)
    expect(kept.locator(".wb-state")).to_have_text("completed")
    expect(view(page)).to_have_count(1)
    kept.get_by_role("button", name="trial", exact=True).click()
    save(page)

    page.goto(lab.address("toy.ipynb"))
    expect(kept.locator(".wb-state")).to_have_text("completed", timeout=30_000)
    expect(kept.locator("tr[data-trial]").first).to_be_visible()
    page.wait_for_function("() => document.querySelector('.jp-WorkbenchFinished .wb-chart')?.data?.length")

    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    wait_for_kernel(page)
    page.goto(lab.address("toy.ipynb"))
    expect(kept.locator(".js-plotly-plot, img")).to_have_count(1, timeout=30_000)
    expect(view(page)).to_have_count(0)
    page.troubles[:] = [said for said in page.troubles if not said.startswith(DEBUGGER)]


def test_a_trial_that_sets_up_says_for_how_long(notebook, lab):
    waits = "import os\nwhile not os.path.exists('there'):\n    time.sleep(0.05)\nw = 0.0"
    page = notebook(SETUP, TRAIN.format(sleep=0.5).replace("w = 0.0", waits))
    run(page, 0, 1)
    row = view(page).locator("tr[data-trial='0']")
    expect(row).to_contain_text(re.compile("setting up for [3-9][.0-9]* s"), timeout=30_000)  # it goes on by itself
    expect(row).to_have_class(re.compile("wb-is-setting-up"))
    expect(fact(page, "trials")).to_contain_text("1 trial setting up")
    expect(row.locator(".wb-icon")).to_have_class("wb-icon wb-setting-up")
    (lab.root / "there").touch()
    expect(row).to_have_class(re.compile("wb-is-(running|paused)"), timeout=10_000)
    expect(fact(page, "trials")).not_to_contain_text("setting up")
    expect(fact(page, "best")).to_contain_text("t00", timeout=30_000)  # stopped before, it would have no figure
    view(page).get_by_role("button", name="Stop experiment").click()
    assert figure(page)["data"]["text/plain"].startswith("toy@1 stopped")


def test_buttons_stop_a_trial_and_the_experiment_while_the_cell_waits(notebook):
    page = notebook(SETUP, TRAIN.format(sleep=0.5).replace("%%train toy", "%%train toy --wait"))
    run(page, 0)
    start_cell(page, 1)
    expect(fact(page, "best")).to_contain_text("t00", timeout=30_000)
    trial = view(page).locator("tr:has(.wb-little:visible)").first.get_attribute("data-trial")
    row = view(page).locator(f"tr[data-trial='{trial}']")
    button = row.locator(".wb-little")
    button.press("Enter")
    expect(row).to_have_class(re.compile("wb-is-stopped"), timeout=10_000)
    expect(button).to_be_hidden()
    expect(view(page).get_by_role("group", name="Trials")).to_be_focused()
    view(page).get_by_role("button", name="Stop experiment").click()
    bundle = figure(page)["data"]
    assert bundle["text/plain"].startswith("toy@1 stopped")
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.model.cells.get(1).executionCount !== null"
    )


def test_it_comes_back_after_a_reload_and_after_a_kernel_restart(notebook, lab, page):
    notebook(SETUP, TRAIN.format(sleep=0.8))
    run(page, 0, 1)
    expect(fact(page, "best")).to_contain_text("t00", timeout=30_000)
    save(page)
    page.goto(lab.address("toy.ipynb"))
    expect(fact(page, "best")).to_contain_text("t00", timeout=30_000)
    page.wait_for_function("() => document.querySelector('.workbench-live .wb-chart')?.data?.length")
    steps = view(page).locator(".wb-bar").get_attribute("aria-valuenow")
    page.wait_for_function(
        "before => Number(document.querySelector('.workbench-live .wb-bar').ariaValueNow"
        " ?? document.querySelector('.workbench-live .wb-bar').getAttribute('aria-valuenow')) > before",
        arg=int(steps),
    )
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    expect(view(page).locator(".wb-changed")).to_contain_text("unchanged: showing ", timeout=30_000)
    expect(fact(page, "best")).to_contain_text("t00")
    assert len(list((lab.root / ".workbench" / "experiments").iterdir())) == 1
    view(page).get_by_role("button", name="Stop experiment").click()
    assert figure(page)["data"]["text/plain"].startswith("toy@1 stopped")
    page.troubles[:] = [said for said in page.troubles if not said.startswith(DEBUGGER)]


def test_a_page_that_looks_for_the_view_too_early_shows_it_when_it_has_come(notebook, lab, page):
    notebook(SETUP, TRAIN.format(sleep=0.8))
    run(page, 0, 1)
    expect(fact(page, "best")).to_contain_text("t00", timeout=30_000)
    save(page)
    page.add_init_script(SLOW)
    page.goto(lab.address("toy.ipynb"))
    expect(page.locator(".jp-WorkbenchLive")).to_have_text("The live view comes with the notebook’s kernel.")
    expect(fact(page, "best")).to_contain_text("t00", timeout=30_000)
    view(page).get_by_role("button", name="Stop experiment").click()
    expect(page.locator(".jp-WorkbenchFinished .workbench-live .wb-state")).to_have_text("stopped", timeout=30_000)


def test_a_page_that_was_reloaded_leaves_the_figure_in_the_notebook(notebook, lab, page):
    notebook(SETUP, TRAIN.format(sleep=0.6))
    run(page, 0, 1)
    expect(fact(page, "best")).to_contain_text("t00", timeout=30_000)
    save(page)
    page.goto(lab.address("toy.ipynb"))
    expect(view(page).locator(".wb-state")).to_contain_text("running", timeout=30_000)
    page.evaluate(COUNTED)
    assert figure(page)["data"]["text/plain"].startswith("toy@1 completed: 17 trials")
    expect(page.locator(".jp-WorkbenchFinished .workbench-live .wb-state")).to_have_text("completed")
    save(page)
    outputs = nbformat.read(lab.root / "toy.ipynb", as_version=4).cells[1].outputs
    assert [output.output_type for output in outputs] == ["display_data"]
    assert sorted(outputs[0].data) == [
        "application/vnd.plotly.v1+json",
        "application/vnd.workbench.finished+json",
        "image/png",
        "text/plain",
    ]
    # A view that says it again is not answered twice.
    page.evaluate(TOLD_AGAIN)
    assert page.evaluate("() => window.outputsSet") == 1


def test_without_our_route_the_kernel_sends_plotly(notebook, page):
    page.route("**/workbench/static/plotly.min.js", lambda route: route.fulfill(status=404, body=""))
    notebook(SETUP, TRAIN.format(sleep=0.3))
    run(page, 0, 1)
    page.wait_for_function("() => document.querySelector('.workbench-live .wb-chart')?.data?.length", timeout=60_000)
    view(page).get_by_role("button", name="Stop experiment").click()
    figure(page)
    page.troubles[:] = [trouble for trouble in page.troubles if "404" not in trouble]


def test_names_are_text_and_colours_follow_the_theme(notebook, page):
    cell = TRAIN.format(sleep=0.3).replace("choice(32, 64)", "choice('<img src=x onerror=alert(1)>', '<b>')")
    notebook(SETUP, cell)
    run(page, 0, 1)
    expect(view(page).locator("td").filter(has_text="<").first).to_be_visible(timeout=30_000)
    assert view(page).locator("img, td b").count() == 0
    expect(fact(page, "best")).to_contain_text("t00", timeout=30_000)  # without a report there is no figure to be left
    change_theme(page, "JupyterLab Dark")
    page.wait_for_function("() => document.querySelector('.workbench-live').classList.contains('wb-dark')")
    view(page).locator("tr[data-trial]").first.hover()
    expect(view(page).locator(".wb-foot")).to_contain_text("t00")
    view(page).get_by_role("button", name="Stop experiment").click()
    figure(page)


def test_the_daily_loop(notebook, page):
    """Edit, run, compare, load the best: how long a person waits for each."""
    times = {}

    @contextlib.contextmanager
    def timed(name):
        begun = time.perf_counter()
        yield
        times[name] = round(time.perf_counter() - begun, 2)

    load = "best = wb.last().best.load()\nbest.w > 0"
    compare = "[(e.label, e.best.value, e.changed) for e in (wb.open('toy@1'), wb.open('toy@2'))]"
    notebook(SETUP, TRAIN.format(sleep=0.02), compare, load)
    run(page, 0)
    with timed("first run, engine from nothing: cell returned"):
        run(page, 1)
    with timed("first point on the screen after that"):
        page.wait_for_function(
            "() => document.querySelector('.workbench-live .wb-chart')?.data?.length", timeout=60_000
        )
    with timed("search of 17 trials ended and its figure stands"):
        figure(page)
    page.evaluate(SOURCE, [1, TRAIN.format(sleep=0.02).replace("w = 0.0", "w = 0.1")])
    with timed("run again after an edit: cell returned"):
        page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.cells.get(1).clearExecution()")
        run(page, 1)
    with timed("first point on the screen after that, engine running"):
        page.wait_for_function(
            "() => document.querySelector('.workbench-live .wb-chart')?.data?.length", timeout=60_000
        )
    expect(view(page).locator(".wb-changed")).to_have_text("changed since @1: 1 line of code")
    figure(page)
    with timed("compare"):
        run(page, 2)
    shown = page.evaluate(OUTPUTS, 2)[0]["data"]["text/plain"]
    assert "toy@1" in shown
    assert "changed since @1: 1 line of code" in shown
    with timed("load the best"):
        run(page, 3)
    assert page.evaluate(OUTPUTS, 3)[0]["data"]["text/plain"] == "True"
    print(json.dumps(times, indent=1))
    assert times["run again after an edit: cell returned"] < 5
