"""What an experiment is, for people: who launched it, from which commit, with what; and the options that Tab offers."""

from __future__ import annotations

import getpass
import json
import platform
import re
import subprocess

import nbformat
import pytest
from conftest import run_cells, show_panel, wait_for_kernel
from playwright.sync_api import expect
from running import until

from workbench.share.publish import publish
from workbench.store import Store
from workbench.store.lists.catalog import read_catalog

CELLS = (
    "%load_ext workbench\nimport pandas\nfrom tool import scale\nrows = pandas.read_csv('rows.csv')",
    """%%train told --goal max score --scheduler all --steps 1-2 --trials 2 --seed 0
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    trial.report(score=scale * x * len(rows))
""",
    "%%train other --",
)


@pytest.fixture(scope="module")
def lab(start_lab, tmp_path_factory):
    """A server over a folder of git with one commit, and a changed file."""
    root = tmp_path_factory.mktemp("about")
    (root / "tool.py").write_text("scale = 2.0\n")
    (root / "rows.csv").write_text("a,b\n1,2\n")
    git = ("git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=n@example.org")
    for words in (("init", "-q", "-b", "trunk"), ("add", "tool.py", "rows.csv"), ("commit", "-q", "-m", "first")):
        subprocess.run([*git, *words], check=True)
    (root / "tool.py").write_text("scale = 3.0\n")
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    nbformat.write(notebook, root / "nb.ipynb")
    with start_lab(root, WORKBENCH_WORKERS="1", WORKBENCH_IDLE="5") as lab:
        lab.commit = subprocess.run(
            [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
        yield lab


@pytest.fixture
def ran(lab, opened):
    """The notebook's page, after its search."""
    page = opened(lab, "nb.ipynb")
    wait_for_kernel(page)
    run_cells(page, 0, 1)
    store = Store.find(cwd=lab.root)
    until(lambda: store.exists and [row for row in read_catalog(store) if row["state"] == "completed"], 90)
    return page


def test_it_says_who_launched_it_with_what_and_keeps_raw_data_behind_a_button(lab, ran):
    page = ran
    show_panel(page)
    page.locator(".wb-Experiment", has_text="told@").first.click()
    page.get_by_role("tab", name="About").click()
    launch = page.get_by_role("region", name="Launch")
    for fact in (
        getpass.getuser(), platform.node(), "nb.ipynb", "%%train told --goal max score",
        f"commit {lab.commit[:12]}", "branch trunk", "1 file with uncommitted changes",
    ):  # fmt: skip
        expect(launch).to_contain_text(fact)
    search = page.get_by_role("region", name="Search")
    expect(search).to_contain_text("max score")
    expect(search).to_contain_text("all, steps 1-2")
    environment = page.get_by_role("region", name="Environment")
    expect(environment).to_contain_text(f"Python{platform.python_version()}")
    environment.get_by_text("All packages").click()
    expect(environment.locator(".wb-Packages")).to_contain_text("pandas ")
    expect(page.get_by_role("region", name="Files")).to_contain_text("tool")
    expect(page.get_by_role("region", name="Code")).to_contain_text("x = uniform(0.0, 1.0)")
    about = page.locator(".wb-About")
    expect(about).not_to_contain_text('"schema"')
    page.get_by_role("button", name="Show raw data").click()
    shown = json.loads(page.get_by_role("region", name="Raw data").locator("pre").inner_text())
    assert shown["spec"]["name"] == "told"
    page.get_by_role("button", name="Hide raw data").click()
    expect(page.get_by_role("region", name="Raw data").locator("pre")).to_have_count(0)


def test_tab_offers_the_options_with_what_they_do(lab, ran):
    page = ran
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2")
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(2).locator(".cm-content")
    cell.click()
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    offered = page.locator(".jp-Completer-item")
    expect(offered.filter(has_text="--scheduler")).to_be_visible(timeout=20_000)
    expect(offered.filter(has_text="--scheduler")).to_contain_text("the rule that stops weak trials early")
    assert offered.count() > 20
    page.keyboard.press("Escape")


def test_a_publication_below_the_servers_folder_is_listed_and_cannot_be_changed(lab, ran):
    page = ran
    publish(Store.find(cwd=lab.root), "told@1", str(lab.root / "public" / "told"))
    panel = show_panel(page)
    toggle = page.locator(".wb-Group-toggle", has_text="public/told")
    group = panel.locator(".wb-Group", has=toggle)
    expect(group).to_be_visible(timeout=60_000)
    expect(group).to_contain_text("published")
    expect(group).not_to_contain_text("not adopted")
    if toggle.get_attribute("aria-expanded") == "false":
        toggle.click()
    row = group.locator(".wb-Experiment", has_text="told@1")
    row.click()
    header = page.locator(".wb-Header").last
    expect(header.get_by_role("heading")).to_have_text("told@1")
    expect(page.get_by_role("tab", name="Curves").last).to_be_visible()
    row.click(button="right")
    for item in ("Rename …", "Delete …", "Extend …", "Pin"):
        expect(page.get_by_role("menuitem", name=item, exact=True)).to_have_class(re.compile("lm-mod-disabled"))
    expect(page.get_by_role("menuitem", name="Copy Name", exact=True)).not_to_have_class(re.compile("lm-mod-disabled"))
