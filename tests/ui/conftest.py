"""A real JupyterLab in a real browser. Each server has a folder and a configuration of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import own_state  # noqa: F401 - importing it is all
import pytest
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    ViewportSize,
    sync_playwright,
)
from servers import LAB

TOKEN = "tests"
#: Of a page, in pixels.
SIZE: ViewportSize = {"width": 1400, "height": 900}
#: What a page leaves in a browser, but for its cache of files.
REMEMBERED = "cookies,indexeddb,local_storage,service_workers"
#: Executes cells of the open notebook.
RUN = """async cells => {
  const { content } = window.jupyterapp.shell.currentWidget;
  for (const cell of cells) {
    content.activeCellIndex = cell; content.deselectAll();
    await window.jupyterapp.commands.execute('notebook:run-cell');
  }
}"""


@dataclass
class Lab:
    """A running JupyterLab. ``root`` is its folder, and the store is ``root/.workbench``."""

    root: Path
    url: str
    process: subprocess.Popen[bytes] = field(repr=False)

    def address(self, notebook: str | None = None) -> str:
        """Where a page starts: with a workspace of its own, so that no test sees another's tabs."""
        return f"{self.url}/lab{f'/tree/{notebook}' if notebook else ''}?reset&token={TOKEN}"

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Ask the server to end, and its process group to be gone."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


@pytest.fixture(scope="session")
def start_lab(tmp_path_factory) -> Iterator[Callable[..., Lab]]:
    """Start a JupyterLab over a folder; it is ended with the tests, or before. One that has ended leaves its port to
    the next one, of which the browser then knows the files.
    """
    labs: dict[int, Lab] = {}

    def start(root: Path, python: str = sys.executable, port: int | None = None, **environment: str) -> Lab:
        home = tmp_path_factory.mktemp("jupyter")
        port = port or free_port(*(known for known, lab in labs.items() if lab.process.poll() is not None))
        # JupyterLab takes no completion that comes after a second, which kernels on a busy machine may need.
        completer = home / "config" / "lab" / "user-settings" / "@jupyterlab" / "completer-extension"
        completer.mkdir(parents=True)
        (completer / "manager.jupyterlab-settings").write_text('{"providerTimeout": 15000}')
        # Each page would have Node look whether JupyterLab must be built.
        shown = home / "config" / "labconfig"
        shown.mkdir()
        (shown / "page_config.json").write_text('{"buildAvailable": false, "buildCheck": false}')
        env = {
            **{name: value for name, value in os.environ.items() if name != "WORKBENCH_HOME"},
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "IPYTHONDIR": str(home / "ipython"),
            "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
            **environment,
        }
        options = (
            "--no-browser",
            "--ip=127.0.0.1",
            f"--port={port}",
            "--ServerApp.port_retries=0",
            "--allow-root",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={root}",
            "--LanguageServerManager.autodetect=False",  # it asks npm
            "--LabApp.expose_app_in_browser=True",
        )
        with (home / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [python, *(("-c", LAB) if python == sys.executable else ("-m", "jupyterlab")), *options],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        lab = Lab(root, f"http://127.0.0.1:{port}", process)
        labs[port] = lab
        until_it_answers(lab, home / "server.log")
        return lab

    yield start
    for lab in labs.values():
        lab.end()


@pytest.fixture(scope="module")
def _served(start_lab, tmp_path_factory) -> Iterator[Lab]:
    with start_lab(tmp_path_factory.mktemp("served")) as lab:
        yield lab


@pytest.fixture
def lab(_served) -> Lab:
    """A server over an empty folder, for all tests of a file that ask for no other."""
    shutil.rmtree(_served.root / ".workbench", ignore_errors=True)
    return _served


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[BrowserContext]:
    """Debian's Chromium where there is one, otherwise the one that Playwright brought. What it compiles of JupyterLab
    is kept for the next page, which then takes two thirds of the time.
    """
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"],
            viewport=SIZE,
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser) -> Iterator[Page]:
    """A page that must stay clean: no error in its console, and no request to another host."""
    with clean_page(browser) as page:
        yield page


@contextmanager
def clean_page(browser: BrowserContext) -> Iterator[Page]:
    """A page in a browser that remembers no other, of which an error in the console or a request to another host is a
    failure.
    """
    page = browser.new_page()
    troubles: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            troubles.append(f"console: {message.text} ({urlsplit(message.location['url']).path})")

    def asked(request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            troubles.append(f"outside: {request.url}")

    page.on("console", hear)
    page.on("pageerror", lambda error: troubles.append(f"page: {error}"))
    page.on("request", asked)
    # A test that breaks the server on purpose closes the page, which may have more to say, and clears them.
    page.troubles = troubles  # type: ignore[attr-defined]
    yield page
    page.close()
    browser.set_offline(False)
    blank = browser.new_cdp_session(browser.pages[0])
    blank.send("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": REMEMBERED})
    blank.detach()
    assert not troubles


def wait_for_kernel(page: Page) -> None:
    """Until the open notebook's kernel is idle."""
    page.wait_for_function(
        "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'", timeout=60_000
    )


def run_cells(page: Page, *cells: int) -> None:
    """Execute these cells of the open notebook, one after the other."""
    page.evaluate(RUN, cells)


def start_cell(page: Page, cell: int) -> None:
    """Execute a cell of the open notebook, and do not wait for its end."""
    page.evaluate(f"cells => {{ ({RUN})(cells); }}", [cell])


def show_panel(page: Page) -> Locator:
    """Open the sidebar. Returns its list of experiments."""
    page.get_by_role("tab", name="Workbench experiments").click()
    return page.get_by_role("region", name="Experiments")


def change_theme(page: Page, theme: str) -> None:
    """Choose a theme. JupyterLab shows its splash meanwhile, and one that is shown again while it fades is taken away
    twice: an error of its own, in a console that must stay clean.
    """
    splash = page.locator("#jupyterlab-splash")
    splash.wait_for(state="detached")
    page.evaluate(
        "async theme => { await window.jupyterapp.commands.execute('apputils:change-theme', { theme }) }", theme
    )
    splash.wait_for(state="detached")


def wait_until_restored(page: Page) -> None:
    """Until JupyterLab has its former layout again."""
    page.wait_for_function("window.jupyterapp?.restored")
    page.evaluate("async () => { await window.jupyterapp.restored }")


def open_lab(page: Page, lab: Lab, notebook: str | None = None) -> None:
    """Open a JupyterLab and wait until it is restored and has opened its launcher or the notebook: the launcher comes
    last, and takes the focus from a list whose keys are pressed already.
    """
    page.goto(lab.address(notebook))
    wait_until_restored(page)
    if notebook:
        page.wait_for_function("window.jupyterapp.shell.currentWidget?.content?.model")
    else:
        page.wait_for_function("document.activeElement?.closest('.jp-Launcher')")


@pytest.fixture
def opened(page) -> Callable[..., Page]:
    """Open a JupyterLab in the test's page."""

    def opened(lab: Lab, notebook: str | None = None) -> Page:
        open_lab(page, lab, notebook)
        return page

    return opened


def until_it_answers(lab: Lab, log: Path, limit_s: float = 60) -> None:
    """Wait until the server serves; what it printed is in the error when it does not."""
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit and lab.process.poll() is None:
        try:
            with urllib.request.urlopen(f"{lab.url}/api?token={TOKEN}", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)  # a server that is not up can only be asked again
    lab.end()
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


def free_port(*known: int) -> int:
    """One of the known ports that nothing has taken meanwhile, or else any."""
    for port in (*known, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server itself will
            probe.bind(("127.0.0.1", port))
            return probe.getsockname()[1]
    raise AssertionError("no port of this machine is free")
