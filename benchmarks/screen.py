"""From ``trial.report`` to the pixel: on the panel's page, and in the figure of a notebook's cell.

A real engine, a real JupyterLab and a real Chromium that renders in software. One trial reports at times that differ;
a point is *shown* once the frame after the one that painted it has begun, so a time is never too short, and up to one
frame too long. All times are the wall clock of one machine. ``rate``: the same while so many points come in a second.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import psutil

from benchmarks import engines, panel
from workbench.records import Scheduler
from workbench.store import Store, requests
from workbench.store.owner.lease import read_engine
from workbench.store.series import Series

#: A wait before each report, so that reports meet every stage at another moment.
LOOP = """import random, time
chance = random.Random({seed})
for step in trial.steps():
    time.sleep({gap} if {rate} else chance.uniform(0.5, 1.5) * {gap})
    trial.report(score=x + chance.random() + step)
"""
CELL = "%%train {name} --goal max score --steps {points} --trials 1 --parallel 1\nx = uniform(0.0, 1.0)\n"

#: What the page notes: when something was painted, and when the frame that shows it was made.
WATCH = """() => {
  const now = () => (performance.timeOrigin + performance.now()) / 1000;
  const noted = window.noted = { page: [], cell: [], event: [], more: [], asked: [] };
  // What is painted now is on the screen once the next frame was made: then what its callback leaves for later runs.
  const shown = (where, points) => {
    const painted = now();
    requestAnimationFrame(() => { setTimeout(() => noted[where].push([points, painted, now()])); });
  };
  // A curve is one path on the panel's canvas, a vertex for each point.
  const made = CanvasRenderingContext2D.prototype, { beginPath, moveTo, lineTo, stroke } = made;
  let vertices = 0, most = 0, due = false;
  made.beginPath = function () { vertices = 0; return beginPath.call(this); };
  made.moveTo = function (x, y) { vertices += 1; return moveTo.call(this, x, y); };
  made.lineTo = function (x, y) { vertices += 1; return lineTo.call(this, x, y); };
  made.stroke = function () {
    if (this.canvas.classList.contains('wb-Plot-data')) {
      most = Math.max(most, vertices);
      if (!due) { due = true; queueMicrotask(() => { due = false; shown('page', most); most = 0; }); }
    }
    return stroke.call(this);
  };
  window.jupyterapp.serviceManager.events.stream.connect((_, event) => {
    if (String(event.schema_id).includes('workbench')) noted.event.push(now());
  });
  new PerformanceObserver(list => {
    for (const one of list.getEntries()) {
      if (one.name.includes('/curves?')) {
        noted.asked.push([one.startTime, one.responseEnd].map(time => (performance.timeOrigin + time) / 1000));
      }
    }
  }).observe({ type: 'resource', buffered: false });
  const seen = new WeakSet();
  setInterval(() => {
    for (const chart of document.querySelectorAll('.workbench-live .wb-chart')) {
      if (!seen.has(chart) && chart.on) {
        seen.add(chart);
        chart.on('plotly_afterplot', () => {
          const steps = (chart.data ?? []).flatMap(trace => trace.x.filter(x => x !== null));
          shown('cell', Math.max(0, ...steps));
        });
      }
    }
  }, 20);
}"""
OPEN = "experiment => window.jupyterapp.commands.execute('workbench:open', { experiment, tab: 'curves' })"
RUN = """async i => {
  const notebook = window.jupyterapp.shell.currentWidget;
  notebook.content.activeCellIndex = i; notebook.content.deselectAll();
  await window.jupyterapp.commands.execute('notebook:run-cell');
}"""
IDLE = "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--points", type=int, default=50, help="points whose way is measured (50)")
    parser.add_argument("--gap", type=float, default=0.4, help="seconds between two reports, about (0.4)")
    parser.add_argument("--rate", type=float, default=100.0, help="points a second where they come fast (100)")
    parser.add_argument("--fast", type=int, default=600, help="points that come fast; 0 leaves that out (600)")
    parser.add_argument("--faces", nargs="+", default=["page", "cell"], choices=["page", "cell"])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds from a report to the pixel by face, and by stage; what the processes cost meanwhile."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        store = Store(root / ".workbench").create()
        with tapped(store) as tap, panel.lab(root) as address, sync_playwright() as playwright:
            engines.warm(store)
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"),
                args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"],
            )
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            found: dict[str, Any] = {"unit": "ms"}
            for face in options.faces:
                found[face] = looked_at(page, address, root, store, tap, face, options.points, options.gap)
                if options.fast:
                    gap = 1 / options.rate
                    fast = looked_at(page, address, root, store, tap, face, options.fast, gap, is_fast=True)
                    found[f"{face}, {options.rate:g} points a second"] = fast
            browser.close()
    return {**found, "budget": {"report to pixel": 250}}


def looked_at(
    page: Any,
    address: str,
    root: Path,
    store: Store,
    tap: Path,
    face: str,
    points: int,
    gap: float,
    is_fast: bool = False,
) -> dict[str, Any]:
    """One trial of so many points, looked at as it trains."""
    tap.write_text("")
    name = f"{face}{points}"
    loop = LOOP.format(seed=len(name), gap=gap, rate=int(is_fast))
    known = {one.name for one in store.experiments.iterdir()} if store.experiments.exists() else set()
    if face == "cell":
        cells = ["%load_ext workbench\nimport workbench as wb", CELL.format(name=name, points=points) + loop]
        made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
        made.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(made, root / f"{name}.ipynb")
        panel.fresh(page, address.replace("/lab?", f"/lab/tree/{name}.ipynb?"))
        page.wait_for_function(IDLE, timeout=60_000)
        page.evaluate(WATCH)
        page.evaluate(RUN, 0)
        page.evaluate(RUN, 1)
        experiment = next(one.name for one in store.experiments.iterdir() if one.name not in known)
    else:
        panel.fresh(page, address)
        page.evaluate(WATCH)
        source = "x = uniform(0.0, 1.0)\n" + loop
        one = engines.spec(source, store, Scheduler("all", points, points), trials=1)
        experiment = one.id
        store.write_spec(one)
        requests.put(store, {"kind": "start", "experiment": one.id})
        page.evaluate(OPEN, experiment)
    page.wait_for_function("face => window.noted[face].some(frame => frame[0] > 0)", arg=face, timeout=30_000)
    with spending(store) as spent:
        while not _is_done(store, experiment):
            page.wait_for_timeout(100)
    page.wait_for_timeout(1500)  # what is under way is drawn
    with Series.read(store.experiment(experiment).series) as series:
        reported = {step: at for _, _, step, _, _, at in series.points([0], ["score"])}
    return {**shown(page.evaluate("window.noted"), reported, tap, face), "processor, % of a core": spent}


def _is_done(store: Store, experiment: str) -> bool:
    path = store.experiment(experiment).journal
    return path.exists() and '"Finish"' in path.read_text()


def shown(noted: dict[str, list[Any]], reported: dict[int, float], tap: Path, face: str) -> dict[str, Any]:
    """Spreads of the stages of each point's way, of those points that were reported after the page began to draw."""
    heard, written = _tapped(tap)
    frames = sorted(noted[face], key=lambda frame: frame[1])
    stages: dict[str, list[float]] = {}
    for step, at in sorted(reported.items()):
        frame = next((frame for frame in frames if frame[0] >= step), None)
        if frame is None or frame[1] < at or at < frames[0][2]:
            continue  # before the page was open
        way: list[tuple[str, float | None, Any]] = [("report to pixel", at, frame[2])]
        way.append(("report to engine", at, heard.get(step)))
        way.append(("engine to series.db", heard.get(step), written.get(step)))
        on_disk = written.get(step)
        if face == "page" and on_disk is not None:
            event = _first(noted["event"], on_disk - 0.005)
            asked = [one for one in noted["asked"] if on_disk - 0.005 <= one[0] and one[1] <= frame[1]]
            way.append(("series.db to event", on_disk, event))
            if asked and event is not None:
                way.append(("event to question", event, asked[-1][0]))
                way.append(("question to answer", *asked[-1]))
                way.append(("answer to painted", asked[-1][1], frame[1]))
        elif on_disk is not None:
            way.append(("series.db to painted", on_disk, frame[1]))
        way.append(("painted to pixel", frame[1], frame[2]))
        for name, begun, ended in way:
            if begun is not None and ended is not None:
                stages.setdefault(name, []).append((ended - begun) * 1e3)
    return {name: _spread(values) for name, values in stages.items()}


def _first(times: Sequence[float], after: float) -> float | None:
    place = bisect.bisect_left(times, after)
    return times[place] if place < len(times) else None


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {"median": statistics.median(ordered), "p95": p95, "worst": ordered[-1], "points": len(ordered)}


@contextmanager
def spending(store: Store) -> Iterator[dict[str, float]]:
    """Fills in what each kind of process costs meanwhile, as a share of one core."""
    share: dict[str, float] = {}
    before, begun = _spent(store), time.monotonic()
    yield share
    after, took = _spent(store), time.monotonic() - begun
    for pid, (kind, spent) in after.items():
        share[kind] = share.get(kind, 0.0) + (spent - before.get(pid, (kind, spent))[1]) / took * 100


def _spent(store: Store) -> dict[int, tuple[str, float]]:
    info, found = read_engine(store), {}
    assert info is not None
    begun = [psutil.Process(info.pid), *psutil.Process().children()]
    for process in {one for root in begun for one in (root, *root.children(recursive=True))}:
        try:
            words, times = " ".join(process.cmdline()), process.cpu_times()
        except psutil.Error:
            continue
        kind = next((kind for word, kind in KINDS.items() if word in words), None)
        if kind is not None:
            found[process.pid] = (kind, times.user + times.system)
    return found


#: Words of a command line, and which kind of process it is.
KINDS = {
    "benchmarks.screen": "engine",
    "workbench.cluster.local": "cluster",
    "workbench.cluster": "cluster and workers",
    "workbench.trial": "runner",
    "jupyterlab": "server",
    "ipykernel": "kernel",
    "chromium": "browser",
}


# The engine, which notes when it hears of a point and when the point is on the disk ----------------------------------


@contextmanager
def tapped(store: Store) -> Iterator[Path]:
    """An engine with one worker that writes what it notes to the file that this gives."""
    tap = store.root.parent / "tap"
    words = [sys.executable, "-m", "benchmarks.screen", str(tap), "--store", str(store.root), "--workers", "1"]
    with open(store.engine_log, "ab") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=dict(os.environ)
        )
    try:
        yield tap
    except BaseException:
        print(store.engine_log.read_text()[-4000:], file=sys.stderr)
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _tapped(tap: Path) -> tuple[dict[int, float], dict[int, float]]:
    """By step when the engine heard of it, and when it was on the disk."""
    heard: dict[int, float] = {}
    written: dict[int, float] = {}
    for line in tap.read_text().splitlines():
        note = json.loads(line)
        for step in note["steps"]:
            (heard if note["what"] == "heard" else written).setdefault(step, note["at"])
    return heard, written


def _engine(tap: Path, rest: list[str]) -> int:
    from workbench.engine.__main__ import main

    guard = threading.Lock()
    waiting: dict[int, list[int]] = {}
    add_points, flush = Series.add_points, Series.flush

    def note(what: str, steps: list[int]) -> None:
        with open(tap, "a") as file:
            file.write(json.dumps({"what": what, "steps": steps, "at": time.time()}) + "\n")

    def heard(self: Series, rows: Any) -> None:
        rows = list(rows)
        steps = [row[2] for row in rows]
        with guard:
            waiting.setdefault(id(self), []).extend(steps)
        note("heard", steps)
        add_points(self, rows)

    def flushed(self: Series) -> int:
        with guard:
            steps = waiting.pop(id(self), [])
        number = flush(self)
        if steps:
            note("written", steps)
        return number

    Series.add_points, Series.flush = heard, flushed  # type: ignore[method-assign]
    return main(rest)


if __name__ == "__main__":
    sys.exit(_engine(Path(sys.argv[1]), sys.argv[2:]))
