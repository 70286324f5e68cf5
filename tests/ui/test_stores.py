"""Notebooks in subfolders: the sidebar finds their stores, pages stay with theirs, and a killed engine is replaced."""

from __future__ import annotations

import os
import re
import signal

import nbformat
import psutil
import pytest
from cli.stored import Written
from conftest import change_theme, run_cells, show_panel, wait_for_kernel, wait_until_restored
from playwright.sync_api import expect
from running import engine_pid, until

from workbench.store import Store
from workbench.store.lists.catalog import Catalog, read_catalog
from workbench.store.owner.ownership import MARK, enlist, ownership

TRAIN = """%%train deep --goal max score --steps 1-1000
import time
x = uniform(0.0, 1.0)
for epoch in trial.steps():
    time.sleep(0.05)
    trial.report(score=x * (epoch + 1))
"""
#: Whether the server has the workspace with two pages of ours and what was folded. (A promise that is waited for with
#: `wait_for_function` counts as true before it is kept.)
IS_KEPT = """async () => {
  const { data } = await window.jupyterapp.serviceManager.workspaces.fetch('default');
  const kept = Object.keys(data).filter(key => /^workbench:\\w{16}-/.test(key));
  const shown = JSON.stringify(data['layout-restorer:data']?.main ?? '');
  return kept.length === 2 && kept.every(key => shown.includes(key)) &&
    Object.keys(data['workbench-ext:sidebar']?.folded ?? {}).length > 0;
}"""


@pytest.fixture
def filled(tmp_path):
    """Two stores with finished experiments; the second is another user's. The server finds them when it starts."""
    for folder in ("other", "foreign"):
        (tmp_path / folder).mkdir()
        store = Store.find(cwd=tmp_path / folder).create()
        enlist(store)
        Written(store, Catalog(store)).experiment(folder)
    (tmp_path / "foreign" / ".workbench" / MARK).unlink()
    return tmp_path


@pytest.fixture
def lab(start_lab, filled, tmp_path):
    """A server over a folder with two stores and a folder for a notebook; engines are ended with it."""
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    lab = start_lab(tmp_path, WORKBENCH_WORKERS="1", WORKBENCH_IDLE="60")
    yield lab
    lab.end()
    for pid in filter(None, (engine_pid(Store(folder)) for folder in tmp_path.rglob(".workbench"))):
        os.kill(pid, signal.SIGTERM)
        until(lambda pid=pid: not psutil.pid_exists(pid))


def groups_of(panel):
    """The heads of the groups from above, as a person reads them."""
    return panel.locator(".wb-Group-toggle")


def test_a_store_of_somebody_else_is_adopted(lab, opened):
    page = opened(lab)
    panel = show_panel(page)
    foreign = groups_of(panel).filter(has_text="foreign/")
    expect(foreign).to_have_attribute("aria-expanded", "true")  # the first that is there
    expect(foreign).to_contain_text("read-only: not adopted")
    banner = panel.locator(".wb-Adopt")
    expect(banner).to_contain_text("not known to be yours")
    expect(banner).to_contain_text("foreign/.workbench")
    if folder := os.environ.get("SHOTS"):
        page.screenshot(path=f"{folder}/foreign.png")

    store = Store(lab.root / "foreign" / ".workbench")
    question = page.get_by_role("dialog")
    banner.get_by_role("button", name="Adopt It").click()
    expect(question).to_contain_text(re.compile(r"foreign/\.workbench belongs to \S+ and holds 1 experiment\."))
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_have_count(0)
    expect(banner).to_be_visible()
    assert not ownership(store).is_ours, "nothing was adopted before the answer"

    banner.get_by_role("button", name="Adopt It").click()
    if folder:
        page.screenshot(path=f"{folder}/question.png")
    question.get_by_role("button", name="Adopt").click()
    expect(banner).to_have_count(0)
    expect(foreign).not_to_contain_text("not adopted")
    assert ownership(store).is_ours
    if folder:
        page.screenshot(path=f"{folder}/adopted.png")


def test_a_notebook_in_a_subfolder(lab, opened):
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in ("%load_ext workbench", TRAIN)]
    nbformat.write(notebook, lab.root / "sub" / "deep" / "nb.ipynb")
    page = opened(lab, "sub/deep/nb.ipynb")
    wait_for_kernel(page)
    run_cells(page, 0, 1)
    store = Store.find(cwd=lab.root / "sub" / "deep")
    until(lambda: store.exists and read_catalog(store))
    enlist(store)

    panel = show_panel(page)
    # The one beside the notebook is the first and open; the others are there and folded.
    expect(groups_of(panel)).to_have_text(
        [re.compile("sub/deep/.*1 of 1 under way"), re.compile("foreign/.*read-only: not adopted.*1"), "other/1"]
    )
    assert [one.get_attribute("aria-expanded") for one in groups_of(panel).all()] == ["true", "false", "false"]
    mine = panel.get_by_role("listbox", name="Experiments in sub/deep/")
    expect(mine.get_by_role("option")).to_contain_text("deep@1")
    expect(panel).to_contain_text("Engine runs on")

    # The cell's own button leads to the page of this store.
    page.get_by_role("button", name="Open page").click()
    expect(page.get_by_role("heading", name="deep@1")).to_be_visible()

    # A second group is opened, and its experiment's page beside the first.
    groups_of(panel).nth(2).click()
    panel.get_by_role("listbox", name="Experiments in other/").get_by_role("option").click()
    expect(page.get_by_role("heading", name="other@1")).to_be_visible()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        change_theme(page, theme)
        if folder := os.environ.get("SHOTS"):
            page.screenshot(path=f"{folder}/{theme[11:].lower()}.png")

    # What lies in different stores is not compared, and it is said why.
    mine.get_by_role("option").click(modifiers=["ControlOrMeta"])
    panel.get_by_role("toolbar", name="Picked experiments").get_by_role("button", name="Compare").click()
    expect(page.get_by_text("are in different stores")).to_be_visible()

    # A reload restores both pages, each with its store, and what was folded.
    until(lambda: page.evaluate(IS_KEPT), 30, "the workspace with both pages")
    page.goto(lab.address().replace("?reset&", "?"))
    wait_until_restored(page)
    expect(page.get_by_role("heading", name="other@1")).to_be_visible(timeout=30_000)
    expect(page.locator(".wb-Header:visible")).to_contain_text("in other/")
    panel = page.get_by_role("region", name="Experiments")
    expect(panel.get_by_role("listbox", name="Experiments in other/")).to_be_visible()
    page.get_by_role("tab", name="deep@1").click()
    expect(page.get_by_role("heading", name="deep@1")).to_be_visible()
    expect(page.locator(".wb-Header:visible")).to_contain_text("in sub/deep/")

    # Its engine is killed: the server starts another one, and the page goes on.
    killed = engine_pid(store)
    os.kill(killed, signal.SIGKILL)
    until(lambda: engine_pid(store) not in (None, killed), 60)
    expect(page.locator(".wb-Header:visible")).to_contain_text("running", timeout=30_000)
    expect(panel.get_by_text("Engine runs on")).to_be_visible()
    assert not (lab.root / ".workbench").exists(), "nothing was made in the server's own folder"
