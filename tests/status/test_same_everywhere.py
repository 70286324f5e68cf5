"""The command line, the notebook and the server show the same state of an experiment.

They agree while it trains, after its engine was killed, after it has ended, and when the catalog was rebuilt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import running
from running import engine, lines, spec_of, start, until

import workbench as wb
from workbench.cli import main
from workbench.errors import NotFound
from workbench.records import Scheduler, Spec
from workbench.space import uniform
from workbench.status import NO_ENGINE
from workbench.status.board import progress
from workbench.store import Store
from workbench.store.lists.catalog import Catalog
from workbench_ext.server import experiments as server

#: Some trials fail after they were the best; those that go on do so slowly until the test lets them hurry, so that the
#: search does not end before its engine is killed.
LOOP = """
x = uniform(0.0, 1.0)
import os, time
for epoch in trial.steps():
    if epoch >= 1:
        if x > 0.6:
            raise ValueError("too large")
        time.sleep(0 if os.path.exists("hurry") else 0.5)
    trial.report(score=x)
"""


def readings(store: Store, spec: Spec, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """State, reason, best and count of trials, as each face gives them."""

    def said(*words: str) -> Any:
        capsys.readouterr()
        main(["--store", str(store.root), *words, "--json"])
        return json.loads(capsys.readouterr().out)

    notebook = wb.open(spec.label, store=store)
    try:
        best: Any = {"trial": notebook.best.label, "value": notebook.best.value}
        assert notebook.trials.index[0] == best["trial"]
    except NotFound:
        best = None
    look = notebook._look()
    status = look.status
    assert str(status.progress) in progress(look)
    counted = status.progress.numbers
    faces = [
        {"state": notebook.state, "reason": notebook.reason, "best": best, "trials": counted},
        *(row for row in said("ls")["experiments"] if row["label"] == spec.label),
        said("show", spec.label)["experiment"],
        *(row for row in server.experiments(store)["experiments"] if row["label"] == spec.label),
        server.experiment(store, spec.id)["experiment"],
    ]
    shown = said("show", spec.label)
    if found := shown["experiment"]["best"]:
        assert shown["trials"][0]["label"] == found["trial"]
    for face in faces:
        face["best"] = face["best"] and {"trial": face["best"]["trial"], "value": face["best"]["value"]}
    return [{name: face[name] for name in ("state", "reason", "best", "trials")} for face in faces]


def alike(found: list[dict[str, Any]]) -> dict[str, Any]:
    assert len(found) == 5
    assert all(one == found[0] for one in found), found
    return found[0]


def test_every_face_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "store").create()
    spec = spec_of(
        LOOP, tmp_path, space={"x": uniform(0.0, 1.0)}, seed=5, trials=40, parallel=1, verify=False,
        scheduler=Scheduler(kind="asha", first=1, last=9, eta=3),
    )  # fmt: skip
    start(store, spec)
    process = running.engine_process(store, WORKBENCH_GRACE="1")
    until(lambda: lines(store, spec, "Failed"), what="a trial that fails")
    until(lambda: alike_now(store, spec, capsys), what="the same words while it trains")
    behind, before = store.catalog_path.read_bytes(), readings(store, spec, capsys)[0]["trials"]
    until(lambda: readings(store, spec, capsys)[0]["trials"] != before, what="the next trial")
    process.kill()
    process.wait()
    (tmp_path / "hurry").touch()
    # An engine writes the catalog at most twice a second, so a killed one may leave it behind.
    store.catalog_path.write_bytes(behind)
    until(lambda: readings(store, spec, capsys)[0]["reason"] == NO_ENGINE, 30, "the end of what it had started")
    assert alike(readings(store, spec, capsys))["state"] == "waiting"
    with engine(store):
        running.ended(store, spec)
        until(lambda: alike_now(store, spec, capsys), what="the same words at the end")
        ended = alike(readings(store, spec, capsys))
    store.catalog_path.unlink()
    assert alike(readings(store, spec, capsys)) == ended
    Catalog.rebuild(store)
    assert alike(readings(store, spec, capsys)) == ended
    assert ended["best"]["value"] <= 0.6


def alike_now(store: Store, spec: Spec, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether all faces say the same at this moment: the catalog follows within half a second."""
    found = readings(store, spec, capsys)
    return all(one == found[0] for one in found)
