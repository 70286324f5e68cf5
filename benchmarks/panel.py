"""The panel: from opening an experiment to what is seen of it, and frame times while one looks around in it.

A real JupyterLab over stores of 10, 1,000 and 10,000 trials, and a real Chromium that renders in software.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.space import Choice, LogUniform, Space, Uniform
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench.store.series import Series

TOKEN = "benchmark"
#: Trials, and the most steps of one. A third of the trials goes to the end, the others stop on the way.
SIZES = ((10, 1_000), (1_000, 1_000), (10_000, 81))

#: Milliseconds between frames while something happens; what is not a number yet is asked for by `stop`.
FRAMES = """() => {
  const times = []; let last = performance.now(); let going = true;
  const turn = now => { times.push(now - last); last = now; if (going) requestAnimationFrame(turn); };
  requestAnimationFrame(turn);
  window.stopFrames = () => { going = false; return times.slice(2); };
}"""

#: Open an experiment's tab, and the milliseconds until `selector` is there and the frame that holds it was made.
OPEN = """async ([experiment, tab, selector]) => {
  const begun = performance.now();
  void window.jupyterapp.commands.execute('workbench:open', { experiment, tab });
  const frame = () => new Promise(done => requestAnimationFrame(done));
  while (!document.querySelector(selector)) { await frame(); }
  await frame();
  return performance.now() - begun;
}"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--repeats", type=int, default=5, help="how often each experiment is opened")
    parser.add_argument("--most", type=int, default=10_000, help="leave out larger experiments")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Medians of first paints, the first of all apart: it finds the server's caches empty. Milliseconds."""
    from playwright.sync_api import sync_playwright

    sizes = [size for size in SIZES if size[0] <= options.most]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for trials, steps in sizes:
            fill(Store(root / ".workbench").create(), trials, steps)
        with lab(root) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"),
                args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"],
            )
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            found = {f"{trials} trials": looked_at(page, address, trials, options.repeats) for trials, _ in sizes}
            browser.close()
    return {**found, "budgets": {"first_paint_ms": 1000, "frame_ms": 1000 / 60}}


def looked_at(page: Any, address: str, trials: int, repeats: int) -> dict[str, Any]:
    """One experiment: opened, pointed at, moved, zoomed, and scrolled through."""
    drawn, rows = f'.wb-Plot[data-painted="{trials}"]', ".wb-Table-body .wb-Table-row"
    paints: dict[str, list[float]] = {"curves": [], "table": []}
    for tab, selector in (("curves", drawn), ("table", rows)):
        for _ in range(repeats + 1):
            fresh(page, address)
            paints[tab].append(page.evaluate(OPEN, [identity(trials), tab, selector]))
    fresh(page, address)
    page.evaluate(OPEN, [identity(trials), "curves", drawn])
    page.wait_for_timeout(500)  # what the page does after its first paint is not measured here
    box = page.locator(".wb-Plot-over").bounding_box()

    def at(x: float, y: float) -> tuple[float, float]:
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    moving = {
        "hover": frames(page, lambda: walk(page, at)),
        "zoom": frames(page, lambda: wheel(page, at)),
    }
    page.get_by_role("button", name="Move", exact=True).click()
    moving["pan"] = frames(page, lambda: drag(page, at))
    page.evaluate(OPEN, [identity(trials), "table", rows])
    page.mouse.move(*at(0.5, 0.5))
    moving["table scroll"] = frames(page, lambda: scroll(page))
    return {
        **{f"first paint of {tab}, server cold": times[0] for tab, times in paints.items()},
        **{f"first paint of {tab}": statistics.median(times[1:]) for tab, times in paints.items()},
        **{f"frames: {what}": times for what, times in moving.items()},
    }


def fresh(page: Any, address: str) -> None:
    """A page that has been restored and shows no experiment."""
    page.goto(address)
    page.wait_for_function("window.jupyterapp?.restored")
    page.evaluate("async () => { await window.jupyterapp.restored }")


def frames(page: Any, act: Callable[[], None]) -> dict[str, float]:
    """Median and 95th percentile of milliseconds between frames while ``act`` acts, and how many there were."""
    page.evaluate(FRAMES)
    act()
    times = sorted(page.evaluate("window.stopFrames()"))
    return {
        "median": statistics.median(times),
        "p95": times[min(int(len(times) * 0.95), len(times) - 1)],
        "longest": times[-1],
        "count": len(times),
    }


def walk(page: Any, at: Callable[[float, float], tuple[float, float]]) -> None:
    for k in range(60):
        page.mouse.move(*at(0.1 + 0.8 * k / 60, 0.5 + 0.4 * math.sin(k / 5)))
        page.wait_for_timeout(16)


def wheel(page: Any, at: Callable[[float, float], tuple[float, float]]) -> None:
    page.mouse.move(*at(0.6, 0.4))
    for k in range(40):
        page.mouse.wheel(0, -60 if k < 20 else 60)
        page.wait_for_timeout(16)


def drag(page: Any, at: Callable[[float, float], tuple[float, float]]) -> None:
    page.mouse.move(*at(0.5, 0.5))
    page.mouse.down()
    for k in range(60):
        page.mouse.move(*at(0.5 + 0.2 * math.sin(k / 9), 0.5 + 0.1 * math.sin(k / 5)))
        page.wait_for_timeout(16)
    page.mouse.up()


def scroll(page: Any) -> None:
    for _ in range(60):
        page.mouse.wheel(0, 240)
        page.wait_for_timeout(16)


def identity(trials: int) -> str:
    """The id of the experiment of so many trials."""
    return f"20260101-000000-{trials:06d}"


def fill(store: Store, trials: int, steps: int) -> None:
    """An experiment ``e<trials>`` as an engine would have left it, of curves that rise and are noisy."""
    experiment, name = identity(trials), f"e{trials}"
    space = Space(
        {
            "lr": LogUniform(1e-4, 1.0),
            "hidden": Choice((32, 64, 128), (32, 64, 128)),
            "dropout": Uniform(0.0, 0.5),
            "optimizer": Choice(("sgd", "adam"), ("sgd", "adam")),
        }
    )
    spec = Spec(
        id=experiment,
        name=name,
        version=1,
        created="2026-01-01T00:00:00.000+00:00",
        goal=Goal("val_acc"),
        space=space.to_json(),
        scheduler=Scheduler(last=steps),
        searcher=Searcher(),
        program=Program("cell", "for epoch in trial.steps(): ...", "<cell>"),
        training=Training("python", "."),
    )
    store.write_spec(spec)
    chance, best = random.Random(0), (0, 0.0)
    with Series.open(store.experiment(experiment).series) as series:
        for number in range(trials):
            until = steps if number % 3 == 0 else max(int(steps * chance.random()), 1)
            height, speed = chance.uniform(0.3, 0.97), steps * chance.uniform(0.03, 0.2)
            values = [height * (1 - math.exp(-step / speed)) + chance.gauss(0, 0.01) for step in range(1, until + 1)]
            series.add_points(
                [(number, "val_acc", step, 0, value, 1.7e9 + step) for step, value in enumerate(values, 1)]
            )
            configuration = {
                "lr": 10 ** chance.uniform(-4, 0),
                "hidden": chance.choice((32, 64, 128)),
                "dropout": chance.uniform(0, 0.5),
                "optimizer": chance.choice(("sgd", "adam")),
            }
            series.put_trial(
                number,
                configuration=configuration,
                bracket=number % 4,
                state="completed" if until == steps else "stopped",
                reason=f"rung at step {until}: rank {number}",
                level=until,
                step=until,
                value=values[-1],
                best=max(values),
                attempt=1,
                restarts=0,
            )
            best = max(best, (number, max(values)), key=lambda pair: pair[1])
            if number % 100 == 0:
                series.flush()
        series.put_meta("planned", {"trials": trials})
        series.put_meta("state", "completed")
    entry = {"name": name, "version": 1, "label": spec.label, "created": spec.created, "goal": str(spec.goal)}
    catalog = Catalog(store)
    catalog.upsert_experiment(
        experiment,
        {**entry, "state": "completed", "trials": trials, "best": {"trial": best[0], "value": best[1]}},
    )
    catalog.flush()


@contextmanager
def lab(root: Path) -> Iterator[str]:
    """A JupyterLab over a folder, with a configuration of its own; the address at which a page starts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        folders = {f"JUPYTER_{kind}_DIR": f"{home}/{kind}" for kind in ("CONFIG", "DATA", "RUNTIME")}
        options = (
            "--no-browser",
            "--ip=127.0.0.1",
            f"--port={port}",
            "--allow-root",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={root}",
            "--LabApp.expose_app_in_browser=True",
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            env={**{k: v for k, v in os.environ.items() if k != "WORKBENCH_HOME"}, **folders},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            until_it_answers(f"http://127.0.0.1:{port}/api?token={TOKEN}", process)
            yield f"http://127.0.0.1:{port}/lab?reset&token={TOKEN}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(15)


def until_it_answers(address: str, process: subprocess.Popen[bytes], limit_s: float = 60) -> None:
    """Wait until the server serves. Raises RuntimeError where it ends, or takes too long."""
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise RuntimeError("JupyterLab did not start; run it by hand to see why.")
