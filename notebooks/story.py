"""A real JupyterLab in a real browser, for the stories that are played in it and the pictures that are taken of it."""

from __future__ import annotations

import contextlib
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
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Browser, Page, Playwright

TOKEN = "story"  # noqa: S105 - of a server that lives as long as the story
#: Seconds within which each part of a story happens, on a slow machine.
PATIENCE_S = 180.0


def chromium(playwright: Playwright) -> Browser:
    """A browser without a window."""
    return playwright.chromium.launch(
        executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--no-first-run"]
    )


@contextlib.contextmanager
def jupyterlab(root: Path, log: Path) -> Iterator[tuple[psutil.Process, str]]:
    """A JupyterLab over ``root``: its process and address. Nothing of it is left afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [
        *("--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0", "--allow-root"),
        *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}", "--LabApp.expose_app_in_browser=True"),
    ]
    surroundings = {name: value for name, value in os.environ.items() if name != "WORKBENCH_HOME"}
    surroundings |= {"WORKBENCH_WORKERS": "2", "WORKBENCH_IDLE": "60", "JUPYTERLAB_WORKSPACES_DIR": str(root.parent)}
    # No question about news in the pictures, and no network requests.
    news = root.parent / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    news.parent.mkdir(parents=True)
    news.write_text('{"fetchNews": "false"}')
    surroundings["JUPYTERLAB_SETTINGS_DIR"] = str(root.parent / "settings")
    surroundings["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{surroundings['PATH']}"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=surroundings,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(f"{url}/api?token={TOKEN}"), f"JupyterLab (its log: {log})")
        yield psutil.Process(process.pid), url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answers(url: str) -> bool:
    """Whether a server answers there."""
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own server's
            return True
    except (urllib.error.URLError, OSError):
        return False


def open_notebook(page: Page, url: str, name: str) -> None:
    """Open a notebook, and wait for its kernel."""
    page.goto(f"{url}/lab/tree/{name}?reset&token={TOKEN}")
    page.wait_for_function("window.jupyterapp?.restored", timeout=PATIENCE_S * 1000)
    page.evaluate("async () => { await window.jupyterapp.restored }")
    page.wait_for_function("window.jupyterapp.shell.currentWidget?.content?.model?.cells?.length > 3")
    page.evaluate("async () => { await window.jupyterapp.shell.currentWidget.sessionContext.ready }")


def picture(page: Page, path: Path, say: Callable[[str], None]) -> None:
    """Take a picture, after dismissing JupyterLab's message that a kernel has died."""
    told = page.locator(".jp-Dialog").get_by_role("button", name="Ok")
    if told.count():
        told.click()
        told.wait_for(state="detached")
    page.screenshot(path=str(path))
    say(f"picture: {path.name}")


def until(condition: Callable[[], Any], what: str, limit_s: float = PATIENCE_S) -> Any:
    """Wait until ``condition`` gives something true; that."""
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit:
        with contextlib.suppress(psutil.Error):
            value = condition()
            if value:
                return value
        time.sleep(0.05)
    raise TimeoutError(f"{what} did not come within {limit_s:g} s")
