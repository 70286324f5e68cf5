"""Takes pictures for the README and the guide: `python notebooks/pictures.py FOLDER`, as `make pictures` does.

The quickstart's search trains in a real JupyterLab. A picture is taken only when what it shows agrees with itself: the
best value in the heading is the one in the table's row of that trial.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from story import PATIENCE_S, chromium, jupyterlab, open_notebook, until

import workbench as wb
from workbench import asked
from workbench.asking import ask
from workbench.store import Store

HERE = Path(__file__).resolve().parent
#: How the quickstart's cell that trains begins. It is the last one that is executed.
TRAIN = "%%train"
RUN = """async () => {
  const { commands, shell } = window.jupyterapp;
  const notebook = shell.currentWidget;
  for (let cell = 0; cell < notebook.content.widgets.length; cell++) {
    notebook.content.activeCellIndex = cell;
    notebook.content.deselectAll();
    await commands.execute('notebook:run-cell');
    if (notebook.content.widgets[cell].model.sharedModel.getSource().startsWith('%%train')) { break; }
  }
}"""
#: A third of the trials have ended, and the heading's best value is that of its row.
AGREES = """() => {
  const view = document.querySelector('.workbench-live');
  const read = (fact, part) => view?.querySelector(`.wb-fact-${fact} .wb-value`)?.childNodes[part]?.textContent ?? '';
  const best = view?.querySelector('tr.wb-best');
  const [, of] = read('trials', 2).match(/of (\\d+)/) ?? [];
  return Number(read('trials', 0)) >= Number(of) / 3 &&
    best?.cells[3].textContent === read('best', 0) && read('time', 2).includes('left');
}"""
OPEN = """async experiment => {
  const { commands, shell } = window.jupyterapp;
  await commands.execute('workbench:open', { experiment, tab: 'rungs' });
  shell.collapseLeft();
}"""


def main(folder: Path) -> int:
    """Take all of them."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        room = Path(place) / "room"
        room.mkdir()
        shutil.copy(HERE / "quickstart.ipynb", room)
        store = Store(room / ".workbench")
        with jupyterlab(room, Path(place) / "server.log") as (_, url):
            page = chromium(playwright).new_page(viewport={"width": 1280, "height": 1700}, device_scale_factor=1.25)
            open_notebook(page, url, "quickstart.ipynb")
            page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
            page.evaluate(f"() => {{ ({RUN})() }}")
            page.wait_for_function(AGREES, timeout=1000 * PATIENCE_S)
            take(cell_of(page), folder / "live.png")
            exp = wb.open("digits", store=store)
            until(lambda: exp.is_ended, "the end of the search")
            page.locator(".jp-WorkbenchFinished").wait_for()
            take(cell_of(page), folder / "finished.png")
            page.set_viewport_size({"width": 1280, "height": 760})
            page.evaluate(OPEN, exp.id)
            page.locator(".wb-Ladder canvas").first.wait_for()
            page.wait_for_timeout(1500)  # the ladder moves to its place first
            take(page, folder / "rungs.png")
            ask(store, asked.End())
    return 0


def cell_of(page: Page) -> Any:
    """The train cell with its output."""
    return page.locator(".jp-Notebook .jp-CodeCell", has_text=TRAIN)


def take(part: Any, path: Path) -> None:
    """One picture."""
    part.screenshot(path=str(path))
    print(path.name)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
