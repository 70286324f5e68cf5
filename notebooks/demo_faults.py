"""The story of faults in a real browser, as `make demo-faults` plays it: `python notebooks/demo_faults.py [FOLDER]`.

A cell with 27 trials trains in JupyterLab, its ladder beside it. Then a Dask worker, the kernel and the engine are
killed with `kill -9`, and the tab is closed. A new tab, Restart and Run All: the view is complete, the model loads, and
the last cell compares all results of the search with an undisturbed run. The exit code is 0 if they are identical.
Pictures are kept in FOLDER (a new one under build/demo-faults).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import psutil
from playwright.sync_api import Page, sync_playwright
from story import PATIENCE_S, chromium, jupyterlab, open_notebook, picture, until

import workbench as wb
from workbench import asked
from workbench.asking import ask
from workbench.errors import NotFound
from workbench.store import Store
from workbench.store.owner.lease import read_engine

HERE = Path(__file__).resolve().parent
#: Steps that are trained between two kills.
BETWEEN = 6

RUN = """async count => {
  const notebook = window.jupyterapp.shell.currentWidget;
  for (let cell = 0; cell < count; cell++) {
    notebook.content.activeCellIndex = cell;
    notebook.content.deselectAll();
    await window.jupyterapp.commands.execute('notebook:run-cell');
  }
}"""
BESIDE = """async experiment => {
  const { commands, shell } = window.jupyterapp;
  const notebook = shell.currentWidget;
  await commands.execute('workbench:open', { experiment, tab: 'rungs' });
  shell.add(shell.currentWidget, 'main', { mode: 'split-right', ref: notebook.id });
  shell.collapseLeft();
}"""
RESTART_AND_RUN_ALL = """async () => {
  const { commands, shell } = window.jupyterapp;
  for (const widget of shell.widgets('main')) {
    if (widget.content?.model?.cells) { shell.activateById(widget.id); }
  }
  const notebook = shell.currentWidget;
  await notebook.sessionContext.ready;
  await notebook.sessionContext.session.kernel.restart();
  await commands.execute('notebook:run-all-cells');
}"""
LAST_OUTPUT = """() => {
  for (const widget of window.jupyterapp.shell.widgets('main')) {
    const cells = widget.content?.model?.cells;
    if (cells) { return JSON.stringify(cells.get(cells.length - 1).outputs.toJSON()); }
  }
  return '[]';
}"""
SHOW_END = """() => {
  for (const widget of window.jupyterapp.shell.widgets('main')) {
    if (widget.content?.model?.cells) {
      window.jupyterapp.shell.activateById(widget.id);
      widget.content.activeCellIndex = widget.content.model.cells.length - 1;
      widget.content.scrollToItem(widget.content.activeCellIndex, 'end');
    }
  }
}"""


def main(folder: Path) -> int:
    """Play the story; 0 if the results are identical to the undisturbed run."""
    room = folder / "room"
    room.mkdir(parents=True)
    write_notebook(room / "faults.ipynb")
    store = Store(room / ".workbench")
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    with jupyterlab(room, folder / "server.log") as (server, url), sync_playwright() as playwright:
        browser = chromium(playwright)
        page = browser.new_page(viewport={"width": 1600, "height": 950})
        open_notebook(page, url, "faults.ipynb")
        page.evaluate(f"count => {{ ({RUN})(count) }}", 2)
        exp = until(lambda: found("faults", store), "the experiment")
        say(f"the cell is running: {exp.label}")
        page.evaluate(BESIDE, exp.id)
        trained = progress(exp, 0)
        picture(page, folder / "1-running.png", say)
        for kind, victim in (("a Dask worker", worker), ("the kernel", kernel), ("the engine", engine)):
            process = until(lambda victim=victim: victim(store, server), kind)
            process.send_signal(signal.SIGKILL)
            say(f"after {trained} steps: kill -9 {process.pid}, {kind}")
            trained = progress(exp, trained)
        picture(page, folder / "2-after-the-kills.png", say)
        page.close()
        say("the tab is closed")
        progress(exp, trained)
        page = browser.new_page(viewport={"width": 1600, "height": 950})
        open_notebook(page, url, "faults.ipynb")
        say("a new tab: Restart and Run All")
        page.evaluate(f"() => {{ ({RESTART_AND_RUN_ALL})() }}")
        told = until(lambda: told_at_the_end(page), "the comparison in the last cell", 3 * PATIENCE_S)
        page.evaluate(SHOW_END)
        page.wait_for_timeout(1000)  # let the page settle before its picture is taken
        picture(page, folder / "3-the-result.png", say)
        browser.close()
        ask(store, asked.End())
    print(told)
    identical = told.count("identical") == 3 and "DIFFERENT" not in told and "Error" not in told
    print("Identical to the calm run." if identical else "NOT identical to the calm run.")
    print(f"Pictures: {os.path.relpath(folder)}")
    return 0 if identical else 1


def write_notebook(path: Path) -> None:
    """The notebook of faults without its killing thread: here the kills come from outside."""
    notebook = nbformat.read(HERE / "faults.ipynb", as_version=4)
    kept = [cell for cell in notebook.cells if cell.cell_type == "code" and "trouble" not in tags(cell)]
    notebook.cells = [cell for cell in kept if cell.source]
    nbformat.write(notebook, path)


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


def told_at_the_end(page: Page) -> str | None:
    """What the last cell printed, as soon as it compared."""
    outputs = str(page.evaluate(LAST_OUTPUT))
    return outputs if "weights" in outputs or "Error" in outputs else None


def found(name: str, store: Store) -> Any:
    """The experiment, as soon as there is one."""
    try:
        return wb.open(name, store=store) if store.exists else None
    except NotFound:
        return None


def progress(exp: Any, before: int) -> int:
    """Wait until some more steps are trained, or the search is over; return the number of steps."""

    def steps() -> int:
        trained = int(exp.trials["step"].sum()) if len(exp.trials) else 0
        return trained if trained >= before + BETWEEN or exp.is_ended else 0

    return int(until(steps, "progress"))


def engine(store: Store, server: psutil.Process) -> psutil.Process | None:
    info = read_engine(store)
    return psutil.Process(info.pid) if info is not None and info.alive else None


def worker(store: Store, server: psutil.Process) -> psutil.Process | None:
    """A Dask worker of the engine's cluster: a process that has a forkserver of training code below it."""
    of = engine(store, server)
    for child in of.children() if of is not None else []:
        if any("workbench.trial.process.forkserver" in " ".join(below.cmdline()) for below in child.children()):
            return child
    return None


def kernel(store: Store, server: psutil.Process) -> psutil.Process | None:
    return next((child for child in server.children() if "ipykernel" in " ".join(child.cmdline())), None)


if __name__ == "__main__":
    new = HERE.parent / "build" / "demo-faults" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else new))
