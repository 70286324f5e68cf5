"""A store, cells as specs, and runners in processes of their own."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trial.world import Experiment, Process, Server

from workbench.records import Goal, Program, Scheduler, Searcher, Spec, Training
from workbench.space import Space
from workbench.store import Store, new_id


@pytest.fixture(scope="session")
def _with_torch() -> Iterator[Server]:
    """One for all files that this process tests: it imports torch for seconds."""
    running = Server()
    yield running
    running.close()


@pytest.fixture(scope="module")
def server(_with_torch: Server) -> Iterator[Server]:
    yield _with_torch
    _with_torch.let_go()


@pytest.fixture
def runner(server: Server) -> Process:
    return server.runner()


@pytest.fixture
def experiment(tmp_path: Path) -> Any:
    """``experiment(source, steps=4, goal="max score")``: a spec whose cell is ``source``."""
    store = Store(tmp_path / "store").create()

    def make(source: str, *, steps: int = 4, goal: str = "max score", space: Any = None, **changes: Any) -> Experiment:
        mode, metric = goal.split()
        spec = Spec(
            id=new_id(),
            name="test",
            version=1,
            created="2026-01-01T00:00:00Z",
            goal=Goal(metric, mode),  # type: ignore[arg-type]
            space=(space or Space({})).to_json(),
            scheduler=Scheduler("all", 1, steps),
            searcher=Searcher(),
            program=Program("cell", textwrap.dedent(source), "<cell test>"),
            training=Training(sys.executable, str(tmp_path)),
        )
        spec = dataclasses.replace(spec, **changes)
        store.write_spec(spec)
        return Experiment(store, spec)

    return make
